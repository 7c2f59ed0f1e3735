/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_FINDINGS_FINDINGS_H
#define BPFPROF_FINDINGS_FINDINGS_H

/*
 * Room findings: says what stands out in a recording, and which command shows more.
 *
 * What stands out in a recording, a sentence each: with the numbers that it rests on and a command
 * that shows more. The rules are here, as pure functions of what was measured; who measures
 * is findings/record_findings.h. Nothing is found from a name alone, and nothing that a healthy program
 * does too. Names in the facts must be clean text; in a command they stand only if no shell
 * takes them for anything else.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proc/title.h"

struct task_time;

enum finding_kind {
	FINDING_INVALID = 0,
	FINDING_SHORT_TASKS,
	FINDING_LONG_TASK,
	FINDING_BUSY_WORKER,
	FINDING_GIL,
	FINDING_THREADS,
	FINDING_MEMORY_GROWS,
	FINDING_CPU_LIMIT,
	FINDING_MEMORY_LIMIT,
	FINDING_WAITS,
	FINDING_STARVED,
	FINDING_NR_KINDS,
};

#define FINDINGS_MAX_OF_KIND 4
#define FINDING_TEXT_MAX (384 + 2 * TITLE_MAX)
#define FINDING_COMMAND_MAX 192

struct finding {
	enum finding_kind kind;
	char text[FINDING_TEXT_MAX];
	char command[FINDING_COMMAND_MAX];
};

/* All zero to begin with. */
struct findings {
	struct finding list[FINDINGS_MAX_OF_KIND * (FINDING_NR_KINDS - 1)];
	size_t nr;
	uint32_t nr_of_kind[FINDING_NR_KINDS]; /* those that are not in the list too */
};

/* `short_tasks` and so on: in JSON. */
const char *finding_name(enum finding_kind kind);
size_t findings_left_out(const struct findings *findings);

/* Calls of one name in a recording of duration_ns: many short ones, one much longer than the rest. */
void findings_of_task(struct findings *findings, const struct task_time *task,
		      uint64_t duration_ns);

/* Workers that should do the same: actors of one class, ranks of one job. */
struct workers_fact {
	const char *name; /* of the class, or the job */
	bool ranks;
	uint32_t nr; /* those that ran on a CPU */
	uint64_t total_ns, most_ns, median_ns; /* CPU time: of all, of the busiest, of the others */
	uint32_t most_pid;
	const char *most_name; /* of a rank; else NULL */
	uint64_t most_samples;
};
void findings_of_workers(struct findings *findings, const struct workers_fact *fact,
			 uint64_t duration_ns);

/* A Python process, of whose threads one held the GIL most of the time. */
struct gil_fact {
	const char *name; /* of the process */
	uint32_t pid, tid;
	const char *thread;
	uint64_t samples, held; /* of that thread */
	uint64_t watched_ns; /* while it was watched, it ran, or waited for a CPU, for: */
	uint64_t on_cpu_ns;
	uint32_t nr_waiting; /* other threads that want the GIL too, */
	double wakes; /* how often these woke in a second, together, each while it was watched, */
	uint64_t waiting_run_ns; /* and how long they ran */
};
void findings_of_gil(struct findings *findings, const struct gil_fact *fact);

/* Threads that a library started in one process, or in several with the same CPUs. */
struct pool_fact {
	const char *library; /* base name of the file that they begin in */
	uint32_t nr_processes, nr_threads; /* that ran */
	uint32_t cpus; /* that they may use, by affinity and by limits of their cgroup */
	uint32_t logical, cores; /* of the machine */
	uint64_t run_ns, wait_ns; /* on a CPU; ready to run without one */
	double runnable; /* how many of them did one or the other, on average */
	uint32_t pid; /* the process with the most of them */
	const char *name;
};
void findings_of_pool(struct findings *findings, const struct pool_fact *fact);
/* What to say and set for such a library: `OpenBLAS`, `OPENBLAS_NUM_THREADS`. NULL, where nothing is known. */
const char *pool_name(const char *library);
const char *pool_setting(const char *library);

/* A process whose first thread waited in one place (wait_place.h). */
struct wait_fact {
	const char *name;
	uint32_t pid;
	uint64_t waited_ns;
	const char *function, *line; /* equal: there is no line of the program's own */
};
void findings_of_wait(struct findings *findings, const struct wait_fact *fact,
		      uint64_t duration_ns);

/* A process whose first thread waited for what its children handed it (loader_wait.h). */
struct starved_fact {
	const char *name;
	uint32_t pid;
	uint64_t waited_ns, nr_waits; /* for them */
	uint64_t run_ns; /* that it was on a CPU */
	const uint32_t *children;
	uint32_t nr_children; /* and of these: */
	/* Sums: that their first threads slept and ran, and that any thread ran, or wanted to. */
	uint64_t child_asleep_ns, child_run_ns, child_awake_ns;
};
/* Told of children that cannot keep up with a process that has work of its own. */
bool findings_of_starved(struct findings *findings, const struct starved_fact *fact,
			 uint64_t duration_ns);

/* Memory of a process over time. */
#define MEMORY_POINTS 16
struct memory_point {
	uint64_t ts_ns, bytes;
};
/* A series that keeps its whole length: when it is full, every other point goes. All zero to begin. */
struct memory_series {
	struct memory_point points[MEMORY_POINTS];
	uint32_t nr;
	uint64_t every_ns; /* points closer than this are left out, but the last one */
	struct memory_point last;
};
void memory_series_add(struct memory_series *series, uint64_t ts_ns, uint64_t bytes);

struct memory_fact {
	const char *name;
	uint32_t pid;
	const struct memory_series *series;
	bool born; /* it began during the recording: at first every program grows */
	bool exited;
	uint64_t limit_left_bytes; /* to the limit of its cgroup; UINT64_MAX: it has none */
};
void findings_of_memory(struct findings *findings, const struct memory_fact *fact);

/* A cgroup with limits, and some process in it. */
struct limits_fact {
	const char *name;
	uint32_t pid;
	double cpus; /* CPU time per time that is allowed; 0: no limit */
	uint64_t nr_periods, nr_throttled, throttled_ns; /* in the recording */
	uint64_t memory_bytes; /* without what can be dropped at once */
	uint64_t memory_max; /* 0: no limit */
};
void findings_of_limits(struct findings *findings, const struct limits_fact *fact);

#endif
