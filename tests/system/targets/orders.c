// SPDX-License-Identifier: Apache-2.0
/*
 * Signals that are hard to judge. "queue PID SIGNAL CODE" sends one with a chosen si_code; "first SECONDS" is the first
 * process of a pid namespace, which survives SIGABRT in a loop and exits with code 3; "alarms NR SECONDS" runs
 * processes that each handle 2,000 signals of a timer a second; "flood PID NR" sends SIGHUP so often;
 * "handles" handles SIGHUP and waits; "slowly" dies of SIGTERM two seconds later; "timer" dies of SIGALRM of a POSIX timer; "orphan" has a child
 * that asks for SIGTERM when its parent ends, which it then does with code 0.
 */
#include "target.h"

#include <sched.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <sys/wait.h>

static void handler(int number)
{
	(void)number;
}

static void leave_later(int number)
{
	sleep(2);
	signal(number, SIG_DFL);
	raise(number);
}

static int slowly(void)
{
	signal(SIGTERM, leave_later);
	printf("%d\n", getpid());
	fflush(stdout);
	for (;;)
		pause();
}

static int queue(pid_t pid, int number, int code)
{
	siginfo_t info;

	memset(&info, 0, sizeof(info));
	info.si_signo = number;
	info.si_code = code;
	return syscall(SYS_rt_sigqueueinfo, pid, number, &info) != 0;
}

static int first(int seconds)
{
	time_t end;
	sigset_t abort_only;
	pid_t child;
	long nr = 0;

	if (unshare(CLONE_NEWPID))
		return 9;
	child = fork();
	if (child) {
		printf("%d\n", child);
		fflush(stdout);
		waitpid(child, NULL, 0);
		return 0;
	}
	getchar();
	end = time(NULL) + seconds;
	sigemptyset(&abort_only);
	sigaddset(&abort_only, SIGABRT);
	while (time(NULL) < end) {
		sigprocmask(SIG_BLOCK, &abort_only, NULL);
		raise(SIGABRT);
		sigprocmask(SIG_UNBLOCK, &abort_only, NULL);
		nr++;
	}
	_exit(nr > 1000 ? 3 : 9);
}

static int alarms(int nr, int seconds)
{
	const struct itimerval every = { { 0, 500 }, { 0, 500 } };
	time_t end;

	getchar();
	end = time(NULL) + seconds;
	while (nr--)
		if (!fork()) {
			signal(SIGALRM, handler);
			setitimer(ITIMER_REAL, &every, NULL);
			while (time(NULL) < end)
				pause();
			_exit(0);
		}
	while (wait(NULL) > 0)
		;
	return 0;
}

static int flood(pid_t pid, int nr)
{
	while (nr--) {
		kill(pid, SIGHUP);
		usleep(100);
	}
	return 0;
}

static int timer(void)
{
	struct sigevent event = { .sigev_notify = SIGEV_SIGNAL, .sigev_signo = SIGALRM };
	const struct itimerspec soon = { .it_value.tv_nsec = 100000000 };
	timer_t id;

	if (timer_create(CLOCK_MONOTONIC, &event, &id) || timer_settime(id, 0, &soon, NULL))
		return 9;
	for (;;)
		pause();
}

static int orphan(void)
{
	pid_t child = fork();

	if (!child) {
		prctl(PR_SET_PDEATHSIG, SIGTERM);
		printf("%d\n", getpid());
		fflush(stdout);
		for (;;)
			pause();
	}
	getchar();
	return 0;
}

static int number(char *argv[], int argc, int at)
{
	return at < argc ? atoi(argv[at]) : 0;
}

int main(int argc, char *argv[])
{
	const char *way = argc > 1 ? argv[1] : "";
	int one = number(argv, argc, 2), two = number(argv, argc, 3);

	alarm(300);
	if (!strcmp(way, "queue"))
		return queue(one, two, number(argv, argc, 4));
	if (!strcmp(way, "first"))
		return first(one);
	if (!strcmp(way, "alarms"))
		return alarms(one, two);
	if (!strcmp(way, "flood"))
		return flood(one, two);
	if (!strcmp(way, "orphan"))
		return orphan();
	if (!strcmp(way, "slowly"))
		return slowly();
	getchar();
	if (!strcmp(way, "timer"))
		return timer();
	signal(SIGHUP, handler);
	for (;;)
		pause();
}
