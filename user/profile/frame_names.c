// SPDX-License-Identifier: Apache-2.0
#include "profile/frame_names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/sorted.h"

#define MAX_FRAMES 65536
#define MAX_RANGES 16384

struct frame_range {
	uint64_t start, end;
	uint32_t function;
};

int frame_names_init(struct frame_names *names)
{
	*names = (struct frame_names){ 0 };
	map_init(&names->index, MAX_FRAMES);
	names->names = calloc(MAX_FRAMES, sizeof(*names->names));
	names->ranges = calloc(MAX_RANGES, sizeof(*names->ranges));
	if (names->names && names->ranges)
		return 0;
	frame_names_fini(names);
	return -ENOMEM;
}

void frame_names_fini(struct frame_names *names)
{
	map_fini(&names->index);
	free(names->names);
	free(names->ranges);
	*names = (struct frame_names){ 0 };
}

void frame_names_forget(struct frame_names *names)
{
	map_clear(&names->index);
	names->nr_ranges = 0;
}

void frame_names_make_room(struct frame_names *names)
{
	if (names->index.nr > MAX_FRAMES / 2 || names->nr_ranges > MAX_RANGES / 2)
		frame_names_forget(names);
}

/* Number of ranges that begin at or before frame. */
static size_t ranges_before(const struct frame_names *names, uint64_t frame)
{
	return sorted_count(names->nr_ranges, i, names->ranges[i].start <= frame);
}

void frame_names_add_range(struct frame_names *names, uint64_t start, uint64_t end,
			   uint32_t function)
{
	struct frame_range *ranges = names->ranges;
	size_t at;

	if (names->nr_ranges == MAX_RANGES)
		return;
	at = ranges_before(names, start);
	if ((at && ranges[at - 1].end > start) || (at < names->nr_ranges && ranges[at].start < end))
		return;
	memmove(ranges + at + 1, ranges + at, (names->nr_ranges - at) * sizeof(*ranges));
	ranges[at] = (struct frame_range){ .start = start, .end = end, .function = function };
	names->nr_ranges++;
}

void frame_names_add(struct frame_names *names, uint64_t frame, const struct frame_name *name)
{
	uint32_t at;

	if (!map_find(&names->index, frame, &at)) {
		at = names->index.nr;
		if (map_set(&names->index, frame, at))
			return;
	}
	names->names[at] = *name;
}

bool frame_names_find(struct frame_names *names, uint64_t frame, uint64_t interval,
		      struct frame_name *ret)
{
	const struct frame_name *found;
	uint32_t at;
	size_t range;

	if (map_find(&names->index, frame, &at)) {
		found = &names->names[at];
		if (!found->passing || found->passing == interval) {
			*ret = *found;
			return true;
		}
	}
	range = ranges_before(names, frame);
	if (!range || frame >= names->ranges[range - 1].end)
		return false;
	*ret = (struct frame_name){ .function = names->ranges[range - 1].function,
				    .line = names->ranges[range - 1].function };
	frame_names_add(names, frame, ret);
	return true;
}
