/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef __VMLINUX_H__
#define __VMLINUX_H__

/*
 * Kernel types that the BPF programs use, with only the members they use. Made
 * by `make vmlinux` (vmlinux/generate) from a kernel's BTF and the list in vmlinux/fields.txt; do
 * not edit. Offsets and sizes here mean nothing: each access is relocated at load (CO-RE).
 */

#ifndef BPF_NO_PRESERVE_ACCESS_INDEX
#pragma clang attribute push(__attribute__((preserve_access_index)), apply_to = record)
#endif

struct address_space;
struct address_space_operations;
struct anon_vma;
struct bpf_iter_meta;
struct bpf_map;
struct cfs_rq;
struct cgroup;
struct cgroup_subsys_state;
struct cred;
struct css_set;
struct dentry;
struct fdtable;
struct file;
struct files_struct;
struct fs_struct;
struct hlist_bl_node;
struct inode;
struct list_head;
struct mm_struct;
struct mnt_namespace;
struct mount;
struct nsproxy;
struct page_counter;
struct pid;
struct pid_namespace;
struct pipe_inode_info;
struct rb_node;
struct return_instance;
struct rq;
struct seq_file;
struct signal_struct;
struct sock;
struct super_block;
struct task_struct;
struct uprobe_task;
struct user_namespace;
struct vfsmount;
struct vm_area_struct;
struct xol_area;

typedef signed char __s8;
typedef unsigned char __u8;
typedef short int __s16;
typedef short unsigned int __u16;
typedef int __s32;
typedef unsigned int __u32;
typedef long long int __s64;
typedef long long unsigned int __u64;
typedef __u64 u64;
typedef __u16 __be16;
typedef __u32 __be32;
typedef __u32 __wsum;
typedef _Bool bool;
typedef __u32 u32;
typedef u32 __kernel_dev_t;
typedef __kernel_dev_t dev_t;

enum {
	false = 0,
	true = 1,
};

enum bpf_map_type {
	BPF_MAP_TYPE_UNSPEC = 0,
	BPF_MAP_TYPE_HASH = 1,
	BPF_MAP_TYPE_ARRAY = 2,
	BPF_MAP_TYPE_PROG_ARRAY = 3,
	BPF_MAP_TYPE_PERF_EVENT_ARRAY = 4,
	BPF_MAP_TYPE_PERCPU_HASH = 5,
	BPF_MAP_TYPE_PERCPU_ARRAY = 6,
	BPF_MAP_TYPE_STACK_TRACE = 7,
	BPF_MAP_TYPE_CGROUP_ARRAY = 8,
	BPF_MAP_TYPE_LRU_HASH = 9,
	BPF_MAP_TYPE_LRU_PERCPU_HASH = 10,
	BPF_MAP_TYPE_LPM_TRIE = 11,
	BPF_MAP_TYPE_ARRAY_OF_MAPS = 12,
	BPF_MAP_TYPE_HASH_OF_MAPS = 13,
	BPF_MAP_TYPE_DEVMAP = 14,
	BPF_MAP_TYPE_SOCKMAP = 15,
	BPF_MAP_TYPE_CPUMAP = 16,
	BPF_MAP_TYPE_XSKMAP = 17,
	BPF_MAP_TYPE_SOCKHASH = 18,
	BPF_MAP_TYPE_CGROUP_STORAGE_DEPRECATED = 19,
	BPF_MAP_TYPE_CGROUP_STORAGE = 19,
	BPF_MAP_TYPE_REUSEPORT_SOCKARRAY = 20,
	BPF_MAP_TYPE_PERCPU_CGROUP_STORAGE_DEPRECATED = 21,
	BPF_MAP_TYPE_PERCPU_CGROUP_STORAGE = 21,
	BPF_MAP_TYPE_QUEUE = 22,
	BPF_MAP_TYPE_STACK = 23,
	BPF_MAP_TYPE_SK_STORAGE = 24,
	BPF_MAP_TYPE_DEVMAP_HASH = 25,
	BPF_MAP_TYPE_STRUCT_OPS = 26,
	BPF_MAP_TYPE_RINGBUF = 27,
	BPF_MAP_TYPE_INODE_STORAGE = 28,
	BPF_MAP_TYPE_TASK_STORAGE = 29,
	BPF_MAP_TYPE_BLOOM_FILTER = 30,
	BPF_MAP_TYPE_USER_RINGBUF = 31,
	BPF_MAP_TYPE_CGRP_STORAGE = 32,
	BPF_MAP_TYPE_ARENA = 33,
	__MAX_BPF_MAP_TYPE = 34,
};

