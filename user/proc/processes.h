/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PROC_PROCESSES_H
#define BPFPROF_PROC_PROCESSES_H

/*
 * Room proc: knows the processes, their mappings, and the files that they map.
 *
 * This file: the processes that samples came from, and their executable mappings. There is one
 * entry per pid; a new incarnation (another start time or another exec) replaces the old one. A
 * process that exited stays for a few seconds, for samples still under way, until
 * processes_expire() frees it. Bounds: at most PROCESSES_MAX processes, then the one added first is
 * evicted; at most PROCESSES_MAX_MAPPINGS mappings in all, then the processes added first lose
 * theirs, and a sample reads them again; at most PROCESSES_MAX_TITLE_BYTES of titles, then a longer
 * title is refused.
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

struct process_owner;
struct process_pythons;
struct process_tables;
struct processes;
struct ranks;

struct process {
	struct hash_node node;
	struct processes *processes; /* the table that holds this entry */
	uint32_t pid;
	uint64_t start_ns;
	uint64_t exec_id;
	struct bpfprof_ns_context ns_context;
	struct process_mapping *mappings; /* sorted, none overlaps another */
	size_t nr_mappings, cap_mappings;
	bool mappings_known; /* read from the kernel, or copied from the parent */
	bool images_failed; /* some file could not be opened: the next read tries again */
	bool images_left; /* there was no time to open some file: a read is due soon */
	bool sampled; /* since the mappings were verified last */
	bool dead;
	uint32_t tenant; /* base/tenant.h */
	uint32_t program; /* image that exec or the dynamic loader started, 0: not known */
	uint64_t known_ns; /* when its start or its exec was seen; 0: before bpfprof started */
	uint64_t read_ns; /* time of the last read of the mappings, 0: never */
	uint64_t read_cost_ns; /* what a read costs (process_read_took) */
	uint64_t read_last_ns; /* how long the last read took */
	uint64_t reread_ns; /* when the next read is due, 0: not yet */
	uint64_t dead_ns;
	char *title; /* the last valid one of a Ray worker (proc/title.h); NULL: it had none yet */
	uint64_t titles_seen; /* one bit of 64 for the hash of each title */
	struct ranks *ranks; /* in its environment (proc/ranks.h), NULL: it names none */
	bool ranks_known; /* the environment was read, or cannot be read */
	/* State of higher rooms, which alone read it (struct process_part). */
	struct process_pythons *pythons; /* python/pythons.h */
	struct process_tables *tables; /* kernel/tables.h */
	struct process_owner *owner; /* capture/process_owner.h */
};

/*
 * State that another room keeps for each process: zeroed memory that is allocated with the process.
 * It is zeroed again when the process starts over.
 */
struct process_part {
	size_t off; /* of the pointer in struct process */
	size_t bytes;
	bool follows_mappings; /* a child that gets its parent's mappings gets a copy */
	void (*clear)(void *state); /* frees memory that the state owns; NULL: it owns none */
};

#define PROCESS_PART(member)                                                                       \
	.off = offsetof(struct process, member), .bytes = sizeof(*((struct process *)NULL)->member)

/* Called before a process is freed or starts over, so that its published tables are withdrawn. */
typedef void (*process_retire_fn)(void *arg, struct process *process);

/* The nr parts must outlive the table. 0 or -ENOMEM. */
int processes_new(struct processes **ret, const struct process_part *parts, size_t nr,
		  process_retire_fn retire, void *arg);
void processes_free(struct processes *processes);

/*
 * The entry of exactly this incarnation, added or started over as needed. NULL: no memory, or a
 * later incarnation is known already. May free another entry.
 */
struct process *processes_get(struct processes *processes, const struct bpfprof_task_id *task);
struct process *processes_find(struct processes *processes, uint32_t pid); /* NULL: not known */
/* The child of a fork gets copies of its parent's mappings, title and ranks. */
void processes_fork(struct processes *processes, const struct bpfprof_task_id *parent,
		    const struct bpfprof_task_id *child);
void processes_exit(struct processes *processes, const struct bpfprof_task_id *task,
		    uint64_t now_ns);
void processes_expire(struct processes *processes, uint64_t now_ns);
/* Never frees the entry of that process, or its mappings, until another one is pinned. 0: none. */
void processes_pin(struct processes *processes, uint32_t pid);

/*
 * Records that a read of the mappings took cost_ns of CPU time. The cheaper of the last two reads is
 * the estimate, since a read also counts time that a hypervisor takes away. A read that timed out
 * always becomes the estimate.
 */
void process_read_took(struct process *process, uint64_t cost_ns, bool timed_out);
/* Copies the fields that are not 0. */
void process_ns_context_set(struct process *process, const struct bpfprof_ns_context *ns_context);
/* Stores what the environment says, which may be nothing. 0 or -ENOMEM. */
int process_ranks_set(struct process *process, const struct ranks *ranks);

/* The process added first; continue with hash_table_next(). */
struct process *processes_first(const struct processes *processes);
size_t processes_count(const struct processes *processes);

int process_mapping_compare(const void *a, const void *b); /* by their start, for qsort() */
/* The mapping that holds va, or NULL. */
const struct process_mapping *process_mapping_find(const struct process *process, uint64_t va);
/* Adds a mapping that a sample found, in place of those that it overlaps. 0, -E2BIG, -ENOMEM. */
int process_mapping_add(struct process *process, const struct process_mapping *mapping);
/*
 * Sets the title from the len bytes that were just read. 0: it is the title now. Otherwise the
 * title stays: -EBADMSG: raw is no title; -EAGAIN: raw may have been read half written and is new;
 * -ENOMEM: no memory, or no room for more titles.
 */
int process_title_set(struct process *process, const char *raw, size_t len);
/* Replaces all mappings by nr others, in any order. True if they differ from the old ones. */
bool process_mappings_set(struct process *process, struct process_mapping *mappings, size_t nr);

#endif
