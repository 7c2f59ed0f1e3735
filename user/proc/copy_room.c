// SPDX-License-Identifier: Apache-2.0
#include "proc/copy_room.h"

#include <stdlib.h>

#include "base/refusals.h"
#include "base/vec.h"
#include "proc/images.h"

void copy_room_init(struct copy_room *room)
{
	*room = (struct copy_room){ 0 };
	shares_init(&room->shares, SIZE_MAX); /* bytes_free() is the limit */
}

void copy_room_fini(struct copy_room *room)
{
	shares_fini(&room->shares);
	free(room->images);
}

static size_t bytes_free(const struct copy_room *room)
{
	return IMAGES_MAX_COPY_BYTES - room->shares.used;
}

struct image *copy_room_victim(const struct copy_room *room, uint32_t tenant, size_t bytes)
{
	size_t most = shares_used(&room->shares, tenant) + bytes + 1, used, i;
	struct image *found = NULL, *image;

	for (i = 0; i < room->nr; i++) {
		image = room->images[i];
		used = shares_used(&room->shares, image->tenant);
		if (image->holds || used < most ||
		    (found && used == most && image->used_ns >= found->used_ns))
			continue;
		most = used;
		found = image;
	}
	if (found)
		refusals_count(room->refusals, found->tenant, REFUSAL_COPY);
	return found;
}

bool copy_room_take(struct copy_room *room, struct image *image, size_t bytes)
{
	if (bytes > bytes_free(room) ||
	    vec_grow(room->images, room->nr + 1, room->cap, VEC_BOUNDED) ||
	    !shares_take(&room->shares, image->tenant, bytes))
		return false;
	if (!image->copy_used)
		room->images[room->nr++] = image;
	image->copy_used += bytes;
	return true;
}

void copy_room_give(struct copy_room *room, struct image *image, size_t bytes)
{
	size_t i;

	shares_give(&room->shares, image->tenant, bytes);
	image->copy_used -= bytes;
	if (image->copy_used)
		return;
	for (i = 0; room->images[i] != image; i++)
		;
	room->images[i] = room->images[--room->nr];
}
