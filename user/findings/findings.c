// SPDX-License-Identifier: Apache-2.0
#include "findings/findings.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/log.h"
#include "base/text.h"
#include "base/time.h"
#include "proc/title.h"
#include "tasks/task_group.h"
#include "tasks/task_times.h"

#define MS 1000000ULL
#define MIB (1ULL << 20)

/*
 * Ray needs about a millisecond of the driver's and the raylet's time to start a call. Rare calls
 * do no harm, however short they are.
 */
#define SHORT_TASK_NS (10 * MS)
#define SHORT_TASKS_MIN 100
#define SHORT_TASKS_PER_SECOND 10

/* The first call often warms something up and is longer than the others: it must weigh, too. */
#define LONG_TASK_RATIO 5
#define LONG_TASK_NS (500 * MS)
#define LONG_TASK_SHARE 0.2
#define LONG_TASK_MIN 4

#define BUSY_WORKER_RATIO 3
#define BUSY_WORKER_SHARE 0.5
#define BUSY_WORKER_LOAD 0.1 /* in CPUs, on average over the recording */
#define BUSY_WORKER_SAMPLES 50

/* A thread that wants the GIL wakes every 5 ms to ask again. */
#define GIL_SHARE 0.9
#define GIL_SAMPLES 50
#define GIL_WAKES_PER_SECOND 50
#define GIL_WATCHED_NS NS_PER_SECOND

#define POOL_WAIT_SHARE 0.5 /* relative to the time that its threads ran */
#define POOL_RUN_NS (100 * MS)
#define POOL_RUNNABLE 1.05 /* in CPUs: a full machine may measure a little more than its CPUs */

#define GROWTH_BYTES (64 * MIB)
#define GROWTH_PER_SECOND MIB
#define GROWTH_NS (3 * NS_PER_SECOND)
#define GROWTH_BORN_NS (15 * NS_PER_SECOND)
/* The time is divided into these parts; memory must grow from each to the next. */
#define GROWTH_PARTS 3
#define GROWTH_PART_SHARE 0.15

#define KILL_BYTES (16 * MIB) /* unless the OOM killer chose the process */

#define THROTTLED_PERIODS_MIN 10
#define THROTTLED_SHARE 0.1
#define THROTTLED_NS (100 * MS)

#define MEMORY_SHARE 0.9

#define WAIT_SHARE 0.9 /* share of the recording */
#define WAIT_DURATION_NS (2 * NS_PER_SECOND)

/*
 * A process that only collects results of others is not starved: a starved one has work of its own, even
 * if little. A single long wait for a result does not count.
 */
#define STARVED_SHARE 0.3 /* share of the recording */
#define STARVED_WAITS 10
#define STARVED_WORK 0.05 /* its run time relative to that of one child */
#define STARVED_CHILD_ASLEEP 0.2 /* at most this share of the recording, on average */
#define STARVED_CHILD_AWAKE 0.5 /* at least this share: the children run, or want to run */
#define STARVED_SHOWN 4 /* children that are shown by pid */

static double seconds(uint64_t ns)
{
	return (double)ns / 1e9;
}

static double ratio(uint64_t part, uint64_t whole)
{
	return whole ? (double)part / (double)whole : 0;
}

const char *finding_name(enum finding_kind kind)
{
	static const char *const names[FINDING_NR_KINDS] = {
		[FINDING_SHORT_TASKS] = "short_tasks",
		[FINDING_LONG_TASK] = "long_task",
		[FINDING_BUSY_WORKER] = "busy_worker",
		[FINDING_GIL] = "gil",
		[FINDING_THREADS] = "threads",
		[FINDING_MEMORY_GROWS] = "memory_grows",
		[FINDING_KILLED] = "killed",
		[FINDING_CPU_LIMIT] = "cpu_limit",
		[FINDING_MEMORY_LIMIT] = "memory_limit",
		[FINDING_WAITS] = "waits",
		[FINDING_STARVED] = "starved",
	};

	return kind > FINDING_INVALID && kind < FINDING_NR_KINDS ? names[kind] : "";
}

