// SPDX-License-Identifier: Apache-2.0
/* fuzz: max_len=4096 */
#include "symbol/kallsyms.h"

#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/strtab.h"

#define NR 16

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* An address has the same name whatever else is asked in the same call, and starts before it. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kallsyms_query queries[NR], one;
	static char path[64];
	static int fd = -1;
	struct strtab *names;
	struct kallsyms_range range;
	size_t i;
	int err;

	if (fd < 0) {
		fd = memfd_create("kallsyms", MFD_CLOEXEC);
		snprintf(path, sizeof(path), "/proc/self/fd/%d", fd);
	}
	if (ftruncate(fd, 0) || pwrite(fd, data, size, 0) != (ssize_t)size ||
	    strtab_new(&names, 1 << 20))
		abort();
	for (i = 0; i < NR; i++)
		queries[i] = (struct kallsyms_query){ .va = 0xffffffff81000000 + i * 0x37 };
	err = kallsyms_resolve(path, names, queries, NR);
	for (i = 0; i < NR && !err; i++) {
		one = (struct kallsyms_query){ .va = queries[i].va };
		if (kallsyms_resolve(path, names, &one, 1) || one.name != queries[i].name ||
		    one.module != queries[i].module || one.start != queries[i].start)
			abort();
		if (one.name && one.start > one.va)
			abort();
		range = (struct kallsyms_range){ .name = strtab_get(names, one.name) };
		if (i == 0 && one.name && !kallsyms_find(path, &range, 1) && range.start &&
		    range.start >= range.end)
			abort();
	}
	strtab_free(names);
	return 0;
}
