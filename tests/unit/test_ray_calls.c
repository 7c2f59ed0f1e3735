// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <stdio.h>
#include <string.h>

#include "base/strtab.h"
#include "proc/title.h"
#include "profile/profile.h"
#include "profile/ray_calls.h"
#include "profile/stats.h"
#include "made_profile.h"

#define SITE "/opt/lib/python3.11/site-packages/"
#define STANDARD "/opt/lib/python3.11/"

static struct profile *p;
static struct stats_reasons walk;
/* Frames of Ray, of asyncio, of threading; of the actor. */
static uint32_t raylet, main_loop, span, run_once, uvloop, bootstrap, helper, fit, save, base, spin,
	other;

static uint32_t python(const char *name, const char *file)
{
	return made_python(p, name, file, file, 10, 1);
}

static void setup(void)
{
	uint32_t library, loop;

	p = made_new();
	walk = (struct stats_reasons){ 0 };
	library = made_mapping(p, SITE "ray/_raylet.so", "", 0, 1 << 20);
	loop = made_mapping(p, SITE "uvloop/loop.cpython-311-x86_64-linux-gnu.so", "", 0, 1 << 20);
	raylet = made_native(p, "__pyx_execute_task", library, 0x100);
	uvloop = made_native(p, "uv_run", loop, 0x100);
	main_loop = python("Worker.main_loop", SITE "ray/_private/worker.py");
	span = python("_resume_span", SITE "ray/util/tracing/tracing_helper.py");
	run_once = python("BaseEventLoop._run_once", STANDARD "asyncio/base_events.py");
	bootstrap = python("Thread._bootstrap", STANDARD "threading.py");
	helper = python("contextmanager.<locals>.helper", STANDARD "contextlib.py");
	fit = python("Trainer.fit", "/home/me/ray/job.py");
	save = python("Trainer.save", "/home/me/ray/job.py");
	base = python("Base.load", SITE "mine/base.py");
	spin = python("spin", "/home/me/ray/job.py");
	other = python("Other.work", "/home/me/ray/job.py");
}

static void teardown(void)
{
	made_free(p);
}

TestSuite(ray_calls, .init = setup, .fini = teardown);

static uint32_t worker(uint32_t pid, const char *task)
{
	uint32_t at = made_process(p, pid, "ray::Trainer.fi", "");

	p->processes[at].task = p->processes[at].title = strtab_add(p->strings, task);
	return at;
}

static const char *task_of(size_t sample)
{
	const struct profile_process *process = &p->processes[p->samples[sample].process];

	cr_expect_eq(process->task, process->title);
	return strtab_get(p->strings, process->task);
}

/* Two calls in one loop, or in threads of their own: the title was that of the later one. */
Test(ray_calls, the_method_is_on_the_stack)
{
	uint32_t at = worker(7, "ray::Trainer.save");

	made_add(p, at, 1, spin, fit, span, raylet, run_once, raylet, bootstrap);
	made_add(p, at, 2, spin, save, span, raylet, run_once, raylet, bootstrap);
	made_add(p, at, 3, spin, fit, span, raylet);
	made_add(p, at, 4, spin, fit, raylet, main_loop);
	made_add(p, at, 5, spin, fit, raylet, uvloop, raylet);
	cr_assert_eq(ray_calls_name(p, &walk), 0);
	cr_expect_str_eq(task_of(0), "ray::Trainer.fit");
	cr_expect_str_eq(task_of(1), "ray::Trainer.save");
	cr_expect_str_eq(task_of(2), "ray::Trainer.fit");
	cr_expect_str_eq(task_of(3), "ray::Trainer.fit");
	cr_expect_str_eq(task_of(4), "ray::Trainer.fit");
	cr_expect_eq(p->nr_processes, 2, "one process more for all of them");
	cr_expect_eq(p->processes[1].kernel_pid, 7);
	cr_expect_str_eq(strtab_get(p->strings, p->processes[1].comm), "ray::Trainer.fi");
}

