/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_THREADS_THREAD_DUMP_H
#define BPFPROF_THREADS_THREAD_DUMP_H

/*
 * The stacks and states of all threads of some processes, at one moment. Strings are ids of the dump's
 * strtab (0 = ""), as the targets have them: writers make them safe. The caller that made a dump frees it.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpfprof.h"
#include "cuda/nccl_info.h"

struct strtab;

enum thread_frame_kind {
	THREAD_FRAME_INVALID = 0,
	THREAD_FRAME_KERNEL = 1,
	THREAD_FRAME_NATIVE = 2,
	THREAD_FRAME_PYTHON = 3,
	THREAD_FRAME_MARKER = 4, /* "[truncated]", "[unmerged]" */
};

struct thread_variable {
	uint32_t name, repr;
	uint64_t va;
	bool argument;
};

struct thread_frame {
	enum thread_frame_kind kind;
	bool is_entry, is_shim_entry; /* as py-spy means them */
	uint32_t name;
	uint32_t file; /* of Python: co_filename; native: the image */
	uint32_t short_file;
	uint32_t line; /* 0 = unknown */
	bool has_variables; /* variables were asked for and could be read */
	uint32_t first_variable, nr_variables; /* in the thread's */
	uint64_t wire; /* native, kernel: as in bpfprof.h, callers minus one */
};

/* A collective that a frame of NCCL holds, and the communicator of its rank. */
struct thread_collective {
	size_t frame; /* in the thread's */
	struct nccl_info info;
	bool comm_known; /* else these are 0 */
	uint64_t hash;
	uint32_t rank, size;
};

struct thread_dump {
	uint32_t tid; /* in our pid namespace */
	uint32_t kernel_tid; /* outside of all pid namespaces */
	uint64_t thread_id; /* pthread_self() where Python knows it, else 0 */
	uint32_t name; /* Python's name of it; else comm */
	bool has_name;
	bool is_python; /* Python has a thread state for it */
	bool runs_loop; /* of asyncio */
	uint32_t order; /* among Python's thread states, newest first */
	bool active; /* as py-spy means it */
	bool owns_gil;
	bool running; /* was on a CPU: its registers cannot be read */
	bool sampled, sampled_well; /* its frames are those of a sample; of one without gaps */
	bool consistent; /* it did not run while it was read */
	char state; /* R S D T t Z X I P */
	uint64_t asleep_ns; /* at least; 0: awake, or unknown */
	int32_t syscall; /* number; negative: none */
	uint64_t syscall_args[BPFPROF_NR_SYSCALL_ARGS];
	uint32_t wait_channel; /* kernel function that it sleeps in, if known */
	uint32_t waits_for; /* in words: "GIL", "lock", "read of a pipe", or "" */
	uint32_t gpu_call; /* the call of CUDA or NCCL that it is in, or "" */
	size_t gpu_frame; /* index of its frame */
	struct thread_collective *collectives; /* that its frames hold */
	size_t nr_collectives;
	const struct thread_collective *gpu_arguments; /* that of gpu_call; NULL: unknown */
	struct thread_frame *frames; /* leaf first */
	size_t nr_frames;
	struct thread_variable *variables;
	size_t nr_variables;
};

/* What a task of asyncio waits for. */
struct task_wait {
	const char *kind; /* a word for programs; NULL: it runs. Never freed */
	uint32_t text; /* in words */
	uint32_t task; /* name of that task, or "" */
	double seconds; /* of a timer; negative: unknown */
	int64_t file; /* number of a socket; negative: unknown */
};

/* A task of a loop that runs, or many with the same stack. */
struct task_dump {
	uint32_t kernel_tid; /* of the thread in which its loop runs */
	uint32_t name;
	uint32_t coroutine; /* name of its function */
	uint32_t nr_same; /* tasks that are summed here and have no names; 0: it is one */
	bool running;
	struct task_wait wait;
	uint32_t *awaited_by; /* names of the tasks that wait for it */
	size_t nr_awaited_by;
	size_t nr_more_awaiters; /* whose names are not kept */
	struct thread_dump stack; /* frames and variables alone */
};

/* Tasks that the dump has no more of than their number. */
struct task_counts {
	uint64_t nr_over; /* too many, or there was no time to read them */
	uint64_t nr_idle; /* their loop does not run */
	uint64_t nr_bad; /* they contradict themselves */
	bool torn; /* their list changed while it was read: some are missing */
	bool undescribed; /* this build of Python does not describe its tasks */
};

struct process_dump {
	uint32_t pid; /* as we see it */
	uint32_t kernel_pid; /* outside of all pid namespaces */
	uint32_t kernel_parent; /* the same, of its parent */
	uint64_t start_ns; /* of CLOCK_BOOTTIME */
	uint64_t exec_id;
	uint32_t
		parent; /* its ancestor that was asked for with its descendants; 0: it was asked for itself */
	uint32_t cmdline, parent_cmdline;
	uint32_t executable;
	uint32_t python_version; /* "3.11.7"; 0 = not Python */
	uint32_t comm;
	uint32_t container, container_id, pod, namespace; /* in which it lives */
	uint32_t pod_pid; /* in its own pid namespace, 0 = not known */
	uint32_t ray_task; /* its title as a Ray worker */
	bool kernel_thread;
	bool threads_cut; /* Python has more thread states than could be read */
	struct thread_dump *threads; /* oldest first */
	size_t nr_threads;
	bool has_gil_holder; /* a thread sleeps and holds the GIL */
	size_t gil_holder; /* index in threads */
	struct task_dump *tasks; /* running ones first, then by name, then the summed ones */
	size_t nr_tasks;
	struct task_counts task_counts;
};

/*
 * These bound the memory of a dump: 28, 28 and 24 MiB. Frames of tasks have a limit of their own, so that many
 * deep tasks leave the stacks of threads whole; and one for each process.
 */
#define DUMP_MAX_FRAMES (1U << 19)
#define DUMP_MAX_TASK_FRAMES (1U << 19)
#define DUMP_MAX_PROCESS_TASK_FRAMES (1U << 16)
#define DUMP_MAX_VARIABLES (1U << 20)

struct dump {
	struct strtab *strings;
	struct process_dump *processes;
	size_t nr_processes;
	size_t nr_frames; /* of all threads */
	size_t nr_task_frames;
	size_t nr_variables; /* of both */
};

int dump_init(struct dump *dump); /* 0 or -ENOMEM */
void dump_fini(struct dump *dump);
/* An empty process, good until the next call; NULL if out of memory. */
struct process_dump *dump_add(struct dump *dump);
/* The thread, by its number outside of all pid namespaces; NULL: none. */
struct thread_dump *process_dump_find(const struct process_dump *process, uint32_t kernel_tid);
/* Frees the tasks of the process. */
void process_dump_drop_tasks(struct process_dump *process, struct dump *dump);
/*
 * Takes threads that were running in a, and were not sampled, from b, and with them the tasks of their loops.
 * Both have the same strings.
 */
void process_dump_take(struct process_dump *a, struct process_dump *b);
/* Frees the last process. */
void dump_drop(struct dump *dump);
void thread_dump_fini(struct thread_dump *thread);

#endif
