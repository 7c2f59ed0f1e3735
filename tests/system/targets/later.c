/* SPDX-License-Identifier: Apache-2.0 */
/* Loads its library a second after it started (argv[2]), and is busy in it from then on. */
#define TARGET_MAIN
#include "target.h"

#include <dlfcn.h>

NOINLINE unsigned long run_later(unsigned long (*calls)(unsigned long))
{
	unsigned long sum = 0;

	for (unsigned long i = 0; i < 100; i++)
		sum += calls(i);
	BARRIER();
	return sum;
}

int main(int argc, char **argv)
{
	unsigned long (*calls)(unsigned long);
	void *handle;

	target_init(argc, argv);
	if (argc < 3)
		return 2;
	sleep(1);
	handle = dlopen(argv[2], RTLD_LAZY);
	if (!handle)
		return 1;
	calls = (unsigned long (*)(unsigned long))dlsym(handle, "lib_calls");
	if (!calls)
		return 1;
	for (;;)
		target_sink += run_later(calls);
}