size_t findings_left_out(const struct findings *findings)
{
	size_t all = 0, i;

	for (i = 0; i < FINDING_NR_KINDS; i++)
		all += findings->nr_of_kind[i];
	return all - findings->nr;
}

/* Adds a finding. NULL: there are enough of this kind. */
static struct finding *add(struct findings *findings, enum finding_kind kind)
{
	struct finding *finding;

	if (findings->nr_of_kind[kind]++ >= FINDINGS_MAX_OF_KIND)
		return NULL;
	finding = &findings->list[findings->nr++];
	finding->kind = kind;
	return finding;
}

void findings_replace(struct findings *findings, enum finding_kind kind, const struct findings *by)
{
	struct finding *finding;
	size_t nr = 0, i;

	for (i = 0; i < findings->nr; i++)
		if (findings->list[i].kind != kind)
			findings->list[nr++] = findings->list[i];
	findings->nr = nr;
	findings->nr_of_kind[kind] = 0;
	for (i = 0; i < by->nr; i++) {
		finding = add(findings, by->list[i].kind);
		if (finding)
			*finding = by->list[i];
	}
}

void findings_json(struct buf *json, const struct findings *findings)
{
	const struct finding *finding;
	size_t i;

	if (buf_error(json) || !json->len)
		return;
	json->len--; /* the brace */
	buf_add_str(json, ",\"findings\":[");
	for (i = 0; i < findings->nr; i++) {
		finding = &findings->list[i];
		buf_printf(json, "%s{\"kind\":\"%s\",\"text\":", i ? "," : "",
			   finding_name(finding->kind));
		text_add_json(json, finding->text);
		buf_add_str(json, ",\"command\":");
		text_add_json(json, finding->command);
		buf_add_char(json, '}');
	}
	buf_add_str(json, "]}");
}

void findings_report(const struct findings *findings)
{
	size_t left = findings_left_out(findings), i;

	for (i = 0; i < findings->nr; i++)
		log_info("finding: %s; next: %s", findings->list[i].text,
			 findings->list[i].command);
	if (left)
		log_info("finding: and %zu more like these", left);
}

static void __attribute__((format(printf, 2, 3)))
set_text(struct finding *finding, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(finding->text, sizeof(finding->text), fmt, ap);
	va_end(ap);
}

static void __attribute__((format(printf, 2, 3)))
set_command(struct finding *finding, const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	vsnprintf(finding->command, sizeof(finding->command), fmt, ap);
	va_end(ap);
}

/* Can the name stand in a command line, and does it match only itself as a pattern? */
static bool is_plain(const char *name)
{
	return *name && *name != '-' && strlen(name) < FINDING_COMMAND_MAX / 2 &&
	       !name[strspn(name, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				  "0123456789_.-")];
}

/* A duration for people: two or three significant digits. */
struct span_text {
	char text[24];
};

static struct span_text span(uint64_t ns)
{
	struct span_text span;
	double ms = (double)ns / 1e6;

	if (ns < 10 * MS)
		snprintf(span.text, sizeof(span.text), "%.2f ms", ms);
	else if (ns < NS_PER_SECOND)
		snprintf(span.text, sizeof(span.text), "%.0f ms", ms);
	else
		snprintf(span.text, sizeof(span.text), "%.1f s", ms / 1000);
	return span;
}

static struct span_text size(uint64_t bytes)
{
	struct span_text size;
	double mib = (double)bytes / (double)MIB;

	if (mib < 10)
		snprintf(size.text, sizeof(size.text), "%.1f MiB", mib);
	else if (mib < 1024)
		snprintf(size.text, sizeof(size.text), "%.0f MiB", mib);
	else
		snprintf(size.text, sizeof(size.text), "%.1f GiB", mib / 1024);
	return size;
}

