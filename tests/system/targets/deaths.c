// SPDX-License-Identifier: Apache-2.0
/*
 * Dies in the way that its argument says, once standard input has a line or ends, or after DEATHS_DELAY seconds: main > outer > middle > NAME_here.
 * "thread-NAME" does so in a thread, "raise-NAME" has a handler on its own stack that raises the signal again.
 */
#include "target.h"

#include <pthread.h>
#include <setjmp.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define HERE(name) NOINLINE static void name##_here(void)

static sigjmp_buf back;
static volatile int zero;
static volatile int *volatile nowhere = (volatile int *)0x10;

HERE(segv)
{
	*nowhere = 1;
	BARRIER();
}

HERE(bus)
{
	char *map = mmap(NULL, 4096, PROT_READ, MAP_SHARED, fileno(tmpfile()), 0);

	BARRIER();
	zero = *(volatile char *)map; /* behind the end of the file */
}

HERE(abort)
{
	abort();
}

HERE(fpe)
{
	zero = 1000 / zero;
	BARRIER();
}

HERE(ill)
{
	__asm__ volatile("ud2");
}

HERE(trap)
{
	__asm__ volatile("int3");
	BARRIER();
}

NOINLINE static int deeper(int n)
{
	volatile char room[256] = { 0 };

	return deeper(n + 1) + room[n & 255];
}

/* A recursion without end. */
HERE(deep)
{
	zero = deeper(0);
}

HERE(exit)
{
	exit(3);
}

HERE(done)
{
	exit(0);
}

HERE(wait)
{
	for (;;)
		pause();
}

HERE(spin)
{
	while (!zero)
		;
}

static void jump(int signal)
{
	(void)signal;
	siglongjmp(back, 1);
}

/* A program that lives on after signals that would be deadly. */
HERE(handled)
{
	volatile int i;

	signal(SIGSEGV, jump);
	for (i = 0; i < 10000; i++)
		if (!sigsetjmp(back, 1))
			segv_here();
	exit(0);
}

/* A handler that turns a request to end into an exit code. */
static void leave(int signal)
{
	(void)signal;
	_exit(7);
}

HERE(leave)
{
	signal(SIGTERM, leave);
	wait_here();
}

/* grep finds nothing and says so by its exit code: that is no death. */
HERE(helper)
{
	exit(system("exec grep -q nothing /dev/null") == 0);
}

static void raise_again(int number)
{
	signal(number, SIG_DFL);
	raise(number);
}

static const struct {
	const char *name;
	void (*run)(void);
} ways[] = {
	{ "segv", segv_here },	   { "bus", bus_here },	    { "abort", abort_here },
	{ "fpe", fpe_here },	   { "ill", ill_here },	    { "trap", trap_here },
	{ "exit", exit_here },	   { "done", done_here },   { "wait", wait_here },
	{ "spin", spin_here },	   { "leave", leave_here }, { "handled", handled_here },
	{ "helper", helper_here }, { "deep", deep_here },
};

NOINLINE static void middle(const char *way)
{
	for (size_t i = 0; i < sizeof(ways) / sizeof(ways[0]); i++)
		if (!strcmp(ways[i].name, way))
			ways[i].run();
	BARRIER();
}

NOINLINE static void outer(const char *way)
{
	middle(way);
	BARRIER();
}

static void *thread(void *arg)
{
	pthread_setname_np(pthread_self(), "loader");
	outer(arg);
	return NULL;
}

static void handlers_set(void)
{
	static char room[65536];
	const stack_t stack = { .ss_sp = room, .ss_size = sizeof(room) };
	const struct sigaction action = { .sa_handler = raise_again,
					  .sa_flags = SA_ONSTACK | SA_NODEFER };

	sigaltstack(&stack, NULL);
	sigaction(SIGSEGV, &action, NULL);
	sigaction(SIGFPE, &action, NULL);
}

/* Children that all die when the pipe is closed. */
static void brood(int nr)
{
	int gate[2];
	char byte;

	if (pipe(gate))
		exit(9);
	for (int i = 0; i < nr; i++) {
		if (fork())
			continue;
		close(gate[1]);
		if (read(gate[0], &byte, 1) == 0)
			outer("segv");
		_exit(9);
	}
	printf("ready\n");
	fflush(stdout);
	getchar();
	close(gate[1]);
	while (wait(NULL) > 0)
		;
	exit(0);
}

int main(int argc, char *argv[])
{
	const char *way = argc > 1 ? argv[1] : "";
	pthread_t tid;

	alarm(300);
	if (getenv("TARGET_NONDUMPABLE"))
		prctl(PR_SET_DUMPABLE, 0);
	if (!strcmp(way, "brood"))
		brood(argc > 2 ? atoi(argv[2]) : 1);
	if (getenv("DEATHS_DELAY"))
		sleep((unsigned int)atoi(getenv("DEATHS_DELAY")));
	else
		getchar();
	if (!strncmp(way, "raise-", 6))
		handlers_set();
	if (!strncmp(way, "thread-", 7)) {
		if (pthread_create(&tid, NULL, thread, strchr(argv[1], '-') + 1))
			return 9;
		pthread_join(tid, NULL);
	}
	outer(strncmp(way, "raise-", 6) ? way : way + 6);
	return 0;
}
