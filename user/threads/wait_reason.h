/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_THREADS_WAIT_REASON_H
#define BPFPROF_THREADS_WAIT_REASON_H

#include <stdbool.h>

struct dump;

/*
 * Says what sleeping threads wait for, as far as their frames (which have names by now) tell: the
 * kernel function, and in words. Nothing of it needs ptrace rights, so which file it is
 * remains a number.
 */
void dump_waits(struct dump *dump);

/* Has it threads of which only the kernel's frames are known? */
bool dump_needs_kernel(const struct dump *dump);

#endif