/* The next command for the calls of a task; for a group it matches any numbers. */
static void set_task_command(struct finding *finding, const struct task_time *task)
{
	char pattern[FINDING_COMMAND_MAX / 2], *number = pattern;

	if (!is_plain(task->name)) {
		set_command(finding, "bpfprof record -d 10 -p %u", task->longest_pid);
		return;
	}
	task_group_text(pattern, sizeof(pattern), task->name, task->numbers);
	while ((number = strchr(number, '#')))
		*number = '*';
	if (task->numbers == TASK_NUMBERS_NONE)
		set_command(finding, "bpfprof record -d 10 --worker %s --by process", pattern);
	else
		set_command(finding, "bpfprof record -d 10 --worker '%s' --by process", pattern);
}

static void short_tasks(struct findings *findings, const struct task_time *task,
			uint64_t duration_ns)
{
	double per_second = duration_ns ? (double)task->nr / seconds(duration_ns) : 0;
	uint64_t mean_ns = task->total_ns / task->nr;
	char name[TITLE_MAX + 1];
	struct finding *finding;

	if (task->nr < SHORT_TASKS_MIN || mean_ns >= SHORT_TASK_NS ||
	    per_second < SHORT_TASKS_PER_SECOND)
		return;
	finding = add(findings, FINDING_SHORT_TASKS);
	if (!finding)
		return;
	task_group_text(name, sizeof(name), task->name, task->numbers);
	set_text(finding,
		 "%" PRIu64 " calls of %s took %s each (mean; median %s), %.0f of them per second: "
		 "Ray needs about 1 ms to hand out each, so do more in one call",
		 task->nr, name, span(mean_ns).text, span(task->median_ns).text, per_second);
	set_task_command(finding, task);
}

static void long_task(struct findings *findings, const struct task_time *task)
{
	bool group = task->numbers != TASK_NUMBERS_NONE;
	char name[TITLE_MAX + 1];
	struct finding *finding;

	if (task->nr < LONG_TASK_MIN || task->longest_ns < LONG_TASK_NS || !task->median_ns ||
	    task->longest_ns < LONG_TASK_RATIO * task->median_ns ||
	    ratio(task->longest_ns, task->total_ns) < LONG_TASK_SHARE)
		return;
	finding = add(findings, FINDING_LONG_TASK);
	if (!finding)
		return;
	task_group_text(name, sizeof(name), task->name, task->numbers);
	set_text(finding,
		 "one of %" PRIu64 " calls of %s %s %s in pid %u, the median is %s "
		 "(%s%slongest/median = %.0f, %.0f%% of the time of all of them)",
		 task->nr, name, task->longest_runs ? "has run for" : "took",
		 span(task->longest_ns).text, task->longest_pid, span(task->median_ns).text,
		 group ? task->name : "", group ? ", " : "",
		 ratio(task->longest_ns, task->median_ns),
		 100 * ratio(task->longest_ns, task->total_ns));
	if (task->longest_runs && task->longest_pid)
		set_command(finding, "bpfprof dump -p %u", task->longest_pid);
	else
		set_task_command(finding, task);
}

void findings_of_task(struct findings *findings, const struct task_time *task, uint64_t duration_ns)
{
	if (!task->nr)
		return;
	short_tasks(findings, task, duration_ns);
	long_task(findings, task);
}

