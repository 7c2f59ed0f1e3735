/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_TESTS_KERNELS_HIDDEN_H
#define BPFPROF_TESTS_KERNELS_HIDDEN_H

/* Hides a target: another uid than the profiler's, and not dumpable. */

#include <stdlib.h>
#include <sys/prctl.h>
#include <unistd.h>

static inline void process_hide(void)
{
	if (setgid(1000) || setuid(1000) || prctl(PR_SET_DUMPABLE, 0, 0, 0, 0))
		exit(1);
}

#endif
