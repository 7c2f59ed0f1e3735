/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_OPTIONS_GPU_OPTIONS_H
#define BPFPROF_OPTIONS_GPU_OPTIONS_H

/* The options of `bpfprof gpu`; rules as in options/options.h. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "options/options.h"

struct gpu_options {
	struct record_options record; /* processes, duration and files; the rest is 0 */
	bool once; /* one table at the end */
	bool json; /* as JSON */
	const char *sort; /* static: "calls", "bytes" or "blocked" */
	size_t rows; /* of a table, 0: all */
};

extern const struct flag_set gpu_flags;

#endif
