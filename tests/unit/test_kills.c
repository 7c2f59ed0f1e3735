// SPDX-License-Identifier: Apache-2.0
#include "memory/kills.h"

#include <criterion/criterion.h>

TestSuite(kills, .timeout = 60);

static struct memory_answer answer_of(struct held_row *rows, struct memory_account *accounts,
				      size_t nr)
{
	return (struct memory_answer){
		.rows = rows, .nr_rows = nr, .accounts = accounts, .nr_accounts = nr
	};
}

static struct bpfprof_kill_event event_of(uint32_t pid, uint32_t flags)
{
	return (struct bpfprof_kill_event){
		.pid = pid, .sender = 9, .comm = "sender", .flags = flags, .signal = 9
	};
}

/* A process is kept as it was; the event of the OOM killer comes second; the rest of an answer stays. */
Test(kills, kept)
{
	struct held_row rows[] = { { .pid = 1, .bytes = 10 }, { .pid = 2, .bytes = 20 } };
	struct memory_account accounts[] = { { .key = { .pid = 1, .start_ns = 5 } },
					     { .key = { .pid = 2, .start_ns = 6 },
					       .limit_bytes = 7 } };
	struct memory_answer last = answer_of(rows, accounts, 2), later = { 0 };
	struct bpfprof_kill_event event = event_of(2, BPFPROF_KILL_KERNEL);
	struct memory_kills kills = { 0 };
	const struct memory_kill *kill;

	cr_assert_eq(memory_kills_add(&kills, &event, &last), 0);
	event = event_of(2, BPFPROF_KILL_KERNEL | BPFPROF_KILL_OOM);
	cr_assert_eq(memory_kills_add(&kills, &event, &last), 0);
	event = event_of(3, 0); /* it has no memory that is known */
	cr_assert_eq(memory_kills_add(&kills, &event, &last), 0);
	cr_assert_eq(kills.nr, 1);
	kill = memory_kills_find(&kills, 2, 6);
	cr_assert(kill && kill->oom && kill->by_kernel);
	cr_expect_eq(kill->limit_bytes, 7);
	cr_expect_eq(kill->used_bytes, 0);
	cr_expect_str_eq(kill->sender_name, "sender");
	cr_expect_null(memory_kills_find(&kills, 2, 5)); /* the pid of another process */
	rows[1].bytes = 1; /* half freed when the next look came */
	cr_assert_eq(memory_answer_copy(&later, &last), 0);
	cr_assert_eq(memory_kills_merge(&kills, &later), 0);
	cr_assert_eq(later.nr_rows, 2);
	cr_assert_eq(later.nr_accounts, 2);
	cr_expect_eq(later.rows[0].bytes, 10);
	cr_expect_eq(later.rows[1].bytes, 20);
	memory_answer_fini(&later);
	memory_answer_fini(&kills.answer);
}

/* The kernel's figures at the signal replace the limit of the last look, also those of a group above. */
Test(kills, cgroup)
{
	struct memory_account account = { .key = { .pid = 2, .start_ns = 6 }, .limit_bytes = 9000 };
	struct memory_answer last = answer_of(NULL, &account, 1);
	struct bpfprof_kill_event event = event_of(2, BPFPROF_KILL_KERNEL);
	struct memory_kills kills = { 0 };

	last.nr_rows = 0;
	event.cgroup_max_bytes = 8192;
	event.cgroup_used_bytes = 4096;
	cr_assert_eq(memory_kills_add(&kills, &event, &last), 0);
	cr_assert_eq(kills.nr, 1);
	cr_expect_eq(kills.list[0].limit_bytes, 8192);
	cr_expect_eq(kills.list[0].used_bytes, 4096);
	memory_answer_fini(&kills.answer);
}

/* The list is bounded, and counts what it leaves out. */
Test(kills, many)
{
	struct memory_account account = { 0 };
	struct memory_answer last = answer_of(NULL, &account, 1);
	struct memory_kills kills = { 0 };
	uint32_t pid;

	last.nr_rows = 0;
	for (pid = 1; pid <= MAX_KILLS + 5; pid++) {
		const struct bpfprof_kill_event event = event_of(pid, 0);

		account.key.pid = pid;
		cr_assert_eq(memory_kills_add(&kills, &event, &last), 0);
	}
	cr_expect_eq(kills.nr, MAX_KILLS);
	cr_expect_eq(kills.nr_over, 5);
	memory_answer_fini(&kills.answer);
}
