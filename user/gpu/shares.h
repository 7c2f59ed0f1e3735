/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_GPU_SHARES_H
#define BPFPROF_GPU_SHARES_H

/* A total that is shared out without a rest. */

#include <stdint.h>

/* The part of total that falls to a share of all, of what is left: the last one gets the rest. */
uint64_t share_take(uint64_t *total, uint64_t *all, uint64_t share);

#endif
