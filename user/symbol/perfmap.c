// SPDX-License-Identifier: Apache-2.0
#include "symbol/perfmap.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/sorted.h"
#include "base/strtab.h"
#include "elf/image.h"
#include "symbol/lines.h"

#define FILE_BLOCK 4096
#define MAX_OFFERS (64U << 20) /* lines x addresses covered */
#define MAX_LINES                                                                                  \
	(PERFMAP_MAX_BYTES / 16) /* a line with an address of code, a size and a name has as much */

/*
 * The position of a query's line. Names are read once at the end, not for each line that covers the
 * address.
 */
struct place {
	uint64_t off;
	uint32_t len; /* 0 = no line */
};

struct perfmap {
	const struct elf_source *source;
	struct perfmap_query *queries;
	struct place *places;
	size_t nr;
	uint32_t nr_offers, nr_lines;
	bool has_holes; /* parts of the file cannot be read */
};

/* Unreadable parts become zeros: no line holds zeros, and a line with a hole in it is too long. */
static ssize_t source_read(void *arg, void *dst, size_t len, uint64_t off)
{
	struct perfmap *map = arg;
	const struct elf_source *source = map->source;
	uint64_t hole = FILE_BLOCK - off % FILE_BLOCK;
	ssize_t got;

	if (off >= source->size)
		return 0;
	if (len > source->size - off)
		len = source->size - off;
	got = source->read(source->arg, dst, len, off);
	if (got != -ENODATA)
		return got;
	map->has_holes = true;
	len = len < hole ? len : hole;
	memset(dst, 0, len);
	return (ssize_t)len;
}

/* A line of the map. */
struct entry {
	uint64_t start, bytes;
	size_t name; /* offset of the name in the line */
	size_t len; /* length of the line */
};

static bool entry_parse(struct entry *ret, const char *line, size_t len)
{
	struct entry e = { 0 };

	if (!line_hex(line, len, &e.name, &e.start) || !line_hex(line, len, &e.name, &e.bytes))
		return false;
	while (len > e.name &&
	       (line[len - 1] == '\r' || line[len - 1] == ' ' || line[len - 1] == '\t'))
		len--;
	e.len = len;
	*ret = e;
	return e.name < len && e.bytes && e.start + (e.bytes - 1) >= e.start;
}

static void offer_line(struct perfmap *map, const char *line, size_t len, uint64_t off)
{
	struct entry e;
	size_t low;

	if (!entry_parse(&e, line, len))
		return;
	low = sorted_count(map->nr, i, map->queries[i].va < e.start);
	for (; low < map->nr && map->queries[low].va - e.start < e.bytes; low++) {
		if (map->nr_offers++ >= MAX_OFFERS)
			return;
		map->queries[low].start = e.start;
		map->places[low] = (struct place){ .off = off, .len = (uint32_t)e.len };
	}
}

/* Is this the last line, cut at the end of a block that the writer has flushed? */
static bool is_half_written(const struct perfmap *map, uint64_t end)
{
	return end == map->source->size && !(end % FILE_BLOCK);
}

/* Reads the lines that begin in [from, to). */
static int scan(struct perfmap *map, uint64_t from, uint64_t to)
{
	__cleanup(free_mem) struct lines *lines = calloc(1, sizeof(*lines));
	const char *line;
	uint64_t off;
	size_t len;
	int err;

	if (!lines)
		return -ENOMEM;
	lines->read = source_read;
	lines->arg = map;
	lines->off = from;
	if (from) {
		err = lines_next(lines, &line, &len, &off); /* probably half a line */
		if (err <= 0)
			return err;
	}
	while ((err = lines_next(lines, &line, &len, &off)) > 0 && off < to) {
		if (!is_half_written(map, off + len))
			offer_line(map, line, len, off);
		if (map->nr_offers >= MAX_OFFERS || ++map->nr_lines > MAX_LINES)
			return -E2BIG;
	}
	return err < 0 ? err : 0;
}

/*
 * Reads both ends of a large file: the code compiled first may run longest, and most of the running
 * code was compiled last.
 */
static int scan_all(struct perfmap *map)
{
	uint64_t size = map->source->size, half = PERFMAP_MAX_BYTES / 2;
	int err;

	if (size <= PERFMAP_MAX_BYTES)
		return scan(map, 0, size);
	err = scan(map, 0, half);
	if (!err)
		err = scan(map, size - half, size);
	return err ? err : 1;
}

/* The name in the line at place; 0 if the line has changed meanwhile. */
static int name_read(struct perfmap *map, struct strtab *names, const struct place *place,
		     uint64_t start, uint32_t *ret)
{
	char line[LINES_MAX];
	struct entry e;
	ssize_t got;

	*ret = 0;
	if (place->len > sizeof(line))
		return 0;
	got = source_read(map, line, place->len, place->off);
	if (got < 0)
		return (int)got;
	if ((uint32_t)got != place->len || memchr(line, '\n', place->len) ||
	    !entry_parse(&e, line, place->len) || e.start != start)
		return 0;
	*ret = strtab_add_len(names, line + e.name, strnlen(line + e.name, e.len - e.name));
	return 0;
}

static int commit(struct perfmap *map, struct strtab *names)
{
	struct place last = { 0 }, *place;
	uint32_t id = 0;
	size_t i;
	int err;

	for (i = 0; i < map->nr; i++) {
		place = &map->places[i];
		if (!place->len)
			continue;
		if (place->off != last.off || !last.len) {
			err = name_read(map, names, place, map->queries[i].start, &id);
			if (err)
				return err;
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
		err = scan_all(&map);
		next = commit(&map, names); /* results from before an error stay */
		err = err < 0 || !next ? err : next;
		if (!err && map.has_holes)
			err = 1;
	}
	free(map.places);
	if (source->close)
		source->close(source->arg);
	return err;
}