void findings_of_workers(struct findings *findings, const struct workers_fact *fact,
			 uint64_t duration_ns)
{
	struct finding *finding;

	if (fact->nr < (fact->ranks ? 2 : 3) || fact->most_samples < BUSY_WORKER_SAMPLES ||
	    ratio(fact->most_ns, fact->total_ns) < BUSY_WORKER_SHARE ||
	    fact->most_ns < BUSY_WORKER_RATIO * fact->median_ns ||
	    ratio(fact->most_ns, duration_ns) < BUSY_WORKER_LOAD)
		return;
	finding = add(findings, FINDING_BUSY_WORKER);
	if (!finding)
		return;
	set_text(
		finding,
		"%s pid %u used %.0f%% of the CPU time of %u %s (%.1f of %.1f s; the median of the "
		"others is %.1f s)",
		fact->most_name ? fact->most_name : fact->name, fact->most_pid,
		100 * ratio(fact->most_ns, fact->total_ns), fact->nr,
		fact->ranks ? "ranks" : "workers of this class", seconds(fact->most_ns),
		seconds(fact->total_ns), seconds(fact->median_ns));
	if (fact->ranks)
		set_command(finding, "bpfprof record -d 10 --by rank");
	else if (is_plain(fact->name))
		set_command(finding, "bpfprof record -d 10 --worker '%s.*' --by process",
			    fact->name);
	else
		set_command(finding, "bpfprof record -d 10 -p %u", fact->most_pid);
}

void findings_of_gil(struct findings *findings, const struct gil_fact *fact)
{
	double share = ratio(fact->held, fact->samples) * ratio(fact->on_cpu_ns, fact->watched_ns);
	struct finding *finding;

	if (fact->samples < GIL_SAMPLES || fact->watched_ns < GIL_WATCHED_NS || share < GIL_SHARE ||
	    !fact->nr_waiting || fact->wakes < GIL_WAKES_PER_SECOND)
		return;
	finding = add(findings, FINDING_GIL);
	if (!finding)
		return;
	set_text(finding,
		 "%s pid %u: thread %u (%s) held the GIL %.0f%% of %.1f s; %u other thread%s that "
		 "wanted it woke %.0f times per second and ran %.0f ms",
		 fact->name, fact->pid, fact->tid, fact->thread, 100 * (share < 1 ? share : 1),
		 seconds(fact->watched_ns), fact->nr_waiting, fact->nr_waiting == 1 ? "" : "s",
		 fact->wakes, (double)fact->waiting_run_ns / 1e6);
	set_command(finding, "bpfprof record -d 10 -p %u --gil --threads", fact->pid);
}

static const struct pool {
	const char *start; /* begin of the file's base name */
	const char *name, *setting;
} pools[] = {
	{ "libopenblas", "OpenBLAS", "OPENBLAS_NUM_THREADS" },
	{ "libscipy_openblas", "OpenBLAS", "OPENBLAS_NUM_THREADS" },
	{ "libmkl", "MKL", "MKL_NUM_THREADS" },
	{ "libgomp", "OpenMP", "OMP_NUM_THREADS" },
	{ "libiomp5", "OpenMP", "OMP_NUM_THREADS" },
	{ "libomp", "OpenMP", "OMP_NUM_THREADS" },
	{ "libtorch", "torch", "torch.set_num_threads()" },
	{ "libc10", "torch", "torch.set_num_threads()" },
	{ "libarrow", "Arrow", "OMP_NUM_THREADS" },
	{ "libblis", "BLIS", "BLIS_NUM_THREADS" },
};

static const struct pool *pool_find(const char *library)
{
	size_t i;

	for (i = 0; i < sizeof(pools) / sizeof(pools[0]); i++)
		if (!strncmp(library, pools[i].start, strlen(pools[i].start)))
			return &pools[i];
	return NULL;
}

const char *pool_name(const char *library)
{
	const struct pool *pool = pool_find(library);

	return pool ? pool->name : NULL;
}

static const char *pool_setting(const char *library)
{
	const struct pool *pool = pool_find(library);

	return pool ? pool->setting : NULL;
}