enum {
	BPF_ANY = 0,
	BPF_NOEXIST = 1,
	BPF_EXIST = 2,
	BPF_F_LOCK = 4,
};

enum {
	BPF_F_NO_PREALLOC = 1,
	BPF_F_NO_COMMON_LRU = 2,
	BPF_F_NUMA_NODE = 4,
	BPF_F_RDONLY = 8,
	BPF_F_WRONLY = 16,
	BPF_F_STACK_BUILD_ID = 32,
	BPF_F_ZERO_SEED = 64,
	BPF_F_RDONLY_PROG = 128,
	BPF_F_WRONLY_PROG = 256,
	BPF_F_CLONE = 512,
	BPF_F_MMAPABLE = 1024,
	BPF_F_PRESERVE_ELEMS = 2048,
	BPF_F_INNER_MAP = 4096,
	BPF_F_LINK = 8192,
	BPF_F_PATH_FD = 16384,
	BPF_F_VTYPE_BTF_OBJ_FD = 32768,
	BPF_F_TOKEN_FD = 65536,
	BPF_F_SEGV_ON_FAULT = 131072,
	BPF_F_NO_USER_CONV = 262144,
};

enum {
	BPF_RB_NO_WAKEUP = 1,
	BPF_RB_FORCE_WAKEUP = 2,
};

enum {
	BPF_RB_AVAIL_DATA = 0,
	BPF_RB_RING_SIZE = 1,
	BPF_RB_CONS_POS = 2,
	BPF_RB_PROD_POS = 3,
};
typedef __u16 u16;

struct pt_regs {
	long unsigned int r15;
	long unsigned int r14;
	long unsigned int r13;
	long unsigned int r12;
	long unsigned int bp;
	long unsigned int bx;
	long unsigned int r11;
	long unsigned int r10;
	long unsigned int r9;
	long unsigned int r8;
	long unsigned int ax;
	long unsigned int cx;
	long unsigned int dx;
	long unsigned int si;
	long unsigned int di;
	long unsigned int orig_ax;
	long unsigned int ip;
	union {
		u16 cs;
		u64 csx;
	};
	long unsigned int flags;
	long unsigned int sp;
	union {
		u16 ss;
		u64 ssx;
	};
};
typedef struct pt_regs bpf_user_pt_regs_t;

struct bpf_perf_event_data {
	bpf_user_pt_regs_t regs;
	__u64 sample_period;
	__u64 addr;
};

struct bpf_timer {
	__u64 __opaque[2];
};

struct bpf_dynptr {
	__u64 __opaque[2];
};

struct bpf_iter_meta {
	union {
		struct seq_file *seq;
	};
	u64 session_id;
};

struct bpf_iter__task_vma {
	union {
		struct bpf_iter_meta *meta;
	};
	union {
		struct task_struct *task;
	};
	union {
		struct vm_area_struct *vma;
	};
};

struct bpf_iter__task {
	union {
		struct bpf_iter_meta *meta;
	};
	union {
		struct task_struct *task;
	};
};

struct bpf_iter__task_file {
	union {
		struct bpf_iter_meta *meta;
	};
	union {
		struct task_struct *task;
	};
	u32 fd;
	union {
		struct file *file;
	};
};

struct bpf_iter__bpf_map_elem {
	union {
		struct bpf_iter_meta *meta;
	};
	union {
		struct bpf_map *map;
	};
	union {
		void *key;
	};
	union {
		void *value;
	};
};

struct sched_entity {
	u64 exec_start;
	u64 sum_exec_runtime;
	struct cfs_rq *cfs_rq;
};

struct sched_info {
	long long unsigned int run_delay;
};
typedef int __kernel_pid_t;
typedef __kernel_pid_t pid_t;

struct list_head {
	struct list_head *next;
};

struct task_io_accounting {
	u64 rchar;
	u64 wchar;
};

