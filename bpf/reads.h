/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
#ifndef BPFPROF_BPF_READS_H
#define BPFPROF_BPF_READS_H

/*
 * Part of the wire contract (bpfprof.h): requests for memory, threads and environments, and the
 * answers of iterators and programs.
 */

#include "frame.h"
#include "record.h"

#define BPFPROF_MAX_RETURNS 8

/*
 * A function with a return probe (of any tracer) that has not returned yet. The kernel has replaced
 * the return address with its own address, which begins a page (Linux, kernel/events/uprobes.c).
 */
struct bpfprof_return {
	__u64 va; /* where the return address was */
	__u64 to; /* the original return address */
};

/* Value of the map memory_requests: one request for the next pass of the memory iterator. */
#define BPFPROF_MEMORY_BYTES 16384
#define BPFPROF_MEMORY_SLOTS 12 /* a read that hangs keeps its slot */
#define BPFPROF_ENVIRON_SLOTS 6 /* behind the memory slots */

struct bpfprof_memory_request {
	__u64 va;
	__u32 len; /* at most BPFPROF_MEMORY_BYTES */
	__u32 pad;
	__u8 data[BPFPROF_MEMORY_BYTES]; /* scratch of the program */
};

/* The iterator task_states writes one of these for each thread. It reads no user memory. */
#define BPFPROF_TASK_KTHREAD 1U
/* It runs at this moment: registers and kernel stack are not valid. */
#define BPFPROF_TASK_ON_CPU 2U
#define BPFPROF_TASK_NO_MEMORY 4U /* it has no user memory (any more) */
#define BPFPROF_TASK_TRACED 8U /* ptrace traces it */
#define BPFPROF_TASK_COMPAT32 16U /* 32-bit code */

struct bpfprof_task_state {
	struct bpfprof_task_id task;
	__u64 nr_switches; /* times that it left a CPU, of its own accord or preempted */
	__u64 asleep_ns; /* at least so long since it was on a CPU; 0: it is awake, or not known */
	__u64 io_bytes; /* bytes of its reads and writes; 0 where the kernel counts none */
	__u64 faults; /* of pages */
	__u64 fs_base;
	__u64 regs[BPFPROF_NR_REGS]; /* user registers at its entry into the kernel */
	__s64 syscall; /* number of the system call that it is in, negative: none */
	__u32 state; /* the kernel's TASK_*: 0 = on a CPU or waiting for one */
	__u32 exit_state; /* not 0: the thread has ended */
	__u32 flags; /* BPFPROF_TASK_* */
	__u32 nr_kernel;
	__u32 reader_tid; /* tid in the pid namespace of the reader; 0: it has none there */
	__u32 nr_returns;
	__u32 parent; /* pid of the parent process, outside of all pid namespaces */
	__u32 pad;
	struct bpfprof_return returns[BPFPROF_MAX_RETURNS];
	char comm[BPFPROF_COMM_LEN];
	char leader_comm[BPFPROF_COMM_LEN];
	__u64 kernel[BPFPROF_MAX_KERNEL_FRAMES + 1]; /* leaf first; the last one is padding */
};

/* The iterator task_files writes one of these for each pipe, FIFO, socket, file, disk and epoll that a process has open. */
enum bpfprof_file_kind {
	BPFPROF_FILE_INVALID = 0,
	BPFPROF_FILE_PIPE = 1,
	BPFPROF_FILE_UNIX = 2,
	BPFPROF_FILE_INET = 3, /* IPv4 and IPv6 */
	BPFPROF_FILE_OTHER_SOCKET = 4,
	BPFPROF_FILE_STORED = 5, /* a file on a disk or server, or a block device */
	BPFPROF_FILE_EPOLL = 6,
};

#define BPFPROF_FILE_READS 1U /* open for reading, and the like */
#define BPFPROF_FILE_WRITES 2U
#define BPFPROF_FILE_LISTENS 4U
#define BPFPROF_FILE_IPV6 8U

struct bpfprof_open_file {
	struct bpfprof_task_id task; /* of the leader of the process, mostly */
	/* Equal for both ends of a pipe, and for all descriptors of a socket; never shown. EPOLL: 1 + the only file in it. */
	__u64 id;
	__u64 peer; /* the id of the other end of a Unix socket; 0: none */
	__u32 fd;
	__u32 kind; /* enum bpfprof_file_kind */
	__u32 flags; /* BPFPROF_FILE_* */
	__u16 own_port, peer_port; /* of BPFPROF_FILE_INET, in the byte order of this machine */
	__u8 own_addr[16], peer_addr[16]; /* 4 or 16 bytes of each, in the order of the network */
};

