// SPDX-License-Identifier: GPL-2.0-only
/* An iterator over open files: threads wait for those, and by pipes, sockets and epolls for each other. */
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
/* include/uapi/linux/magic.h */
#define ANON_INODE_FS_MAGIC 0x09041934

static const char epoll_name[] = "[eventpoll]"; /* fs/eventpoll.c, do_epoll_create() */

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

static __always_inline bool is_epoll(struct file *file)
{
	char name[sizeof(epoll_name)] = "";
	unsigned int i;

	bpf_probe_read_kernel(name, sizeof(name), BPF_CORE_READ(file, f_path.dentry, d_name.name));
	for (i = 0; i < sizeof(name); i++)
		if (name[i] != epoll_name[i])
			return false;
	return true;
}

/* The files that an epoll watches are in a tree. */
static __always_inline void epoll_read(struct bpfprof_open_file *f, struct file *file)
{
	struct eventpoll *epoll = BPF_CORE_READ(file, private_data);
	struct rb_node *node = BPF_CORE_READ(epoll, rbr.rb_root.rb_node);
	struct epitem *item = (void *)((char *)node - bpf_core_field_offset(struct epitem, rbn));

	f->kind = BPFPROF_FILE_EPOLL;
	if (node && !BPF_CORE_READ(node, rb_left) && !BPF_CORE_READ(node, rb_right))
		f->id = 1 + (__u64)(__u32)BPF_CORE_READ(item, ffd.fd);
}

/* A file of a pseudo file system is not: what a reader of it waits for is an event. */
static __always_inline bool is_stored(struct file *file, __u32 mode)
{
	if (mode != S_IFREG || !bpf_core_field_exists(struct address_space_operations, read_folio))
		return mode == S_IFBLK || mode == S_IFREG;
	return BPF_CORE_READ(file, f_mapping, a_ops, read_folio);
}

static __always_inline __u32 kind_of(struct file *file, __u32 mode)
{
	if (mode == S_IFIFO)
		return BPFPROF_FILE_PIPE;
	if (mode == S_IFSOCK)
		return BPFPROF_FILE_OTHER_SOCKET;
	if (BPF_CORE_READ(file, f_inode, i_sb, s_magic) == ANON_INODE_FS_MAGIC)
		return is_epoll(file) ? BPFPROF_FILE_EPOLL : BPFPROF_FILE_INVALID;
	return is_stored(file, mode) ? BPFPROF_FILE_STORED : BPFPROF_FILE_INVALID;
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
	f.kind = kind_of(file, mode);
	if (f.kind == BPFPROF_FILE_INVALID)
		return 0;
	task_id_read(&f.task, task);
	f.fd = ctx->fd;
	file_mode = BPF_CORE_READ(file, f_mode);
	if (file_mode & FMODE_READ)
		f.flags |= BPFPROF_FILE_READS;
	if (file_mode & FMODE_WRITE)
		f.flags |= BPFPROF_FILE_WRITES;
	if (f.kind == BPFPROF_FILE_PIPE)
		f.id = (__u64)BPF_CORE_READ(file, f_inode, i_pipe);
	else if (f.kind == BPFPROF_FILE_OTHER_SOCKET)
		socket_read(&f, file);
	else if (f.kind == BPFPROF_FILE_EPOLL)
		epoll_read(&f, file);
	bpf_seq_write(ctx->meta->seq, &f, sizeof(f));
	return 0;
}
