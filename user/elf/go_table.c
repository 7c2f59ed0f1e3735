// SPDX-License-Identifier: Apache-2.0
#include "elf/go_table.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/bytes.h"
#include "base/cleanup.h"
#include "elf/arch.h"
#include "elf/image.h"

/*
 * Go 1.18 to 1.25 write the start of the text (textStart) into the table; later ones leave it 0, and in
 * a copy of memory it contains the load address. Then the start is found by the code: the linker fills
 * the bytes between functions with one value, so with the right start nearly every function of the table has
 * such a byte before its first one. In real programs only a few places before the right one pass the
 * quick check of the first functions (near_fits()); a file with very many of them is refused.
 */
#define HEADER_BYTES 72
#define CHUNK_BYTES 65536
#define MAX_SEARCH_BYTES (128U << 20) /* of a file with a note of Go */
#define MAX_BLIND_SEARCH_BYTES (32U << 20) /* of a file without one */
#define MAX_LOADED_SEARCH_BYTES (2U << 20) /* of memory with a note of Go */
#define MAX_TEXT_SEARCH_BYTES (4U << 20) /* of a segment */
#define MAX_TEXT_SEARCHES_BYTES (12U << 20) /* of all segments, for all headers */
#define MAX_TEXT_LOOKS 64 /* full checks of places that may be the start of the text */
#define MAX_TRIES 64 /* bytes that look like a header */
#define NR_LOOK 48 /* functions that are checked */
#define MIN_NEAR 4 /* fewer functions would fit anywhere */
#define NEAR_BYTES 32768 /* of text that has the first functions */

/* Offsets of the fields of _func (src/runtime/runtime2.go). */
static const struct function_layout {
	uint8_t bytes, entry_bytes, name, sp, file, line, unit, start_line, id, flags;
} layouts[] = {
	[GO_1_2] = { 40, 8, 8, 20, 24, 28, 0, 0, 36, 0 },
	[GO_1_16] = { 44, 8, 8, 20, 24, 28, 36, 0, 40, 41 },
	[GO_1_18] = { 40, 4, 4, 16, 20, 24, 32, 0, 36, 37 },
	[GO_1_20] = { 44, 4, 4, 16, 20, 24, 32, 36, 40, 41 },
};

/* len bytes at pos of the table. */
static int table_read(const struct go_table *tab, uint64_t pos, void *dst, size_t len)
{
	if (pos > tab->bytes || len > tab->bytes - pos)
		return -EBADMSG;
	return elf_image_read(tab->img, tab->off + pos, dst, len);
}

static uint32_t pointer_bytes(const struct go_table *tab)
{
	return layouts[tab->version].entry_bytes;
}

/* Entry i of the table of functions: where it begins, and where its description is. */
static int entry_read(const struct go_table *tab, uint64_t i, uint64_t *ret_start,
		      uint64_t *ret_pos)
{
	uint32_t bytes = pointer_bytes(tab);
	uint8_t data[16] = { 0 };
	int err;

	/* The last entry has only a start, which is the end of all functions. */
	err = table_read(tab, tab->functions + i * 2 * bytes, data,
			 i == tab->nr_functions ? bytes : 2 * bytes);
	if (err)
		return err;
	*ret_start = tab->text + (bytes == 8 ? bytes_u64(data) : bytes_u32(data));
	*ret_pos = bytes == 8 ? bytes_u64(data + 8) : bytes_u32(data + 4);
	return 0;
}

/* Does the byte before rva fill up space between functions? */
static bool is_filled_before(const struct go_table *tab, uint64_t rva)
{
	uint8_t byte;

	return rva && !elf_image_read_rva(tab->img, rva - 1, &byte, 1) && byte == ARCH_CODE_FILLER;
}

/* The number of functions that have such a byte before them. */
static int filled_before(const struct go_table *tab, uint64_t first, uint64_t step, uint32_t nr,
			 uint32_t *ret)
{
	uint64_t i, rva, pos;
	int err;

	*ret = 0;
	for (i = 0; i < nr; i++) {
		err = entry_read(tab, first + i * step, &rva, &pos);
		if (err)
			return err;
		*ret += is_filled_before(tab, rva);
	}
	return 0;
}

