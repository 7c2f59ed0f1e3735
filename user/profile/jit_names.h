/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PROFILE_JIT_NAMES_H
#define BPFPROF_PROFILE_JIT_NAMES_H

/*
 * Names of code without a file, from the maps that processes write: /tmp/perf-PID.map. All maps of
 * one pass together have a limit of bytes, since parsing takes time.
 */

#include <stddef.h>
#include <stdint.h>

#include "base/counters.h"

#define JIT_NAMES_PATH_BYTES 64

struct images;
struct perfmap_query;
struct stats_reasons;
struct strtab;

/* The files are borrowed; reasons gets the problems of files. */
struct jit_names {
	struct images *images;
	struct strtab *strings;
	struct stats_reasons *reasons;
	char *cut_map; /* JIT_NAMES_PATH_BYTES for the path of a map that is too long; or NULL */
	uint64_t bytes; /* read so far */
};

/*
 * Names as many of the queries as the maps of the process pid and of its ancestors do. start_ns: of
 * the process, 0: any. 0 or -ENOMEM.
 */
int jit_names_find(struct jit_names *names, uint32_t pid, uint64_t start_ns,
		   struct perfmap_query *queries, size_t nr);

extern const struct counter jit_names_counters[];

#endif
