// SPDX-License-Identifier: GPL-2.0-only
/* Iterators over tasks: mappings of a process, its memory, and the state of its threads. */
#include "vma.bpf.h"
#include "returns.bpf.h"

char LICENSE[] SEC("license") = "GPL";

struct vma_scratch {
	__u64 session; /* the pass in which the process part of the record was filled in */
	struct bpfprof_vma_record rec;
	char path[BPFPROF_PATH_MAX + 8];
};

/* Key 0: room for one record, too large for the stack. Iterator programs of one CPU do not nest. */
PERCPU_MAP(vma_scratches, struct vma_scratch);

/*
 * Key 0: 1 = the next pass writes all readable mappings of files, not only executable ones; 2 = the
 * path is the root folder of the process.
 */
ARRAY_MAP(vma_all_parts, 1, __u32);

static __always_inline bool is_asked(__u32 what)
{
	__u32 zero = 0, *asked = bpf_map_lookup_elem(&vma_all_parts, &zero);

	return asked && *asked == what;
}

static __always_inline bool is_reported(struct vm_area_struct *vma, struct file *file)
{
	if (vma->vm_flags & VM_EXEC)
		return true;
	return file && vma->vm_flags & VM_READ && is_asked(1);
}

/* Is the memory of task a copy of its parent's by fork, with no exec in either since? */
static __always_inline bool is_copy(struct task_struct *task, struct task_struct *parent)
{
	struct mm_struct *mm = BPF_CORE_READ(task, mm), *from = BPF_CORE_READ(parent, mm);

	return mm && from &&
	       BPF_CORE_READ(task, self_exec_id) == BPF_CORE_READ(parent, self_exec_id) &&
	       BPF_CORE_READ(mm, start_stack) == BPF_CORE_READ(from, start_stack) &&
	       BPF_CORE_READ(mm, start_code) == BPF_CORE_READ(from, start_code);
}

static __always_inline void origin_fill(struct bpfprof_origin *origin, struct task_struct *task)
{
	struct task_struct *own = (void *)bpf_get_current_task(), *at, *parent;
	struct upid *upid;
	struct pid *pid;
	int i;

	origin->root_ino = BPF_CORE_READ(task, fs, root.dentry, d_inode, i_ino);
	origin->uid = BPF_CORE_READ(task, cred, fsuid.val);
	origin->flags = 0;
	origin->root_dev = BPF_CORE_READ(task, fs, root.dentry, d_inode, i_sb, s_dev);
	origin->pad = 0;
	if (BPF_CORE_READ(task, nsproxy, mnt_ns, user_ns) ==
	    BPF_CORE_READ(own, nsproxy, mnt_ns, user_ns))
		origin->flags |= BPFPROF_ORIGIN_OUR_USERS;
	if (BPF_CORE_READ(task, nsproxy, mnt_ns) == BPF_CORE_READ(own, nsproxy, mnt_ns)) {
		origin->flags |= BPFPROF_ORIGIN_OUR_MOUNTS;
		if (BPF_CORE_READ(task, fs, root.dentry) == BPF_CORE_READ(own, fs, root.dentry) &&
		    BPF_CORE_READ(task, fs, root.mnt) == BPF_CORE_READ(own, fs, root.mnt))
			origin->flags |= BPFPROF_ORIGIN_OUR_ROOT;
	}
	at = BPF_CORE_READ(task, group_leader);
	for (i = 0; i < BPFPROF_ANCESTORS; i++) {
		origin->ancestors[i].start_ns = 0;
		origin->ancestors[i].pod_pid = 0;
		origin->ancestors[i].pad = 0;
		parent = at ? BPF_CORE_READ(at, real_parent, group_leader) : NULL;
		at = parent && is_copy(at, parent) ? parent : NULL;
		if (!at)
			continue;
		pid = BPF_CORE_READ(at, thread_pid);
		upid = upid_at(pid, BPF_CORE_READ(pid, level));
		origin->ancestors[i].start_ns = BPF_CORE_READ(at, start_boottime);
		origin->ancestors[i].pod_pid = BPF_CORE_READ(upid, nr);
	}
}

/* File systems whose reads wait for a server (uapi/linux/magic.h, fs/fuse/inode.c, fs/smb). */
static __always_inline bool is_remote(struct file *file)
{
	switch (BPF_CORE_READ(file, f_inode, i_sb, s_magic)) {
	case 0x65735546: /* FUSE */
	case 0x6969: /* NFS */
	case 0xff534d42: /* CIFS */
	case 0xfe534d42: /* SMB2 */
	case 0x00c36400: /* CEPH */
	case 0x01021997: /* 9P */
	case 0x5346414f: /* AFS */
		return true;
	default:
		return false;
	}
}

