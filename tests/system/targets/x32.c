/* SPDX-License-Identifier: Apache-2.0 */
/* A 32-bit program without a library; it is killed from outside (its alarm is a system call). */

static volatile unsigned int sink;

static void __attribute__((noinline, noclone)) spin32(void)
{
	for (unsigned int i = 0; i < 100000; i++)
		sink += i;
}

void __attribute__((used)) start32(void);

void start32(void)
{
	unsigned int result;

	/* alarm(60) by its number on i386 */
	__asm__ volatile("int $0x80" : "=a"(result) : "a"(27), "b"(60) : "memory");
	for (;;)
		spin32();
}

__asm__(".globl _start\n_start:\n\txorl %ebp, %ebp\n\tcall start32\n");
