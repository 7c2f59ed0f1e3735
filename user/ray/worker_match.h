/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_RAY_WORKER_MATCH_H
#define BPFPROF_RAY_WORKER_MATCH_H

/*
 * Which processes a list of worker patterns means: `*policy*` and `dtensor_policy_worker` both
 * find the worker `ray::DTensorPolicyWorker.train`. Patterns are fnmatch(3)'s without escapes;
 * case and `_` are ignored on both sides (but not between brackets, where `_` finds nothing).
 */

#include <stddef.h>

#include "proc/title.h"

struct worker_names {
	const char *title; /* of a Ray worker, with its `ray::`; or NULL */
	const char *comm; /* of the leader, ends with a NUL */
	const char *script; /* of a driver; or NULL */
};

#define WORKER_PATTERN_MAX TITLE_MAX /* bytes; a longer one finds nothing */

/* Index of the first of the patterns that finds one of the names, or -1. */
int worker_match(char *const *patterns, size_t nr, const struct worker_names *names);

/* The same, but a pattern of a method (`trainer.fit`) finds its class between two calls too. */
int worker_match_class(char *const *patterns, size_t nr, const struct worker_names *names);

/* `Trainer.fit` is of the class Trainer; in `MapBatches(f.g)` there is no class: all of it. In bytes. */
size_t worker_class_length(const char *title_without_prefix);

/* What to call it: the title without `ray::`, else the driver's script, else comm. */
const char *worker_name(const struct worker_names *names);

#endif