static bool covers_code(const struct go_table *tab)
{
	return tab->end > tab->start && elf_image_segment_at(tab->img, tab->start, PF_X) &&
	       elf_image_segment_at(tab->img, tab->end - 1, PF_X);
}

/*
 * Checks *nr functions of the table: the number of those with a filled byte before them, -EBADMSG, or an
 * error of reading. Sets tab->start and tab->end.
 */
static int text_scan(struct go_table *tab, uint32_t *nr)
{
	uint64_t step, pos;
	uint32_t filled;
	int err;

	*nr = tab->nr_functions < NR_LOOK ? (uint32_t)tab->nr_functions - 1 : NR_LOOK - 1;
	err = entry_read(tab, 0, &tab->start, &pos);
	if (!err)
		err = entry_read(tab, tab->nr_functions, &tab->end, &pos);
	if (err)
		return err;
	if (!covers_code(tab))
		return -EBADMSG;
	if (!*nr) /* a program has hundreds */
		return 0;
	step = (tab->nr_functions - 1) / *nr;
	err = filled_before(tab, 1, step, *nr, &filled);
	return err ? err : (int)filled;
}

static int text_check(struct go_table *tab)
{
	uint32_t nr;
	int filled = text_scan(tab, &nr);

	return filled < 0 ? filled : (uint32_t)filled * 2 >= nr ? 0 : -EBADMSG;
}

/* Start and end of the table's functions, and the starts of those near the first one. */
struct near {
	uint64_t first, end;
	uint32_t nr;
	uint32_t at[NR_LOOK]; /* relative to first */
};

static int near_read(struct go_table *tab, struct near *near)
{
	uint64_t start, pos, i;
	int err = entry_read(tab, 0, &near->first, &pos);

	if (!err)
		err = entry_read(tab, tab->nr_functions, &near->end, &pos);
	near->nr = 0;
	for (i = 1; !err && i < NR_LOOK && i < tab->nr_functions; i++) {
		err = entry_read(tab, i, &start, &pos);
		if (err || start <= near->first || start - near->first >= NEAR_BYTES)
			break;
		near->at[near->nr++] = (uint32_t)(start - near->first);
	}
	return err;
}

static bool near_fits(const struct near *near, const uint8_t *code)
{
	uint32_t i, filled = 0;

	for (i = 0; i < near->nr; i++) {
		filled += code[near->at[i] - 1] == ARCH_CODE_FILLER;
		if (i + 1 - filled > near->nr / 3)
			return false;
	}
	return true;
}

/* The best start of the text so far. */
struct best_text {
	uint64_t text;
	int filled;
};

/* Limits of the search in one file. */
struct search {
	uint64_t bytes_left; /* to search for a header */
	uint32_t tries_left; /* of headers */
	uint64_t text_bytes_left; /* to search for the start of the text */
	uint32_t looks_left; /* calls of text_scan() for it */
};

/* 1: all checked functions fit, and the search can stop. */
static int text_search_in(struct go_table *tab, const struct elf_segment *seg,
			  const struct near *near, struct search *search, uint8_t *chunk,
			  struct best_text *best)
{
	uint64_t pos, len, i;
	uint64_t end =
		seg->file_bytes < MAX_TEXT_SEARCH_BYTES ? seg->file_bytes : MAX_TEXT_SEARCH_BYTES;
	uint32_t nr;
	int err, filled;

