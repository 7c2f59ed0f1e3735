/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_FINDINGS_FINDINGS_H
#define BPFPROF_FINDINGS_FINDINGS_H

/*
 * Room findings: says what stands out in a recording, and which command shows more.
 *
 * This file: the rules, pure functions of measured facts (findings/record_findings.h measures). A
 * finding is a sentence with the numbers behind it and a command that shows more. No rule judges by a
 * name alone, or finds a thing that a healthy program does too. Names in the facts must be clean text; a
 * command contains a name only if it is one word to any shell.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proc/title.h"

struct buf;
struct task_time;

enum finding_kind {
	FINDING_INVALID = 0,
	FINDING_SHORT_TASKS,
	FINDING_LONG_TASK,
	FINDING_BUSY_WORKER,
	FINDING_GIL,
	FINDING_THREADS,
	FINDING_MEMORY_GROWS,
	FINDING_KILLED,
	FINDING_CPU_LIMIT,
	FINDING_MEMORY_LIMIT,
	FINDING_WAITS,
	FINDING_STARVED,
	FINDING_NR_KINDS,
};

#define FINDINGS_MAX_OF_KIND 4
#define FINDING_TEXT_MAX (384 + 2 * TITLE_MAX)
#define FINDING_HOLDER_MAX 160 /* text on the holder of memory */
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
	uint32_t nr_of_kind[FINDING_NR_KINDS]; /* including those that found no room in the list */
};

/* The name in JSON: `short_tasks` and so on. */
const char *finding_name(enum finding_kind kind);
size_t findings_left_out(const struct findings *findings);
/* Drops those of that kind, and adds all of another list. */
void findings_replace(struct findings *findings, enum finding_kind kind, const struct findings *by);
/* Adds a member `findings` to a JSON object: an array of {kind, text, command}. */
void findings_json(struct buf *json, const struct findings *findings);
/* Logs all. */
void findings_report(const struct findings *findings);

/* Calls of one name in a recording of duration_ns: many short calls, or one much longer than the rest. */
void findings_of_task(struct findings *findings, const struct task_time *task,
		      uint64_t duration_ns);

/* Workers that should do equal work: actors of one class, ranks of one job. */
struct workers_fact {
	const char *name; /* of the class, or the job */
	bool ranks;
	uint32_t nr; /* workers that ran on a CPU */
	uint64_t total_ns; /* CPU time of all workers */
	uint64_t most_ns; /* CPU time of the busiest worker */
	uint64_t median_ns; /* CPU time of the others */
	uint32_t most_pid;
	const char *most_name; /* of the busiest rank; NULL: no rank */
	uint64_t most_samples;
};
void findings_of_workers(struct findings *findings, const struct workers_fact *fact,
			 uint64_t duration_ns);

/* A Python process with a thread that held the GIL most of the time. */
struct gil_fact {
	const char *name; /* of the process */
	uint32_t pid, tid;
	const char *thread;
	uint64_t samples; /* of that thread */
	uint64_t held; /* samples of that thread in which it held the GIL */
	uint64_t watched_ns; /* how long the thread was watched */
	uint64_t on_cpu_ns; /* how long it ran, or waited for a CPU, meanwhile */
	uint32_t nr_waiting; /* other threads that want the GIL */
	double wakes; /* wakeups per second of all these, while each was watched */
	uint64_t waiting_run_ns; /* how long these ran */
};
void findings_of_gil(struct findings *findings, const struct gil_fact *fact);

/* Threads that a library started in one process, or in several with the same CPUs. */
struct pool_fact {
	const char *library; /* base name of the file that the threads begin in */
	uint32_t nr_processes, nr_threads; /* that ran */
	uint32_t cpus; /* the threads may use, by affinity and by limits of their cgroup */
	uint32_t logical, cores; /* of the machine */
	uint64_t run_ns; /* time on a CPU */
	uint64_t wait_ns; /* time ready to run without a CPU */
	double runnable; /* threads that ran or were ready, on average */
	uint32_t pid; /* the process with the most threads */
	const char *name;
};
void findings_of_pool(struct findings *findings, const struct pool_fact *fact);
/* The name and the variable of such a library: `OpenBLAS`, `OPENBLAS_NUM_THREADS`. NULL: not known. */
const char *pool_name(const char *library);
/* A process whose first thread waited in one place (wait_place.h). */
struct wait_fact {
	const char *name;
	uint32_t pid;
	uint64_t waited_ns;
	const char *function, *line; /* equal: the stack has no line of the program itself */
};
void findings_of_wait(struct findings *findings, const struct wait_fact *fact,
		      uint64_t duration_ns);

/* A process whose first thread waited for data from its children (loader_wait.h). */
struct starved_fact {
	const char *name;
	uint32_t pid;
	uint64_t waited_ns, nr_waits; /* for the children */
	uint64_t run_ns; /* time of the first thread on a CPU */
	const uint32_t *children; /* pids */
	uint32_t nr_children;
	uint64_t child_asleep_ns; /* sum: the first threads of the children slept */
	uint64_t child_run_ns; /* sum: the first threads of the children ran */
	uint64_t child_awake_ns; /* sum: some thread of a child ran or was ready to run */
};
/* True: the children cannot keep up with a process that has work of its own. */
bool findings_of_starved(struct findings *findings, const struct starved_fact *fact,
			 uint64_t duration_ns);

/* Memory of a process over time. */
#define MEMORY_POINTS 16
struct memory_point {
	uint64_t ts_ns, bytes;
};
/* Points over the whole time: when it is full, every other point is dropped. All zero to begin. */
struct memory_series {
	struct memory_point points[MEMORY_POINTS];
	uint32_t nr;
	uint64_t every_ns; /* closer points are left out, except the last one */
	struct memory_point last;
};
void memory_series_add(struct memory_series *series, uint64_t ts_ns, uint64_t bytes);

struct memory_fact {
	const char *name;
	uint32_t pid;
	const struct memory_series *series;
	bool born; /* it started during the recording: every program grows at first */
	bool exited;
	uint64_t limit_left_bytes; /* up to the limit of its cgroup; UINT64_MAX: it has none */
	const char *holder; /* the function that holds most of the growth; NULL: not known */
	uint64_t holder_bytes;
};
void findings_of_memory(struct findings *findings, const struct memory_fact *fact);

/* A process that SIGKILL has ended. */
struct kill_fact {
	const char *name;
	uint32_t pid;
	double seconds; /* after the start of the recording */
	bool oom; /* the OOM killer chose it */
	const char *sender; /* the name of the sender; NULL: the kernel */
	uint32_t sender_pid;
	uint64_t held_bytes;
	bool limit_above; /* the limit is that of a cgroup above its own */
	uint64_t limit_bytes; /* 0: none */
	uint64_t
		used_bytes; /* by the cgroup then, with its other processes and files; 0: not known */
	const char *holder; /* the function that held the most; NULL: not known */
	uint64_t holder_bytes;
};
void findings_of_kill(struct findings *findings, const struct kill_fact *fact);

/* A cgroup with limits, and a process in it. */
struct limits_fact {
	const char *name;
	uint32_t pid;
	double cpus; /* the group may use at once, 0: no limit */
	uint64_t nr_periods, nr_throttled, throttled_ns; /* in the recording */
	uint64_t memory_bytes; /* without memory that the kernel can drop at once */
	uint64_t memory_max; /* 0: no limit */
};
void findings_of_limits(struct findings *findings, const struct limits_fact *fact);

#endif
