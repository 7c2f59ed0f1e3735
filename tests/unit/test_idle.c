// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <string.h>

#include "base/strtab.h"
#include "profile/idle.h"
#include "profile/idle_names.h"
#include "profile/profile.h"
#include "made_profile.h"

static struct profile *p;
static uint32_t process, sleeps, waits, begins, libc;

static void setup(void)
{
	p = made_new();
	process = made_process(p, 7, "worker", "");
	libc = made_mapping(p, "/lib/libc.so.6", "", 0, 1 << 20);
	sleeps = made_kernel(p, "schedule", 1);
	waits = made_native(p, "pthread_cond_wait", libc, 2);
	begins = made_native(p, "start_thread", libc, 3);
}

static void teardown(void)
{
	made_free(p);
}

TestSuite(idle, .init = setup, .fini = teardown);

static uint32_t native(const char *name)
{
	static uint64_t address = 100;

	return made_native(p, name, 0, address++);
}

static uint32_t python(const char *name, const char *file)
{
	return made_python(p, name, file, file, 1, 1);
}

/* A wait of a thread that is not the first one. */
#define helper(...) made_add(p, process, 1, __VA_ARGS__)->sleeper = PROFILE_HELPER_SLEEPS

static uint64_t nr_idle(void)
{
	struct idle_counts counts;

	cr_assert_eq(profile_fold_idle(p, &counts), 0);
	return counts.samples;
}

Test(idle, native_idles)
{
	uint32_t absl = native("absl::lts_20230802::CondVar::WaitCommon.cold");
	uint32_t gpr = native("gpr_cv_wait");

	helper(sleeps, waits, native("boost::asio::detail::scheduler::do_run_one"), begins);
	helper(sleeps, native("epoll_wait"), native("boost::asio::detail::epoll_reactor::run"),
	       native("boost::asio::detail::scheduler::do_run_one"), begins);
	helper(sleeps, native("syscall"), native("AbslInternalPerThreadSemWait_lts_20230802"), absl,
	       gpr, native("pollset_work"), native("cq_next"),
	       native("grpc::CompletionQueue::AsyncNextInternal"),
	       native("ray::rpc::ClientCallManager::PollEventsFromCompletionQueue"), begins);
	helper(sleeps, absl, gpr, native("timer_thread"),
	       native("grpc_core::(anonymous namespace)"
		      "::ThreadInternalsPosix"));
	cr_expect_eq(nr_idle(), 4);
}

/* Near misses: another thread waits for these. */
Test(idle, native_that_waits_for_something)
{
	uint32_t run = native("boost::asio::detail::scheduler::do_run_one");

	helper(sleeps, waits, native("handler"), run, begins);
	helper(sleeps, waits, native("boost::asio::detail::scheduler::do_run_one_more"), begins);
	helper(sleeps, native("read_request"), run, begins);
	helper(sleeps, native("pollset_work"), native("cq_pluck"), begins); /* a call's answer */
	helper(sleeps, waits, native("timer_thread"), begins); /* another's */
	helper(sleeps, waits, begins);
	helper(sleeps, waits);
	helper(sleeps);
	cr_expect_eq(nr_idle(), 0);
	cr_expect_eq(p->nr_samples, 8);
}

/* The first thread, or one that ran. */
Test(idle, only_helpers)
{
	made_add(p, process, 1, sleeps, waits, native("boost::asio::detail::scheduler::do_run_one"),
		 begins);
	cr_expect_eq(nr_idle(), 0);
}

Test(idle, pools_of_libraries)
{
	uint32_t gomp = made_mapping(p, "/usr/lib/libgomp-a34b3233.so.1", "", 0, 1 << 20);
	uint32_t blas = made_mapping(p, "/x/numpy.libs/libscipy_openblas64_-1.so", "", 0, 1 << 20);
	uint32_t job = made_mapping(p, "/home/a/job", "", 0, 1 << 20);
	uint32_t dock = made_unknown(p, "libgomp-a34b3233.so.1+0x1", gomp, 1);

	helper(sleeps, dock, begins);
	helper(sleeps, waits, made_unknown(p, "blas_thread_server", blas, 1), begins);
	/* In a region, at a barrier of the program's. */
	helper(sleeps, dock, made_native(p, "main._omp_fn.0", job, 4), dock, begins);
	helper(sleeps, dock, begins, made_marker(p, "[truncated]"));
	cr_expect_eq(nr_idle(), 2);
	cr_expect_eq(p->nr_samples, 3);
}