	for (pos = 0; pos < end; pos += CHUNK_BYTES) {
		len = seg->file_bytes - pos < CHUNK_BYTES + NEAR_BYTES ? seg->file_bytes - pos
								       : CHUNK_BYTES + NEAR_BYTES;
		if (search->text_bytes_left < len)
			return -EBADMSG;
		search->text_bytes_left -= len;
		memset(chunk, 0, CHUNK_BYTES + NEAR_BYTES);
		err = elf_image_read(tab->img, seg->off + pos, chunk, len);
		if (err)
			return err;
		for (i = 0; i < CHUNK_BYTES; i += 16) {
			if (!near_fits(near, chunk + i))
				continue;
			tab->text = seg->va + pos + i - near->first;
			tab->start = tab->text + near->first;
			tab->end = tab->text + near->end;
			if (!covers_code(tab))
				continue;
			if (!search->looks_left)
				return -EBADMSG;
			search->looks_left--;
			filled = text_scan(tab, &nr);
			if (filled > best->filled && (uint32_t)filled * 4 >= nr * 3)
				*best = (struct best_text){ tab->text, filled };
			if (filled > 0 && (uint32_t)filled == nr)
				return 1;
		}
	}
	return 0;
}

static int text_search(struct go_table *tab, struct search *search)
{
	__cleanup(free_mem) uint8_t *chunk = malloc(CHUNK_BYTES + NEAR_BYTES);
	struct best_text best = { 0 };
	const struct elf_segment *segs;
	struct near near;
	size_t nr, i;
	int err = chunk ? 0 : -ENOMEM;

	tab->text = 0;
	if (!err)
		err = near_read(tab, &near);
	if (!err && near.nr < MIN_NEAR)
		err = -EBADMSG;
	segs = elf_image_segments(tab->img, &nr);
	for (i = 0; i < nr && !err; i++)
		if (segs[i].type == PT_LOAD && segs[i].flags & PF_X)
			err = text_search_in(tab, &segs[i], &near, search, chunk, &best);
	tab->text = best.text;
	return err < 0 ? err : best.filled ? text_check(tab) : -EBADMSG;
}

static bool has_magic(const uint8_t *data)
{
	uint32_t magic = bytes_u32(data);

	return (magic == 0xfffffffb || magic == 0xfffffffa || magic == 0xfffffff0 ||
		magic == 0xfffffff1) &&
	       !data[4] && !data[5] && data[6] == 1 && data[7] == 8;
}

/* The header of the table at tab->off, of at most tab->bytes. */
static int table_open(struct go_table *tab, struct search *search)
{
	uint8_t data[HEADER_BYTES];
	const uint8_t *part = data + 24;
	uint64_t bytes;
	int err = table_read(tab, 0, data, sizeof(data));

	if (err)
		return err;
	if (!has_magic(data))
		return -EBADMSG;
	tab->version = bytes_u32(data) == 0xfffffffb   ? GO_1_2
		       : bytes_u32(data) == 0xfffffffa ? GO_1_16
		       : bytes_u32(data) == 0xfffffff0 ? GO_1_18
						       : GO_1_20;
	tab->nr_functions = bytes_u64(data + 8);
	if (!tab->nr_functions || tab->nr_functions > GO_TABLE_MAX_FUNCTIONS)
		return -EBADMSG;
	if (tab->version == GO_1_2) { /* all is relative to the table itself */
		tab->functions = 16;
		bytes = tab->functions + tab->nr_functions * 16 + 8;
		err = table_read(tab, bytes, data, 4);
		tab->files = bytes_u32(data);
		return err ? err : text_check(tab);
	}
	if (tab->version >= GO_1_18) {
		tab->text = bytes_u64(part);
		part += 8;
	}
	tab->names = bytes_u64(part);
	tab->units = bytes_u64(part + 8);
	tab->files = bytes_u64(part + 16);
	tab->values = bytes_u64(part + 24);
	tab->functions = bytes_u64(part + 32);
	if (tab->names > tab->bytes || tab->units > tab->bytes || tab->files > tab->bytes ||
	    tab->values > tab->bytes || tab->functions > tab->bytes)
		return -EBADMSG;
	err = text_check(tab);
	return err == -EBADMSG && tab->version >= GO_1_18 ? text_search(tab, search) : err;
}

