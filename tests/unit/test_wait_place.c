// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>

#include "made_profile.h"
#include "findings/wait_place.h"
#include "profile/profile.h"

static struct profile *p;
static uint32_t process, futex, polls, waits_child, native;

static void setup(void)
{
	p = made_new();
	process = made_process(p, 7, "job", "");
	p->processes[process].kernel_pid = 7;
	futex = made_kernel(p, "futex_do_wait", 1);
	polls = made_kernel(p, "ep_poll", 2);
	waits_child = made_kernel(p, "do_wait", 3);
	native = made_native(p, "wait_for_it", 0, 4);
}

static void teardown(void)
{
	made_free(p);
}

TestSuite(wait_place, .init = setup, .fini = teardown);

static uint32_t python(const char *name, const char *file, uint32_t line)
{
	return made_python(p, name, file, file, line, 1);
}

#define first(count, ...) made_add(p, process, count, __VA_ARGS__)->sleeper = PROFILE_FIRST_SLEEPS

static struct wait_place find(void)
{
	struct wait_place place;

	cr_assert_eq(wait_place_find(p, 7, &place), 0);
	return place;
}

/* Different ways down from one line of the program's are one place. */
Test(wait_place, line_of_the_program)
{
	uint32_t get = python("get", "/x/site-packages/ray/_private/worker.py", 9);
	uint32_t wait = python("Condition.wait", "/usr/lib/python3.11/threading.py", 8);
	uint32_t line = python("main", "/home/a/job.py", 3), other = python("f", "/home/a/b.py", 4);

	first(3, futex, native, get, line);
	first(2, futex, native, wait, get, line);
	first(4, futex, native, other, line);
	made_add(p, process, 90, futex, native, other, line); /* of another thread, or not asleep */
	cr_expect_eq(find().ns, 50000000);
	cr_expect_eq(find().line, line);
	cr_expect_eq(find().function, wait);
}

Test(wait_place, native_function)
{
	first(3, futex, native);
	cr_expect_eq(find().line, native);
	cr_expect_eq(find().function, native);
}

/* Processes that are fine. */
Test(wait_place, nothing_to_do)
{
	first(3, polls, native);
	first(3, waits_child, native);
	first(3, waits_child, native, python("main", "/home/a/job.py", 3));
	first(3, futex, native, python("main_loop", "ray/_private/worker.py", 3));
	first(3, polls, native, python("select", "selectors.py", 3),
	      python("_run_once", "asyncio/base_events.py", 3),
	      python("main", "/home/a/job.py", 3));
	first(3, futex);
	first(3, made_call(p, "[not sampled]"));
	cr_expect_eq(find().ns, 0);
	/* Events that Python code of the program's waits for. */
	first(1, polls, native, python("next_batch", "/home/a/job.py", 7));
	cr_expect_eq(find().ns, 10000000);
}
