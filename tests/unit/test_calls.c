// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "proc/title.h"
#include "ray/calls.h"

static struct calls_room room = { .max = 8U << 20 };

static int see_change(struct calls *calls, const struct calls_change *change)
{
	return calls_see(calls, calls_ended_by(calls, change), change);
}

/* In the main thread. */
static int see(struct calls *calls, const char *title, bool wanted, const char *old_comm)
{
	const struct calls_change change = {
		.main_thread = true, .wanted = wanted, .title = title, .old_comm = old_comm
	};

	return see_change(calls, &change);
}

/* One character per change of the title: c a call begins, r rest. Titles with an x are asked for. */
struct sequence_case {
	char name[24];
	char before[16]; /* name of the thread to begin with */
	char titles[8][64]; /* without "ray::" */
	char want[8];
};

ParameterizedTestParameters(calls, sequence)
{
	static struct sequence_case cases[] = {
		{ "actor", "ray::Trainer", { "Trainer.fit", "Trainer", "Trainer.fit" }, "crc" },
		{ "actor_in_call", "ray::Trainer.fi", { "Trainer", "Trainer.fit" }, "rc" },
		{ "long_class_in_call",
		  "ray::DTensorPol",
		  { "DTensorPolicyWorker", "DTensorPolicyWorker.train" },
		  "rc" },
		{ "named_thread_in_call", "pt_main_thread", { "Trainer", "Trainer.fit" }, "rc" },
		{ "born", "python3", { "IDLE", "A.__init__", "A", "A.f", "A" }, "rcrcr" },
		{ "task", "ray::IDLE", { "sort", "IDLE", "sort", "IDLE" }, "crcr" },
		{ "spill", "ray::sort", { "IDLE_SpillWorker", "sort" }, "rc" },
		{ "no_idle", "ray::IDLE", { "IDLEness", "IDLE" }, "cr" },
		{ "named_call", "ray::A", { "x step", "A", "x step", "A" }, "crcr" },
		{ "in_named_call", "ray::x step", { "A", "x step", "A" }, "rcr" },
		{ "other_named_call", "ray::Ax", { "step", "Ax.f", "Ax", "step", "Ax" }, "rcrcr" },
		{ "class_of_task", "ray::A.f", { "A", "IDLE", "A", "IDLE" }, "rrcr" },
		{ "longer_class", "ray::Ax2", { "Ax", "Ax.f", "Ax" }, "ccr" },
		{ "same_name", "ray::IDLE", { "A", "IDLE", "A" }, "crc" },
		{ "ray_data",
		  "ray::MapWorker(",
		  { "MapWorker(Map(a.b)).submit", "MapWorker(Map(a.b))",
		    "MapWorker(Map(a.b)).submit" },
		  "crc" },
		{ "brackets", "ray::IDLE", { "f)).g", "IDLE", "f((.g", "IDLE" }, "crcr" },
		{ "dots", "ray::IDLE", { ".x", "IDLE", "x.", "IDLE" }, "crcr" },
		{ "dot_in_name",
		  "ray::A",
		  { "A.f", "A", "lr=0.1", "A", "x.y", "A", "A.g" },
		  "crcrcrc" },
		{ "next_actor", "ray::A.f", { "A", "IDLE", "B.f", "B" }, "rrcr" },
		{ "two_calls", "ray::A", { "A.f", "A.g", "A" }, "ccr" },
	};

	return cr_make_param_array(struct sequence_case, cases, sizeof(cases) / sizeof(cases[0]));
}

ParameterizedTest(struct sequence_case *c, calls, sequence)
{
	struct calls calls = { .room = &room };
	char title[TITLE_MAX + 1], comm[16];
	size_t i;

	memcpy(comm, c->before, sizeof(comm));
	for (i = 0; c->want[i]; i++) {
		snprintf(title, sizeof(title), "ray::%s", c->titles[i]);
		see(&calls, title, strchr(title, 'x'), comm);
		cr_expect_eq(calls.state, c->want[i] == 'c' ? CALLS_CALL : CALLS_REST, "%s: %s",
			     c->name, title);
		snprintf(comm, sizeof(comm), "%.15s", title);
	}
	calls_fini(&calls);
}

Test(calls, is_step)
{
	cr_expect(calls_is_step("ray::Trainer.fit"));
	cr_expect(calls_is_step("ray::sort"));
	cr_expect(calls_is_step("ray::A.__call__"));
	cr_expect(calls_is_step("ray::A.__init__x"));
	cr_expect_not(calls_is_step("ray::A.__init__"));
	cr_expect_not(calls_is_step("ray::A.__ray_ready__"));
	cr_expect_not(calls_is_step("ray::A.__ray_call__"));
	cr_expect_not(calls_is_step("ray::MapWorker(Map(f.g)).__init__"));
}

