// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include "aggregate_made.h"
#include "base/buf.h"
#include "base/time.h"
#include "container/containers.h"
#include "made_profile.h"
#include "profile/aggregate.h"
#include "watch/death_counts.h"
#include "watch/watched.h"

TestSuite(deaths_table, .timeout = 60);

#define START 7
#define DEEP 1536

static struct watched_table table;

static struct watched *find(uint32_t pid)
{
	return watched_find(&table, pid, START);
}

static struct watched *add(uint32_t pid)
{
	struct watched *w = watched_get(&table, pid, START);

	cr_assert_not_null(w);
	return w;
}

static struct watched *add_wanted(uint32_t pid)
{
	struct watched *w = watched_want(&table, add(pid));

	watched_facts(&table, w)->asked.signal = pid;
	return w;
}

/* A full table of living processes with signals of others: a new one takes the place of the oldest signal. */
Test(deaths_table, living)
{
	uint32_t pid;

	watched_init(&table);
	for (pid = 1; pid <= WATCHED_MAX; pid++)
		add_wanted(pid);
	cr_expect_eq(table.nr_full, 0);
	watched_facts(&table, find(1));
	add_wanted(WATCHED_MAX + 1);
	cr_expect_eq(table.nr_full, 1);
	cr_expect_eq(table.kept.nr + table.spare.nr, WATCHED_MAX);
	cr_expect_null(find(2));
	cr_assert_not_null(find(1));
	cr_expect_eq(find(1)->facts->asked.signal, 1);
	cr_assert_not_null(find(WATCHED_MAX + 1));
	cr_expect_eq(find(WATCHED_MAX + 1)->facts->asked.signal, WATCHED_MAX + 1);
	watched_fini(&table);
}

/* Processes that are not wanted, and those that are gone, make room before wanted ones that live. */
Test(deaths_table, who_makes_room)
{
	struct watched *w;
	uint32_t pid;

	watched_init(&table);
	for (pid = 1; pid < WATCHED_MAX; pid++)
		add_wanted(pid);
	w = add(WATCHED_MAX);
	snprintf(w->program, sizeof(w->program), "sh");
	watched_facts(&table, w);
	add(WATCHED_MAX + 1);
	cr_expect_null(find(WATCHED_MAX));
	w = watched_end(&table, find(5));
	cr_expect(w->found_ended && w->wanted && w->facts->asked.signal == 5);
	cr_expect_eq(find(5), w);
	add_wanted(WATCHED_MAX + 2);
	cr_expect_null(find(WATCHED_MAX + 1));
	cr_expect_not_null(find(5));
	add_wanted(WATCHED_MAX + 3);
	cr_expect_null(find(5));
	cr_expect_not_null(find(1));
	cr_expect_eq(table.nr_full, 3);
	w = find(1);
	cr_expect_eq(watched_end(&table, w), watched_want(&table, find(1)));
	watched_remove(&table, find(1));
	cr_expect_null(find(1));
	add(1);
	cr_expect_eq(table.nr_full, 3);
	watched_fini(&table);
}

/* The entry keeps its names when it moves. */
Test(deaths_table, names)
{
	struct watched *w;

	watched_init(&table);
	w = add(1);
	snprintf(w->program, sizeof(w->program), "python3");
	snprintf(w->script, sizeof(w->script), "train.py");
	w = watched_want(&table, w);
	cr_expect_eq(find(1), w);
	cr_expect_str_eq(w->program, "python3");
	cr_expect_str_eq(w->script, "train.py");
	cr_expect_null(watched_find(&table, 1, START + 1));
	watched_fini(&table);
}

static uint64_t frames[DEEP];

static void stack_keep(uint32_t pid, enum death_stack_kind kind)
{
	struct bpfprof_sample sample = { .task.pid = pid };
	const struct aggregate_input input = { .sample = &sample, .user = frames, .nr_user = DEEP };

	for (size_t i = 0; i < DEEP; i++)
		frames[i] = pid + i;
	watched_stack_keep(&table, add(pid), kind, &input);
}

static const struct watched_stack *stack_of(uint32_t pid, enum death_stack_kind kind)
{
	return watched_stack(&table, find(pid), kind);
}

