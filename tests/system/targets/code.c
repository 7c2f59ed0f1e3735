/* SPDX-License-Identifier: Apache-2.0 */
/* Code without data, library or start: put anywhere in a file and mapped by hand. */

unsigned long code_outer(unsigned long rounds);
unsigned long code_spin(unsigned long rounds);

__attribute__((noinline, noclone, visibility("hidden"))) unsigned long
code_spin(unsigned long rounds)
{
	volatile unsigned long sum = (unsigned long)__builtin_frame_address(0);

	for (unsigned long i = 0; i < rounds; i++)
		sum += i;
	return sum;
}

__attribute__((noinline, noclone)) unsigned long code_outer(unsigned long rounds)
{
	unsigned long sum = (unsigned long)__builtin_frame_address(0);

	sum += code_spin(rounds);
	__asm__ volatile("" ::: "memory");
	return sum;
}