/* The outermost one: a method that another one calls has no call of its own. */
Test(ray_calls, the_outermost_method)
{
	uint32_t at = worker(7, "ray::Trainer");

	made_add(p, at, 1, spin, save, fit, span, raylet, main_loop);
	/* Ray calls back into a method's frame, as it does when it packs an object. */
	made_add(p, at, 1, spin, save, raylet, main_loop, fit, raylet, main_loop);
	cr_assert_eq(ray_calls_name(p, &walk), 0);
	cr_expect_str_eq(task_of(0), "ray::Trainer.fit");
	cr_expect_str_eq(task_of(1), "ray::Trainer.fit");
}

/* In the loop of an actor without a method on the stack: the class, where that is known. */
Test(ray_calls, loop_without_a_method)
{
	uint32_t fit_call = worker(7, "ray::Trainer.fit"), at = worker(8, "ray::Trainer.fit");

	worker(7, "ray::Trainer");
	made_add(p, fit_call, 1, run_once, raylet, bootstrap);
	made_add(p, fit_call, 1, spin, run_once, raylet, bootstrap); /* a task of its own */
	made_add(p, fit_call, 1, spin, uvloop, raylet, bootstrap);
	made_add(p, at, 1, run_once, raylet, bootstrap);
	made_add(p, fit_call, 1, spin, bootstrap); /* a thread of its own */
	made_add(p, fit_call, 1, helper, raylet);
	made_add(p, fit_call, 1, python("Trainer.run", STANDARD "trainer.py"), raylet);
	made_add(p, fit_call, 1, save, raylet, save, bootstrap);
	cr_assert_eq(ray_calls_name(p, &walk), 0);
	cr_expect_str_eq(task_of(0), "ray::Trainer");
	cr_expect_str_eq(task_of(1), "ray::Trainer");
	cr_expect_str_eq(task_of(2), "ray::Trainer");
	cr_expect_str_eq(task_of(3), "ray::Trainer.fit");
	cr_expect_str_eq(task_of(4), "ray::Trainer.fit");
	cr_expect_str_eq(task_of(5), "ray::Trainer.fit");
	cr_expect_str_eq(task_of(6), "ray::Trainer.fit", "Python's own functions are no methods");
	cr_expect_str_eq(task_of(7), "ray::Trainer.fit", "Ray has not called the outermost one");
	cr_expect_eq(p->nr_processes, 3);
}

/* Names that the job gave to calls, tasks, and processes without a title stay as they are. */
Test(ray_calls, names_of_calls_stay)
{
	uint32_t named = worker(7, "ray::v1.2"), plain = worker(8, "ray::my call");
	uint32_t task = worker(9, "ray::spin"), none = made_process(p, 10, "python", "");

	made_add(p, named, 1, fit, raylet, main_loop);
	made_add(p, plain, 1, fit, raylet, main_loop);
	made_add(p, task, 1, spin, raylet, main_loop);
	made_add(p, none, 1, fit, raylet, main_loop);
	cr_assert_eq(ray_calls_name(p, &walk), 0);
	cr_expect_str_eq(task_of(0), "ray::v1.2");
	cr_expect_str_eq(task_of(1), "ray::my call");
	cr_expect_str_eq(task_of(2), "ray::spin");
	cr_expect_str_eq(strtab_get(p->strings, p->processes[p->samples[3].process].title),
			 "python");
	cr_expect_eq(p->nr_processes, 4);
}

/* A class inherits the method, or functions have no class in their name (up to 3.10): a title names it. */
Test(ray_calls, method_of_another_title)
{
	uint32_t at = worker(7, "ray::Trainer.save"), rest = worker(7, "ray::Trainer");
	uint32_t alone = worker(8, "ray::Trainer.save");
	uint32_t bare = python("fit", "/home/me/job.py");
	uint32_t packed = worker(9, "ray::MapWorker(Map(a.b)).submit");
	uint32_t of_map = python("MapWorker.read", SITE "ray/data/_internal/map.py");

	worker(7, "ray::Trainer.load");
	worker(7, "ray::Trainer.fit");
	made_add(p, at, 1, base, raylet, main_loop);
	made_add(p, rest, 1, bare, raylet, main_loop);
	made_add(p, alone, 1, base, raylet, main_loop);
	made_add(p, packed, 1, of_map, raylet, main_loop);
	made_add(p, alone, 1, other, raylet, main_loop);
	made_add(p, at, 1, spin, raylet, main_loop);
	cr_assert_eq(ray_calls_name(p, &walk), 0);
	cr_expect_str_eq(task_of(0), "ray::Trainer.load");
	cr_expect_str_eq(task_of(1), "ray::Trainer.fit");
	cr_expect_str_eq(task_of(2), "ray::Trainer.save");
	cr_expect_str_eq(task_of(3), "ray::MapWorker(Map(a.b)).read");
	cr_expect_str_eq(task_of(4), "ray::Trainer.save");
	cr_expect_str_eq(task_of(5), "ray::Trainer.save", "Ray calls other functions, too");
}

