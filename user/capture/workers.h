/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CAPTURE_WORKERS_H
#define BPFPROF_CAPTURE_WORKERS_H

/*
 * --worker: which samples belong to a worker that was asked for. Judged sample by sample, since
 * a worker runs one task after the other; verdicts are kept in a cache of fixed size. Each process
 * that was found is told of once, up to WORKERS_MAX_REPORTED of them.
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
 * Is the sample one of those, by its title, name or script? tells: the first time of a process it is
 * said on standard error.
 */
bool workers_want(struct workers *workers, const struct aggregate_input *input, bool tells);

#endif