/*
 * The iterator task_environ writes this header, then len bytes of the initial environment of the
 * process, from the requested offset on. It may contain secrets.
 */
struct bpfprof_environ {
	struct bpfprof_task_id task;
	__u64 total; /* bytes of the whole environment, 0: it has none */
	/* At most BPFPROF_MEMORY_BYTES; fewer than requested: the rest is not readable. */
	__u32 len;
	__u32 pad;
};

/*
 * Value of the map task_reads, memory-mapped by user space: a list of pages of a process, which the
 * iterator task_pages fills in. result: 1 = not read yet, 0, or -errno.
 */
#define BPFPROF_READ_PAGES 32 /* a power of two */
#define BPFPROF_READ_SHIFT 12
#define BPFPROF_READ_BYTES (1U << BPFPROF_READ_SHIFT)
#define BPFPROF_READ_SLOTS 4 /* a read that hangs keeps its slot */

struct bpfprof_task_read {
	__u64 va[BPFPROF_READ_PAGES]; /* multiples of BPFPROF_READ_BYTES */
	__s32 result[BPFPROF_READ_PAGES];
	__u32 nr;
	__u32 pad;
	__u8 data[BPFPROF_READ_PAGES][BPFPROF_READ_BYTES];
};

/*
 * Value of the map kernel_reads, memory-mapped by user space: a list of pieces of kernel memory,
 * which the program kernel_read fills in. result: 0 or -errno.
 */
#define BPFPROF_KERNEL_PIECES 16
#define BPFPROF_KERNEL_BYTES 4096 /* of one piece, at most */

struct bpfprof_kernel_read {
	__u64 va[BPFPROF_KERNEL_PIECES];
	__u32 len[BPFPROF_KERNEL_PIECES];
	__s32 result[BPFPROF_KERNEL_PIECES];
	__u32 nr;
	__u32 pad;
	__u8 data[BPFPROF_KERNEL_PIECES][BPFPROF_KERNEL_BYTES];
};

/*
 * Value of the map kernel_layouts, written by the program kernel_layout: offsets of the members of
 * kernel structs that lead to the pages of a file, and one of our own inodes.
 */
struct bpfprof_kernel_layout {
	__u64 own_inode; /* inode of the file that is open as own_fd; 0: none */
	__u32 own_fd; /* set by user space */
	__u32 mount_mnt, mount_parent, mount_point, mount_mounts, mount_child; /* struct mount */
	__u32 vfsmount_root;
	/* Struct dentry; dentry_children: first child, dentry_next: next sibling. */
	__u32 dentry_parent, dentry_inode, dentry_name, dentry_name_len, dentry_hash_pprev;
	__u32 dentry_children, dentry_next;
	__u32 inode_mode, inode_uid, inode_sb, inode_mapping, inode_ino, inode_nlink, inode_size;
	__u32 inode_generation, inode_mtime_sec;
	__u32 super_magic;
	__u32 mapping_host, mapping_head; /* struct address_space, and the head of its xarray */
	__u32 node_shift, node_slots, node_nr_slots; /* struct xa_node */
	__u32 folio_flags, folio_mapping, folio_index;
	__u32 folio_uptodate; /* number of the flag */
	__u32 page_bytes; /* size of struct page */
	__u32 pad;
};

/* The iterator locked_memory writes one of these for each process whose memory is locked (mmap_lock). */
struct bpfprof_locked_memory {
	struct bpfprof_task_id task;
	__u64 writer; /* identifies the thread that holds the lock for itself; 0: readers hold it */
};
_Static_assert(sizeof(struct bpfprof_locked_memory) == 32, "wire");

/* The iterator task_root writes one of these for a thread: its root folder. */
struct bpfprof_task_root {
	struct bpfprof_task_id task;
	__u64 mount; /* struct vfsmount */
	__u64 dentry;
};

_Static_assert(sizeof(struct bpfprof_open_file) % 8 == 0, "wire");
_Static_assert(sizeof(struct bpfprof_task_state) % 8 == 0, "wire");
_Static_assert(sizeof(struct bpfprof_environ) == 40, "wire");
_Static_assert(sizeof(struct bpfprof_kernel_read) % 8 == 0, "wire");
_Static_assert(sizeof(struct bpfprof_kernel_layout) == 152, "wire");
_Static_assert(sizeof(struct bpfprof_task_root) == 40, "wire");

#endif