/* Stacks of living processes give their room to those of dying ones. */
Test(deaths_table, stacks)
{
	uint32_t nr = 1, first;

	watched_init(&table);
	while (!table.nr_stacks_full)
		stack_keep(nr++, DEATH_STACK_FIRST);
	cr_expect_gt(nr, 150);
	cr_expect_null(stack_of(1, DEATH_STACK_FIRST));
	stack_keep(nr, DEATH_STACK_LAST);
	cr_assert_not_null(stack_of(nr, DEATH_STACK_LAST));
	cr_expect_null(stack_of(2, DEATH_STACK_FIRST));
	cr_assert_not_null(stack_of(3, DEATH_STACK_FIRST));
	cr_expect_eq(stack_of(3, DEATH_STACK_FIRST)->frames[DEEP - 1], 3 + DEEP - 1);
	for (first = nr; nr < first + 200; nr++)
		stack_keep(nr, DEATH_STACK_LAST);
	cr_expect_null(stack_of(first - 1, DEATH_STACK_FIRST));
	cr_expect_null(stack_of(first, DEATH_STACK_LAST));
	cr_expect_not_null(stack_of(nr - 1, DEATH_STACK_LAST));
	stack_keep(nr, DEATH_STACK_FIRST);
	cr_expect_null(stack_of(nr, DEATH_STACK_FIRST));
	cr_expect_leq(table.stack_bytes, WATCHED_STACK_BYTES);
	stack_keep(nr - 1, DEATH_STACK_LAST); /* in its own place */
	cr_expect_not_null(stack_of(nr - 1, DEATH_STACK_LAST));
	watched_forget_stacks(&table, find(nr - 1));
	cr_expect_null(stack_of(nr - 1, DEATH_STACK_LAST));
	watched_fini(&table);
	cr_expect_eq(table.stack_bytes, 0);
}

static struct death killed_by(const char *comm, uint32_t signal)
{
	struct death death = { .kind = DEATH_KILLED, .status = signal };

	snprintf(death.by.comm, sizeof(death.by.comm), "%s", comm);
	return death;
}

static uint64_t count_of(const struct death_counts *counts, const char *reason, const char *by)
{
	uint64_t nr = 0;

	for (size_t i = 0; i < counts->nr; i++)
		if (!strcmp(counts->rows[i].reason, reason) && !strcmp(counts->rows[i].by, by)) {
			cr_expect_eq(nr, 0, "%s %s twice", reason, by);
			nr = counts->rows[i].nr;
		}
	return nr;
}

static const struct pod_count *pod_of(const struct death_counts *counts, const char *name)
{
	for (size_t i = 0; i < counts->pods.nr; i++)
		if (!strcmp(counts->pods.rows[i].pod, name))
			return &counts->pods.rows[i];
	return NULL;
}

/* A death of a process in this pod; "": in a container without a pod. */
static void die_in(struct death_counts *counts, const char *namespace, const char *pod)
{
	struct bpfprof_sample sample = aggregate_sample_of(1, 1, "x");
	struct container container = {
		.id = "c1",
		.name = "",
		.pod = pod,
		.namespace = namespace,
		.pod_uid = "",
		.image = "",
		.ray_cluster = "",
		.ray_group = "",
		.ray_node_type = "",
		.ranks = { "", "", "", "", "", "" },
		.rootfs = "",
	};
	struct aggregate_input input = { .sample = &sample, .container = &container };
	struct death death = killed_by("bash", SIGKILL);

	cr_assert_eq(aggregate_new(&death.aggregate, true, 1 << 20), 0);
	aggregate_add(death.aggregate, &input);
	death_counts_add(counts, &death);
	aggregate_free(death.aggregate);
}

/* Each pod has its count; a new one takes the row of the pod whose last death is the longest ago. */
Test(deaths_table, pods)
{
	static struct death_counts counts;
	char name[32];

	die_in(&counts, "", "");
	cr_expect_eq(counts.pods.nr, 0);
	for (int i = 0; i < POD_COUNTS_MAX; i++) {
		snprintf(name, sizeof(name), "trainer-%d", i);
		die_in(&counts, "ml", name);
	}
	die_in(&counts, "ml", "trainer-0");
	die_in(&counts, "m\"l", "a\\\n");
	cr_expect_eq(counts.pods.nr, POD_COUNTS_MAX);
	cr_assert_not_null(pod_of(&counts, "ml/trainer-0"));
	cr_expect_eq(pod_of(&counts, "ml/trainer-0")->nr, 2);
	cr_expect_null(pod_of(&counts, "ml/trainer-1"));
	cr_assert_not_null(pod_of(&counts, "ml/trainer-2"));
	cr_assert_not_null(pod_of(&counts, "m_l/a__"));
	cr_expect_eq(pod_of(&counts, "m_l/a__")->nr, 1);
}