void findings_of_pool(struct findings *findings, const struct pool_fact *fact)
{
	const char *name = pool_name(fact->library), *setting = pool_setting(fact->library);
	char of[96], cores[64] = "", remedy[64] = "", who[288];
	struct finding *finding;

	/* The thread that calls the library works, too. */
	if (fact->nr_threads + fact->nr_processes <= fact->cpus || fact->run_ns < POOL_RUN_NS ||
	    fact->runnable < POOL_RUNNABLE * fact->cpus ||
	    ratio(fact->wait_ns, fact->run_ns) < POOL_WAIT_SHARE)
		return;
	finding = add(findings, FINDING_THREADS);
	if (!finding)
		return;
	if (name)
		snprintf(of, sizeof(of), "%s (%.60s)", name, fact->library);
	else
		snprintf(of, sizeof(of), "%.60s", fact->library);
	if (fact->cores && fact->cores < fact->logical)
		snprintf(cores, sizeof(cores), " (the machine has %u on %u cores)", fact->logical,
			 fact->cores);
	if (setting)
		snprintf(remedy, sizeof(remedy), ", %s sets how many there are", setting);
	if (fact->nr_processes > 1)
		snprintf(who, sizeof(who),
			 "%u threads of %s in %u processes, most in %.127s pid %u",
			 fact->nr_threads, of, fact->nr_processes, fact->name, fact->pid);
	else
		snprintf(who, sizeof(who), "%.127s pid %u: %u threads of %s beside the caller's",
			 fact->name, fact->pid, fact->nr_threads, of);
	set_text(finding,
		 "%s, share %u CPU%s%s: %.1f of them want to run on average; they ran %.1f s and "
		 "waited %.1f s for a CPU%s",
		 who, fact->cpus, fact->cpus == 1 ? "" : "s", cores, fact->runnable,
		 seconds(fact->run_ns), seconds(fact->wait_ns), remedy);
	set_command(finding, "bpfprof record -d 10 -p %u --threads", fact->pid);
}

static void series_thin(struct memory_series *series)
{
	uint32_t i;

	for (i = 0; 2 * i < series->nr; i++)
		series->points[i] = series->points[2 * i];
	series->nr = i;
}

void memory_series_add(struct memory_series *series, uint64_t ts_ns, uint64_t bytes)
{
	struct memory_point point = { .ts_ns = ts_ns, .bytes = bytes };

	series->last = point;
	if (series->nr && ts_ns < series->points[series->nr - 1].ts_ns + series->every_ns)
		return;
	series->points[series->nr++] = point;
	if (series->nr < MEMORY_POINTS)
		return;
	series->every_ns = (ts_ns - series->points[0].ts_ns) / (MEMORY_POINTS / 2);
	series_thin(series);
}

/* The least memory in the nth part of the time. */
static uint64_t least_in(const struct memory_series *series, uint32_t n)
{
	uint64_t begin = series->points[0].ts_ns, ns = series->last.ts_ns - begin, at;
	uint64_t least = UINT64_MAX;
	uint32_t i;

	for (i = 0; i < series->nr; i++) {
		at = series->points[i].ts_ns - begin;
		if (at >= ns * n / GROWTH_PARTS && at <= ns * (n + 1) / GROWTH_PARTS &&
		    series->points[i].bytes < least)
			least = series->points[i].bytes;
	}
	return least;
}

/*
 * Growth at the beginning only, as when a program loads something, does not count; up and down does
 * not count either. The least memory in use must grow from part to part.
 */
static bool grows_always(const struct memory_series *series)
{
	double growth = (double)(series->last.bytes - series->points[0].bytes);
	uint64_t before = least_in(series, 0), least;
	uint32_t i;

	for (i = 1; i < GROWTH_PARTS; i++) {
		least = least_in(series, i);
		if (least == UINT64_MAX || least <= before ||
		    (double)(least - before) < GROWTH_PART_SHARE * growth)
			return false;
		before = least;
	}
	return true;
}

