/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_THREADS_THREAD_CALL_H
#define BPFPROF_THREADS_THREAD_CALL_H

#include <stdbool.h>

struct dump;
struct images;
struct thread_dump;

/*
 * Says which call of CUDA or NCCL a thread is in, by its native frames (which have names by now):
 * the outermost function that libcudart, libnccl or librccl export; of libcuda, whose exported
 * functions leave no frame of theirs, that it is one of it. Of collectives also with which
 * arguments, if their frames tell (cuda/nccl_info.h). Their age they do not tell.
 */
void dump_gpu(struct dump *dump);

/* Is a file of that name NCCL, as NVIDIA or AMD makes it? */
bool dump_gpu_is_nccl(const char *path);

/* Before frames have names: is the thread in such a library at all? */
bool dump_gpu_is_near(const struct thread_dump *thread, struct images *images);

#endif
