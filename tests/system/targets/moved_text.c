/* SPDX-License-Identifier: Apache-2.0 */
/*
 * moved_text WHAT MEMORY: puts a copy of a part of its own text in the place of the file's mapping, as those do that
 * want it on huge pages, and is busy in it: run_outer, run_middle, run_inner.
 *
 * WHAT: inside, the pages of these functions; all, the whole segment; nothing. MEMORY: private, shared, memfd, fixed (private, but
 * mapped over it first and filled then). hole: a page of other code, made at run time, lies in the
 * middle of the segment and is busy, called by run_hole.
 */
#include <link.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE 4096UL

static volatile unsigned long sink;

__asm__(".section .text.a_first,\"ax\"\n.globl filler_low\n.type filler_low,@function\n"
	"filler_low: .rept 8192\nmov $0x12345678, %eax\n.endr\nret\n.size filler_low, "
	".-filler_low\n.text\n");

#define BUSY __attribute__((noinline, section(".text.b_busy")))

BUSY unsigned long run_inner(unsigned long n)
{
	for (int i = 0; i < 20000; i++)
		n = n * 6364136223846793005UL + 1442695040888963407UL;
	return n;
}

BUSY unsigned long run_middle(unsigned long n)
{
	unsigned long table[16];

	for (int i = 0; i < 16; i++)
		table[i] = run_inner(n + (unsigned long)i);
	return table[n % 16] ^ table[(n >> 8) % 16];
}

BUSY void run_outer(void)
{
	for (;;)
		sink += run_middle(sink);
}

__attribute__((noinline)) void run_hole(void (*code)(void))
{
	for (;;) {
		code();
		__asm__ volatile("");
	}
}

__asm__(".section .text.c_last,\"ax\"\n.globl filler_high\n.type filler_high,@function\n"
	"filler_high: .rept 8192\nmov $0x23456789, %eax\n.endr\nret\n.size filler_high, "
	".-filler_high\n.text\n");

void filler_low(void);
void filler_high(void);

static int text_find(struct dl_phdr_info *info, size_t size, void *arg)
{
	unsigned long *range = arg;
	int i;

	(void)size;
	for (i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *ph = &info->dlpi_phdr[i];

		if (ph->p_type != PT_LOAD || !(ph->p_flags & PF_X))
			continue;
		range[0] = (info->dlpi_addr + ph->p_vaddr) & ~(PAGE - 1);
		range[1] = (info->dlpi_addr + ph->p_vaddr + ph->p_memsz + PAGE - 1) & ~(PAGE - 1);
	}
	return 1; /* the program itself comes first */
}

static int text_move(unsigned long start, unsigned long end, const char *memory)
{
	int fd = -1, flags = MAP_PRIVATE | MAP_ANONYMOUS;
	size_t bytes = end - start;
	char *copy;

	if (!strcmp(memory, "shared"))
		flags = MAP_SHARED | MAP_ANONYMOUS;
	if (!strcmp(memory, "memfd")) {
		fd = memfd_create("text", MFD_CLOEXEC);
		flags = MAP_SHARED;
		if (fd < 0 || ftruncate(fd, (off_t)bytes))
			return 1;
	}
	copy = mmap(NULL, bytes, PROT_READ | PROT_WRITE, flags, fd, 0);
	if (copy == MAP_FAILED)
		return 1;
	memcpy(copy, (void *)start, bytes);
	if (!strcmp(memory, "fixed")) {
		if (mmap((void *)start, bytes, PROT_READ | PROT_WRITE, flags | MAP_FIXED, -1, 0) ==
		    MAP_FAILED)
			return 1;
		memcpy((void *)start, copy, bytes);
		return mprotect((void *)start, bytes, PROT_READ | PROT_EXEC);
	}
	if (mprotect(copy, bytes, PROT_READ | PROT_EXEC))
		return 1;
	return mremap(copy, bytes, bytes, MREMAP_MAYMOVE | MREMAP_FIXED, (void *)start) ==
	       MAP_FAILED;
}

static void hole_run(void)
{
	static const unsigned char body[] = {
		0x55, 0x48, 0x89, 0xe5, /* push %rbp; mov %rsp, %rbp */
		0xb8, 0x00, 0x00, 0x10, 0x00, /* mov $1048576, %eax */
		0xff, 0xc8, 0x75, 0xfc, /* dec %eax; jnz dec */
		0x5d, 0xc3, /* pop %rbp; ret */
	};
	char *page = (char *)(((unsigned long)filler_high + 3 * PAGE) & ~(PAGE - 1));

	if (mmap(page, PAGE, PROT_READ | PROT_WRITE | PROT_EXEC,
		 MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED, -1, 0) == MAP_FAILED)
		exit(1);
	memcpy(page, body, sizeof(body));
	run_hole((void (*)(void))(void *)page);
}

int main(int argc, char **argv)
{
	unsigned long range[2] = { 0 }, low = (unsigned long)filler_low, high;
	const char *what = argc > 1 ? argv[1] : "nothing";

	high = (unsigned long)filler_high;
	dl_iterate_phdr(text_find, range);
	if (!strcmp(what, "inside")) {
		range[0] = (low + PAGE) & ~(PAGE - 1);
		range[1] = (high + 2 * PAGE) & ~(PAGE - 1);
	}
	if (!strcmp(what, "hole"))
		hole_run();
	if (strcmp(what, "nothing") && text_move(range[0], range[1], argv[2]))
		return 1;
	run_outer();
}
