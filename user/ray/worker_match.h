/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_RAY_WORKER_MATCH_H
#define BPFPROF_RAY_WORKER_MATCH_H

/*
 * Matches processes with a list of worker patterns: `*policy*` and `dtensor_policy_worker` both match
 * the worker `ray::DTensorPolicyWorker.train`. Patterns are those of fnmatch(3) without escapes. Case
 * and `_` are ignored on both sides, except between brackets, where `_` matches nothing.
 */

#include <stddef.h>

#include "proc/title.h"

struct worker_names {
	const char *title; /* of a Ray worker, with its `ray::`; or NULL */
	const char *comm; /* of the first thread, ends with a NUL */
	const char *script; /* of a driver; or NULL */
};

#define WORKER_PATTERN_MAX TITLE_MAX /* bytes; a longer pattern matches nothing */

/* The index of the first pattern that matches one of the names, or -1. */
int worker_match(char *const *patterns, size_t nr, const struct worker_names *names);

/* The same, but a pattern of a method (`trainer.fit`) also matches its class between two calls. */
int worker_match_class(char *const *patterns, size_t nr, const struct worker_names *names);

/* Bytes of the class: `Trainer` in `Trainer.fit`. `MapBatches(f.g)` has none: the whole length. */
size_t worker_class_length(const char *title_without_prefix);

/* The name to show: the title without `ray::`, else the script of a driver, else comm. */
const char *worker_name(const struct worker_names *names);

#endif
