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
	struct image **images; /* that have a copy */
	size_t nr, cap;
	struct refusals *refusals; /* or NULL */
};

void copy_room_init(struct copy_room *room);
void copy_room_fini(struct copy_room *room);
/* As images_copy_room(). */
size_t copy_room_left(struct copy_room *room, uint32_t tenant, size_t len);
/* Counts so many bytes for the copy that image gets now. False: they have no room. */
bool copy_room_take(struct copy_room *room, struct image *image, size_t bytes);
/*
 * The image whose copy is dropped next to make room for bytes of the tenant: of the tenant with most, the
 * least recently used one. NULL: no tenant has more than this one would have. Counts either as refused.
 */
struct image *copy_room_victim(const struct copy_room *room, uint32_t tenant, size_t bytes);
/* Frees the copy of the image, if it has one. */
void copy_room_drop(struct copy_room *room, struct image *image);

#endif
