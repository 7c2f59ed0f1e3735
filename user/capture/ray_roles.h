/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CAPTURE_RAY_ROLES_H
#define BPFPROF_CAPTURE_RAY_ROLES_H

/*
 * The role of a sampled process in a Ray cluster. It is found when samples of the process come: once for
 * good, or every few seconds for a Python process that uses Ray, which may become a driver later.
 */

#include <stdbool.h>
#include <stdint.h>

struct bpfprof_sample;
struct process;
struct sampler;

/* Sets the role in process->owner if the process has one that was not known yet. */
void ray_roles_poll(struct sampler *sampler, struct process *process,
		    const struct bpfprof_sample *sample, uint64_t now_ns);

/* Would ray_roles_poll() wait for no file? */
bool ray_roles_are_settled(const struct sampler *sampler, const struct process *process,
			   const struct bpfprof_sample *sample, uint64_t now_ns);

/* The script of a driver, a part of its role; NULL: the role is no driver. */
const char *ray_roles_script(const char *role);

#endif
