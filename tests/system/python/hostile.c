// SPDX-License-Identifier: Apache-2.0
/*
 * Says by its symbols that it is a Python interpreter, and is none. What lies at
 * _PyRuntime is: zeros, garbage, pointers in a cycle (every word of a region is its
 * address), the same with a thread that is found (the fs base is that region too, so the
 * list of frames is a cycle and every string has an absurd length), pointers to nowhere, a
 * chain without end in sight, pointers into the kernel. OFFSETS: a real _Py_DebugOffsets in
 * front; LIE: one of absurd numbers.
 */
#include <asm/prctl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#define WORDS (1 << 17)
#define LINKS 20000
#define LINK_WORDS 128

#if PYTHON_VERSION
const unsigned long Py_Version = PYTHON_VERSION;
#endif

#if defined(OFFSETS) && defined(LIE)
/* In the file, where it is read from: a cookie and a version, then one absurd number after another. */
unsigned char _PyRuntime[WORDS * 8] __attribute__((aligned(64))) = {
	'x',
	'd',
	'e',
	'b',
	'u',
	'g',
	'p',
	'y',
	0xf0,
	0x00,
	0x0d,
	0x03,
	0,
	0,
	0,
	0,
	[24 ... 1023] = 0xf1,
};
#define KEEP 1024
#elif defined(OFFSETS)
unsigned char _PyRuntime[WORDS * 8] __attribute__((aligned(64))) = { OFFSETS };
#define KEEP 1024
#else
unsigned char _PyRuntime[WORDS * 8] __attribute__((aligned(64))) = { 1 };
#define KEEP 0
#endif

/* Its presence is asked for in the table of symbols. */
void _PyEval_EvalFrameDefault(void);
void _PyEval_EvalFrameDefault(void)
{
}

static volatile uint32_t sink;

__attribute__((noinline)) void hostile_spin(void)
{
	uint32_t x = 1;

	for (;;) {
		for (uint32_t i = 0; i < 100000; i++)
			x = x * 1664525 + i;
		sink = x;
	}
}

static uint64_t *region(size_t words)
{
	uint64_t *p =
		mmap(0, words * 8, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		_exit(3);
	return p;
}

static uint64_t word_of(size_t i, uint64_t *own)
{
#if defined(GARBAGE)
	(void)own;
	return (i + 1) * 0x9e3779b97f4a7c15u;
#elif defined(WILD)
	(void)own;
	return i % 3 ? 0x10 + i : 0x7ffffffff000u - i * 8;
#elif defined(KERNEL)
	(void)own;
	return i % 2 ? 0xffffffff81000000u + i * 8 : 0xffff888000000000u + i * 8;
#elif defined(CYCLE) || defined(SELF_THREAD) || defined(CHAIN)
	(void)i;
	return (uint64_t)own;
#else
	(void)i;
	(void)own;
	return 0;
#endif
}

int main(void)
{
	uint64_t *own = region(WORDS);
	uint64_t *runtime = (uint64_t *)_PyRuntime;

	if (getenv("TARGET_NONDUMPABLE"))
		prctl(PR_SET_DUMPABLE, 0);
	for (size_t i = 0; i < WORDS; i++)
		own[i] = (uint64_t)own;
#ifdef CHAIN
	uint64_t *links = region((size_t)LINKS * LINK_WORDS);

	for (size_t i = 0; i + LINK_WORDS < (size_t)LINKS * LINK_WORDS; i++)
		links[i] = (uint64_t)(links + (i / LINK_WORDS + 1) * LINK_WORDS);
	own = links;
#endif
	for (size_t i = KEEP / 8; i < WORDS; i++)
		runtime[i] = word_of(i, own);
#ifdef SELF_THREAD
	syscall(SYS_arch_prctl, ARCH_SET_FS, own);
#endif
	hostile_spin();
	return 0;
}