/* Looks for the header in [off, off + bytes) of the file. */
static int table_search(struct go_table *tab, uint64_t off, uint64_t bytes, struct search *search,
			uint8_t *chunk)
{
	uint64_t pos, len, i;
	int err;

	for (pos = 0; pos < bytes && search->bytes_left; pos += CHUNK_BYTES) {
		len = bytes - pos < CHUNK_BYTES ? bytes - pos : CHUNK_BYTES;
		search->bytes_left -= len < search->bytes_left ? len : search->bytes_left;
		err = elf_image_read(tab->img, off + pos, chunk, len);
		if (err)
			return err;
		for (i = -(off + pos) & 7; i + 8 <= len; i += 8) {
			if (chunk[i + 1] != 0xff || !has_magic(chunk + i))
				continue;
			search->tries_left--;
			*tab = (struct go_table){ .img = tab->img,
						  .off = off + pos + i,
						  .bytes = bytes - pos - i };
			err = table_open(tab, search);
			if (err != -EBADMSG)
				return err;
			if (!search->tries_left)
				return -EBADMSG;
		}
	}
	return -ENODATA;
}

/* Another linker than Go's puts the table among other data that is read-only after relocation. */
static int search_section(struct go_table *tab, struct search *search, uint8_t *chunk)
{
	const struct elf_section *sec = elf_image_section(tab->img, ".data.rel.ro");

	if (!elf_image_section(tab->img, ".go.buildinfo") &&
	    !elf_image_section(tab->img, ".note.go.buildid"))
		return -ENODATA;
	if (!sec || sec->type != SHT_PROGBITS)
		return -ENODATA;
	return table_search(tab, sec->off, sec->bytes, search, chunk);
}

/*
 * Read-only data come first: the table is there unless the program is position-independent. Some
 * linkers put it beside the code.
 */
static int search_segments(struct go_table *tab, struct search *search, uint8_t *chunk)
{
	static const uint32_t order[] = { 0, PF_W, PF_X, PF_X | PF_W };
	const struct elf_segment *segs;
	int err = -ENODATA;
	size_t nr, i, k;

	segs = elf_image_segments(tab->img, &nr);
	for (k = 0; k < sizeof(order) / sizeof(order[0]); k++)
		for (i = 0; i < nr && err == -ENODATA; i++)
			if (segs[i].type == PT_LOAD && (segs[i].flags & (PF_X | PF_W)) == order[k])
				err = table_search(tab, segs[i].off, segs[i].file_bytes, search,
						   chunk);
	return err;
}

/* Is there a note of Go's linker (its build id)? An option of the linker leaves it out. */
static bool has_note(struct elf_image *img)
{
	static const char id[] = "\4\0\0\0Go\0"; /* type, name */
	const struct elf_segment *segs;
	uint8_t notes[1024];
	size_t nr, i, len;

	segs = elf_image_segments(img, &nr);
	for (i = 0; i < nr; i++) {
		len = segs[i].file_bytes < sizeof(notes) ? segs[i].file_bytes : sizeof(notes);
		if (segs[i].type == PT_NOTE && !elf_image_read(img, segs[i].off, notes, len) &&
		    memmem(notes, len, id, sizeof(id)))
			return true;
	}
	return false;
}

static int table_search_all(struct go_table *tab, struct search *search)
{
	uint8_t *chunk = malloc(CHUNK_BYTES);
	size_t nr;
	int err;

	if (!chunk)
		return -ENOMEM;
	elf_image_sections(tab->img, &nr);
	err = nr ? search_section(tab, search, chunk) : search_segments(tab, search, chunk);
	free(chunk);
	if (err == -ENODATA &&
	    search->tries_left != MAX_TRIES) /* a table was found, and it is broken */
		return -EBADMSG;
	return err;
}

