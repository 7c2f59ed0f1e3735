/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_GPU_REPORT_FIELDS_H
#define BPFPROF_GPU_REPORT_FIELDS_H

/*
 * The keys of `bpfprof gpu --json`: one table of fields for each struct of gpu/report.h. gpu_json()
 * writes, and gpu_read_add() reads, by these tables and in their order.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum gpu_field_type {
	GPU_FIELD_END,
	GPU_FIELD_TEXT,
	GPU_FIELD_NAME, /* a text that is written as null if it is NULL or "" */
	GPU_FIELD_U32,
	GPU_FIELD_U64,
	GPU_FIELD_BOOL,
	GPU_FIELD_SECONDS,
	GPU_FIELD_HEX, /* a uint64_t as "0x1f" */
	GPU_FIELD_HEX_OR_MAX, /* the same; UINT64_MAX is null */
	GPU_FIELD_THREE, /* uint32_t[3] */
	GPU_FIELD_EXTRA, /* two texts: the key, none if it is NULL or "", and its value */
	GPU_FIELD_TEXTS, /* an array of texts */
	GPU_FIELD_FLAGS, /* an array of the names of those fields that are true */
	GPU_FIELD_PART, /* fields with a table of their own, in the same object */
	GPU_FIELD_OBJECT,
	GPU_FIELD_ARRAY, /* of objects */
	GPU_FIELD_RANK, /* the rank of an open call's process in its communicator */
	GPU_FIELD_LOST, /* an object of the names and counts of struct stats_reason */
};

/* Kinds of objects. The reader has limits for those that it reads, and skips the others. */
enum gpu_row_kind {
	GPU_ROW_WRITTEN, /* the reader skips it */
	GPU_ROW_PROCESS,
	GPU_ROW_MEMORY,
	GPU_ROW_COLLECTIVE,
	GPU_ROW_COMPLETION,
	GPU_ROW_COMM,
	GPU_ROW_OPEN,
	GPU_ROW_GROUPED,
	GPU_ROW_WHERE,
	GPU_ROW_FRAME, /* a text of GPU_FIELD_TEXTS */
	GPU_NR_ROWS
};

/*
 * A condition: a member is not 0, or, negated, it is 0. Without a size the condition always holds.
 */
struct gpu_field_when {
	size_t offset, size;
	bool negated;
};

struct gpu_field {
	const char *key;
	enum gpu_field_type type;
	size_t offset;
	size_t more; /* offset of the number of elements, or of the value of an extra */
	const struct gpu_fields *of; /* the table of the object or of the elements */
	struct gpu_field_when known; /* if false, null is written */
	struct gpu_field_when given; /* if false, nothing is written */
	bool written; /* the reader skips it, or its check of the whole object reads it */
};

/* Ends with GPU_FIELD_END. */
struct gpu_fields {
	const struct gpu_field *fields;
	size_t size; /* of the struct */
	enum gpu_row_kind kind;
};

extern const struct gpu_fields gpu_report_fields; /* of the whole report */

#endif
