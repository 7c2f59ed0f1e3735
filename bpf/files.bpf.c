// SPDX-License-Identifier: GPL-2.0-only
/* An iterator over open files: threads wait for those, and by pipes and sockets for each other. */
#include "maps.bpf.h"

#include <bpf/bpf_endian.h>

char LICENSE[] SEC("license") = "GPL";

/* include/uapi/linux/stat.h */
#define S_IFMT 0170000
#define S_IFIFO 0010000
#define S_IFREG 0100000
#define S_IFBLK 0060000
#define S_IFSOCK 0140000
/* include/linux/fs.h */
#define FMODE_READ 1U
#define FMODE_WRITE 2U
/* include/linux/socket.h, include/net/tcp_states.h */
#define AF_UNIX 1
#define AF_INET 2
#define AF_INET6 10
#define TCP_LISTEN 10

static __always_inline void inet_read(struct bpfprof_open_file *f, struct sock *sk, bool v6)
{
	f->kind = BPFPROF_FILE_INET;
	f->own_port = BPF_CORE_READ(sk, __sk_common.skc_num);
	f->peer_port = bpf_ntohs(BPF_CORE_READ(sk, __sk_common.skc_dport));
	if (v6 && bpf_core_field_exists(sk->__sk_common.skc_v6_daddr)) {
		f->flags |= BPFPROF_FILE_IPV6;
		BPF_CORE_READ_INTO(&f->own_addr, sk, __sk_common.skc_v6_rcv_saddr.in6_u.u6_addr8);
		BPF_CORE_READ_INTO(&f->peer_addr, sk, __sk_common.skc_v6_daddr.in6_u.u6_addr8);
	} else {
		BPF_CORE_READ_INTO((__be32 *)f->own_addr, sk, __sk_common.skc_rcv_saddr);
		BPF_CORE_READ_INTO((__be32 *)f->peer_addr, sk, __sk_common.skc_daddr);
	}
}

static __always_inline void socket_read(struct bpfprof_open_file *f, struct file *file)
{
	struct socket *socket = BPF_CORE_READ(file, private_data);
	struct sock *sk = BPF_CORE_READ(socket, sk);
	__u16 family = BPF_CORE_READ(sk, __sk_common.skc_family);

	f->id = (__u64)sk;
	f->kind = BPFPROF_FILE_OTHER_SOCKET;
	if (BPF_CORE_READ(sk, __sk_common.skc_state) == TCP_LISTEN)
		f->flags |= BPFPROF_FILE_LISTENS;
	if (family == AF_UNIX) {
		f->kind = BPFPROF_FILE_UNIX;
		f->peer = (__u64)BPF_CORE_READ((struct unix_sock *)sk, peer);
	} else if (family == AF_INET || family == AF_INET6) {
		inet_read(f, sk, family == AF_INET6);
	}
}

SEC("?iter/task_file")
int task_files(struct bpf_iter__task_file *ctx)
{
	struct bpfprof_open_file f = { 0 };
	struct task_struct *task = ctx->task;
	struct file *file = ctx->file;
	__u32 mode, file_mode;

	if (!task || !file)
		return 0;
	mode = BPF_CORE_READ(file, f_inode, i_mode) & S_IFMT;
	if (mode != S_IFIFO && mode != S_IFSOCK && mode != S_IFREG && mode != S_IFBLK)
		return 0;
	task_id_read(&f.task, task);
	f.fd = ctx->fd;
	file_mode = BPF_CORE_READ(file, f_mode);
	if (file_mode & FMODE_READ)
		f.flags |= BPFPROF_FILE_READS;
	if (file_mode & FMODE_WRITE)
		f.flags |= BPFPROF_FILE_WRITES;
	if (mode == S_IFIFO) {
		f.kind = BPFPROF_FILE_PIPE;
		f.id = (__u64)BPF_CORE_READ(file, f_inode, i_pipe);
	} else if (mode == S_IFSOCK) {
		socket_read(&f, file);
	} else {
		f.kind = BPFPROF_FILE_STORED;
	}
	bpf_seq_write(ctx->meta->seq, &f, sizeof(f));
	return 0;
}
