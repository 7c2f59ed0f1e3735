/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_OPTIONS_WATCH_OPTIONS_H
#define BPFPROF_OPTIONS_WATCH_OPTIONS_H

/* The parsed and checked options of watch, in the way of options/options.h. */

#include "options/options.h"

struct watch_options {
	struct capture_options capture;
	uint64_t duration_ns; /* 0: until Ctrl-C, or until all processes have ended */
	struct stall_options stall;
	char *output; /* the folder of the folders of deaths; NULL: this one */
	unsigned int verbose; /* times that --verbose was given */
};

extern const struct flag_set watch_flags;
extern const struct flag stall_flags[]; /* of a stall_options */

#endif
