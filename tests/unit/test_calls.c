// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <string.h>

#include "proc/title.h"
#include "ray/calls.h"

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
		{ "two_calls", "ray::A", { "A.f", "A.g", "A" }, "ccr" },
	};

	return cr_make_param_array(struct sequence_case, cases, sizeof(cases) / sizeof(cases[0]));
}

ParameterizedTest(struct sequence_case *c, calls, sequence)
{
	struct calls calls = { 0 };
	char title[TITLE_MAX + 1], comm[16];
	size_t i;

	memcpy(comm, c->before, sizeof(comm));
	for (i = 0; c->want[i]; i++) {
		snprintf(title, sizeof(title), "ray::%s", c->titles[i]);
		calls_see(&calls, title, strchr(title, 'x'), comm);
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

	struct calls calls = { 0 };

	memset(title, 'x', TITLE_MAX);
	memcpy(title, "ray::", 5);
	memcpy(title + TITLE_MAX - 3, "...", 4);
	calls_see(&calls, title, true, "ray::xxxxxxxxxx");
	cr_expect_eq(calls.state, CALLS_REST);
	title[20] = '.';
	calls_see(&calls, title, true, "ray::xxxxxxxxxx");
	cr_expect_eq(calls.state, CALLS_CALL);
	cr_expect_eq(strlen(calls.class), 20);
	calls_fini(&calls);
	cr_expect_null(calls.class);
}

/* The class stays known when changes are lost. */
Test(calls, lost)
{
	struct calls calls = { 0 };

	calls_see(&calls, "ray::A.f", true, "ray::A");
	calls_lose(&calls);
	calls_see(&calls, "ray::A", true, "ray::named");
	cr_expect_eq(calls.state, CALLS_REST);
	calls_lose(&calls);
	calls_see(&calls, "ray::named", true, "ray::A");
	cr_expect_eq(calls.state, CALLS_CALL);
	calls_fini(&calls);
}
