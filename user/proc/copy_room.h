/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PROC_COPY_ROOM_H
#define BPFPROF_PROC_COPY_ROOM_H

/*
 * The memory for copies of files that cannot be opened. One tenant may use all of it; copies of the tenant
 * with most make room for those of tenants with less.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/shares.h"

struct image;
struct refusals;

struct copy_room {
	struct shares shares;
	struct image **images; /* that have some of it */
	size_t nr, cap;
	struct refusals *refusals; /* or NULL */
};

void copy_room_init(struct copy_room *room);
void copy_room_fini(struct copy_room *room);
/* Counts so many more bytes for the image. False: they have no room. */
bool copy_room_take(struct copy_room *room, struct image *image, size_t bytes);
void copy_room_give(struct copy_room *room, struct image *image, size_t bytes);
/*
 * The image that makes room for bytes of the tenant: of the tenant with most, the least recently used one.
 * NULL: no tenant has more than this one would have. Counts its tenant as refused.
 */
struct image *copy_room_victim(const struct copy_room *room, uint32_t tenant, size_t bytes);

#endif
