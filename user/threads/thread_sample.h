/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_THREADS_THREAD_SAMPLE_H
#define BPFPROF_THREADS_THREAD_SAMPLE_H

/* Puts the stack of a sample into a dump: threads on a CPU have no other. */

#include <stdbool.h>

struct aggregate_input;
struct strtab;
struct thread_dump;

/* Does its stack reach down to where the thread began? */
bool thread_sample_is_whole(const struct aggregate_input *input);
/*
 * Replaces the thread's frames by those of the sample, without names, and adds `[truncated]` if the sample is
 * not whole. strings are the dump's. 0 or -ENOMEM.
 */
int thread_sample_take(struct thread_dump *thread, const struct aggregate_input *input,
		       struct strtab *strings);

#endif
