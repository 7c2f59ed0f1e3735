/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PROFILE_IDLE_NAMES_H
#define BPFPROF_PROFILE_IDLE_NAMES_H

/* profile/idle.h for callers that have only the texts of the frames. */

#include <stdbool.h>
#include <stddef.h>

#include "profile/profile.h"

struct idle_frame {
	enum location_kind kind;
	const char *text; /* `name (file.py)`, `name (libfoo.so)`, `libfoo.so+0x1f2e` */
};

/* Leaf first. Is a thread that waits with this stack idle? Without memory: no. */
bool idle_frames_are_known(const struct idle_frame *frames, size_t nr);

#endif