/* The three dots of a shortened title are no method. */
Test(calls, cut)
{
	char title[TITLE_MAX + 1];

	struct calls calls = { .room = &room };

	memset(title, 'x', TITLE_MAX);
	memcpy(title, "ray::", 5);
	memcpy(title + TITLE_MAX - 3, "...", 4);
	see(&calls, title, true, "ray::xxxxxxxxxx");
	cr_expect_eq(calls.state, CALLS_REST);
	title[20] = '.';
	see(&calls, title, true, "ray::xxxxxxxxxx");
	cr_expect_eq(calls.state, CALLS_CALL);
	cr_expect_eq(strlen(calls.class), 20);
	calls_fini(&calls);
	cr_expect_null(calls.class);
}

/* The class stays known when changes are lost. */
Test(calls, lost)
{
	struct calls calls = { .room = &room };

	see(&calls, "ray::A.f", true, "ray::A");
	calls_lose(&calls);
	see(&calls, "ray::A", true, "ray::named");
	cr_expect_eq(calls.state, CALLS_REST);
	calls_lose(&calls);
	see(&calls, "ray::named", true, "ray::A");
	cr_expect_eq(calls.state, CALLS_CALL);
	calls_fini(&calls);
}

/* A change in a thread; the stack pointer is in KiB. */
static struct calls_change in_thread(uint32_t tid, uint64_t sp, const char *title)
{
	return (struct calls_change){
		.tid = tid, .sp = sp << 10, .title = title, .old_comm = "ray::A"
	};
}

/* Changes in threads, and the calls that they end. */
struct overlap_case {
	char name[24];
	struct {
		uint32_t tid;
		uint64_t sp;
		char title[12];
		int ends; /* begin of the call that it ends, in KiB; 0: none, -1: no change */
	} changes[9];
};

ParameterizedTestParameters(calls, overlap)
{
	static struct overlap_case cases[] = {
		{ "threads",
		  { { 2, 900, "ray::A.f", 0 },
		    { 3, 900, "ray::A.f", 0 },
		    { 3, 899, "ray::A", 900 },
		    { 3, 900, "ray::A.g", 0 },
		    { 2, 900, "ray::A", 900 },
		    { 3, 900, "ray::A", 900 },
		    { 3, 900, "ray::A", 0 } } },
		{ "fibers",
		  { { 2, 900, "ray::A.f", 0 },
		    { 2, 1156, "ray::A.f", 0 },
		    { 2, 1412, "ray::A.f", 0 },
		    { 2, 1156, "ray::A", 1156 },
		    { 2, 1411, "ray::A", 1412 },
		    { 2, 1157, "ray::A.g", 0 },
		    { 2, 899, "ray::A", 900 },
		    { 2, 1157, "ray::A", 1157 } } },
		{ "nearest",
		  { { 2, 900, "ray::A.f", 0 },
		    { 2, 940, "ray::A.f", 0 },
		    { 2, 921, "ray::A", 940 },
		    { 2, 921, "ray::A", 900 } } },
		{ "too_far",
		  { { 2, 900, "ray::A.f", 0 },
		    { 2, 933, "ray::A", 0 },
		    { 2, 867, "ray::A", 0 },
		    { 2, 868, "ray::A", 900 } } },
		{ "other_thread",
		  { { 2, 900, "ray::A.f", 0 },
		    { 3, 900, "ray::A", 0 },
		    { 2, 900, "ray::A", 900 } } },
		{ "only_named",
		  { { 2, 900, "ray::A.f", 0 },
		    { 2, 900, "ray::A.f", -1 },
		    { 2, 900, "ray::A.g", 900 },
		    { 2, 900, "ray::A", 900 } } },
		{ "named_call",
		  { { 2, 900, "ray::A.f", 0 },
		    { 2, 1156, "ray::step", 0 },
		    { 2, 900, "ray::A", 900 },
		    { 2, 1156, "ray::A", 1156 } } },
	};

	return cr_make_param_array(struct overlap_case, cases, sizeof(cases) / sizeof(cases[0]));
}

