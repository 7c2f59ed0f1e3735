// SPDX-License-Identifier: Apache-2.0
#include "gpu/report_read.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/wiped_json.h"

/* A value takes up to 15 times the bytes of its text. */
#define MAX_PARSED_BYTES ((size_t)1 << 30)
#define MAX_STRING_BYTES (128U << 20)
/* The limit for all files: 8,192 processes of a large job with several communicators each. */
#define MAX_PROCESSES 65536
#define MAX_SECONDS 1e9

int gpu_read_init(struct gpu_read *read)
{
	*read = (struct gpu_read){ 0 };
	if (gpu_arrays_init(&read->arrays, MAX_STRING_BYTES))
		return -ENOMEM;
	read->files = gpu_arrays_add(&read->arrays, GPU_READ_FILES, sizeof(*read->files));
	read->processes = gpu_arrays_add(&read->arrays, MAX_PROCESSES, sizeof(*read->processes));
	if (!read->arrays.failed)
		return 0;
	gpu_read_fini(read);
	return -ENOMEM;
}

void gpu_read_fini(struct gpu_read *read)
{
	gpu_arrays_fini(&read->arrays);
}

/*
 * Counts a value of a wrong type. Null means "not known"; a missing key is valid, as older files
 * have fewer keys.
 */
static void not_understood(struct gpu_read *read, const json_t *value)
{
	read->nr_not_understood += value && !json_is_null(value);
}

static const char *text_of(struct gpu_read *read, const json_t *value)
{
	if (json_is_string(value))
		return gpu_arrays_text(&read->arrays, json_string_value(value));
	not_understood(read, value);
	return "";
}

static bool is_number(const json_t *value)
{
	return json_is_real(value) && json_real_value(value) >= 0;
}

static double real_of(struct gpu_read *read, const json_t *value, double max)
{
	if (is_number(value))
		return json_real_value(value) < max ? json_real_value(value) : max;
	not_understood(read, value);
	return 0;
}

/* A number that does not fit, such as an impossible pid, is dropped: its low bits mean nothing. */
static uint32_t u32_of(struct gpu_read *read, const json_t *value)
{
	double number = real_of(read, value, 0x1p60);

	if (number <= UINT32_MAX)
		return (uint32_t)number;
	not_understood(read, value);
	return 0;
}

/* Text such as "0x1f". False: the value is something else, and *ret stays as it was. */
static bool hex_of(struct gpu_read *read, const json_t *value, uint64_t *ret)
{
	const char *text = json_string_value(value);
	size_t len = text ? strlen(text) : 0;

	if (len > 2 && len <= 18 && !strncmp(text, "0x", 2) &&
	    strspn(text + 2, "0123456789abcdef") == len - 2) {
		*ret = strtoull(text, NULL, 16);
		return true;
	}
	not_understood(read, value);
	return false;
}

bool gpu_read_is_between_two(const char *operation)
{
	return !strcmp(operation, "ncclSend") || !strcmp(operation, "ncclRecv");
}

bool gpu_read_number(const char *text, uint32_t *ret)
{
	unsigned long value;
	char *end;

	if (*text < '0' || *text > '9' || (*text == '0' && text[1]))
		return false;
	value = strtoul(text, &end, 10);
	if (*end || value > UINT32_MAX)
		return false;
	*ret = (uint32_t)value;
	return true;
}

bool gpu_read_peer(const char *operation, const char *extra, uint32_t *ret)
{
	return gpu_read_is_between_two(operation) && extra && gpu_read_number(extra, ret);
}

/* Checks of a whole object after its fields were read into row. False: the object is not kept. */

static bool collective_check(struct gpu_read *read, const json_t *from, void *row)
{
	const struct gpu_report_collective *collective = row;
	bool kept = *collective->operation && collective->calls;

	(void)from;
	read->nr_not_understood += !kept;
	return kept;
}

static bool completion_check(struct gpu_read *read, const json_t *from, void *row)
{
	const struct gpu_report_completion *completion = row;

	(void)from;
	read->nr_not_understood += !*completion->operation;
	return *completion->operation && (completion->count || completion->pending);
}

static bool comm_check(struct gpu_read *read, const json_t *from, void *row)
{
	const json_t *comm = json_object_get(from, "comm"), *rank = json_object_get(from, "rank");
	struct gpu_report_comm *to = row;
	uint32_t size;

	if (!hex_of(read, comm, &to->comm)) {
		read->nr_not_understood += !comm;
		return false;
	}
	if (!hex_of(read, json_object_get(from, "hash"), &to->hash))
		return true;
	/* Both lose their fractions before they are compared: a rank is less than the size. */
	size = (uint32_t)real_of(read, json_object_get(from, "size"), UINT32_MAX);
	to->known = is_number(rank) && json_real_value(rank) < UINT32_MAX &&
		    (uint32_t)json_real_value(rank) < size;
	read->nr_not_understood += !to->known;
	to->rank = to->known ? (uint32_t)json_real_value(rank) : 0;
	to->size = to->known ? size : 0;
	return true;
}