/* No name of a killer passes for another meaning, breaks the label, or makes a series twice. */
Test(deaths_table, labels)
{
	static const struct {
		const char *comm, *by;
	} cases[] = {
		{ "bash", "bash" },
		{ "self", "self (process)" },
		{ "kernel", "kernel (process)" },
		{ "other", "other (process)" },
		{ "a\1b\"c\\", "a_b_c_" },
		{ "caf\xc3\xa9", "caf__" },
		{ "0123456789abcdef", "0123456789abcde" },
	};
	static struct death_counts counts;
	char by[BPFPROF_COMM_LEN + 1];
	struct death death;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		death = killed_by(cases[i].comm, SIGKILL);
		death_by(by, &death);
		cr_expect_str_eq(by, cases[i].by);
	}
	death = killed_by("a\1b", SIGKILL);
	death_counts_add(&counts, &death);
	death = killed_by("a\2b", SIGKILL);
	death_counts_add(&counts, &death);
	cr_expect_eq(count_of(&counts, "SIGKILL", "a_b"), 2);
}

/* A hundred names use up the rows for names, and nothing else. */
Test(deaths_table, counts)
{
	static struct death_counts counts;
	struct death death;
	char comm[16];

	for (int i = 0; i < 100; i++) {
		snprintf(comm, sizeof(comm), "killer%d", i);
		death = killed_by(comm, SIGKILL);
		death_counts_add(&counts, &death);
	}
	death = killed_by("killer7", SIGKILL);
	death_counts_add(&counts, &death);
	death = killed_by("late", SIGTERM);
	death_counts_add(&counts, &death);
	for (uint32_t signal = 0; signal < 128; signal++) {
		death = (struct death){ .kind = DEATH_SIGNAL, .status = signal };
		death_counts_add(&counts, &death);
	}
	cr_expect_eq(count_of(&counts, "SIGKILL", "killer63"), 1);
	cr_expect_eq(count_of(&counts, "SIGKILL", "killer64"), 0);
	cr_expect_eq(count_of(&counts, "SIGKILL", "killer7"), 2);
	cr_expect_eq(count_of(&counts, "SIGKILL", "other"), 100 - DEATH_COUNTS_MAX_NAMED);
	cr_expect_eq(count_of(&counts, "SIGTERM", "other"), 1);
	cr_expect_eq(count_of(&counts, "SIGSEGV", "self"), 1);
	cr_expect_eq(count_of(&counts, "exit", "self"), 1);
}

/* Frames with the longest names do not keep a death from being written: the page is cut. */
Test(deaths_table, long_page)
{
	struct profile *profile = made_new();
	struct death death = {
		.kind = DEATH_SIGNAL,
		.status = SIGSEGV,
		.pid = 712,
		.wall_ns = 1796064480ULL * NS_PER_SECOND,
		.stacks = { [DEATH_STACK_LAST].present = true, [DEATH_STACK_FIRST].present = true }
	};
	struct buf page = { .max = 1U << 20 };
	uint32_t locations[DEEP];
	char name[1024];

	memset(name, 'f', sizeof(name));
	name[sizeof(name) - 1] = '\0';
	for (uint32_t i = 0; i < DEEP; i++) {
		memcpy(name, (char[4]){ 'a' + i % 26, 'a' + i / 26 % 26, 'a' + i / 676, '_' }, 4);
		locations[i] = made_python(profile, name, "/app/train.py", "train.py", i + 1, 1);
	}
	made_sample(profile, made_process(profile, 712, "python3", "python3"),
		    made_stack(profile, locations, DEEP), 1)
		->value_ns = 1U << DEATH_STACK_LAST | 1U << DEATH_STACK_FIRST;
	death_summary(&page, &death, profile, "/var/lib/bpfprof");
	cr_assert_eq(buf_error(&page), 0);
	cr_expect_gt(page.len, 768U << 10);
	cr_expect_not_null(strstr(page.data,
				  "\nsamples       bpfprof report /var/lib/bpfprof --pid 712 "
				  "--at 2026-11-30T18:43:00Z --for 301s\n"));
	cr_expect_not_null(strstr(page.data, "(train.py:700)\n"));
	cr_expect_null(strstr(page.data, "(train.py:1500)\n"));
	cr_expect_not_null(
		strstr(page.data, "\n    ... no room for more frames: stacks.folded has them\n"));
	buf_fini(&page);
	made_free(profile);
}