ParameterizedTest(struct overlap_case *c, calls, overlap)
{
	struct calls calls = { .room = &room };
	size_t i, before = 0;

	for (i = 0; c->changes[i].tid; i++) {
		const struct calls_change change =
			in_thread(c->changes[i].tid, c->changes[i].sp, c->changes[i].title);
		struct call *ended = calls_ended_by(&calls, &change);
		bool begins = strcmp(change.title, "ray::A") != 0;
		int ends = c->changes[i].ends;

		cr_expect_eq(calls_is_change(&calls, ended, &change), ends >= 0, "%s, %zu", c->name,
			     i);
		if (ends < 0)
			continue;
		cr_expect_eq(ended ? ended->sp >> 10 : 0, ends, "%s, %zu", c->name, i);
		cr_expect(!ended || ended->tid == change.tid, "%s, %zu", c->name, i);
		cr_expect_eq(calls_see(&calls, ended, &change), begins, "%s, %zu", c->name, i);
		before += begins - (ends > 0);
		cr_expect_eq(calls.nr_running, before, "%s, %zu", c->name, i);
	}
	cr_expect_eq(calls.nr_running, 0, "%s", c->name);
	calls_fini(&calls);
	cr_expect_eq(room.bytes, 0, "%s", c->name);
}

/*
 * The main thread and others do not end each other's calls. In the main thread each change ends the
 * call, at whatever depth of the stack.
 */
Test(calls, main_thread_beside)
{
	const struct calls_change beside = in_thread(2, 900, "ray::A.g"),
				  ends = in_thread(2, 900, "ray::A");
	struct calls_change begins = in_thread(1, 900, "ray::A.f"),
			    deeper = in_thread(1, 500, "ray::A");
	struct calls calls = { .room = &room };

	begins.main_thread = deeper.main_thread = true;
	cr_expect_eq(see_change(&calls, &begins), 1);
	cr_expect_eq(see_change(&calls, &beside), 1);
	cr_expect_eq(see_change(&calls, &deeper), 0);
	cr_assert_eq(calls.nr_running, 1);
	cr_expect_str_eq(calls.running->title, "ray::A.g");
	cr_expect_eq(see_change(&calls, &ends), 0);
	cr_expect_eq(calls.nr_running, 0);
	calls_fini(&calls);
}

/* More calls than there is room for are not known; the others stay. */
Test(calls, bounds)
{
	struct calls_room small = { .max = CALLS_ROOM_SHARE * 3 *
					   (sizeof(struct call) + sizeof("ray::A.f")) };
	struct calls calls = { .room = &room };
	struct calls_change change;
	uint64_t i;

	for (i = 1; i <= CALLS_MAX + 2; i++) {
		change = in_thread(2, 256 * i, "ray::A.f");
		cr_expect_eq(see_change(&calls, &change), i <= CALLS_MAX ? 1 : -ENOSPC, "%d",
			     (int)i);
	}
	cr_expect_eq(calls.nr_running, CALLS_MAX);
	change = in_thread(2, 256 * 7, "ray::A");
	cr_expect_eq(see_change(&calls, &change), 0);
	cr_expect_eq(calls.nr_running, CALLS_MAX - 1);
	calls_lose(&calls);
	cr_expect_eq(calls.nr_running, 0);
	calls_fini(&calls);
	cr_expect_eq(room.bytes, 0);
	calls.room = &small;
	for (i = 1; i <= 4; i++) {
		change = in_thread(2, 256 * i, "ray::A.f");
		cr_expect_eq(see_change(&calls, &change), i <= 2 ? 1 : -ENOSPC, "%d", (int)i);
	}
	calls_fini(&calls);
	cr_expect_eq(small.bytes, 0);
}

/* Stacks that are near one another: a change ends the call whose begin is nearest. */
Test(calls, nearest_stack)
{
	struct calls calls = { .room = &room };
	struct calls_change change = {
		.tid = 7, .sp = 1 << 20, .wanted = true, .title = "ray::A.one", .old_comm = "ray::A"
	};

	cr_assert_eq(see_change(&calls, &change), 1);
	change.sp += 16 << 10;
	change.title = "ray::A.two";
	cr_assert_eq(calls_ended_by(&calls, &change), &calls.running[0]);
	cr_assert(calls_add(&calls, &change));
	change.title = "ray::A";
	change.sp -= 192;
	cr_expect_eq(calls_ended_by(&calls, &change), &calls.running[1]);
	change.sp = (1 << 20) + 192;
	cr_expect_eq(calls_ended_by(&calls, &change), &calls.running[0]);
	calls_fini(&calls);
	cr_expect_eq(room.bytes, 0);
}