static int table_find(struct go_table *tab)
{
	static const char *const names[] = { ".gopclntab", ".data.rel.ro.gopclntab" };
	struct search search = { .tries_left = MAX_TRIES,
				 .text_bytes_left = MAX_TEXT_SEARCHES_BYTES,
				 .looks_left = MAX_TEXT_LOOKS };
	const struct elf_section *sec;
	size_t i;

	if (!elf_image_is_native(tab->img))
		return -ENODATA;
	for (i = 0; i < 2; i++) {
		sec = elf_image_section(tab->img, names[i]);
		if (!sec || sec->type != SHT_PROGBITS)
			continue;
		tab->off = sec->off;
		tab->bytes = sec->bytes;
		return table_open(tab, &search);
	}
	if (elf_image_is_loaded(tab->img))
		search.bytes_left = has_note(tab->img) ? MAX_LOADED_SEARCH_BYTES : 0;
	else
		search.bytes_left = has_note(tab->img) ? MAX_SEARCH_BYTES : MAX_BLIND_SEARCH_BYTES;
	return table_search_all(tab, &search);
}

/* The result of the first search. */
struct memo {
	int err;
	struct go_table tab;
};

int go_table_find(struct go_table *ret, struct elf_image *img)
{
	void **slot = elf_image_memo(img);
	struct memo *memo = *slot;
	int err;

	if (!memo) {
		memo = calloc(1, sizeof(*memo));
		if (!memo)
			return -ENOMEM;
		memo->tab.img = img;
		memo->err = table_find(&memo->tab);
		err = memo->err;
		if (err && err != -ENODATA && err != -EBADMSG) {
			free(memo); /* a later read may succeed */
			return err;
		}
		*slot = memo;
	}
	if (!memo->err)
		*ret = memo->tab;
	return memo->err;
}

int go_table_function_at(const struct go_table *tab, uint64_t index, struct go_function *ret)
{
	const struct function_layout *layout = &layouts[tab->version];
	uint64_t start, end, pos, next;
	uint8_t data[44];
	int err;

	if (index >= tab->nr_functions)
		return -ENODATA;
	err = entry_read(tab, index, &start, &pos);
	if (!err)
		err = entry_read(tab, index + 1, &end, &next);
	if (err)
		return err;
	if (tab->version != GO_1_2 && __builtin_add_overflow(pos, tab->functions, &pos))
		return -EBADMSG;
	if (end < start || start < tab->start || end > tab->end)
		return -EBADMSG;
	err = table_read(tab, pos, data, layout->bytes);
	if (err)
		return err;
	*ret = (struct go_function){
		.start = start,
		.end = end,
		.name = bytes_u32(data + layout->name),
		.unit = layout->unit ? bytes_u32(data + layout->unit) : 0,
		.sp_values = bytes_u32(data + layout->sp),
		.file_values = bytes_u32(data + layout->file),
		.line_values = bytes_u32(data + layout->line),
		.start_line =
			layout->start_line ? (int32_t)bytes_u32(data + layout->start_line) : 0,
		.id = data[layout->id],
		.flags = layout->flags ? data[layout->flags] : 0,
	};
	return 0;
}

int go_table_function(const struct go_table *tab, uint64_t rva, struct go_function *ret,
		      uint64_t *ret_index)
{
	uint64_t lo = 0, hi = tab->nr_functions, mid, start, pos;
	int err;

	if (rva < tab->start || rva >= tab->end)
		return -ENODATA;
	while (hi - lo > 1) { /* the function is in [lo, hi) */
		mid = lo + (hi - lo) / 2;
		err = entry_read(tab, mid, &start, &pos);
		if (err)
			return err;
		if (start <= rva)
			lo = mid;
		else
			hi = mid;
	}
	err = go_table_function_at(tab, lo, ret);
	if (err)
		return err;
	if (rva < ret->start || rva >= ret->end) /* the functions are not in order */
		return -EBADMSG;
	*ret_index = lo;
	return 0;
}

uint64_t go_table_look_up_from(const struct go_table *tab, uint64_t start)
{
	return start > tab->start && is_filled_before(tab, start) ? start - 1 : start;
}