struct thread_struct {
	long unsigned int sp;
	long unsigned int fsbase;
};

struct task_struct {
	unsigned int __state;
	void *stack;
	unsigned int flags;
	unsigned int ptrace;
	int on_cpu;
	struct sched_entity se;
	struct sched_info sched_info;
	struct mm_struct *mm;
	int exit_state;
	int exit_code;
	int pdeath_signal;
	unsigned int in_execve : 1;
	pid_t pid;
	pid_t tgid;
	struct task_struct *real_parent;
	struct task_struct *parent;
	struct task_struct *group_leader;
	struct pid *thread_pid;
	struct list_head thread_node;
	long unsigned int nvcsw;
	long unsigned int nivcsw;
	u64 start_boottime;
	long unsigned int min_flt;
	long unsigned int maj_flt;
	struct cred *cred;
	char comm[16];
	struct fs_struct *fs;
	struct files_struct *files;
	struct nsproxy *nsproxy;
	struct signal_struct *signal;
	u64 self_exec_id;
	struct task_io_accounting ioac;
	struct css_set *cgroups;
	struct uprobe_task *utask;
	struct thread_struct thread;
};

struct uprobe_task {
	struct return_instance *return_instances;
};

struct return_instance {
	long unsigned int stack;
	long unsigned int orig_ret_vaddr;
	struct return_instance *next;
};

struct upid {
	int nr;
	struct pid_namespace *ns;
};

struct pid {
	unsigned int level;
	struct upid numbers[0];
};

struct cfs_rq {
	struct rq *rq;
};

struct rq {
	u64 clock;
	u64 clock_task;
};

typedef struct {
	int counter;
} atomic_t;

struct signal_struct {
	atomic_t live;
	struct list_head thread_head;
	int group_exit_code;
	unsigned int flags;
	struct pid *pids[4];
	long long unsigned int sum_sched_runtime;
};

struct nsproxy {
	struct mnt_namespace *mnt_ns;
};

struct path {
	struct vfsmount *mnt;
	struct dentry *dentry;
};

struct fs_struct {
	struct path root;
};
typedef unsigned int __kernel_uid32_t;
typedef __kernel_uid32_t uid_t;

typedef struct {
	uid_t val;
} kuid_t;

struct cred {
	kuid_t fsuid;
};

struct ns_common {
	unsigned int inum;
};

struct mnt_namespace {
	struct ns_common ns;
	struct user_namespace *user_ns;
};

struct pid_namespace {
	struct ns_common ns;
};

enum pid_type {
	PIDTYPE_PID = 0,
	PIDTYPE_TGID = 1,
	PIDTYPE_PGID = 2,
	PIDTYPE_SID = 3,
	PIDTYPE_MAX = 4,
};

enum cgroup_subsys_id {
	cpuset_cgrp_id = 0,
	cpu_cgrp_id = 1,
	cpuacct_cgrp_id = 2,
	io_cgrp_id = 3,
	memory_cgrp_id = 4,
	devices_cgrp_id = 5,
	freezer_cgrp_id = 6,
	net_cls_cgrp_id = 7,
	perf_event_cgrp_id = 8,
	net_prio_cgrp_id = 9,
	hugetlb_cgrp_id = 10,
	pids_cgrp_id = 11,
	CGROUP_SUBSYS_COUNT = 12,
};

struct css_set {
	struct cgroup_subsys_state *subsys[12];
};

struct cgroup_subsys_state {
	struct cgroup *cgroup;
};
typedef __s64 s64;

typedef struct {
	s64 counter;
} atomic64_t;
typedef atomic64_t atomic_long_t;

struct page_counter {
	atomic_long_t usage;
	long unsigned int max;
	struct page_counter *parent;
};

struct mem_cgroup {
	struct cgroup_subsys_state css;
	struct page_counter memory;
};

struct rw_semaphore {
	atomic_long_t count;
	atomic_long_t owner;
};

typedef struct {
	void *vdso;
} mm_context_t;

struct uprobes_state {
	struct xol_area *xol_area;
};

struct mm_struct {
	struct {
		struct rw_semaphore mmap_lock;
		long unsigned int start_code;
		long unsigned int start_stack;
		long unsigned int arg_start;
		long unsigned int env_start;
		long unsigned int env_end;
		mm_context_t context;
		struct uprobes_state uprobes_state;
	};
};

