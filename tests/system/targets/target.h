/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_TESTS_TARGET_H
#define BPFPROF_TESTS_TARGET_H

/*
 * What every test target shares. A target burns CPU in a known chain of
 * functions until it is killed; argv[1] (seconds) is its own alarm, so that
 * none outlives a test run that died. Calls are kept real: nothing is inlined,
 * cloned or turned into a jump, and every caller has work left after its call.
 */

#include <errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <time.h>
#include <unistd.h>

#ifdef __clang__
#define NOINLINE __attribute__((noinline, used))
#else
#define NOINLINE __attribute__((noinline, noclone, used))
#endif
#define BARRIER() __asm__ volatile("" ::: "memory")

#ifdef __cplusplus
#define LINKAGE extern "C"
#else
#define LINKAGE
#endif

extern volatile unsigned long target_sink;
#ifdef TARGET_MAIN
volatile unsigned long target_sink;
#endif

/* Environment: TARGET_COMM renames the process, TARGET_NONDUMPABLE=1 makes it so. */
static inline void target_init(int argc, char **argv)
{
	const char *comm = getenv("TARGET_COMM"), *secret = getenv("TARGET_NONDUMPABLE");

	alarm(argc > 1 ? (unsigned int)strtoul(argv[1], NULL, 10) : 20);
	if (comm)
		prctl(PR_SET_NAME, comm);
	if (secret && *secret == '1')
		prctl(PR_SET_DUMPABLE, 0);
}

#endif
