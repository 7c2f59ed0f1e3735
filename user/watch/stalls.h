/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_WATCH_STALLS_H
#define BPFPROF_WATCH_STALLS_H

/*
 * Stalls of watched processes. A process is silent while its first thread has no page fault, and reads and writes no
 * byte. When one has been silent for options->after_ns, a child (stall_check.h) dumps it and the other watched processes of its
 * job, and judges by their waits whether they can go on; ten seconds later once more. Only two equal verdicts are a
 * stall. A process that is busy is one only if four checks in this time find it in the same line. One check runs at a time. Bounds: STALLS_MAX processes,
 * STALL_CHECK_PIDS in a check; what is over is counted. The caller owns the struct.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/counters.h"
#include "base/hash_table.h"
#include "base/process_map.h"
#include "watch/stall_check.h"
#include "watch/wait_text.h"

struct buf;
struct sampler;
struct stats_reasons;
struct watched_table;

#define STALLS_MAX 4096
#define STALLS_FOUND 4 /* first checks that wait for the second one */
#define STALLS_WRITING 4 /* stalls that the caller has not taken: no further one is confirmed */
#define STALLS_READY 16 /* stalls and ends that the caller has not taken; more are counted */

/*
 * Processes of one job have the same tenant. They are of Ray, or have a common ancestor below its parent: each parent on
 * the way is a watched process, too.
 */
struct stall_owner {
	uint32_t tenant;
	bool of_ray;
};

/* A stall, or the end of one. */
struct stall {
	bool over; /* the process goes on, or has ended: no sentence, and no dumps */
	enum wait_verdict verdict; /* SUSPECT: the evidence is not enough */
	enum wait_reason reason;
	unsigned int nr_seen; /* checks that found it */
	uint32_t pid; /* as bpfprof sees it */
	uint64_t since_ns, found_ns; /* CLOCK_MONOTONIC */
	char sentence[STALL_SENTENCE_BYTES]; /* without a full stop */
	int dumps[2]; /* files with both dumps: their first lines are the verdicts; 0: none */
	struct process_key key;
	uint32_t tenant;
};

struct stall_process {
	struct hash_node node;
	struct process_key key;
	uint32_t own_pid; /* as bpfprof sees it; 0: it cannot be read */
	uint32_t parent; /* outside of all pid namespaces */
	struct stall_owner owner;
	bool ignored; /* at the last check */
	uint64_t job; /* at the last check */
	uint64_t faults, io_bytes; /* of its first thread */
	uint64_t since_ns; /* silent since then, CLOCK_MONOTONIC */
	uint64_t ask_ns; /* no check before */
	uint64_t pause_ns; /* between two checks: it doubles */
	uint32_t round; /* in which it was seen */
	enum wait_verdict subject; /* of a stall that was reported; ALIVE: it is none */
	struct stall
		*found; /* by the first check of it, to be confirmed by further ones; NULL: none */
	uint64_t again_ns; /* time of the next of these */
};

struct stalls {
	struct sampler *sampler;
	const struct watched_table *watched;
	const struct stall_options *options; /* of the caller */
	/* Whose process is it? False: it is not looked at. NULL: all are of one job. */
	bool (*owner)(void *arg, uint32_t pid, struct stall_owner *ret);
	void *arg;
	struct hash_table processes;
	struct stall_check check;
	struct process_key check_of; /* the silent process that the check is about */
	uint64_t check_job;
	size_t nr_found; /* processes with a first check */
	struct stall ready[STALLS_READY]; /* for stalls_take() */
	size_t nr_ready;
	uint64_t next_ns;
	uint32_t round;
	uint64_t nr_of_reason[WAIT_NR_REASONS]; /* of nr_stalls */
	uint64_t nr_stalls, nr_suspects, nr_failed, nr_full, nr_dropped;
};

void stalls_init(struct stalls *stalls, struct sampler *sampler,
		 const struct watched_table *watched, const struct stall_options *options);
void stalls_fini(struct stalls *stalls);
/* Looks at the processes, if it is time; to be called several times a second. */
void stalls_poll(struct stalls *stalls, uint64_t now_ns);
/* Stalls that were reported, also suspected ones, and have not ended. */
size_t stalls_active(const struct stalls *stalls);
/* A stall, or the end of one, that was not taken yet; the caller calls stall_fini(). False: there is none. */
bool stalls_take(struct stalls *stalls, struct stall *ret);
void stall_fini(struct stall *stall);

/*
 * The page: the sentence, times, and the waits of the threads. wall_ns: the time of found_ns. store: as of
 * samples_row().
 */
void stall_summary(struct buf *dst, const struct stall *stall, uint64_t wall_ns, const char *store);
/* Reads a dump. 0 or -errno. */
int stall_dump(struct buf *dst, int dump);
/* who: a pod; NULL: the name of the process. */
void stall_folder_name(struct buf *dst, const struct stall *stall, const char *who,
		       uint64_t wall_ns);

extern const struct counter stalls_counters[];
void stalls_stats(const struct stalls *stalls, struct stats_reasons *dst);

#endif