static bool grouped_check(struct gpu_read *read, const json_t *from, void *row)
{
	const struct gpu_report_grouped *grouped = row;
	bool kept = *grouped->operation && grouped->count;

	(void)from;
	read->nr_not_understood += !kept;
	return kept;
}

/* A group is complete if all its calls are known; a send or receive also needs its peer. */
static bool open_check(struct gpu_read *read, const json_t *from, void *row)
{
	struct gpu_report_open *to = row;
	struct gpu_report_group *group = &to->group;
	const struct gpu_report_grouped *grouped;
	uint64_t nr_calls = 0;
	uint32_t peer;
	size_t i;

	for (i = 0; i < group->nr; i++) {
		grouped = &group->rows[i];
		nr_calls += grouped->count;
		group->complete &= grouped->comm != UINT64_MAX &&
				   (!gpu_read_is_between_two(grouped->operation) ||
				    gpu_read_peer(grouped->operation, grouped->extra, &peer));
	}
	group->complete &= group->nr &&
			   group->nr == json_array_size(json_object_get(from, "group")) &&
			   nr_calls == group->calls;
	read->nr_not_understood += !*to->function;
	return *to->function;
}

static bool memory_check(struct gpu_read *read, const json_t *from, void *row)
{
	struct gpu_report_memory *memory = row;

	memory->device_known = memory->device_total &&
			       memory->device_free <= memory->device_total &&
			       json_is_real(json_object_get(from, "device_free"));
	read->nr_not_understood += memory->device_total && !memory->device_known;
	return true;
}

/* Limits for all files and for one array: the analysis reads the rows of an array one by one. */
static const struct kind {
	size_t max, max_each;
	bool (*check)(struct gpu_read *read, const json_t *from, void *row); /* or NULL */
} kinds[GPU_NR_ROWS] = {
	[GPU_ROW_PROCESS] = { MAX_PROCESSES, MAX_PROCESSES, NULL },
	[GPU_ROW_MEMORY] = { 1, 1, memory_check },
	[GPU_ROW_COLLECTIVE] = { 1U << 20, 4096, collective_check },
	[GPU_ROW_COMPLETION] = { 1U << 20, 4096, completion_check },
	[GPU_ROW_COMM] = { 1U << 18, 1024, comm_check },
	[GPU_ROW_OPEN] = { 1U << 18, 1024, open_check },
	[GPU_ROW_GROUPED] = { 1U << 19, 512, grouped_check },
	[GPU_ROW_WHERE] = { 1U << 17, 16, NULL },
	[GPU_ROW_FRAME] = { 1U << 19, 1024, NULL },
};

static int fields_read(struct gpu_read *read, const json_t *from, const struct gpu_fields *fields,
		       char *row);

/* The number of elements that have room; the others are counted. */
static size_t elements_take(struct gpu_read *read, const json_t *array, enum gpu_row_kind kind)
{
	size_t nr = json_array_size(array), room = kinds[kind].max - read->nr_rows[kind];

	if (room > kinds[kind].max_each)
		room = kinds[kind].max_each;
	if (nr > room) {
		read->nr_left_out += nr - room;
		nr = room;
	}
	read->nr_rows[kind] += nr;
	return nr;
}

/* 1: the object is kept, 0: it is not, -ENOMEM. */
static int object_read(struct gpu_read *read, const json_t *from, const struct gpu_fields *fields,
		       char *row)
{
	const struct kind *kind = &kinds[fields->kind];
	int err;

	if (!json_is_object(from)) {
		read->nr_not_understood++;
		return 0;
	}
	memset(row, 0, fields->size);
	err = fields_read(read, from, fields, row);
	return err ? err : !kind->check || kind->check(read, from, row);
}

static int element_read(struct gpu_read *read, const json_t *from, const struct gpu_field *field,
			char *rows, size_t nr)
{
	if (field->type == GPU_FIELD_ARRAY)
		return object_read(read, from, field->of, rows + nr * field->of->size);
	if (json_is_string(from))
		((const char **)rows)[nr] = gpu_arrays_text(&read->arrays, json_string_value(from));
	read->nr_not_understood += !json_is_string(from);
	return json_is_string(from);
}

