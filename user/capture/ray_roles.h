/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CAPTURE_RAY_ROLES_H
#define BPFPROF_CAPTURE_RAY_ROLES_H

/*
 * The role of a sampled process in a Ray cluster, found out when its samples come: once for good,
 * or again every few seconds for a Python process that uses Ray, which may yet become a driver.
 */

#include <stdint.h>

struct bpfprof_sample;
struct process;
struct sampler;

/* Sets the role in process->owner if the process has one that was not known yet. */
void ray_roles_poll(struct sampler *sampler, struct process *process,
		    const struct bpfprof_sample *sample, uint64_t now_ns);

/* The script of a driver, a part of its role; NULL: of none. */
const char *ray_roles_script(const char *role);

#endif
