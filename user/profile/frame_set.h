/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PROFILE_FRAME_SET_H
#define BPFPROF_PROFILE_FRAME_SET_H

/* The distinct frames of many stacks: an ascending array. */

#include <stddef.h>
#include <stdint.h>

/* *ret must be NULL and *ret_nr 0; the caller frees *ret, also after a failure. 0 or -ENOMEM. */
int frame_set_collect(const uint64_t *frames, size_t nr, uint64_t **ret, size_t *ret_nr);
/* The index of a frame that is in the set. */
size_t frame_set_find(const uint64_t *set, size_t nr, uint64_t frame);

#endif