Test(idle, pools_of_python)
{
	uint32_t run = python("Thread.run", "threading.py");
	uint32_t wait = python("Condition.wait", "threading.py");
	uint32_t get = python("Queue.get", "queue.py"), old_get = python("get", "queue.py");
	uint32_t worker = python("_worker", "concurrent/futures/thread.py");

	helper(sleeps, waits, worker, run);
	helper(sleeps, waits, wait, get, python("worker", "multiprocessing/pool.py"), run);
	helper(sleeps, waits, python("select", "selectors.py"),
	       python("BaseEventLoop._run_once", "asyncio/base_events.py"), run);
	helper(sleeps, waits, wait, old_get, python("print_logs", "ray/_private/worker.py"), run);
	helper(sleeps, waits, wait, get, python("consume", "job.py"), run);
	helper(sleeps, waits, python("step", "job.py"), worker, run);
	helper(sleeps, waits, python("_worker", "job.py"), run);
	/* Native code below Python is Python's affair. */
	helper(sleeps, waits, native("boost::asio::detail::scheduler::do_run_one"),
	       python("serve", "job.py"), run);
	helper(sleeps, waits, wait);
	cr_expect_eq(nr_idle(), 4);
	cr_expect_eq(p->nr_samples, 6);
}

/* One sample for each thread, with all of their time, and a stack of one frame; others stay. */
Test(idle, folds)
{
	uint32_t run = native("boost::asio::detail::scheduler::do_run_one");
	uint32_t reactor = native("boost::asio::detail::epoll_reactor::run");
	struct idle_counts counts;
	size_t i;

	helper(sleeps, waits, run, begins);
	made_add(p, process, 5, native("compute"), begins);
	helper(sleeps, waits, reactor, run, begins);
	helper(sleeps, waits, run, begins);
	p->samples[p->nr_samples - 1].tid = 9;
	cr_assert_eq(profile_fold_idle(p, &counts), 0);
	cr_expect_eq(counts.samples, 3);
	cr_expect_eq(counts.ns, 30000000);
	cr_expect_eq(counts.nr_stacks, 3);
	cr_assert_eq(p->nr_samples, 3);
	cr_expect_eq(p->samples[0].count, 5);
	for (i = 1; i < 3; i++) {
		cr_expect_eq(p->samples[i].count, p->samples[i].tid ? 1 : 2);
		cr_expect_eq(p->samples[i].value_ns, p->samples[i].tid ? 10000000 : 20000000);
		cr_assert_eq(stack_depth(p->stack_callers, p->samples[i].stack), 1);
		cr_expect_str_eq(
			strtab_get(p->strings, profile_frame(p, p->samples[i].stack)->name),
			IDLE_FRAME);
	}
}

Test(idle, by_the_texts_of_a_live_table)
{
	const struct idle_frame pool[] = {
		{ LOCATION_KERNEL, "futex_wait_[k]" },
		{ LOCATION_NATIVE, "__futex_abstimed_wait_common (libc.so.6)" },
		{ LOCATION_PYTHON, "_worker (concurrent/futures/thread.py)" },
		{ LOCATION_PYTHON, "Thread.run (threading.py)" },
	};
	const struct idle_frame openmp[] = {
		{ LOCATION_NATIVE, "libgomp.so.1+0x1f2e" },
		{ LOCATION_NATIVE, "start_thread (libc.so.6)" },
	};
	const struct idle_frame own[] = {
		{ LOCATION_NATIVE, "clock_nanosleep (libc.so.6)" },
		{ LOCATION_PYTHON, "crawl (train.py)" },
		{ LOCATION_PYTHON, "Thread.run (threading.py)" },
	};
	const struct idle_frame strange[] = { { LOCATION_NATIVE, "" }, { LOCATION_NATIVE, " (" } };

	cr_expect(idle_frames_are_known(pool, 4));
	cr_expect(idle_frames_are_known(openmp, 2));
	cr_expect_not(idle_frames_are_known(own, 3));
	cr_expect_not(idle_frames_are_known(strange, 2));
	cr_expect_not(idle_frames_are_known(NULL, 0));
}
