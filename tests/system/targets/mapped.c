/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Maps a part of a file executable by itself and is busy in it:
 * SECONDS FILE OFFSET LENGTH ENTRY, ENTRY being a file offset. The code touches no data.
 */
#define TARGET_MAIN
#include "target.h"

#include <fcntl.h>
#include <sys/mman.h>

NOINLINE void run_mapped(unsigned long (*entry)(unsigned long))
{
	target_sink += entry(300000);
	BARRIER();
}

int main(int argc, char **argv)
{
	unsigned long off, len, entry;
	unsigned char *code;
	int fd;

	target_init(argc, argv);
	if (argc < 6)
		return 2;
	off = strtoul(argv[3], NULL, 0);
	len = strtoul(argv[4], NULL, 0);
	entry = strtoul(argv[5], NULL, 0);
	fd = open(argv[2], O_RDONLY);
	if (fd < 0)
		return 1;
	code = mmap(NULL, len, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, (off_t)off);
	close(fd);
	if (code == MAP_FAILED)
		return 1;
	for (;;)
		run_mapped((unsigned long (*)(unsigned long))(code + (entry - off)));
}
