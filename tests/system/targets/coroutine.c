/* SPDX-License-Identifier: Apache-2.0 */
/* Two coroutines on stacks of their own: complete stacks end where makecontext began them. */
#define TARGET_MAIN
#include "target.h"

#include <ucontext.h>

static ucontext_t main_context, one_context, two_context;
static unsigned char one_stack[65536], two_stack[65536];

NOINLINE void co_spin(unsigned long rounds)
{
	for (unsigned long i = 0; i < rounds; i++)
		target_sink += i ^ (target_sink >> 3);
}

NOINLINE void co_work(unsigned long rounds)
{
	co_spin(rounds);
	BARRIER();
}

NOINLINE void co_one(void)
{
	for (;;) {
		co_work(5000);
		swapcontext(&one_context, &two_context);
	}
}

NOINLINE void co_two(int a, int b)
{
	for (;;) {
		co_work(4000 + (unsigned long)(a + b));
		swapcontext(&two_context, &one_context);
	}
}

int main(int argc, char **argv)
{
	target_init(argc, argv);
	if (getcontext(&one_context) || getcontext(&two_context))
		return 1;
	one_context.uc_stack.ss_sp = one_stack;
	one_context.uc_stack.ss_size = sizeof(one_stack);
	one_context.uc_link = &main_context;
	makecontext(&one_context, co_one, 0);
	two_context.uc_stack.ss_sp = two_stack;
	two_context.uc_stack.ss_size = sizeof(two_stack);
	two_context.uc_link = &main_context;
	makecontext(&two_context, (void (*)(void))co_two, 2, 1, 2);
	swapcontext(&main_context, &one_context);
	return 1;
}
