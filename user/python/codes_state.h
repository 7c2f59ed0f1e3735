/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PYTHON_CODES_STATE_H
#define BPFPROF_PYTHON_CODES_STATE_H

/* Shared by codes.c and codes_sweep.c only. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/budget.h"
#include "base/hash_table.h"
#include "python/codes.h"

struct strtab;

#define MAX_TEXT 16384 /* of a name, as UTF-8 */
#define LINE_SLOTS 8192
#define PROCESS_SHARE 4 /* one process may take a quarter of the bytes */
#define TENANT_SPARE 4 /* one tenant leaves a quarter of the bytes */

/* Distinct code: its number is its index. */
struct code {
	uint64_t hash;
	uint32_t name, file; /* in strings */
	uint32_t first_line;
	uint32_t lines; /* enum bpfprof_python_lines */
	uint8_t *table;
	uint32_t len;
	uint32_t next; /* the next one of the same slot, or the next free one: index + 1 */
	bool in_use; /* false: free for other code */
	bool marked; /* the sweep has found a use of it */
};

/* A code object by BPF's id. */
struct object {
	struct hash_node node;
	uint64_t id;
	uint32_t python; /* id of its process */
	uint32_t code; /* index + 1; 0: pieces are missing */
	uint32_t name, file;
	uint32_t first_line, lines;
	uint32_t total, have; /* bytes of the line table */
	bool has_name, has_file, has_total;
	bool raw; /* frames with its id were given out */
	uint8_t *table; /* of lines, while it is incomplete */
};

/* The memory of the code objects of one process. */
struct share {
	struct hash_node node;
	uint32_t python;
	uint32_t tenant; /* 0: not known */
	size_t bytes;
	bool was_full; /* since the last sweep */
};

/* The memory of all processes of one tenant. */
struct tenant_share {
	struct hash_node node;
	uint32_t tenant;
	size_t bytes;
};

struct line_slot {
	uint64_t frame; /* 0 = free */
	uint32_t line;
};

#define CODES_RECENT 1024

struct codes {
	size_t bytes, max_bytes;
	bool was_full; /* since the last sweep, for a process without a share */
	bool is_crowded; /* all processes were crowded at the last sweep */
	uint64_t seed;
	struct strtab *strings;
	struct hash_table objects, shares, tenants;
	struct budget lines, end;
	struct code *codes;
	uint32_t nr_codes, cap_codes;
	uint32_t free_codes; /* the first free one of them, index + 1 */
	uint32_t *slots; /* index + 1 */
	uint32_t nr_slots;
	struct line_slot line_slots[LINE_SLOTS];
	uint32_t recent[CODES_RECENT]; /* index + 1 of codes that codes_frame_of() found */
	char text[MAX_TEXT];
	struct codes_counts counts;
};

/* All pieces of object have come: finds or makes its code. Without room object has none. */
void object_complete(struct codes *codes, struct object *object);
/* Computes the hashes of all code again, after ids of strings have changed. */
void codes_rehash(struct codes *codes);
/* Counts the bytes of tenants again, from those of their processes. */
void codes_count_tenants(struct codes *codes);
bool object_is_whole(const struct object *object);

#endif
