/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_THREADS_THREAD_SAMPLE_H
#define BPFPROF_THREADS_THREAD_SAMPLE_H

/* The stack of a sample as that of a thread of a dump: of those on a CPU there is no other. */

#include <stdbool.h>

struct aggregate_input;
struct strtab;
struct thread_dump;

/* Is it all there, down to where its thread began? */
bool thread_sample_is_whole(const struct aggregate_input *input);
/*
 * Its frames, which have no names yet, in place of what the thread had; with `[truncated]` behind them if
 * it is not whole. strings are the dump's. 0 or -ENOMEM.
 */
int thread_sample_take(struct thread_dump *thread, const struct aggregate_input *input,
		       struct strtab *strings);

#endif
