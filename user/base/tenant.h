/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_BASE_TENANT_H
#define BPFPROF_BASE_TENANT_H

/*
 * The number of a tenant, who shares limits with others (background.h, shares.h): a container, or else a
 * user. 0: not known.
 */

#include <stdint.h>

#define TENANT_CONTAINER (1U << 31) /* the other bits are a hash of its id */
#define TENANT_PROCESS                                                                             \
	(1U << 30) /* a process whose user is not known yet; the other bits are its pid */

/* Users with very large numbers, which are those of containers, share the number of another user. */
static inline uint32_t tenant_of_user(uint32_t uid)
{
	return uid % (TENANT_PROCESS - 1) + 1;
}

static inline uint32_t tenant_of_process(uint32_t pid)
{
	return TENANT_PROCESS | pid;
}

/*
 * The place of a tenant in a table of nr places. Tenants may share one. Each run of bpfprof has other such pairs, so
 * that no user can choose the tenant to share a place with. For the loop and jobs.
 */
uint32_t tenant_slot(uint32_t tenant, uint32_t nr);

#endif
