/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Built without unwind tables and without frame pointers: a leaf without a frame, a function that ends in
 * a call that does not return (of a stack protector), a machine with a jump table and no return in
 * sight, and a main() that never ends.
 */
#define TARGET_MAIN
#include <setjmp.h>

#include "target.h"

#define NR_STEPS 256

static unsigned char steps[NR_STEPS];
static jmp_buf out;

NOINLINE unsigned long bare_leaf(unsigned long n);
NOINLINE void bare_fill(char *bytes, unsigned long n);
NOINLINE unsigned long bare_checked(unsigned long n);
NOINLINE void bare_machine(unsigned long n);
NOINLINE unsigned long bare_turn(unsigned long n);

NOINLINE unsigned long bare_leaf(unsigned long n)
{
	for (int i = 0; i < 20000; i++)
		n = n * 6364136223846793005UL + 1;
	return n;
}

NOINLINE void bare_fill(char *bytes, unsigned long n)
{
	for (int i = 0; i < 64; i++)
		((volatile char *)bytes)[i] = (char)(n + (unsigned long)i);
}

NOINLINE unsigned long bare_checked(unsigned long n)
{
	char bytes[64];

	bare_fill(bytes, n);
	n = bare_leaf(n);
	return n + (unsigned long)bytes[n % 64];
}

NOINLINE void bare_machine(unsigned long n)
{
	const unsigned char *pc = steps;

	for (;;) {
		switch (*pc++) {
		case 0:
			n = n * 13 + 1;
			break;
		case 1:
			n ^= n >> 7;
			break;
		case 2:
			n ^= bare_checked(n);
			break;
		case 3:
			n -= target_sink;
			break;
		case 4:
			n = n / 3;
			break;
		case 5:
			n = ~n;
			break;
		case 6:
			n += n << 3;
			break;
		default:
			target_sink += n;
			longjmp(out, 1);
		}
	}
}

NOINLINE unsigned long bare_turn(unsigned long n)
{
	volatile unsigned long locals[24];

	for (int i = 0; i < 24; i++)
		locals[i] = n + (unsigned long)i;
	if (!setjmp(out))
		bare_machine(locals[n % 24]);
	return locals[(n + 1) % 24];
}

int main(int argc, char **argv)
{
	target_init(argc, argv);
	for (unsigned int i = 0; i < NR_STEPS; i++)
		steps[i] = (unsigned char)((i * 2654435761U >> 13) % 7);
	steps[NR_STEPS - 1] = 7;
	for (;;)
		target_sink += bare_turn(target_sink);
}
