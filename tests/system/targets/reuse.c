/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Loads two libraries in turn, which the loader puts at the same address, and is busy in
 * each: argv[2] and argv[3], argv[4] rounds. The caller's name tells which one is
 * really there. Writes to argv[5] how many rounds met the address of the round before.
 */
#define TARGET_MAIN
#include "target.h"

#include <dlfcn.h>

NOINLINE unsigned long call_alpha(unsigned long (*outer)(unsigned long))
{
	unsigned long sum = 0;

	for (unsigned int i = 0; i < 40; i++)
		sum += outer(200000);
	BARRIER();
	return sum;
}

NOINLINE unsigned long call_beta(unsigned long (*outer)(unsigned long))
{
	unsigned long sum = 1;

	for (unsigned int i = 0; i < 40; i++)
		sum += outer(200000);
	BARRIER();
	return sum;
}

NOINLINE void *load_library(const char *path, const char *name, void **ret_outer, void **ret_base)
{
	void *handle = dlopen(path, RTLD_NOW);
	Dl_info info;

	if (!handle || !(*ret_outer = dlsym(handle, name)) || !dladdr(*ret_outer, &info))
		exit(1);
	*ret_base = info.dli_fbase;
	return handle;
}

NOINLINE void close_library(void *handle)
{
	dlclose(handle);
	BARRIER();
}

int main(int argc, char **argv)
{
	unsigned long same = 0, rounds;
	void *outer, *handle, *base, *before = NULL;
	FILE *out;

	target_init(argc, argv);
	if (argc < 6)
		return 2;
	rounds = strtoul(argv[4], NULL, 10);
	for (unsigned long i = 0; i < rounds; i++) {
		handle = load_library(argv[2], "alpha_outer", &outer, &base);
		same += base == before;
		before = base;
		target_sink += call_alpha((unsigned long (*)(unsigned long))outer);
		close_library(handle);
		handle = load_library(argv[3], "beta_outer", &outer, &base);
		same += base == before;
		before = base;
		target_sink += call_beta((unsigned long (*)(unsigned long))outer);
		close_library(handle);
	}
	out = fopen(argv[5], "w");
	if (!out)
		return 1;
	fprintf(out, "%lu\n", same);
	return fclose(out) ? 1 : 0;
}
