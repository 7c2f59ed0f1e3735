// SPDX-License-Identifier: Apache-2.0
#include "gpu/report.h"

#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/text.h"
#include "gpu/report_fields.h"
#include "profile/stats.h"

static void object_write(struct buf *dst, const struct gpu_fields *fields, const char *row,
			 const void *parent);

static bool holds(const struct gpu_field_when *when, const char *row)
{
	bool any = !when->size;
	size_t i;

	for (i = 0; i < when->size; i++)
		any |= row[when->offset + i] != 0;
	return any != when->negated;
}

/* A value that reads as a number is written as one. */
static void extra_write(struct buf *dst, const char *key, const char *text)
{
	if (!key || !*key)
		return;
	if (!*text || text[strspn(text, "0123456789")] || (*text == '0' && text[1])) {
		json_key_text(dst, key, text);
		return;
	}
	json_key(dst, key);
	buf_add_str(dst, text);
}

static void array_write(struct buf *dst, const struct gpu_field *field, const char *row)
{
	const void *const *array = (const void *const *)(row + field->offset);
	size_t nr = *(const size_t *)(row + field->more), i;

	json_key_open(dst, field->key, '[');
	for (i = 0; i < nr; i++) {
		json_item(dst);
		if (field->type == GPU_FIELD_TEXTS)
			text_add_json(dst, ((const char *const *)*array)[i]);
		else
			object_write(dst, field->of, (const char *)*array + i * field->of->size,
				     row);
	}
	buf_add_char(dst, ']');
}

static void flags_write(struct buf *dst, const struct gpu_field *field, const char *row)
{
	const struct gpu_field *flag;

	json_key_open(dst, field->key, '[');
	for (flag = field->of->fields; flag->type; flag++) {
		if (!*(const bool *)(row + flag->offset))
			continue;
		json_item(dst);
		text_add_json(dst, flag->key);
	}
	buf_add_char(dst, ']');
}

static void lost_write(struct buf *dst, const char *key, const struct gpu_report *report)
{
	size_t i;

	json_key_open(dst, key, '{');
	for (i = 0; i < report->nr_lost; i++)
		json_key_number(dst, report->lost[i].name, report->lost[i].count);
	buf_add_char(dst, '}');
}

static void fields_write(struct buf *dst, const struct gpu_fields *fields, const char *row,
			 const void *parent);

/* The rank and the size are those in the row of the communicator, if the process has one. */
static void rank_write(struct buf *dst, const struct gpu_fields *fields,
		       const struct gpu_report_open *open, const struct gpu_report_process *process)
{
	static const struct gpu_report_comm unknown;
	const struct gpu_report_comm *comm = NULL;

	if (open->comm)
		comm = gpu_report_comm_of(process, open->comm);
	fields_write(dst, fields, (const char *)(comm ? comm : &unknown), NULL);
}

/* The type that the value is written as; GPU_FIELD_END stands for null. */
static enum gpu_field_type type_of(const struct gpu_field *field, const char *row)
{
	const char *text;

	if (!holds(&field->known, row))
		return GPU_FIELD_END;
	if (field->type == GPU_FIELD_NAME) {
		text = *(const char *const *)(row + field->offset);
		return text && *text ? GPU_FIELD_TEXT : GPU_FIELD_END;
	}
	if (field->type == GPU_FIELD_HEX_OR_MAX)
		return *(const uint64_t *)(row + field->offset) != UINT64_MAX ? GPU_FIELD_HEX
									      : GPU_FIELD_END;
	return field->type;
}

/* parent is the struct that row belongs to. */
static void field_write(struct buf *dst, const struct gpu_field *field, const char *row,
			const void *parent)
{
	const void *value = row + field->offset;

	switch (type_of(field, row)) {
	case GPU_FIELD_TEXT:
		json_key_text(dst, field->key, *(const char *const *)value);
		break;
	case GPU_FIELD_U32:
		json_key_number(dst, field->key, *(const uint32_t *)value);
		break;
	case GPU_FIELD_U64:
		json_key_number(dst, field->key, *(const uint64_t *)value);
		break;
	case GPU_FIELD_BOOL:
		json_key_bool(dst, field->key, *(const bool *)value);
		break;
	case GPU_FIELD_SECONDS:
		json_key_seconds(dst, field->key, *(const double *)value);
		break;
	case GPU_FIELD_HEX:
		json_key_hex(dst, field->key, *(const uint64_t *)value);
		break;
	case GPU_FIELD_THREE:
		json_key_three(dst, field->key, value);
		break;
	case GPU_FIELD_EXTRA:
		extra_write(dst, *(const char *const *)value,
			    *(const char *const *)(row + field->more));
		break;
	case GPU_FIELD_FLAGS:
		flags_write(dst, field, row);
		break;
	case GPU_FIELD_PART:
		fields_write(dst, field->of, row, parent);
		break;
	case GPU_FIELD_OBJECT:
		json_key(dst, field->key);
		object_write(dst, field->of, value, row);
		break;
	case GPU_FIELD_TEXTS:
	case GPU_FIELD_ARRAY:
		array_write(dst, field, row);
		break;
	case GPU_FIELD_RANK:
		rank_write(dst, field->of, value, parent);
		break;
	case GPU_FIELD_LOST:
		lost_write(dst, field->key, (const void *)row);
		break;
	default:
		json_key(dst, field->key);
		buf_add_str(dst, "null");
	}
}

static void fields_write(struct buf *dst, const struct gpu_fields *fields, const char *row,
			 const void *parent)
{
	const struct gpu_field *field;

	for (field = fields->fields; field->type; field++)
		if (holds(&field->given, row))
			field_write(dst, field, row, parent);
}

static void object_write(struct buf *dst, const struct gpu_fields *fields, const char *row,
			 const void *parent)
{
	buf_add_char(dst, '{');
	fields_write(dst, fields, row, parent);
	buf_add_char(dst, '}');
}

void gpu_json(struct buf *dst, const struct gpu_report *report)
{
	object_write(dst, &gpu_report_fields, (const char *)report, NULL);
	buf_add_char(dst, '\n');
}