/* By address: in a container the inode of mm->exe_file is the overlay's, the mapping's is not. */
static __always_inline bool holds_program(struct vm_area_struct *vma)
{
	__u64 va = BPF_CORE_READ(vma, vm_mm, start_code);

	return vma->vm_flags & VM_EXEC && vma->vm_start <= va && va < vma->vm_end;
}

SEC("iter/task_vma")
int task_vmas(struct bpf_iter__task_vma *ctx)
{
	struct vm_area_struct *vma = ctx->vma;
	struct task_struct *task = ctx->task;
	struct seq_file *seq = ctx->meta->seq;
	struct fs_struct *fs;
	struct vma_scratch *s;
	struct file *file;
	__u32 zero = 0;
	__s64 len = 0;

	if (!vma || !task)
		return 0;
	file = vma->vm_file;
	if (!is_reported(vma, file))
		return 0;
	s = bpf_map_lookup_elem(&vma_scratches, &zero);
	if (!s)
		return 0;
	if (s->session != ctx->meta->session_id || s->rec.task.pid != task->tgid) {
		s->session = ctx->meta->session_id;
		BPF_CORE_READ_STR_INTO(&s->rec.comm, task, group_leader, comm);
		ns_context_fill(&s->rec.ns_context, task);
		origin_fill(&s->rec.origin, task);
	}
	task_id_read(&s->rec.task, task);
	vma_fill(&s->rec.vma, vma, file);
	if (!(vma->vm_flags & VM_EXEC))
		s->rec.vma.flags |= BPFPROF_VMA_DATA;
	if (holds_program(vma))
		s->rec.vma.flags |= BPFPROF_VMA_PROGRAM;
	if (file) {
		if (is_remote(file))
			s->rec.vma.flags |= BPFPROF_VMA_REMOTE;
		fs = is_asked(2) ? task->fs : NULL;
		if (fs)
			len = bpf_d_path((struct path *)&fs->root, s->path, BPFPROF_PATH_MAX);
		else
			len = bpf_d_path((struct path *)&file->f_path, s->path, BPFPROF_PATH_MAX);
		if (len < 0 || len > BPFPROF_PATH_MAX)
			len = 0;
	}
	s->rec.vma.path_len = len;
	bpf_seq_write(seq, &s->rec, sizeof(s->rec));
	len = (len + 7) & ~7;
	if (len > 0 && len <= BPFPROF_PATH_MAX)
		bpf_seq_write(seq, s->path, len);
	return 0;
}

/* Key: slot of the reader. A read that hangs keeps its slot. */
ARRAY_MAP(memory_requests, BPFPROF_MEMORY_SLOTS + BPFPROF_ENVIRON_SLOTS,
	  struct bpfprof_memory_request);

/* The slot for this pass. One reader at a time starts passes. */
ARRAY_MAP(memory_slot, 1, __u32);

static __always_inline struct bpfprof_memory_request *memory_request(void)
{
	__u32 zero = 0, *slot = bpf_map_lookup_elem(&memory_slot, &zero), at;

	if (!slot)
		return NULL;
	at = *slot;
	return bpf_map_lookup_elem(&memory_requests, &at);
}

/*
 * Reads memory of one thread's process as ptrace would, but without its rights. It may fault and so
 * may block; user space runs it under a deadline. Never inside a VMA iterator, which holds the
 * mmap_lock that a fault needs.
 */
SEC("iter.s/task")
int task_memory(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct bpfprof_memory_request *req;
	__u32 len;

	if (!task)
		return 0;
	req = memory_request();
	if (!req)
		return 0;
	len = req->len;
	if (len > BPFPROF_MEMORY_BYTES)
		return 0;
	if (bpf_copy_from_user_task(req->data, len, (void *)req->va, task, 0))
		return 0;
	bpf_seq_write(ctx->meta->seq, req->data, len);
	return 0;
}

/*
 * Reads the initial environment of a process, from the offset va on. It may block like task_memory.
 * User space keeps known names and wipes the rest.
 */
