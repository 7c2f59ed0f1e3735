/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_GPU_SHARES_H
#define BPFPROF_GPU_SHARES_H

/* Shares a total out without a rest. */

#include <stdint.h>

/*
 * Takes the part of *total for share out of *all, and subtracts both; the last share gets the rest.
 */
uint64_t share_take(uint64_t *total, uint64_t *all, uint64_t share);

#endif
