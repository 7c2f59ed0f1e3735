/* SPDX-License-Identifier: Apache-2.0 */
#ifndef PERF_MAP_H
#define PERF_MAP_H

/* Code made at run time, with its name in a perf map. */

#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* A copy that can be run, named jit_function; or NULL. Inlined: no frame of its own is on the stack. */
static inline __attribute__((always_inline)) void *perf_map_code(const void *from, size_t len)
{
	char path[64];
	FILE *map;
	void *code;

	code = mmap(NULL, 4096, PROT_READ | PROT_WRITE | PROT_EXEC, MAP_PRIVATE | MAP_ANONYMOUS, -1,
		    0);
	if (code == MAP_FAILED)
		return NULL;
	memcpy(code, from, len);
	snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)getpid());
	map = fopen(path, "w");
	if (!map)
		return NULL;
	fprintf(map, "%lx %zx jit_function\n", (unsigned long)code, len);
	fclose(map);
	return code;
}

#endif