struct xol_area {
	long unsigned int vaddr;
};
typedef long unsigned int vm_flags_t;

struct vm_area_struct {
	union {
		struct {
			long unsigned int vm_start;
			long unsigned int vm_end;
		};
	};
	struct mm_struct *vm_mm;
	union {
		vm_flags_t vm_flags;
	};
	struct anon_vma *anon_vma;
	long unsigned int vm_pgoff;
	struct file *vm_file;
};

struct anon_vma {
	struct anon_vma *root;
};

struct vm_unmapped_area_info {
	long unsigned int flags;
	long unsigned int length;
};
typedef unsigned int fmode_t;

struct file {
	fmode_t f_mode;
	struct address_space *f_mapping;
	void *private_data;
	struct inode *f_inode;
	union {
		struct path f_path;
	};
};

struct qstr {
	union {
		struct {
			u32 len;
		};
	};
	unsigned char *name;
};

struct files_struct {
	struct fdtable *fdt;
};

struct fdtable {
	unsigned int max_fds;
	struct file **fd;
};

struct vfsmount {
	struct dentry *mnt_root;
};

struct mount {
	struct mount *mnt_parent;
	struct dentry *mnt_mountpoint;
	struct vfsmount mnt;
	struct list_head mnt_mounts;
	struct list_head mnt_child;
};

struct hlist_bl_node {
	struct hlist_bl_node **pprev;
};

struct dentry {
	struct hlist_bl_node d_hash;
	struct dentry *d_parent;
	union {
		struct qstr d_name;
	};
	struct inode *d_inode;
	struct super_block *d_sb;
};
typedef short unsigned int umode_t;
typedef long long int __kernel_loff_t;
typedef __kernel_loff_t loff_t;

struct inode {
	umode_t i_mode;
	kuid_t i_uid;
	struct super_block *i_sb;
	struct address_space *i_mapping;
	long unsigned int i_ino;
	union {
		unsigned int i_nlink;
	};
	loff_t i_size;
	u32 i_generation;
	union {
		struct pipe_inode_info *i_pipe;
	};
};

struct super_block {
	dev_t s_dev;
	long unsigned int s_magic;
};
typedef __s64 time64_t;

struct timespec64 {
	time64_t tv_sec;
	long int tv_nsec;
};

struct xarray {
	void *xa_head;
};

struct address_space {
	struct inode *host;
	struct xarray i_pages;
	struct address_space_operations *a_ops;
};

struct address_space_operations {
	void *read_folio;
};

struct xa_node {
	unsigned char shift;
	void *slots[64];
};

struct folio {
	union {
		struct {
			struct address_space *mapping;
			union {
				long unsigned int index;
			};
		};
	};
};

typedef struct {
	long unsigned int f;
} memdesc_flags_t;

struct page {
	memdesc_flags_t flags;
};

struct socket {
	struct sock *sk;
};

struct in6_addr {
	union {
		__u8 u6_addr8[16];
		__be16 u6_addr16[8];
		__be32 u6_addr32[4];
	} in6_u;
};

struct sock_common {
	union {
		struct {
			__be32 skc_daddr;
			__be32 skc_rcv_saddr;
		};
	};
	union {
		struct {
			__be16 skc_dport;
			__u16 skc_num;
		};
	};
	short unsigned int skc_family;
	unsigned char skc_state;
	struct in6_addr skc_v6_daddr;
	struct in6_addr skc_v6_rcv_saddr;
};

struct sock {
	struct sock_common __sk_common;
};

struct unix_sock {
	struct sock *peer;
};

struct rb_root {
	struct rb_node *rb_node;
};

struct rb_root_cached {
	struct rb_root rb_root;
};

struct eventpoll {
	struct rb_root_cached rbr;
};

struct rb_node {
	struct rb_node *rb_right;
	struct rb_node *rb_left;
};

struct epoll_filefd {
	int fd;
};

struct epitem {
	union {
		struct rb_node rbn;
	};
	struct epoll_filefd ffd;
};

#ifndef BPF_NO_PRESERVE_ACCESS_INDEX
#pragma clang attribute pop
#endif

#endif
