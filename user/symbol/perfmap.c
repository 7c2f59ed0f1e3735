// SPDX-License-Identifier: Apache-2.0
#include "symbol/perfmap.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/strtab.h"
#include "elf/image.h"
#include "symbol/lines.h"

#define MAX_NAME 1024
#define MAX_OFFERS (64U << 20) /* lines x addresses covered */

/* Where the name of a query stands: names are read once, at the end, not for each line that covers. */
struct place {
	uint64_t off;
	uint32_t len; /* 0 = nowhere */
};

struct perfmap {
	const struct elf_source *source;
	struct perfmap_query *queries;
	struct place *places;
	size_t nr;
	uint32_t nr_offers;
};

static ssize_t source_read(void *arg, void *dst, size_t len, uint64_t off)
{
	const struct elf_source *source = arg;

	if (off >= source->size)
		return 0;
	if (len > source->size - off)
		len = source->size - off;
	return source->read(source->arg, dst, len, off);
}

static void offer_line(struct perfmap *map, const char *line, size_t len, uint64_t off)
{
	size_t pos = 0, low = 0, high = map->nr, mid;
	uint64_t start, bytes;

	if (!line_hex(line, len, &pos, &start) || !line_hex(line, len, &pos, &bytes))
		return;
	while (len > pos &&
	       (line[len - 1] == '\r' || line[len - 1] == ' ' || line[len - 1] == '\t'))
		len--;
	if (pos == len || !bytes || start + (bytes - 1) < start)
		return;
	while (low < high) {
		mid = low + (high - low) / 2;
		if (map->queries[mid].va < start)
			low = mid + 1;
		else
			high = mid;
	}
	for (; low < map->nr && map->queries[low].va - start < bytes; low++) {
		if (map->nr_offers++ >= MAX_OFFERS)
			return;
		map->queries[low].start = start;
		map->places[low] = (struct place){ .off = off + pos, .len = (uint32_t)(len - pos) };
	}
}

static int scan(struct perfmap *map)
{
	__cleanup(free_mem) struct lines *lines = calloc(1, sizeof(*lines));
	const char *line;
	uint64_t off;
	size_t len;
	int err;

	if (!lines)
		return -ENOMEM;
	lines->read = source_read;
	lines->arg = (void *)map->source;
	if (map->source->size > PERFMAP_MAX_BYTES) {
		lines->off = map->source->size - PERFMAP_MAX_BYTES;
		err = lines_next(lines, &line, &len, &off); /* most likely half a line */
		if (err <= 0)
			return err;
	}
	while ((err = lines_next(lines, &line, &len, &off)) > 0) {
		offer_line(map, line, len, off);
		if (map->nr_offers >= MAX_OFFERS)
			return -E2BIG;
	}
	return err;
}

static int commit(struct perfmap *map, struct strtab *names)
{
	struct place last = { 0 }, *place;
	char name[MAX_NAME];
	uint32_t id = 0, len;
	ssize_t got;
	size_t i;

	for (i = 0; i < map->nr; i++) {
		place = &map->places[i];
		if (!place->len)
			continue;
		if (place->off != last.off || !last.len) {
			len = place->len < sizeof(name) ? place->len : sizeof(name);
			got = source_read((void *)map->source, name, len, place->off);
			if (got < 0)
				return (int)got;
			id = (uint32_t)got == len ? strtab_add_len(names, name, strnlen(name, len))
						  : 0;
			last = *place;
		}
		map->queries[i].name = id;
	}
	return 0;
}

int perfmap_resolve(const struct elf_source *source, struct strtab *names,
		    struct perfmap_query *queries, size_t nr)
{
	struct perfmap map = { .source = source, .queries = queries, .nr = nr };
	int err = 0, next;

	map.places = calloc(nr ? nr : 1, sizeof(*map.places));
	if (!map.places) {
		err = -ENOMEM;
	} else if (nr) {
		err = scan(&map);
		next = commit(&map, names); /* what was found before an error stays */
		err = err ? err : next;
	}
	free(map.places);
	if (source->close)
		source->close(source->arg);
	return err;
}
