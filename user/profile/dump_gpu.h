/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PROFILE_DUMP_GPU_H
#define BPFPROF_PROFILE_DUMP_GPU_H

struct dump;

/*
 * Says which call of CUDA or NCCL a thread is in, by its native frames (which have names by now):
 * the outermost function that libcudart, libnccl or librccl export; of libcuda, whose exported
 * functions leave no frame of theirs, that it is one of it. Arguments and age stack frames do not tell.
 */
void dump_gpu(struct dump *dump);

#endif