void findings_of_memory(struct findings *findings, const struct memory_fact *fact)
{
	const struct memory_series *series = fact->series;
	uint64_t growth, ns;
	struct finding *finding;
	char limit[96] = "", holder[FINDING_HOLDER_MAX] = "";
	double per_second;

	if (series->nr < GROWTH_PARTS || series->last.bytes <= series->points[0].bytes)
		return;
	growth = series->last.bytes - series->points[0].bytes;
	ns = series->last.ts_ns - series->points[0].ts_ns;
	if (ns < (fact->born ? GROWTH_BORN_NS : GROWTH_NS) || growth < GROWTH_BYTES)
		return;
	per_second = (double)growth / seconds(ns);
	if (per_second < GROWTH_PER_SECOND || !grows_always(series))
		return;
	finding = add(findings, FINDING_MEMORY_GROWS);
	if (!finding)
		return;
	if (fact->limit_left_bytes != UINT64_MAX)
		snprintf(limit, sizeof(limit), "; at this rate its limit is reached in %.0f s",
			 (double)fact->limit_left_bytes / per_second);
	if (fact->holder)
		snprintf(holder, sizeof(holder), ", %.0f%% of it in %s",
			 100 * fmin(1, ratio(fact->holder_bytes, growth)), fact->holder);
	set_text(finding, "%s pid %u: memory grew by %s in %.1f s%s (%s per second, to %s)%s%s",
		 fact->name, fact->pid, size(growth).text, seconds(ns), holder,
		 size((uint64_t)per_second).text, size(series->last.bytes).text, limit,
		 fact->exited ? "; it has exited since" : "");
	if (fact->exited)
		set_command(finding, "bpfprof top");
	else if (fact->holder)
		set_command(finding, "bpfprof dump -p %u --locals", fact->pid);
	else
		set_command(finding, "bpfprof memory -p %u -d 60", fact->pid);
}

void findings_of_kill(struct findings *findings, const struct kill_fact *fact)
{
	bool is_large = fact->oom || fact->held_bytes >= KILL_BYTES;
	struct finding *finding = is_large ? add(findings, FINDING_KILLED) : NULL;
	char by[64] = "by the kernel", limit[96] = "", holder[FINDING_HOLDER_MAX] = "";

	if (!finding)
		return;
	if (fact->oom)
		snprintf(by, sizeof(by), "by the OOM killer");
	else if (fact->sender)
		snprintf(by, sizeof(by), "by %s (pid %u)", fact->sender, fact->sender_pid);
	if (fact->limit_bytes && fact->used_bytes)
		snprintf(limit, sizeof(limit), "; %s used %s of its limit of %s",
			 fact->limit_above ? "a cgroup above its own" : "its cgroup",
			 size(fact->used_bytes).text, size(fact->limit_bytes).text);
	else if (fact->limit_bytes)
		snprintf(limit, sizeof(limit), "; the limit of its cgroup is %s",
			 size(fact->limit_bytes).text);
	if (fact->holder)
		snprintf(holder, sizeof(holder), ", %.0f%% of it in %s",
			 100 * fmin(1, ratio(fact->holder_bytes, fact->held_bytes)), fact->holder);
	set_text(finding, "%s pid %u was killed %s after %.1f s: it held %s%s%s", fact->name,
		 fact->pid, by, fact->seconds, size(fact->held_bytes).text, holder, limit);
	set_command(finding, "bpfprof top");
}

static void cpu_limit(struct findings *findings, const struct limits_fact *fact)
{
	struct finding *finding;

	if (fact->cpus <= 0 || fact->nr_throttled < THROTTLED_PERIODS_MIN ||
	    ratio(fact->nr_throttled, fact->nr_periods) < THROTTLED_SHARE ||
	    fact->throttled_ns < THROTTLED_NS)
		return;
	finding = add(findings, FINDING_CPU_LIMIT);
	if (!finding)
		return;
	set_text(finding,
		 "the cgroup of %s pid %u was stopped by its CPU limit of %.2f CPUs in %.0f%% of "
		 "the periods (%" PRIu64 " of %" PRIu64 "), for %.1f s in all",
		 fact->name, fact->pid, fact->cpus,
		 100 * ratio(fact->nr_throttled, fact->nr_periods), fact->nr_throttled,
		 fact->nr_periods, seconds(fact->throttled_ns));
	set_command(finding, "bpfprof record -d 10 -p %u --threads", fact->pid);
}

