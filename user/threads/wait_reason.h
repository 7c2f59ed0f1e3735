/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_THREADS_WAIT_REASON_H
#define BPFPROF_THREADS_WAIT_REASON_H

#include <stdbool.h>

struct dump;

/*
 * Finds what sleeping threads wait for, by their frames (which have names by now): the kernel function,
 * and words for it. Files remain numbers, since their names need ptrace rights.
 */
void wait_reasons_find(struct dump *dump);

/* Has the dump a thread with kernel frames alone? */
bool wait_reasons_need_kernel(const struct dump *dump);

#endif