/* As many methods as a target likes: its titles are bounded, counted, and leave room for other actors. */
Test(ray_calls, many_methods)
{
	uint32_t at = worker(7, "ray::Trainer.save"), neighbour = worker(8, "ray::Trainer.save"), i;
	size_t renamed = 0, before;
	char name[32];

	for (i = 0; i < 20000; i++) {
		snprintf(name, sizeof(name), "%s.m%u", i & 1 ? "Trainer" : "Other", i);
		made_add(p, at, 1, python(name, "/home/me/job.py"), raylet);
	}
	made_add(p, neighbour, 1, fit, raylet);
	before = strtab_count(p->strings);
	cr_assert_eq(ray_calls_name(p, &walk), 0);
	for (i = 0; i < 20000; i++) {
		snprintf(name, sizeof(name), "ray::Trainer.m%u", i);
		renamed += !strcmp(task_of(i), name);
	}
	cr_expect_eq(renamed, 256, "%zu", renamed);
	cr_expect_eq(p->nr_processes, 2 + 256 + 1);
	cr_expect_str_eq(task_of(20000), "ray::Trainer.fit");
	cr_expect_lt(strtab_count(p->strings) - before, 300,
		     "titles that are not taken are not kept");
	cr_expect_gt(stats_total(&walk), 9000);
}

/* A title keeps its process, and a new one has all that its process has but the kernel's counters. */
Test(ray_calls, processes_keep_what_they_are)
{
	uint32_t first = worker(7, "ray::Trainer.save"), second = worker(7, "ray::Trainer.save");

	p->processes[second].container = 1;
	p->processes[first].parent = 5;
	p->processes[first].asked_for = true;
	p->processes[first].cmdline = p->processes[first].task;
	p->processes[first].cpu_ns = 9;
	p->processes[first].rss_known = true;
	made_add(p, first, 1, save, raylet);
	made_add(p, first, 1, fit, raylet);
	cr_assert_eq(ray_calls_name(p, &walk), 0);
	cr_expect_eq(p->samples[0].process, first);
	cr_assert_eq(p->samples[1].process, 2);
	cr_expect_eq(p->processes[2].parent, 5);
	cr_expect(p->processes[2].asked_for);
	cr_expect_eq(p->processes[2].cmdline, p->processes[2].task);
	cr_expect_eq(p->processes[2].cpu_ns, 0);
	cr_expect_not(p->processes[2].rss_known);
}

/* Functions that Ray calls, and that are no methods of the actor; a decorator around a method. */
Test(ray_calls, other_functions)
{
	uint32_t at = worker(7, "ray::Trainer.fit");
	uint32_t unpack = python("deserialize", SITE "ray/_private/serialization.py");
	uint32_t wrapper = python("no_grad.<locals>.decorate", SITE "torch/utils/_contextlib.py");
	uint32_t other_library = python("Thread._bootstrap", "/usr/lib64/python3.12/threading.py");

	worker(7, "ray::Trainer.__init__");
	worker(7, "ray::Trainer.run");
	made_add(p, at, 1, python("Config.__init__", "/home/me/job.py"), raylet);
	made_add(p, at, 1, python("Data.run", "/home/me/job.py"), unpack, raylet);
	made_add(p, at, 1, spin, save, wrapper, raylet);
	made_add(p, at, 1, wrapper, raylet);
	made_add(p, at, 1, save, raylet, run_once, other_library);
	made_add(p, at, 1, python("main.<locals>.Trainer.test", "/srv/asyncio/job.py"), raylet);
	cr_assert_eq(ray_calls_name(p, &walk), 0);
	cr_expect_str_eq(task_of(0), "ray::Trainer.fit");
	cr_expect_str_eq(task_of(1), "ray::Trainer.fit");
	cr_expect_str_eq(task_of(2), "ray::Trainer.save");
	cr_expect_str_eq(task_of(3), "ray::Trainer.fit");
	cr_expect_str_eq(task_of(4), "ray::Trainer.save");
	cr_expect_str_eq(task_of(5), "ray::Trainer.test");
}