static int array_read(struct gpu_read *read, const json_t *array, const struct gpu_field *field,
		      char *row)
{
	bool objects = field->type == GPU_FIELD_ARRAY;
	size_t nr = elements_take(read, array, objects ? field->of->kind : GPU_ROW_FRAME), i;
	size_t *kept = (size_t *)(row + field->more);
	char *rows;
	int ret;

	if (!json_is_array(array))
		not_understood(read, array);
	if (!nr)
		return 0;
	rows = gpu_arrays_add(&read->arrays, nr, objects ? field->of->size : sizeof(char *));
	if (!rows)
		return -ENOMEM;
	*(void **)(row + field->offset) = rows;
	for (i = 0; i < nr; i++) {
		ret = element_read(read, json_array_get(array, i), field, rows, *kept);
		if (ret < 0)
			return ret;
		*kept += ret > 0;
	}
	return 0;
}

/* The peer of a send or receive; the reader needs no other extra of a collective. */
static void extra_read(struct gpu_read *read, const json_t *peer, const char **key,
		       const char **text)
{
	uint32_t rank = (uint32_t)real_of(read, peer, UINT32_MAX);
	char digits[16];

	if (!is_number(peer))
		return;
	snprintf(digits, sizeof(digits), "%" PRIu32, rank);
	*key = "peer";
	*text = gpu_arrays_text(&read->arrays, digits);
}

static int field_read(struct gpu_read *read, const json_t *from, const struct gpu_field *field,
		      char *row)
{
	const json_t *value = json_object_get(from, field->key);
	void *to = row + field->offset;
	int ret;

	switch (field->type) {
	case GPU_FIELD_TEXT:
	case GPU_FIELD_NAME:
		*(const char **)to = text_of(read, value);
		break;
	case GPU_FIELD_U32:
		*(uint32_t *)to = u32_of(read, value);
		break;
	case GPU_FIELD_U64:
		/* Less than UINT64_MAX, so that sums of a few do not wrap; nothing real is near it. */
		*(uint64_t *)to = (uint64_t)real_of(read, value, 0x1p60);
		break;
	case GPU_FIELD_BOOL:
		*(bool *)to = json_is_true(value);
		break;
	case GPU_FIELD_SECONDS:
		*(double *)to = real_of(read, value, MAX_SECONDS);
		break;
	case GPU_FIELD_HEX_OR_MAX:
		*(uint64_t *)to = UINT64_MAX;
		hex_of(read, value, to);
		break;
	case GPU_FIELD_HEX:
		hex_of(read, value, to);
		break;
	case GPU_FIELD_EXTRA:
		extra_read(read, json_object_get(from, "peer"), to,
			   (const char **)(row + field->more));
		break;
	case GPU_FIELD_PART:
		return fields_read(read, from, field->of, row);
	case GPU_FIELD_OBJECT:
		if (!kinds[field->of->kind].max || !value || json_is_null(value))
			break;
		ret = object_read(read, value, field->of, to);
		return ret < 0 ? ret : 0;
	case GPU_FIELD_ARRAY:
		return kinds[field->of->kind].max ? array_read(read, value, field, row) : 0;
	case GPU_FIELD_TEXTS:
		return array_read(read, value, field, row);
	default:
		break;
	}
	return 0;
}

static int fields_read(struct gpu_read *read, const json_t *from, const struct gpu_fields *fields,
		       char *row)
{
	const struct gpu_field *field;
	int err = 0;

	for (field = fields->fields; field->type && !err; field++)
		if (!field->written)
			err = field_read(read, from, field, row);
	return err;
}

static void processes_add(struct gpu_read *read, const struct gpu_report_process *processes,
			  size_t nr, bool silent)
{
	size_t i;

	for (i = 0; i < nr; i++) {
		read->processes[read->nr_processes++] =
			(struct gpu_read_process){ .report = &processes[i],
						   .file = (uint32_t)read->nr_files - 1,
						   .silent = silent };
		read->nr_comms += processes[i].nr_comms;
		read->nr_collectives += processes[i].nr_collectives;
		read->nr_completions += processes[i].nr_completions;
		read->nr_open += processes[i].nr_open;
	}
}

static int file_add(struct gpu_read *read, const char *path, const json_t *json)
{
	struct gpu_read_file *to = &read->files[read->nr_files];
	int err;

	if (!json_is_array(json_object_get(json, "processes")) ||
	    !json_is_string(json_object_get(json, "host")))
		return -EBADMSG;
	read->nr_files++;
	to->path = gpu_arrays_text(&read->arrays, path);
	err = fields_read(read, json, &gpu_report_fields, (char *)&to->report);
	if (err)
		return err;
	processes_add(read, to->report.processes, to->report.nr_processes, false);
	processes_add(read, to->report.silent, to->report.nr_silent, true);
	return 0;
}

int gpu_read_add(struct gpu_read *read, const char *path, const char *text, size_t len)
{
	json_t *json;
	int err;

	if (len > GPU_READ_FILE_BYTES || read->nr_files >= GPU_READ_FILES)
		return -E2BIG;
	err = wiped_json_load_reals(&json, text, len, MAX_PARSED_BYTES);
	if (err)
		return err;
	err = file_add(read, path, json);
	json_decref(json);
	return err;
}
