/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_THREADS_THREAD_CALL_H
#define BPFPROF_THREADS_THREAD_CALL_H

#include <stdbool.h>

struct dump;
struct stack_names_options;
struct thread_reader;

/*
 * Finds the call of CUDA or NCCL that each thread is in, by its native frames (which have names by now):
 * the outermost function that libcudart, libnccl or librccl export. Exported functions of libcuda leave no
 * frame, so a call of it is only known as one of libcuda. The arguments of a collective are set if its
 * frames hold them (cuda/nccl_info.h). Frames do not hold the age of a call.
 */
void thread_calls_find(struct dump *dump);

/*
 * The same before frames have names. Threads that are in no such library lose their frames, and the frames
 * of the others get names. As stack_names_find().
 */
int thread_calls_name(struct dump *dump, const struct thread_reader *reader,
		      const struct stack_names_options *options);

/* Is a file of that name NCCL, as NVIDIA or AMD makes it? */
bool thread_call_is_nccl(const char *path);

#endif
