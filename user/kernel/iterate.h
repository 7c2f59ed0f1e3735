/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_KERNEL_ITERATE_H
#define BPFPROF_KERNEL_ITERATE_H

#include <stdint.h>

/* A descriptor to read a task iterator's output for one thread from, or -errno. */
int iterate_open(int prog_fd, uint32_t tid);

#endif
