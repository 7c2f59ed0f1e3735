// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "findings/findings.h"
#include "tasks/task_times.h"

#define MS 1000000ULL
#define MIB (1ULL << 20)

static void expect(const struct findings *findings, enum finding_kind kind, const char *text)
{
	cr_assert_eq(findings->nr, 1, "%zu findings", findings->nr);
	cr_expect_eq(findings->list[0].kind, kind);
	cr_expect(strstr(findings->list[0].text, text), "%s", findings->list[0].text);
	cr_expect(!strncmp(findings->list[0].command, "bpfprof ", 8));
}

/* Breaks each number of a fact that makes a finding in turn: none may be left. */
#define EXPECT_NONE(function, fact, change, ...)                                                   \
	do {                                                                                       \
		struct findings none_ = { 0 };                                                     \
		__typeof__(fact) it = (fact);                                                      \
                                                                                                   \
		change;                                                                            \
		function(&none_, &it, ##__VA_ARGS__);                                              \
		cr_expect_eq(none_.nr, 0, "%s: %s", #change, none_.list[0].text);                  \
	} while (0)

Test(findings, short_tasks)
{
	struct task_time tiny = { .name = "tiny",
				  .nr = 2000,
				  .total_ns = 2400 * MS,
				  .median_ns = 1100000,
				  .longest_ns = 9 * MS,
				  .longest_pid = 7 };
	struct findings findings = { 0 };

	findings_of_task(&findings, &tiny, 4 * NS_PER_SECOND);
	expect(&findings, FINDING_SHORT_TASKS,
	       "2000 calls of tiny took 1.20 ms each (mean; median 1.10 ms), 500 of them per "
	       "second");
	cr_expect_str_eq(findings.list[0].command,
			 "bpfprof record -d 10 --worker tiny --by process");
	EXPECT_NONE(findings_of_task, tiny, it.total_ns = 2000 * 10 * MS, 30 * NS_PER_SECOND);
	EXPECT_NONE(findings_of_task, tiny, it.nr = 99; it.total_ns = 99 * MS, NS_PER_SECOND);
	EXPECT_NONE(findings_of_task, tiny, (void)it, 201 * NS_PER_SECOND); /* rare calls */
	EXPECT_NONE(findings_of_task, tiny, it.nr = 0, NS_PER_SECOND);
}

Test(findings, name_in_a_command)
{
	static const char *const names[] = { "x'; rm -rf ~'", "a b", "$(a)", "-p", "", "*" };
	struct findings findings;
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct task_time task = { .name = names[i],
					  .nr = 2000,
					  .total_ns = 2000 * MS,
					  .median_ns = MS,
					  .longest_ns = MS,
					  .longest_pid = 7 };

		findings = (struct findings){ 0 };
		findings_of_task(&findings, &task, NS_PER_SECOND);
		cr_assert_eq(findings.nr, 1);
		cr_expect_str_eq(findings.list[0].command, "bpfprof record -d 10 -p 7");
	}
}

Test(findings, long_task)
{
	/* Nine of 0.2 s, one of 4 s. */
	struct task_time task = { .name = "f",
				  .nr = 10,
				  .total_ns = 5800 * MS,
				  .median_ns = 200 * MS,
				  .longest_ns = 4000 * MS,
				  .longest_pid = 42 };
	struct findings findings = { 0 };

	findings_of_task(&findings, &task, 6 * NS_PER_SECOND);
	expect(&findings, FINDING_LONG_TASK,
	       "one of 10 calls of f took 4.0 s in pid 42, the median is 200 ms "
	       "(longest/median = 20, 69% of the time of all of them)");
	task.longest_runs = true;
	findings = (struct findings){ 0 };
	findings_of_task(&findings, &task, 6 * NS_PER_SECOND);
	expect(&findings, FINDING_LONG_TASK, "one of 10 calls of f has run for 4.0 s in pid 42");
	cr_expect_str_eq(findings.list[0].command, "bpfprof dump -p 42");
	EXPECT_NONE(findings_of_task, task, it.nr = 3, NS_PER_SECOND);
	EXPECT_NONE(findings_of_task, task, it.median_ns = 900 * MS, NS_PER_SECOND);
	EXPECT_NONE(findings_of_task, task, it.longest_ns = 400 * MS; it.median_ns = 20 * MS;
		    it.total_ns = 600 * MS, NS_PER_SECOND);
	/* The first call of very many does not weigh. */
	EXPECT_NONE(findings_of_task, task, it.nr = 500; it.total_ns = 104000 * MS, NS_PER_SECOND);
}

Test(findings, task_of_a_group)
{
	struct task_time task = { .name = "part-7",
				  .numbers = TASK_NUMBERS_APART,
				  .nr = 10,
				  .total_ns = 9600 * MS,
				  .median_ns = 600 * MS,
				  .longest_ns = 4200 * MS,
				  .longest_pid = 42 };
	struct findings findings = { 0 };

	findings_of_task(&findings, &task, 6 * NS_PER_SECOND);
	expect(&findings, FINDING_LONG_TASK,
	       "one of 10 calls of part-# took 4.2 s in pid 42, the median is 600 ms "
	       "(part-7, longest/median = 7, 44% of the time of all of them)");
	cr_expect_str_eq(findings.list[0].command,
			 "bpfprof record -d 10 --worker 'part-*' --by process");
	task.name = "part 7'";
	findings = (struct findings){ 0 };
	findings_of_task(&findings, &task, 6 * NS_PER_SECOND);
	cr_expect_str_eq(findings.list[0].command, "bpfprof record -d 10 -p 42");
	task.name = "part_7";
	task.numbers = TASK_NUMBERS_ALL;
	task.nr = 1000;
	task.total_ns = 1000 * MS;
	task.longest_ns = MS;
	findings = (struct findings){ 0 };
	findings_of_task(&findings, &task, NS_PER_SECOND);
	expect(&findings, FINDING_SHORT_TASKS, "1000 calls of part_# took 1.00 ms each");
}

Test(findings, busy_worker)
{
	struct workers_fact fact = { .name = "Shard",
				     .nr = 4,
				     .total_ns = 4000 * MS,
				     .most_ns = 3000 * MS,
				     .median_ns = 330 * MS,
				     .most_pid = 9,
				     .most_samples = 300 };
	struct findings findings = { 0 };

	findings_of_workers(&findings, &fact, 5 * NS_PER_SECOND);
	expect(&findings, FINDING_BUSY_WORKER,
	       "Shard pid 9 used 75% of the CPU time of 4 workers of this class (3.0 of 4.0 s; the "
	       "median of the others is 0.3 s)");
	EXPECT_NONE(findings_of_workers, fact, it.nr = 2, 5 * NS_PER_SECOND);
	EXPECT_NONE(findings_of_workers, fact, it.median_ns = 1001 * MS, 5 * NS_PER_SECOND);
	EXPECT_NONE(findings_of_workers, fact, it.total_ns = 6001 * MS, 5 * NS_PER_SECOND);
	EXPECT_NONE(findings_of_workers, fact, it.most_samples = 49, 5 * NS_PER_SECOND);
	/* No worker is busy. */
	EXPECT_NONE(findings_of_workers, fact, (void)it, 31 * NS_PER_SECOND);
	fact.ranks = true;
	fact.nr = 2;
	fact.most_name = "rank 1";
	findings = (struct findings){ 0 };
	findings_of_workers(&findings, &fact, 5 * NS_PER_SECOND);
	expect(&findings, FINDING_BUSY_WORKER, "rank 1 pid 9 used 75% of the CPU time of 2 ranks");
}

Test(findings, gil)
{
	struct gil_fact fact = { .name = "python",
				 .pid = 5,
				 .tid = 6,
				 .thread = "python",
				 .samples = 500,
				 .held = 498,
				 .watched_ns = 5000 * MS,
				 .on_cpu_ns = 4900 * MS,
				 .nr_waiting = 2,
				 .wakes = 380,
				 .waiting_run_ns = 60 * MS };
	struct findings findings = { 0 };

	findings_of_gil(&findings, &fact);
	expect(&findings, FINDING_GIL,
	       "python pid 5: thread 6 (python) held the GIL 98% of 5.0 s; 2 other threads that "
	       "wanted it woke 380 times per second and ran 60 ms");
	EXPECT_NONE(findings_of_gil, fact, it.nr_waiting = 0);
	EXPECT_NONE(findings_of_gil, fact, it.wakes = 49.8);
	EXPECT_NONE(findings_of_gil, fact, it.held = 450);
	EXPECT_NONE(findings_of_gil, fact, it.on_cpu_ns = 4500 * MS);
	EXPECT_NONE(findings_of_gil, fact, it.watched_ns = 900 * MS);
	EXPECT_NONE(findings_of_gil, fact, it.samples = it.held = 49);
}

Test(findings, pool)
{
	struct pool_fact fact = { .library = "libscipy_openblas64_.so",
				  .nr_processes = 1,
				  .nr_threads = 7,
				  .cpus = 2,
				  .logical = 2,
				  .cores = 1,
				  .run_ns = 3900 * MS,
				  .wait_ns = 17500 * MS,
				  .runnable = 7,
				  .pid = 3,
				  .name = "python" };
	struct findings findings = { 0 };

	findings_of_pool(&findings, &fact);
	expect(&findings, FINDING_THREADS,
	       "python pid 3: 7 threads of OpenBLAS (libscipy_openblas64_.so) beside the caller's, "
	       "share 2 CPUs (the machine has 2 on 1 cores): 7.0 of them want to run on average; "
	       "they ran 3.9 s and waited 17.5 s for a CPU, OPENBLAS_NUM_THREADS sets");
	EXPECT_NONE(findings_of_pool, fact, it.nr_threads = 1);
	EXPECT_NONE(findings_of_pool, fact, it.cpus = 8);
	EXPECT_NONE(findings_of_pool, fact, it.runnable = 1.9);
	EXPECT_NONE(findings_of_pool, fact, it.runnable = 2.02);
	EXPECT_NONE(findings_of_pool, fact, it.wait_ns = 1900 * MS);
	EXPECT_NONE(findings_of_pool, fact, it.run_ns = 99 * MS);
	fact.nr_processes = 2;
	fact.library = "libsomething.so";
	findings = (struct findings){ 0 };
	findings_of_pool(&findings, &fact);
	expect(&findings, FINDING_THREADS,
	       "7 threads of libsomething.so in 2 processes, most in python pid 3, share 2 CPUs");
	cr_expect(!strstr(findings.list[0].text, "NUM_THREADS"));
}

static struct memory_series series_of(const uint64_t *mib, size_t nr)
{
	struct memory_series series = { 0 };
	size_t i;

	for (i = 0; i < nr; i++)
		memory_series_add(&series, (100 + i) * NS_PER_SECOND / 2, mib[i] * MIB);
	return series;
}

Test(findings, memory)
{
	uint64_t leak[21], load[21], saw[21], still[21];
	struct memory_series series;
	struct findings findings = { 0 };
	struct memory_fact fact = {
		.name = "ray::Leak.run", .pid = 8, .series = &series, .limit_left_bytes = UINT64_MAX
	};
	size_t i;

	for (i = 0; i < 21; i++) {
		leak[i] = 100 + 10 * i;
		load[i] = i < 4 ? 100 + 200 * i : 700 + i; /* then it grows only a little */
		saw[i] = 100 + 100 * (i % 5);
		still[i] = 5000;
	}
	series = series_of(leak, 21);
	findings_of_memory(&findings, &fact);
	expect(&findings, FINDING_MEMORY_GROWS,
	       "ray::Leak.run pid 8: memory grew by 200 MiB in 10.0 s (20 MiB per second, to 300 "
	       "MiB)");
	cr_expect_str_eq(findings.list[0].command, "bpfprof memory -p 8 -d 60");
	fact.holder = "keep (leak.py:12)";
	fact.holder_bytes = 192 * MIB;
	findings = (struct findings){ 0 };
	findings_of_memory(&findings, &fact);
	expect(&findings, FINDING_MEMORY_GROWS,
	       "ray::Leak.run pid 8: memory grew by 200 MiB in 10.0 s, 96% of it in keep "
	       "(leak.py:12) (20 MiB per second, to 300 MiB)");
	cr_expect_str_eq(findings.list[0].command, "bpfprof dump -p 8 --locals");
	fact.holder = NULL;
	fact.limit_left_bytes = 400 * MIB;
	findings = (struct findings){ 0 };
	findings_of_memory(&findings, &fact);
	expect(&findings, FINDING_MEMORY_GROWS, "its limit is reached in 20 s");
	EXPECT_NONE(findings_of_memory, fact, it.born = true); /* 10 s */
	fact.exited = true;
	findings = (struct findings){ 0 };
	findings_of_memory(&findings, &fact);
	cr_expect_str_eq(findings.list[0].command, "bpfprof top");
	fact.exited = false;
	series = series_of(leak, 6); /* 2.5 s are too short */
	EXPECT_NONE(findings_of_memory, fact, (void)it);
	series = series_of(load, 21);
	EXPECT_NONE(findings_of_memory, fact, (void)it);
	series = series_of(saw, 20);
	EXPECT_NONE(findings_of_memory, fact, (void)it);
	for (i = 0; i < 21; i++) /* a leak below */
		saw[i] += leak[i];
	series = series_of(saw, 20);
	findings = (struct findings){ 0 };
	findings_of_memory(&findings, &fact);
	cr_expect_eq(findings.nr, 1);
	series = series_of(still, 21);
	EXPECT_NONE(findings_of_memory, fact, (void)it);
	series = (struct memory_series){ 0 };
	EXPECT_NONE(findings_of_memory, fact, (void)it);
}

/* The series covers the whole recording, however long it is, and is full enough for a judgement. */
Test(findings, memory_series)
{
	struct memory_series series = { 0 };
	uint64_t i;

	for (i = 0; i < 100000; i++) {
		memory_series_add(&series, 5 + i * NS_PER_SECOND, i);
		cr_assert_lt(series.nr, MEMORY_POINTS);
		cr_assert_eq(series.points[0].bytes, 0);
		cr_assert_eq(series.last.bytes, i);
		if (i > MEMORY_POINTS)
			cr_assert_geq(series.nr, MEMORY_POINTS / 2 - 1, "%u", series.nr);
	}
	for (i = 1; i < series.nr; i++)
		cr_expect_lt(series.points[i].ts_ns - series.points[i - 1].ts_ns,
			     30000 * NS_PER_SECOND);
}

Test(findings, limits)
{
	struct limits_fact cpu = { .name = "python",
				   .pid = 4,
				   .cpus = 0.5,
				   .nr_periods = 60,
				   .nr_throttled = 30,
				   .throttled_ns = 1500 * MS };
	struct limits_fact memory = {
		.name = "python", .pid = 4, .memory_bytes = 950 * MIB, .memory_max = 1000 * MIB
	};
	struct findings findings = { 0 };

	findings_of_limits(&findings, &cpu);
	expect(&findings, FINDING_CPU_LIMIT,
	       "the cgroup of python pid 4 was stopped by its CPU limit of 0.50 CPUs in 50% of the "
	       "periods (30 of 60), for 1.5 s in all");
	EXPECT_NONE(findings_of_limits, cpu, it.nr_throttled = 9);
	EXPECT_NONE(findings_of_limits, cpu, it.nr_periods = 301);
	EXPECT_NONE(findings_of_limits, cpu, it.throttled_ns = 99 * MS);
	EXPECT_NONE(findings_of_limits, cpu, it.cpus = 0);
	findings = (struct findings){ 0 };
	findings_of_limits(&findings, &memory);
	expect(&findings, FINDING_MEMORY_LIMIT,
	       "has 950 MiB of its memory limit of 1000 MiB in use (95%");
	EXPECT_NONE(findings_of_limits, memory, it.memory_bytes = 899 * MIB);
	EXPECT_NONE(findings_of_limits, memory, it.memory_max = 0);
}

/* Only a few findings of a kind are reported; the others are counted. */
Test(findings, bounded)
{
	struct limits_fact fact = { .name = "python", .memory_bytes = 1, .memory_max = 1 };
	struct findings findings = { 0 };
	int i;

	for (i = 0; i < 1000; i++)
		findings_of_limits(&findings, &fact);
	cr_expect_eq(findings.nr, FINDINGS_MAX_OF_KIND);
	cr_expect_eq(findings_left_out(&findings), 1000 - FINDINGS_MAX_OF_KIND);
}

Test(findings, long_names)
{
	char name[4096];
	struct pool_fact pool = { .library = name,
				  .nr_processes = 1,
				  .nr_threads = 9,
				  .cpus = 1,
				  .run_ns = NS_PER_SECOND,
				  .wait_ns = NS_PER_SECOND,
				  .runnable = 9,
				  .name = name };
	struct task_time task = {
		.name = name, .nr = 1000, .numbers = TASK_NUMBERS_ALL, .total_ns = 1000 * MS
	};
	struct findings findings = { 0 };

	memset(name, 'x', sizeof(name));
	name[sizeof(name) - 1] = 0;
	findings_of_pool(&findings, &pool);
	findings_of_task(&findings, &task, NS_PER_SECOND);
	cr_expect_eq(findings.nr, 2);
	cr_expect_lt(strlen(findings.list[1].text), FINDING_TEXT_MAX);
}

Test(findings, waits)
{
	struct wait_fact wait = { .name = "python3",
				  .pid = 7,
				  .waited_ns = 9800 * MS,
				  .function = "get (ray/_private/worker.py:9)",
				  .line = "main (job.py:3)" };
	struct findings findings = { 0 };

	findings_of_wait(&findings, &wait, 10 * NS_PER_SECOND);
	expect(&findings, FINDING_WAITS,
	       "the main thread of python3 (pid 7) waited 98% of 10.0 s in one place: get "
	       "(ray/_private/worker.py:9), called from main (job.py:3)");
	cr_expect_str_eq(findings.list[0].command, "bpfprof dump -p 7 --native");
	EXPECT_NONE(findings_of_wait, wait, it.waited_ns = 8990 * MS, 10 * NS_PER_SECOND);
	EXPECT_NONE(findings_of_wait, wait, it.waited_ns = 1900 * MS, 1900 * MS);
	EXPECT_NONE(findings_of_wait, wait, it.waited_ns = 0, 0);
}

Test(findings, starved)
{
	const uint32_t children[] = { 8, 9, 10, 11, 12 };
	struct starved_fact starved = { .name = "train.py",
					.pid = 7,
					.waited_ns = 7100 * MS,
					.nr_waits = 120,
					.run_ns = 2000 * MS,
					.children = children,
					.nr_children = 2,
					.child_asleep_ns = 600 * MS,
					.child_run_ns = 18000 * MS,
					.child_awake_ns = 19000 * MS };
	struct findings findings = { 0 };

	cr_expect(findings_of_starved(&findings, &starved, 10 * NS_PER_SECOND));
	expect(&findings, FINDING_STARVED,
	       "the main thread of train.py (pid 7) waited 71% of 10.0 s for its 2 child processes "
	       "(pid 8, 9), which slept 3% of that time and ran 18.0 s; it ran 2.0 s. The "
	       "children ended 120 of its waits: they are too slow for it");
	cr_expect_str_eq(findings.list[0].command, "bpfprof record -d 10 -p 8 -p 9");
	cr_expect_str_eq(finding_name(FINDING_STARVED), "starved");
	EXPECT_NONE(findings_of_starved, starved, it.waited_ns = 2900 * MS, 10 * NS_PER_SECOND);
	EXPECT_NONE(findings_of_starved, starved, it.nr_waits = 9, 10 * NS_PER_SECOND);
	EXPECT_NONE(findings_of_starved, starved, it.nr_children = 0, 10 * NS_PER_SECOND);
	EXPECT_NONE(findings_of_starved, starved, it.waited_ns = 1900 * MS, 1900 * MS);
	/*
	 * The process collects their results; or the children wait, too; or they have only just
	 * begun.
	 */
	EXPECT_NONE(findings_of_starved, starved, it.run_ns = 440 * MS, 10 * NS_PER_SECOND);
	EXPECT_NONE(findings_of_starved, starved, it.child_asleep_ns = 4100 * MS,
		    10 * NS_PER_SECOND);
	EXPECT_NONE(findings_of_starved, starved, it.child_awake_ns = 9900 * MS,
		    10 * NS_PER_SECOND);
	findings = (struct findings){ 0 };
	starved.nr_children = 5;
	starved.child_run_ns = starved.child_awake_ns = 45000 * MS;
	findings_of_starved(&findings, &starved, 10 * NS_PER_SECOND);
	cr_assert_eq(findings.nr, 1);
	cr_expect(strstr(findings.list[0].text, "(pid 8, 9, 10, 11, ...)"));
	cr_expect_str_eq(findings.list[0].command, "bpfprof record -d 10 -p 8 -p 9 -p 10 -p 11");
}