void findings_of_limits(struct findings *findings, const struct limits_fact *fact)
{
	struct finding *finding;

	cpu_limit(findings, fact);
	if (!fact->memory_max || ratio(fact->memory_bytes, fact->memory_max) < MEMORY_SHARE)
		return;
	finding = add(findings, FINDING_MEMORY_LIMIT);
	if (!finding)
		return;
	set_text(finding,
		 "the cgroup of %s pid %u has %s of its memory limit of %s in use (%.0f%%, without "
		 "files that can be dropped): the kernel ends what needs more",
		 fact->name, fact->pid, size(fact->memory_bytes).text, size(fact->memory_max).text,
		 100 * ratio(fact->memory_bytes, fact->memory_max));
	set_command(finding, "bpfprof top -p %u", fact->pid);
}

void findings_of_wait(struct findings *findings, const struct wait_fact *fact, uint64_t duration_ns)
{
	double share = ratio(fact->waited_ns, duration_ns);
	bool own = strcmp(fact->function, fact->line);
	struct finding *finding;

	if (duration_ns < WAIT_DURATION_NS || share < WAIT_SHARE)
		return;
	finding = add(findings, FINDING_WAITS);
	if (!finding)
		return;
	set_text(finding,
		 "the main thread of %.48s (pid %u) waited %.0f%% of %.1f s in one place: "
		 "%.100s%s%.100s",
		 fact->name, fact->pid, 100 * share, seconds(duration_ns), fact->function,
		 own ? ", called from " : "", own ? fact->line : "");
	set_command(finding, "bpfprof dump -p %u --native", fact->pid);
}

bool findings_of_starved(struct findings *findings, const struct starved_fact *fact,
			 uint64_t duration_ns)
{
	uint32_t nr = fact->nr_children, i;
	uint64_t whole_ns = nr * duration_ns;
	char pids[96] = "", flags[96] = "";
	struct finding *finding;
	int at = 0, to = 0;

	if (!nr || duration_ns < WAIT_DURATION_NS || fact->nr_waits < STARVED_WAITS ||
	    ratio(fact->waited_ns, duration_ns) < STARVED_SHARE ||
	    ratio(fact->run_ns * nr, fact->child_run_ns) < STARVED_WORK ||
	    ratio(fact->child_asleep_ns, whole_ns) > STARVED_CHILD_ASLEEP ||
	    ratio(fact->child_awake_ns, whole_ns) < STARVED_CHILD_AWAKE)
		return false;
	finding = add(findings, FINDING_STARVED);
	if (!finding)
		return true;
	for (i = 0; i < nr && i < STARVED_SHOWN; i++) {
		at += snprintf(pids + at, sizeof(pids) - (size_t)at, "%s%u", i ? ", " : "",
			       fact->children[i]);
		to += snprintf(flags + to, sizeof(flags) - (size_t)to, " -p %u", fact->children[i]);
	}
	set_text(finding,
		 "the main thread of %.64s (pid %u) waited %.0f%% of %.1f s for its %u child "
		 "process%s (pid %s%s), which slept %.0f%% of that time and ran %.1f s; it ran "
		 "%.1f s. The children ended %" PRIu64 " of its waits: they are too slow for it",
		 fact->name, fact->pid, 100 * ratio(fact->waited_ns, duration_ns),
		 seconds(duration_ns), nr, nr == 1 ? "" : "es", pids,
		 nr > STARVED_SHOWN ? ", ..." : "", 100 * ratio(fact->child_asleep_ns, whole_ns),
		 seconds(fact->child_run_ns), seconds(fact->run_ns), fact->nr_waits);
	set_command(finding, "bpfprof record -d 10%s", flags);
	return true;
}