SEC("iter.s/task")
int task_environ(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct bpfprof_memory_request *req;
	struct bpfprof_environ head = { 0 };
	__u64 start, total, off;
	__u32 len;

	if (!task)
		return 0;
	req = memory_request();
	if (!req)
		return 0;
	task_id_read(&head.task, task);
	start = BPF_CORE_READ(task, mm, env_start);
	total = BPF_CORE_READ(task, mm, env_end);
	total = start && total > start ? total - start : 0;
	off = req->va;
	len = total > off + BPFPROF_MEMORY_BYTES ? BPFPROF_MEMORY_BYTES
	      : total > off			 ? total - off
						 : 0;
	if (len > BPFPROF_MEMORY_BYTES ||
	    bpf_copy_from_user_task(req->data, len, (void *)(start + off), task, 0))
		len = 0;
	head.total = total;
	head.len = len;
	bpf_seq_write(ctx->meta->seq, &head, sizeof(head));
	if (len && len <= BPFPROF_MEMORY_BYTES)
		bpf_seq_write(ctx->meta->seq, req->data, len);
	return 0;
}

/* kernel/locking/rwsem.c; the bits between are those of waiters. */
#define RWSEM_WRITER_LOCKED 1
#define RWSEM_READER 0x100

/*
 * Writes the processes whose memory is locked. One look for each, by its first thread, or by the others once that has
 * ended: of a process with hundreds of threads, one look for each thread would nearly always find a reader.
 */
SEC("iter/task")
int locked_memory(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct bpfprof_locked_memory locked = { 0 };
	struct task_struct *leader;
	struct mm_struct *mm;
	__s64 count;

	/* Kernels with PREEMPT_RT have another kind of lock. */
	if (!task || !bpf_core_field_exists(((struct rw_semaphore *)0)->count))
		return 0;
	leader = BPF_CORE_READ(task, group_leader);
	if (leader != task && BPF_CORE_READ(leader, mm))
		return 0;
	mm = BPF_CORE_READ(task, mm);
	count = mm ? BPF_CORE_READ(mm, mmap_lock.count.counter) : 0;
	if (!(count & RWSEM_WRITER_LOCKED) && count < RWSEM_READER)
		return 0;
	task_id_read(&locked.task, task);
	if (count & RWSEM_WRITER_LOCKED)
		locked.writer = (__u64)BPF_CORE_READ(mm, mmap_lock.owner.counter);
	bpf_seq_write(ctx->meta->seq, &locked, sizeof(locked));
	return 0;
}

/* Key: slot of the reader; user space maps it, writes the list and reads the result. */
MMAPABLE_MAP(task_reads, BPFPROF_READ_SLOTS, struct bpfprof_task_read);

/* The slot for the next pass. */
ARRAY_MAP(task_read_slot, 1, __u32);

/*
 * Reads many pages of one thread's process in one pass. It may block like task_memory; the results
 * show how far it got.
 */
SEC("iter.s/task")
int task_pages(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct bpfprof_task_read *req;
	__u32 zero = 0, *slot, at, i;

	if (!task)
		return 0;
	slot = bpf_map_lookup_elem(&task_read_slot, &zero);
	if (!slot)
		return 0;
	at = *slot;
	req = bpf_map_lookup_elem(&task_reads, &at);
	if (!req)
		return 0;
	for (i = 0; i < BPFPROF_READ_PAGES; i++) {
		if (i >= req->nr)
			break;
		req->result[i] = (__s32)bpf_copy_from_user_task(req->data[i], BPFPROF_READ_BYTES,
								(void *)req->va[i], task, 0);
	}
	return 0;
}

/* Key 0: room for one record. Iterator programs of one CPU do not nest. */
PERCPU_MAP(state_scratches, struct bpfprof_task_state);

static __always_inline void user_registers(struct bpfprof_task_state *s, struct task_struct *task)
{
	struct pt_regs *regs = task_regs(task);

	regs_copy(s->regs, regs);
	s->syscall = regs_syscall(regs);
	if (regs_are_compat32(regs))
		s->flags |= BPFPROF_TASK_COMPAT32;
}

/* The tid of task in our own pid namespace, if it is in or below that. */
static __always_inline __u32 reader_tid(struct task_struct *task)
{
	struct task_struct *reader = bpf_get_current_task_btf();
	__u32 level = BPF_CORE_READ(reader, thread_pid, level);
	struct pid *pid = BPF_CORE_READ(task, thread_pid);
	struct upid *upid = upid_at(pid, level);

	if (!level)
		return task->pid;
	if (!pid || BPF_CORE_READ(pid, level) < level)
		return 0;
	return BPF_CORE_READ(upid, nr);
}

