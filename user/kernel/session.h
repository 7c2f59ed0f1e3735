/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_KERNEL_SESSION_H
#define BPFPROF_KERNEL_SESSION_H

/*
 * Room kernel: loads the BPF programs, decodes what they send, finishes walks after a miss.
 *
 * A session has the loaded BPF programs and their maps. It is opened for one set of options and attached
 * once; closing it leaves nothing in the kernel. It chooses the sizes of the maps, within the memory
 * budget of docs/setup.md.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "bpfprof.h"

struct bpf_map;
struct bpf_object;
struct bpf_program;
struct bpfprof_bpf;
struct deadline_runner;

/* A session is opened with perf or timer; auto is for its caller, which has to choose one. */
enum session_clock { SESSION_CLOCK_AUTO, SESSION_CLOCK_PERF, SESSION_CLOCK_TIMER };

/* Waits of threads (waits.h): none, time off a CPU, or all time, that on a CPU included. */
enum session_waits { SESSION_NO_WAITS, SESSION_OFF_CPU, SESSION_WALL };

struct session_options {
	uint32_t hz;
	enum session_clock clock;
	bool cycles; /* the clock is the hardware's counter of cycles, not CPU time */
	bool no_clock; /* the clock is not loaded: hooked calls, or waits off a CPU, alone */
	bool filter; /* only processes given to session_target_add() are recorded */
	bool follow; /* children of these are recorded, too */
	bool iterators; /* only iterators over tasks are loaded; the session cannot be attached */
	bool files; /* with iterators: open_files.h and environ.h can be used */
	bool states; /* tasks.h can be used */
	bool threads; /* tasks.h and remote.h can be used; with waits they always can */
	bool titles; /* the stream has changes of the titles of Ray workers */
	bool fork_wakes; /* a fork of a target wakes the reader of the stream at once */
	enum session_waits waits;
	bool wakers; /* with waits: stacks of threads that end them (BPFPROF_SAMPLE_WAKER) */
	bool async; /* stacks of Python have the coroutines that await the running task, too */
	bool deaths; /* the stream has stacks of deadly signals (BPFPROF_SAMPLE_SIGNAL), and their senders */
	bool pages; /* held_pages.h can be used: the stream has stacks of pages (BPFPROF_SAMPLE_PAGE) */
	bool allocations; /* alloc_probes.h can be used: the stream has stacks of blocks (BPFPROF_SAMPLE_BLOCK) */
	bool gpu; /* the programs and maps that gpu_probes.h needs are loaded */
	bool gpu_trace; /* with gpu: the stream has each call */
	bool gpu_tensors; /* with gpu: memory that PyTorch hands out for tensors is counted */
	bool gpu_gc; /* with gpu: garbage collections of Python are counted */
	bool gpu_waits; /* with gpu: the stream says when collectives are complete */
	bool gpu_windows; /* gpu_probes.h sees windows of cudaProfilerStart, without gpu, too */
	bool gaps_alone; /* with gpu_waits: the clock samples only processes whose device is idle */
	bool small; /* not with gpu: room for some 100 processes at some 100 Hz */
	uint32_t call_keys; /* counts of hooked calls that one process may have; 0: the default */
	uint32_t ring_bytes; /* power of two; 0: the default */
	uint32_t nr_rows; /* entries of the row arena, power of two; 0: the default */
	uint32_t waiter_places; /* for tests: threads whose waits have room, power of two; 0: all */
};

struct session {
	struct bpfprof_bpf *skel;
	struct session_options options;
	uint32_t nr_cpus; /* possible */
	bool had_targets; /* a target was added at some time */
	uint32_t nr_rows, nr_mappings;
	uint64_t *rows; /* the row arena, memory-mapped; plain memory if the map does not exist */
	struct bpfprof_mapping *mappings; /* the same */
	/* The calls (base/deadline.h) that hang in slots of memory_requests, or hung there once; 0 = none. */
	uint64_t hung_reads[BPFPROF_MEMORY_SLOTS]; /* memory.c */
	uint64_t hung_environs[BPFPROF_ENVIRON_SLOTS]; /* the slots behind those: environ.c */
	/* uprobe_links.c: the process that kept probes from being made last, and the time of the next try */
	uint32_t locked_pid;
	uint64_t locked_until_ns;
};

/*
 * Loads everything; process events flow from session_attach() on.
 * 0, -EPERM, -EOPNOTSUPP (kernel too old or without BTF), or other -errno of the load.
 */
int session_open(struct session *session, const struct session_options *options);
int session_attach(struct session *session);
void session_close(struct session *session);

/*
 * Each group of requesters has a bit; children inherit the bits. With BPFPROF_TARGET_AT_EXEC a
 * process becomes a target at its next exec: until then it is a copy of ourselves.
 */
int session_target_add(struct session *session, pid_t pid, uint32_t groups);
void session_target_remove(struct session *session, pid_t pid);
/* Forks of targets so far, with the option fork_wakes. */
uint64_t session_target_forks(const struct session *session);
bool session_is_target(const struct session *session, pid_t pid);
uint32_t session_target_groups(const struct session *session, pid_t pid); /* 0: no target */
/* Removes these groups from all targets. */
void session_targets_clear(struct session *session, uint32_t groups);

/*
 * Is our pid namespace the outermost one? session_own_pid(): the pid that iterators and /proc use
 * for a process, from its pids in the outermost namespace and in ours. 0: not known.
 */
bool session_pids_are_the_nodes(const struct session *session);
uint32_t session_own_pid(const struct session *session, uint32_t pid, uint32_t agent_pid);

/*
 * Writes or deletes an element of a map that sampling programs read. Without effect in a session of
 * iterators only, which has no such map. 0 or -errno.
 */
int session_map_set(const struct bpf_map *map, const void *key, const void *value);
void session_map_delete(const struct bpf_map *map, const void *key);

/* Stacks of hooked calls that each thread may send in a second. */
uint32_t session_call_stacks_hz(const struct session *session);

/* Are the interrupt entries known, which `wakers` needs? */
bool session_knows_interrupts(const struct session *session);

/* The program of the clock: run by each perf event, or to arm timers. */
struct bpf_program *session_clock_program(const struct session *session);

/* The nr counters with key 0 of a per-CPU map, summed over all CPUs; zeros if they cannot be read. */
void session_sum(const struct session *session, const struct bpf_map *map, uint64_t *ret,
		 size_t nr);
/* The sums of the map counters. */
void session_counters(const struct session *session, uint64_t counters[BPFPROF_NR_COUNTERS]);
/* Memory that the kernel charges for our maps (memlock of fdinfo). */
uint64_t session_map_bytes(const struct session *session); /* 0 after session_close() */
uint64_t session_object_bytes(const struct bpf_object *object); /* the same for any loaded object */
/* BPF run-time statistics of all our programs; false if the kernel does not keep them for us. */
bool session_run_stats(const struct session *session, uint64_t *ret_runs, uint64_t *ret_ns);
/*
 * Times that the kernel skipped one of our programs because it was already running on that CPU:
 * newer kernels (7.0+) may preempt it, or an interrupt came.
 */
uint64_t session_nr_not_run(const struct session *session);
/* With session_options.pages: pages whose allocation or end was not seen for that reason, few of them in the sample. */
uint64_t session_nr_pages_not_seen(const struct session *session);

#endif
