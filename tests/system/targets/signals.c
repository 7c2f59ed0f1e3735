/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A timer interrupts tiny functions at any instruction; the handler is busy.
 * With ALTSTACK it runs on a stack of its own.
 */
#define TARGET_MAIN
#include "target.h"

#include <sys/time.h>

NOINLINE void handler_spin(unsigned long rounds)
{
	for (unsigned long i = 0; i < rounds; i++)
		target_sink += i ^ (target_sink >> 3);
}

NOINLINE void on_timer(int sig)
{
	handler_spin(700000 + (unsigned long)sig);
	BARRIER();
}

NOINLINE unsigned long tiny_leaf(unsigned long a)
{
	return a + target_sink;
}

NOINLINE unsigned long tiny_pushes(unsigned long a, unsigned long b, unsigned long c)
{
	unsigned long x = tiny_leaf(a), y = tiny_leaf(b);

	return x + y * tiny_leaf(c) + a + b + c;
}

NOINLINE unsigned long tiny_loop(unsigned long n)
{
	unsigned long sum = 0;

	for (unsigned long i = 0; i < n; i++)
		sum += tiny_pushes(i, sum, n);
	return sum;
}

int main(int argc, char **argv)
{
	struct sigaction action = { 0 };
	struct itimerval timer = { { 0, 500 }, { 0, 500 } };

	target_init(argc, argv);
#ifdef ALTSTACK
	stack_t stack = { 0 };

	stack.ss_size = 65536;
	stack.ss_sp = malloc(stack.ss_size);
	if (!stack.ss_sp || sigaltstack(&stack, NULL))
		return 1;
	action.sa_flags = SA_ONSTACK;
#endif
	action.sa_handler = on_timer;
	/* Process CPU time: SIGPROF comes only while we run, so we never starve. */
	if (sigaction(SIGPROF, &action, NULL) || setitimer(ITIMER_PROF, &timer, NULL))
		return 1;
	for (;;)
		target_sink += tiny_loop(1000);
}