/* The string at pos of the table, cut at cap - 1 bytes. Its length, or -errno. */
static int string_read(const struct go_table *tab, uint64_t pos, char *text, size_t cap)
{
	size_t len = 0, part, i;
	int err;

	while (len + 1 < cap) {
		part = cap - 1 - len < 64 ? cap - 1 - len : 64;
		if (pos + len >= tab->bytes)
			return -EBADMSG;
		if (part > tab->bytes - pos - len)
			part = tab->bytes - pos - len;
		err = table_read(tab, pos + len, text + len, part);
		if (err)
			return err;
		for (i = 0; i < part; i++, len++)
			if (!text[len])
				return (int)len;
	}
	text[len] = 0;
	return (int)len;
}

int go_table_name(const struct go_table *tab, const struct go_function *fn, char *name, size_t cap)
{
	int len = string_read(tab, tab->names + fn->name, name, cap);

	return len ? len : -EBADMSG;
}

void go_values_init(struct go_values *v, const struct go_table *tab, const struct go_function *fn,
		    uint32_t values)
{
	*v = (struct go_values){ .tab = tab,
				 .pos = tab->values + values,
				 .start = fn->start,
				 .end = fn->start,
				 .limit = fn->end,
				 .value = -1,
				 .first = true };
}

static int varint_read(struct go_values *v, uint32_t *ret)
{
	uint32_t shift;
	uint8_t byte;
	int err;

	*ret = 0;
	for (shift = 0; shift < 35; shift += 7) {
		err = table_read(v->tab, v->pos++, &byte, 1);
		if (err)
			return err;
		*ret |= (uint32_t)(byte & 0x7f) << shift;
		if (!(byte & 0x80))
			return 0;
	}
	return -EBADMSG;
}

int go_values_next(struct go_values *v)
{
	uint32_t by, len;
	int err;

	do {
		if (v->end >= v->limit)
			return 0;
		err = varint_read(v, &by);
		if (err)
			return err;
		if (!by && !v->first)
			return 0;
		err = varint_read(v, &len);
		if (err)
			return err;
		v->value = (int32_t)((uint32_t)v->value + (by & 1 ? ~(by >> 1) : by >> 1));
		v->start = v->end;
		v->end = len < v->limit - v->end ? v->end + len : v->limit;
		if (!len && !v->first) /* a table of empty parts would take very long */
			return -EBADMSG;
		v->first = false;
	} while (!len);
	return 1;
}

static int value_at(const struct go_table *tab, const struct go_function *fn, uint32_t values,
		    uint64_t rva, int32_t *ret)
{
	struct go_values v;
	int err;

	if (!values)
		return -ENODATA;
	go_values_init(&v, tab, fn, values);
	do {
		err = go_values_next(&v);
		if (err <= 0)
			return err ? err : -ENODATA;
	} while (rva >= v.end);
	*ret = v.value;
	return 0;
}

/* The place of the name of the file with this number. */
static int file_find(const struct go_table *tab, const struct go_function *fn, int32_t number,
		     uint64_t *ret)
{
	uint64_t pos = tab->version == GO_1_2 ? tab->files : tab->units;
	uint8_t data[4];
	int err;

	if (number < 0)
		return -ENODATA;
	err = table_read(tab, pos + 4 * ((uint64_t)fn->unit + (uint32_t)number), data, 4);
	if (err)
		return err;
	if (tab->version != GO_1_2 && bytes_u32(data) == UINT32_MAX)
		return -ENODATA;
	*ret = bytes_u32(data) + (tab->version == GO_1_2 ? 0 : tab->files);
	return 0;
}

int go_table_line(const struct go_table *tab, const struct go_function *fn, uint64_t rva,
		  int32_t *ret_line, char *file, size_t cap)
{
	int32_t number, line;
	uint64_t pos;
	int err = value_at(tab, fn, fn->file_values, rva, &number);

	if (!err)
		err = value_at(tab, fn, fn->line_values, rva, &line);
	if (!err)
		err = file_find(tab, fn, number, &pos);
	if (!err && line < 0)
		err = -ENODATA;
	if (err)
		return err;
	err = string_read(tab, pos, file, cap);
	if (err <= 0)
		return err ? err : -ENODATA;
	*ret_line = line;
	return 0;
}