/*
 * How long a thread has slept, at least. Its begin is known only on the clock of its CPU, which
 * stands still while interrupts or another virtual machine run. That clock shows the last time that
 * the CPU was busy; the other clocks of both CPUs show the time since then. For a thread that has
 * moved to another CPU since, as some do on their way awake, nothing is known.
 */
static __always_inline __u64 asleep_ns(struct task_struct *task)
{
	struct task_struct *reader = bpf_get_current_task_btf();
	struct rq *there, *here;
	__u64 last_ns, now_ns, ran_ns = task->se.exec_start;
	__s64 ns;

	/* Kernels without CONFIG_FAIR_GROUP_SCHED lead to no run queue. */
	if (!bpf_core_field_exists(task->se.cfs_rq) ||
	    !bpf_core_field_exists(((struct cfs_rq *)0)->rq))
		return 0;
	there = BPF_CORE_READ(task, se.cfs_rq, rq);
	here = BPF_CORE_READ(reader, se.cfs_rq, rq);
	if (!there || !here || !ran_ns)
		return 0;
	ns = (__s64)(BPF_CORE_READ(there, clock_task) - ran_ns);
	last_ns = BPF_CORE_READ(there, clock);
	now_ns = BPF_CORE_READ(here, clock);
	if (now_ns > last_ns)
		ns += (__s64)(now_ns - last_ns);
	return ns > 0 ? (__u64)ns : 0;
}

/* Without CONFIG_TASK_XACCT the kernel counts no bytes. */
static __always_inline __u64 io_bytes(struct task_struct *task)
{
	if (!bpf_core_field_exists(task->ioac) || !bpf_core_field_exists(task->ioac.rchar))
		return 0;
	return BPF_CORE_READ(task, ioac.rchar) + BPF_CORE_READ(task, ioac.wchar);
}

/* Writes the state of each thread, from the kernel's own memory alone, so it never blocks. */
SEC("iter/task")
int task_states(struct bpf_iter__task *ctx)
{
	struct task_struct *task = ctx->task;
	struct bpfprof_task_state *s;
	__u32 zero = 0;
	bool on_cpu, has_memory;
	long len;

	if (!task)
		return 0;
	s = bpf_map_lookup_elem(&state_scratches, &zero);
	if (!s)
		return 0;
	task_id_read(&s->task, task);
	s->fs_base = task->TASK_TLS_BASE;
	s->state = task->__state;
	s->exit_state = task->exit_state;
	s->flags = 0;
	s->syscall = -1;
	s->nr_kernel = 0;
	s->reader_tid = reader_tid(task);
	s->nr_returns = returns_list(s->returns, task);
	/* An int until 7.x, then a byte: no plain load fits both. */
	on_cpu = BPF_CORE_READ_BITFIELD_PROBED(task, on_cpu);
	/* Later than on_cpu: a thread that leaves its CPU between the two has been counted. */
	barrier();
	s->nr_switches = *(volatile __u64 *)&task->nvcsw + *(volatile __u64 *)&task->nivcsw;
	barrier();
	if (on_cpu)
		s->flags |= BPFPROF_TASK_ON_CPU;
	s->asleep_ns = s->state && !on_cpu ? asleep_ns(task) : 0;
	s->faults = task->min_flt + task->maj_flt;
	s->io_bytes = io_bytes(task);
	s->parent = BPF_CORE_READ(task, real_parent, tgid);
	s->pad = 0;
	if (task->ptrace)
		s->flags |= BPFPROF_TASK_TRACED;
	has_memory = BPF_CORE_READ(task, mm);
	if (!has_memory)
		s->flags |= BPFPROF_TASK_NO_MEMORY;
	__builtin_memset(s->regs, 0, sizeof(s->regs));
	if (task->flags & PF_KTHREAD)
		s->flags |= BPFPROF_TASK_KTHREAD;
	else if (has_memory)
		user_registers(s, task);
	BPF_CORE_READ_STR_INTO(&s->comm, task, comm);
	BPF_CORE_READ_STR_INTO(&s->leader_comm, task, group_leader, comm);
	if (!on_cpu && !task->exit_state) {
		len = bpf_get_task_stack(task, s->kernel, BPFPROF_MAX_KERNEL_FRAMES * 8, 0);
		s->nr_kernel = len > 0 ? (__u64)len / 8 : 0;
	}
	bpf_seq_write(ctx->meta->seq, s, sizeof(*s));
	return 0;
}
