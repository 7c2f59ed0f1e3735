/* SPDX-License-Identifier: Apache-2.0 */
/* 60,000 mappings, all executable, of its own file and anonymous in turn, and a busy chain. */
#define TARGET_MAIN
#include "target.h"

#include <fcntl.h>
#include <sys/mman.h>

NOINLINE void many_spin(unsigned long rounds)
{
	for (unsigned long i = 0; i < rounds; i++)
		target_sink += i ^ (target_sink >> 3);
}

NOINLINE void many_work(void)
{
	many_spin(20000);
	BARRIER();
}

int main(int argc, char **argv)
{
	unsigned char *base;
	int fd;

	target_init(argc, argv);
	fd = open("/proc/self/exe", O_RDONLY);
	base = mmap(NULL, 60000UL * 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	if (fd < 0 || base == MAP_FAILED)
		return 1;
	for (unsigned long i = 0; i < 60000; i++) {
		int flags = MAP_PRIVATE | MAP_FIXED | (i & 1 ? MAP_ANONYMOUS : 0);

		if (mmap(base + i * 4096, 4096, PROT_READ | PROT_EXEC, flags, i & 1 ? -1 : fd, 0) ==
		    MAP_FAILED)
			return 1;
	}
	puts("mapped");
	fflush(stdout);
	for (;;)
		many_work();
}