/* Texts that a target chooses. */
Test(ray_calls, odd_names)
{
	static const char *const names[] = { "", ".", "..", "Trainer.", ".fit", "Trainer..fit" };
	uint32_t at = worker(7, "ray::Trainer.save"), odd = worker(8, "ray::(.a)(");
	uint32_t none = worker(9, STRTAB_OVERFLOW);
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		made_add(p, at, 1, python(names[i], ""), raylet);
		made_add(p, odd, 1, python(names[i], "/"), raylet);
	}
	cr_assert_eq(ray_calls_name(p, &walk), 0);
	for (i = 0; i < 2 * sizeof(names) / sizeof(names[0]); i++)
		cr_expect(!strncmp(task_of(i), "ray::", 5), "%s", task_of(i));
	made_add(p, none, 1, fit, raylet);
	cr_assert_eq(ray_calls_name(p, &walk), 0);
	cr_expect_str_eq(task_of(i), STRTAB_OVERFLOW);
	cr_expect_str_eq(task_of(0), "ray::Trainer.save");
	cr_expect_str_eq(task_of(6), "ray::Trainer.save", "a method without a name is none");
}

/* Any words, in any place of a stack: whatever comes out is a title of the process or was made of its stack. */
Test(ray_calls, any_words)
{
	static const char *const words[] = {
		"ray::",     "Trainer",	 ".",		"<locals>",	  "(",	")",   "/",
		"/python3.", "/lib",	 "-packages/",	"/ray/_private/", "__", "fit", "\xff",
		"<",	     "asyncio/", "threading.py"
	};
	uint32_t locations[64], processes[16], stack[8], i, k;
	char text[3][128];

	srand(1);
	for (i = 0; i < 64; i++) {
		for (k = 0; k < 3; k++) {
			text[k][0] = 0;
			for (int left = rand() % 6; left > 0; left--)
				strncat(text[k], words[rand() % (sizeof(words) / sizeof(words[0]))],
					sizeof(text[k]) - strlen(text[k]) - 1);
		}
		locations[i] = i % 8 ? python(text[0], text[1]) : raylet;
		if (i < 16)
			processes[i] = worker(7 + i % 3, text[2]);
	}
	for (i = 0; i < 5000; i++) {
		for (k = 0; k < 8; k++)
			stack[k] = locations[rand() % 64];
		made_sample(p, processes[rand() % 16], made_stack(p, stack, 8), 1);
	}
	cr_assert_eq(ray_calls_name(p, &walk), 0);
	for (i = 0; i < 5000; i++) {
		cr_assert_lt(p->samples[i].process, p->nr_processes);
		cr_assert_geq(p->processes[p->samples[i].process].kernel_pid, 7);
		cr_assert_leq(strlen(task_of(i)), TITLE_MAX);
	}
}

/* More titles than there is room for: the profile is there all the same, and it is counted. */
Test(ray_calls, more_titles_than_room)
{
	char title[TITLE_MAX];
	uint32_t i, at;

	for (i = 0; i < 40000; i++) {
		snprintf(title, sizeof(title), "ray::A%u.f", i);
		at = worker(7 + i / 256, title);
		if (!(i % 4000))
			made_add(p, at, 1, fit, raylet);
	}
	cr_assert_eq(ray_calls_name(p, &walk), 0);
	cr_assert_eq(p->nr_samples, 10);
	for (i = 0; i < 10; i++)
		cr_expect(!strncmp(task_of(i), "ray::A", 6), "%s", task_of(i));
	cr_expect_gt(stats_total(&walk), 0);
}
