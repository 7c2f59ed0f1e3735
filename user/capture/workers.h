/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CAPTURE_WORKERS_H
#define BPFPROF_CAPTURE_WORKERS_H

/*
 * --worker: the samples of wanted workers. Each sample is judged, since a worker runs one task after
 * the other; verdicts are kept in a cache of fixed size. Each process that is found is reported once,
 * up to WORKERS_MAX_REPORTED of them.
 */

#include <stdbool.h>
#include <stddef.h>

struct aggregate_input;
struct workers;

#define WORKERS_MAX_REPORTED 4096

/* Patterns are borrowed. 0 or -ENOMEM. */
int workers_new(struct workers **ret, char *const *patterns, size_t nr);
void workers_free(struct workers *workers);

/*
 * Does a pattern match the title, name or script of the sample? report: a process that is found for the
 * first time is reported on standard error.
 */
bool workers_want(struct workers *workers, const struct aggregate_input *input, bool report);

#endif
