// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/deadline.h"
#include "base/time.h"
#include "proc/self.h"
#include "proc/usage.h"

/* A child under that name, and what /proc says of it once it sleeps. */
static pid_t child_named(const char *name)
{
	int ready[2];
	pid_t pid;
	char byte;

	cr_assert_eq(pipe(ready), 0);
	pid = fork();
	cr_assert_geq(pid, 0);
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		prctl(PR_SET_NAME, name);
		close(ready[0]);
		if (write(ready[1], "x", 1) != 1)
			_exit(1);
		for (;;)
			pause();
	}
	close(ready[1]);
	cr_assert_eq(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	return pid;
}

static void child_end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* With any name, the fields after it are right. */
Test(usage, hostile_names)
{
	static const char *const names[] = { "a) R 1 (",     ") Z 1 1 1 1 1", "((((", "))))",
					     "a\nb) S 0\n2", "\033[31m\t",    " ",    "" };
	struct proc_usage usage;
	pid_t pid;
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		pid = child_named(names[i]);
		cr_assert_eq(proc_usage_read(&usage, pid), 0);
		child_end(pid);
		cr_expect_str_eq(usage.comm, names[i]);
		cr_expect_eq(usage.parent, getpid(), "%s: %d", names[i], usage.parent);
		cr_expect(usage.state == 'S' || usage.state == 'R', "%s: %c", names[i],
			  usage.state);
		cr_expect_eq(usage.nr_threads, 1);
		cr_expect_not(usage.flags & PROC_PF_KTHREAD);
	}
}

static void *thread_wait(void *arg)
{
	pthread_barrier_wait(arg);
	pthread_barrier_wait(arg);
	return NULL;
}

Test(usage, ourselves)
{
	volatile uint64_t spin = 0;
	pthread_barrier_t barrier;
	struct proc_usage usage;
	struct timespec cpu;
	pthread_t thread;
	double expected;

	do {
		for (int i = 0; i < 1000000; i++)
			spin = spin + 1;
		clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
	} while (cpu.tv_sec == 0 && cpu.tv_nsec < 100000000);
	pthread_barrier_init(&barrier, NULL, 2);
	cr_assert_eq(pthread_create(&thread, NULL, thread_wait, &barrier), 0);
	pthread_barrier_wait(&barrier);
	cr_assert_eq(proc_usage_read(&usage, getpid()), 0);
	pthread_barrier_wait(&barrier);
	pthread_join(thread, NULL);
	clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &cpu);
	expected = (double)cpu.tv_sec + (double)cpu.tv_nsec / 1e9;
	cr_expect((double)usage.cpu_ns / 1e9 > expected - 0.05 &&
			  (double)usage.cpu_ns / 1e9 < expected + 0.02,
		  "%f for %f", (double)usage.cpu_ns / 1e9, expected);
	cr_expect_geq(usage.nr_threads, 2);
	cr_expect_eq(usage.parent, getppid());
	cr_expect_eq(usage.state, 'R');
	cr_expect(usage.rss_bytes > 100000 && usage.rss_bytes < 16ULL << 30);
	cr_expect_leq(usage.start_ns, time_of_clock_ns(CLOCK_BOOTTIME));
	cr_expect_geq(usage.start_ns + 300 * NS_PER_SECOND, time_of_clock_ns(CLOCK_BOOTTIME));
}

static int cmdline_read(char *dst, size_t cap, pid_t pid)
{
	struct deadline_runner *runner;
	int err;

	cr_assert_eq(deadline_runner_new(&runner), 0);
	err = proc_cmdline_read(runner, dst, cap, pid);
	deadline_runner_free(runner);
	return err;
}

Test(usage, gone)
{
	struct proc_usage usage;
	pid_t pid = child_named("x");
	char text[16] = "untouched";

	child_end(pid);
	memset(&usage, 0x5a, sizeof(usage));
	cr_expect_eq(proc_usage_read(&usage, pid), -ESRCH);
	cr_expect_eq(usage.parent, 0x5a5a5a5a);
	cr_expect_eq(cmdline_read(text, sizeof(text), pid), -ESRCH);
	cr_expect_eq(proc_usage_read(&usage, -1), -ESRCH);
}

/*
 * A shell that reports when it runs, after its command line exists (exec closes files before that),
 * and stays whatever our standard input is.
 */
static pid_t run_sleep(const char *blank, const char *last)
{
	int ready[2], hold[2];
	pid_t pid;
	char byte;

	cr_assert_eq(pipe2(ready, O_CLOEXEC), 0);
	cr_assert_eq(pipe2(hold, O_CLOEXEC), 0);
	pid = fork();
	cr_assert_geq(pid, 0);
	if (!pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (dup2(hold[0], 0) < 0 || dup2(hold[1], 2) < 0 || dup2(ready[1], 1) < 0)
			_exit(127);
		execlp("sh", "sh", "-c", "echo; read x", blank, last, (char *)NULL);
		_exit(127);
	}
	close(ready[1]);
	close(hold[0]);
	close(hold[1]);
	cr_assert_eq(read(ready[0], &byte, 1), 1);
	close(ready[0]);
	return pid;
}

Test(usage, cmdline)
{
	char text[256], cut[8], one[1];
	pid_t pid = run_sleep("two words", "");

	cr_assert_eq(cmdline_read(text, sizeof(text), pid), 0);
	cr_expect_str_eq(text, "sh -c echo; read x two words");
	cr_assert_eq(cmdline_read(cut, sizeof(cut), pid), 0);
	cr_expect_str_eq(cut, "sh -c e");
	cr_assert_eq(cmdline_read(one, sizeof(one), pid), 0);
	cr_expect_str_eq(one, "");
	child_end(pid);
}

/* Kernel threads have none; a zombie neither. */
Test(usage, empty_cmdline)
{
	char text[256] = "x";
	siginfo_t info;
	pid_t pid = fork();

	if (!pid)
		_exit(0);
	cr_assert_eq(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	cr_expect_eq(cmdline_read(text, sizeof(text), pid), 0);
	cr_expect_str_eq(text, "");
	child_end(pid);
}

/* A map of a file counts when it is private to us, anonymous memory always. */
Test(usage, self_grows_by_what_is_allocated)
{
	struct self_usage before, after;
	size_t bytes = 32 << 20;
	char *mem;

	cr_assert_eq(self_usage_read(&before), 0);
	mem = malloc(bytes);
	cr_assert(mem);
	for (size_t i = 0; i < bytes; i += 4096)
		((volatile char *)mem)[i] = 1;
	cr_assert_eq(self_usage_read(&after), 0);
	free(mem);
	cr_expect(after.own_bytes >= before.own_bytes + bytes - (1 << 20) &&
			  after.own_bytes < before.own_bytes + 3 * bytes,
		  "%lu then %lu", (unsigned long)before.own_bytes, (unsigned long)after.own_bytes);
	cr_expect_leq(after.own_bytes, after.rss_bytes + (4 << 20));
	cr_expect_geq(after.peak_rss_bytes, after.rss_bytes);
	cr_expect(after.age_seconds >= before.age_seconds && after.age_seconds < 300);
	cr_expect_geq(after.cpu_seconds, before.cpu_seconds);
}
