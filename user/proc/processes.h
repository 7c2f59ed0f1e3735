/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PROC_PROCESSES_H
#define BPFPROF_PROC_PROCESSES_H

/*
 * Room proc: knows the processes, their mappings, and the files that they map.
 *
 * The processes that samples came from, and their executable mappings. One entry per
 * pid; a new incarnation (other start time) takes the place of the old one. Entries of processes
 * that have exited are kept for a few seconds, for samples still under way, then
 * freed by processes_expire(). Mappings: sorted, not overlapping, at most PROCESS_MAX_MAPPINGS.
 * Bounded: past PROCESSES_MAX entries the one added first goes; past PROCESSES_MAX_MAPPINGS mappings
 * of all together, those added first lose theirs and are read again when a sample wants them; past
 * PROCESSES_MAX_TITLE_BYTES of titles none is kept that is longer than the one before.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/hash_table.h"
#include "bpfprof.h"

#define PROCESS_MAX_MAPPINGS 8192
#define PROCESSES_MAX 16384 /* as many as the map procs holds */
#define PROCESSES_MAX_MAPPINGS (1U << 18) /* 8 MiB */
#define PROCESSES_MAX_TITLE_BYTES (8U << 20)
#define PROCESS_KEEP_DEAD_NS 3000000000ULL

struct process_mapping {
	uint64_t start;
	uint64_t end;
	uint64_t off; /* file offset of start */
	uint64_t image; /* id; 64 bits so that there is no padding to compare */
};

/* A runtime of CPython that is mapped: what runs in it, if anything, its memory tells. */
struct process_python {
	uint64_t runtime; /* address of _PyRuntime */
	uint32_t layout; /* of python/pythons.h */
	uint32_t image;
};

struct container;
struct processes;
struct ranks;

struct process {
	struct hash_node node;
	struct processes *processes; /* that it is one of */
	uint32_t pid;
	uint64_t start_ns;
	uint64_t exec_id;
	struct bpfprof_place place;
	const struct container *container; /* borrowed; NULL = none, or not known (yet) */
	uint64_t container_due_ns; /* when to ask for it (again), 0 = at once */
	uint64_t container_wait_ns; /* how long was waited the last time */
	struct process_mapping *mappings;
	size_t nr_mappings, cap_mappings;
	bool mappings_known; /* read from the kernel, or taken over from the parent */
	uint32_t
		program; /* image that exec started, or that the dynamic loader was told to; 0: not known */
	bool images_failed; /* some file could not be opened: try again when they are read again */
	uint64_t known_ns; /* when its beginning or its exec was seen, 0 before our time */
	uint64_t read_ns; /* when they were read last, 0 never */
	uint64_t read_cost_ns; /* what it costs to read them (process_read_took) */
	uint64_t read_last_ns; /* how long it took last */
	uint64_t reread_ns; /* when they are to be read again, 0 not yet */
	bool sampled; /* since the mappings were verified last */
	bool dead;
	uint64_t dead_ns;
	uint32_t
		checked; /* round of kernel/liveness.c in which it was looked whether it is still there */
	/* The BPF side's copy (user/kernel/tables.c). */
	bool published;
	uint32_t asid;
	uint32_t slice; /* first entry in the map mappings */
	struct process_python pythons[BPFPROF_MAX_RUNTIMES]; /* loaded last first */
	uint32_t nr_pythons; /* 0 = runs no CPython that we know */
	uint32_t python_slots
		[BPFPROF_MAX_RUNTIMES]; /* their elements of the map pythons, 0 = none */
	uint32_t python_id; /* that code objects of all of them are known under */
	uint32_t python_old_id; /* had until the last sweep: frames with it may be under way */
	char *title; /* the last good one of a Ray worker (proc/title.h), or NULL: it never had one */
	uint64_t titles_seen; /* a hash of each is a bit of it */
	char *role; /* in a Ray cluster (capture/ray_roles.h), or NULL */
	uint64_t role_due_ns; /* when it is to be looked for again */
	struct ranks *ranks; /* of its environment (proc/ranks.h), or NULL: nothing in there */
	bool ranks_known; /* it was looked at, or tried in vain */
};

/* Called before a process is freed or starts over, to take back its published tables. */
typedef void (*process_retire_fn)(void *arg, struct process *process);

int processes_new(struct processes **ret, process_retire_fn retire, void *arg);
void processes_free(struct processes *processes);

/*
 * The entry of this very incarnation, made or started over as needed; NULL if out of memory, or
 * if a later one is known already. May free another entry.
 */
struct process *processes_get(struct processes *processes, const struct bpfprof_task_id *task);
struct process *processes_find(struct processes *processes, uint32_t pid); /* NULL if unknown */
/* Child of fork: has its parent's mappings, title and ranks until told otherwise. */
void processes_fork(struct processes *processes, const struct bpfprof_task_id *parent,
		    const struct bpfprof_task_id *child);
void processes_exit(struct processes *processes, const struct bpfprof_task_id *task,
		    uint64_t now_ns);
void processes_expire(struct processes *processes, uint64_t now_ns);

/*
 * Its mappings were read, in cost_ns of CPU time. The cheaper of the last two reads says what one costs: where a
 * hypervisor takes the CPU away, that counts as ours. A read that timed out is dear, whatever the one before was.
 */
void process_read_took(struct process *process, uint64_t cost_ns, bool timed_out);
/* What was told of where it lives, as far as it is known; may be another container than before. */
void process_place_set(struct process *process, const struct bpfprof_place *place);
/* What its environment says; it was looked at, whether that is anything or not. 0 or -ENOMEM. */
int process_ranks_set(struct process *process, const struct ranks *ranks);
/* Whoever lent containers wants them back. */
void processes_forget_containers(struct processes *processes);

/* First process of the table; on with hash_table_next(). */
struct process *processes_first(const struct processes *processes);
size_t processes_count(const struct processes *processes);

/* The mapping that holds va, or NULL. */
const struct process_mapping *process_mapping_find(const struct process *process, uint64_t va);
/* Adds one found by a sample; whatever overlaps it goes. 0, -E2BIG, -ENOMEM. */
int process_mapping_add(struct process *process, const struct process_mapping *mapping);
/*
 * Raw is what was just read as the title of process. 0 and it is the title now; or the title is
 * what it was: -EBADMSG if raw is none, -EAGAIN if it may have been read half written and was
 * not seen before, or -ENOMEM: no memory, or no room for more titles.
 */
int process_title_set(struct process *process, const char *raw, size_t len);
/* Puts nr mappings (any order) in the place of the old ones. True if they differ from those. */
bool process_mappings_set(struct process *process, struct process_mapping *mappings, size_t nr);

#endif
