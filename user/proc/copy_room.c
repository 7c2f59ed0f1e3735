// SPDX-License-Identifier: Apache-2.0
#include "proc/copy_room.h"

#include <stdlib.h>

#include "base/refusals.h"
#include "base/vec.h"
#include "proc/images.h"

#define LEAST_BYTES (512U << 10) /* of a file: its tables come first */

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

size_t copy_room_left(struct copy_room *room, uint32_t tenant, size_t len)
{
	size_t has = shares_used(&room->shares, tenant), most = shares_most(&room->shares);
	size_t left = bytes_free(room);

	if (most > has && (most - has) / 2 > left)
		left = (most - has) / 2;
	if (left > IMAGE_COPY_MAX_BYTES)
		left = IMAGE_COPY_MAX_BYTES;
	if (left >= len || left >= LEAST_BYTES)
		return left;
	refusals_count(room->refusals, tenant, REFUSAL_COPY);
	return 0;
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
	refusals_count(room->refusals, found ? found->tenant : tenant, REFUSAL_COPY);
	return found;
}

bool copy_room_take(struct copy_room *room, struct image *image, size_t bytes)
{
	if (bytes > bytes_free(room) ||
	    vec_grow(room->images, room->nr + 1, room->cap, VEC_BOUNDED) ||
	    !shares_take(&room->shares, image->tenant, bytes))
		return false;
	room->images[room->nr++] = image;
	image->copy_used = bytes;
	return true;
}

void copy_room_drop(struct copy_room *room, struct image *image)
{
	size_t i;

	for (i = 0; i < room->nr && room->images[i] != image; i++)
		;
	if (i == room->nr)
		return;
	room->images[i] = room->images[--room->nr];
	shares_give(&room->shares, image->tenant, image->copy_used);
	free(image->copy);
	image->copy = NULL;
	image->copy_len = image->copy_used = 0;
}
