/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PROFILE_WIRE_STACK_H
#define BPFPROF_PROFILE_WIRE_STACK_H

/* Joins the parts of a decoded sample to one list of wire frames, as an aggregate keeps it. */

#include <stddef.h>
#include <stdint.h>

struct aggregate_input;

/* A user frame as a frame of the process with that index: NATIVE_VA frames get its number. */
uint64_t wire_frame_of(uint64_t frame, uint32_t process);
/*
 * Writes the whole stack to frames[AGGREGATE_MAX_STACK], leaf first, with a marker at the root if it is
 * not complete. Returns the number of frames.
 */
size_t wire_stack_join(const struct aggregate_input *input, uint32_t process, uint64_t *frames);

#endif
