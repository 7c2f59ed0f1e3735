// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "capture/target.h"

Test(target, ourselves)
{
	struct target target;

	cr_assert_eq(target_probe(getpid(), &target), 0);
	cr_expect_eq(target.leader, getpid());
	cr_expect_not(target.zombie || target.kernel_thread);
	cr_expect(target_has_start(getpid(), 0));
	cr_expect_not(target_has_start(getpid(), 1));
	cr_expect_not(target_has_start(INT_MAX, 1));
	cr_expect(target.bits == 64 || target.bits == 0, "%d", target.bits);
}

/* Here both numbers are the same one; the name cannot forge it. */
Test(target, pod_pid)
{
	prctl(PR_SET_NAME, "x\nNSpid:\t1");
	cr_expect_eq(target_pod_pid(getpid()), getpid());
	cr_expect_eq(target_pod_pid(INT_MAX), 0);
	cr_expect(target_is_outermost(getpid()));
	cr_expect_not(target_is_outermost(INT_MAX));
}

/* The name is the target's to choose: it must not be read as another field. */
Test(target, forged_name)
{
	static const char *const names[] = { ")       2097152", ") Z 2 0", "a\nState:\tZ",
					     "\033[1m" };

	for (size_t i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		struct target target;

		prctl(PR_SET_NAME, names[i]);
		cr_assert_eq(target_probe(getpid(), &target), 0);
		cr_expect_not(target.zombie, "%zu", i);
		cr_expect_not(target.kernel_thread, "%zu", i);
		cr_expect_eq(target.leader, getpid(), "%zu", i);
		for (const char *c = target.name; *c; c++)
			cr_expect(*c >= 0x20 && *c < 0x7f, "%zu", i);
	}
}

Test(target, zombie)
{
	struct target target;
	siginfo_t info;
	pid_t pid = fork();

	cr_assert_geq(pid, 0);
	if (!pid)
		_exit(0);
	cr_assert_eq(waitid(P_PID, (id_t)pid, &info, WEXITED | WNOWAIT), 0);
	cr_expect_not(target_is_outermost(pid));
	cr_assert_eq(target_probe(pid, &target), 0);
	cr_expect(target.zombie);
	cr_assert_eq(waitpid(pid, NULL, 0), pid);
	memset(&target, 0x5a, sizeof(target));
	cr_expect_eq(target_probe(pid, &target), -ESRCH);
	cr_expect_eq(target.pid, 0x5a5a5a5a, "the result was touched");
}

struct probed {
	struct target target;
	int err;
};

static void *thread_main(void *arg)
{
	struct probed *probed = arg;

	probed->err = target_probe(gettid(), &probed->target);
	return NULL;
}

Test(target, thread)
{
	struct probed probed = { .err = -1 };
	pthread_t thread;

	cr_assert_eq(pthread_create(&thread, NULL, thread_main, &probed), 0);
	pthread_join(thread, NULL);
	cr_assert_eq(probed.err, 0);
	cr_expect_neq(probed.target.pid, getpid());
	cr_expect_eq(probed.target.leader, getpid());
}

/* Process 2 is kthreadd, unless we are in a container. */
Test(target, kernel_thread)
{
	struct target target;

	if (target_probe(2, &target) || strcmp(target.name, "kthreadd"))
		return;
	cr_expect(target.kernel_thread);
}
