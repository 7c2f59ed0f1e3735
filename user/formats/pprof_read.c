// SPDX-License-Identifier: Apache-2.0
/*
 * Reads pprof's profile.proto. Its fields come in any order, and bpfprof writes the texts last. So
 * the file is walked four times: texts and numbers, then the parts that frames refer to, then
 * frames, then samples.
 */
#include "formats/pprof_reading.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/capped.h"
#include "base/strtab.h"
#include "base/time.h"
#include "formats/pprof_fields.h"
#include "formats/seconds_file.h"

#define MAX_DEPTH 65536

/* Calls take() for every field of the profile; an error ends the walk. */
static int walk(struct pprof *p, int (*take)(struct pprof *p, const struct wire_field *field))
{
	struct wire_span left = p->whole;
	struct wire_field field;
	int err = 0, got;

	for (;;) {
		p->field = left.at;
		got = wire_next(&left, &field);
		if (got <= 0)
			return got ? pprof_malformed(p, "no field") : 0;
		err = take(p, &field);
		if (err == -EBADMSG)
			return pprof_malformed(p, "an unusable field");
		if (err)
			return err;
	}
}

static int text_add(struct pprof *p, const struct wire_field *field)
{
	size_t len = (size_t)(field->bytes.end - field->bytes.at);

	if (!field->has_bytes)
		return -EBADMSG;
	if (p->texts.nr >= PPROF_MAX_ENTRIES)
		return pprof_too_many(p, "texts", PPROF_MAX_ENTRIES);
	if (vec_reserve(&p->read->builder.budget, &p->texts, 1, sizeof(uint32_t)))
		return -E2BIG;
	PPROF_AT(p->texts, uint32_t, p->texts.nr++) =
		strtab_add_len(p->read->builder.strings, (const char *)field->bytes.at, len);
	return 0;
}

static int type_add(struct pprof *p, struct wire_span span)
{
	struct pprof_type type = { 0 };
	struct wire_field field;
	int got;

	while ((got = wire_next(&span, &field)) > 0) {
		if (field.number == VALUE_TYPE_TYPE)
			type.type = field.value;
		else if (field.number == VALUE_TYPE_UNIT)
			type.unit = field.value;
	}
	if (!got && p->nr_types < PPROF_MAX_TYPES)
		p->types[p->nr_types++] = type;
	else if (!got)
		return pprof_too_many(p, "sample types", PPROF_MAX_TYPES);
	return got;
}

static int take_head(struct pprof *p, const struct wire_field *field)
{
	switch (field->number) {
	case PROFILE_SAMPLE_TYPE:
		return type_add(p, field->bytes);
	case PROFILE_STRING_TABLE:
		return text_add(p, field);
	case PROFILE_TIME_NANOS:
		p->time_ns = field->value;
		break;
	case PROFILE_DURATION_NANOS:
		p->duration_ns = field->value;
		break;
	case PROFILE_PERIOD:
		p->period = field->value;
		break;
	case PROFILE_DEFAULT_SAMPLE_TYPE:
		p->default_type = field->value;
		break;
	case PROFILE_COMMENT:
		if (!field->has_bytes && p->nr_comments < PPROF_MAX_COMMENTS)
			p->comments[p->nr_comments++] = field->value;
		break;
	default:
		break;
	}
	return 0;
}

/* The text of a type; "": there is no such text. */
static const char *word(struct pprof *p, uint64_t index)
{
	return index < p->texts.nr
		       ? strtab_get(p->read->builder.strings, PPROF_AT(p->texts, uint32_t, index))
		       : "";
}

static uint64_t unit_ns(const char *unit)
{
	static const struct {
		const char *name;
		uint64_t ns;
	} units[] = { { "nanoseconds", 1 },
		      { "microseconds", 1000 },
		      { "milliseconds", 1000000 },
		      { "seconds", 1000000000 } };
	size_t i;

	for (i = 0; i < sizeof(units) / sizeof(units[0]); i++)
		if (!strcmp(unit, units[i].name))
			return units[i].ns;
	return 0;
}

/* Chooses as `go tool pprof` does: the default value, else the last one. */
static int choose_value(struct pprof *p)
{
	const char *wanted = p->read->sample_type;
	size_t i;

	if (!wanted)
		wanted = word(p, p->default_type);
	for (i = 0; i < p->nr_types; i++)
		if (!strcmp(word(p, p->types[i].type), wanted))
			break;
	p->value_at = i < p->nr_types ? i : p->nr_types - 1;
	if (i < p->nr_types || !p->read->sample_type)
		return 0;
	buf_add_str(p->why, "it has no such sample type; it has");
	for (i = 0; i < p->nr_types; i++)
		buf_printf(p->why, "%s %.64s", i ? "," : "", word(p, p->types[i].type));
	return -ENOENT;
}

/* Counts are the value before the chosen one with unit "count", or the first such one. */
static void choose_count(struct pprof *p)
{
	size_t i;

	for (i = p->value_at + 1; i-- > 0;)
		if (!strcmp(word(p, p->types[i].unit), "count")) {
			p->count_at = i;
			p->has_count = true;
			return;
		}
}

/*
 * Is it a file of calls? bpfprof's files of the GPU begin with calls; an older one may have fewer
 * values.
 */
static bool is_of_calls(struct pprof *p)
{
	size_t i, k;

	for (i = 0; i < PROFILE_NR_CALL_VALUES; i++) {
		for (k = 0; k < p->nr_types && profile_call_types[i].type; k++)
			if (!strcmp(word(p, p->types[k].type), profile_call_types[i].type))
				break;
		p->call_at[i] = profile_call_types[i].type ? k : p->nr_types;
	}
	return !p->call_at[PROFILE_CALLS] && p->call_at[PROFILE_BLOCKED_NS] == 1;
}

static int take_types(struct pprof *p)
{
	struct profile_value *value = &p->file.value;
	struct strtab *strings = p->read->builder.strings;
	const char *type, *unit;
	int err;

	if (!p->nr_types)
		return pprof_malformed(p, "no sample type");
	err = choose_value(p);
	if (err)
		return err;
	choose_count(p);
	p->is_calls = is_of_calls(p);
	type = word(p, p->types[p->value_at].type);
	unit = word(p, p->types[p->value_at].unit);
	p->scale = unit_ns(unit);
	if (p->has_count && strcmp(word(p, p->types[p->count_at].type), "samples"))
		value->count_type = strtab_add(strings, word(p, p->types[p->count_at].type));
	if (p->scale && !strcmp(type, "cpu"))
		return 0;
	if (p->has_count && p->count_at == p->value_at && !strcmp(type, "samples")) {
		value->only_counts = true;
		return 0;
	}
	value->type = strtab_add(strings, type);
	if (!p->has_count)
		value->count_type = value->type;
	value->unit = strtab_add(strings, p->scale ? "nanoseconds" : unit);
	return 0;
}

static int frame_push(struct pprof *p, uint64_t id)
{
	struct pprof_range range;
	uint32_t index;
	int err;

	if (!map_find(&p->frames_by_id, id, &index))
		return pprof_malformed(p, "a frame that is not there");
	range = PPROF_AT(p->frames, struct pprof_range, index);
	if (p->stack.nr + range.nr > MAX_DEPTH)
		return pprof_too_many(p, "frames in one stack", MAX_DEPTH);
	err = vec_reserve(&p->read->builder.budget, &p->stack, range.nr, sizeof(uint32_t));
	if (err)
		return err;
	memcpy(&PPROF_AT(p->stack, uint32_t, p->stack.nr),
	       &PPROF_AT(p->locations, uint32_t, range.first), range.nr * sizeof(uint32_t));
	p->stack.nr += range.nr;
	return 0;
}

static int label_add(struct pprof *p, struct pprof_labelled *to, struct wire_span span)
{
	uint64_t key = 0, text = 0, number = 0;
	uint32_t key_text, value_text;
	struct wire_field field;
	int got, err;

	while ((got = wire_next(&span, &field)) > 0) {
		if (field.number == LABEL_KEY)
			key = field.value;
		else if (field.number == LABEL_STR)
			text = field.value;
		else if (field.number == LABEL_NUM)
			number = field.value;
	}
	err = got ? got : pprof_text(p, key, &key_text);
	if (!err)
		err = pprof_text(p, text, &value_text);
	if (!err)
		pprof_labels_take(&p->labels, to, key_text, value_text, number);
	return err;
}

static int numbers_take(struct pprof *p, const struct wire_field *field, uint64_t *values,
			size_t *nr)
{
	struct wire_span span = field->bytes;
	uint64_t number = field->value;
	int got = 1, err = 0;

	while (!err) {
		if (field->has_bytes)
			got = wire_number(&span, &number);
		if (got <= 0)
			return got;
		if (!values)
			err = frame_push(p, number);
		else if (*nr == PPROF_MAX_TYPES)
			err = pprof_malformed(p, "too many values");
		else
			values[(*nr)++] = number;
		if (!field->has_bytes)
			break;
	}
	return err;
}

static int values_put(struct pprof *p, struct profile_sample *sample, const uint64_t *values)
{
	size_t i;

	for (i = 0; i < p->nr_types; i++)
		if (values[i] > INT64_MAX) {
			buf_add_str(p->why, "it has values below zero, as differences of two "
					    "profiles have; --diff takes the two");
			return -EINVAL;
		}
	sample->value_ns = values[p->value_at];
	if (p->scale > 1 && __builtin_mul_overflow(sample->value_ns, p->scale, &sample->value_ns))
		sample->value_ns = UINT64_MAX;
	sample->count = values[p->has_count ? p->count_at : p->value_at];
	if (p->is_calls)
		sample->count = values[0];
	if (p->file.value.only_counts)
		sample->value_ns = 0;
	return 0;
}

static int labelled_put(struct pprof *p, struct pprof_labelled *to, const uint64_t *values)
{
	uint64_t of_calls[PROFILE_NR_CALL_VALUES] = { 0 };
	struct profile_builder *b = &p->read->builder;
	size_t i;
	int err = 0;

	for (i = 0; p->is_calls && i < PROFILE_NR_CALL_VALUES; i++)
		if (p->call_at[i] < p->nr_types)
			of_calls[i] = values[p->call_at[i]];

	if (to->has_container)
		err = profile_builder_container(b, &to->container, &to->process.container);
	if (!p->file.host)
		p->file.host = to->process.host;
	else if (p->file.host != to->process.host)
		p->read->hosts_differ = true;
	if (!to->process.comm && !to->process.task)
		to->process.comm =
			p->main_name ? p->main_name : profile_read_name(p->read, p->path);
	if (!err)
		err = profile_read_process(p->read, &to->process, &to->sample.process);
	if (!err && to->has_call && p->is_calls)
		err = profile_builder_call(b, &to->call, &to->sample.call);
	if (!err)
		err = profile_builder_stack(b, p->stack.data, (uint32_t)p->stack.nr,
					    &to->sample.stack);
	if (to->sample.tid)
		p->read->threads = true;
	if (!err)
		err = values_put(p, &to->sample, values);
	return err ? err : profile_builder_sample(b, &to->sample, p->is_calls ? of_calls : NULL);
}

/* Reads the values of a sample and, unless labelled is NULL, its stack and its labels. */
static int sample_parse(struct pprof *p, struct wire_span span, uint64_t values[PPROF_MAX_TYPES],
			struct pprof_labelled *labelled)
{
	struct wire_field field;
	size_t nr_values = 0;
	int got, err = 0;

	p->stack.nr = 0;
	while (!err && (got = wire_next(&span, &field)) != 0) {
		if (got < 0)
			return got;
		if (field.number == SAMPLE_VALUE)
			err = numbers_take(p, &field, values, &nr_values);
		else if (labelled && field.number == SAMPLE_LOCATION_ID)
			err = numbers_take(p, &field, NULL, NULL);
		else if (labelled && field.number == SAMPLE_LABEL)
			err = label_add(p, labelled, field.bytes);
	}
	if (!err && nr_values != p->nr_types)
		err = pprof_malformed(p, "a sample with another number of values than types");
	return err;
}

/* Leaves the part of the values that is in the wanted seconds. False: they have no part. */
static bool values_cut(struct pprof *p, uint64_t values[PPROF_MAX_TYPES])
{
	struct seconds_cut *cut = p->read->cut;
	uint64_t count = values[p->count_at];
	size_t sample = p->nr_samples++, i;

	cut->nr_left_out += count - cut->placed[sample];
	if (!cut->kept[sample])
		return false;
	for (i = 0; i < p->nr_types; i++)
		values[i] = (uint64_t)((unsigned __int128)values[i] * cut->kept[sample] / count);
	return true;
}

static int take_sample(struct pprof *p, const struct wire_field *of)
{
	struct pprof_labelled labelled;
	uint64_t values[PPROF_MAX_TYPES];
	int err;

	if (of->number != PROFILE_SAMPLE)
		return 0;
	memset(&labelled, 0, sizeof(labelled)); /* padding, too: pieces are compared as bytes */
	err = sample_parse(p, of->bytes, values, &labelled);
	if (err || (p->read->cut && !values_cut(p, values)))
		return err;
	return labelled_put(p, &labelled, values);
}

static int take_count(struct pprof *p, const struct wire_field *of)
{
	struct seconds_cut *cut = p->read->cut;
	uint64_t values[PPROF_MAX_TYPES];
	int err;

	if (of->number != PROFILE_SAMPLE)
		return 0;
	err = sample_parse(p, of->bytes, values, NULL);
	if (err)
		return err;
	if (p->nr_samples >= cut->nr_samples || values[p->count_at] < cut->placed[p->nr_samples])
		cut->foreign = true;
	p->total = capped_add(p->total, values[p->count_at]);
	p->nr_samples++;
	return 0;
}

/* Compares the seconds with the samples. Those of another profile are not used: all of this one is taken. */
static int check_cut(struct pprof *p)
{
	struct seconds_cut *cut = p->read->cut;
	int err;

	if (!cut)
		return 0;
	cut->foreign = p->is_calls || !p->has_count;
	err = walk(p, take_count);
	cut->foreign |= p->nr_samples != cut->nr_samples || p->total != cut->total;
	p->nr_samples = 0;
	if (cut->foreign)
		p->read->cut = NULL;
	else
		p->read->was_cut = true;
	return err;
}

/* Leaves the wanted part of the time. */
static void time_cut(struct pprof *p)
{
	const struct seconds_cut *cut = p->read->cut;
	uint64_t end_ns = p->time_ns + p->duration_ns;

	if (!cut)
		return;
	if (cut->from_s > p->time_ns / NS_PER_SECOND)
		p->time_ns = cut->from_s * NS_PER_SECOND;
	if (cut->until_s <= end_ns / NS_PER_SECOND)
		end_ns = cut->until_s * NS_PER_SECOND;
	p->duration_ns = end_ns > p->time_ns ? end_ns - p->time_ns : 0;
}

/* Reads the comments: one of them has bpfprof's counters. */
static void take_comments(struct pprof *p)
{
	const char *text;
	size_t i;

	for (i = 0; i < p->nr_comments; i++) {
		text = word(p, p->comments[i]);
		if (text[0] == '{')
			profile_read_stats(p->read, text, strlen(text));
	}
}

static void take_period(struct pprof *p)
{
	uint32_t hz = 0;

	if (p->period && p->period <= 1000000000 && !p->file.value.type)
		hz = (uint32_t)((1000000000 + p->period / 2) / p->period);
	if (!p->read->nr_files)
		p->read->hz = hz;
	else if (p->read->hz != hz)
		p->read->hz = 0;
}

static int read_all(struct pprof *p)
{
	int err;

	err = walk(p, take_head);
	if (!err)
		err = take_types(p);
	if (!err)
		err = walk(p, pprof_take_referred);
	if (!err)
		err = walk(p, pprof_take_frame);
	if (!err)
		err = check_cut(p);
	if (!err)
		err = walk(p, take_sample);
	if (err)
		return err;
	take_comments(p);
	take_period(p);
	time_cut(p);
	p->file.time_ns = p->time_ns;
	p->file.duration_ns = p->duration_ns;
	p->read->raw_only = false;
	return profile_read_file_add(p->read, &p->file, p->why);
}

/* Gives the memory of this file's vec back to the budget. */
static void vec_drop(struct pprof *p, struct vec *vec, size_t size)
{
	p->read->builder.budget.bytes -= vec->cap * size;
	free(vec->data);
}

int pprof_read(struct profile_read *read, const char *path, const uint8_t *data, size_t len,
	       struct buf *why)
{
	struct pprof *p = calloc(1, sizeof(*p));
	int err;

	if (!p)
		return -ENOMEM;
	*p = (struct pprof){
		.read = read, .path = path, .why = why, .whole = { data, data + len }
	};
	p->field = data;
	map_init(&p->mappings_by_id, PPROF_MAX_MAPPINGS);
	map_init(&p->functions_by_id, PPROF_MAX_ENTRIES);
	map_init(&p->frames_by_id, PPROF_MAX_ENTRIES);
	pprof_labels_init(&p->labels, read->builder.strings);
	err = read_all(p);
	map_fini(&p->mappings_by_id);
	map_fini(&p->functions_by_id);
	map_fini(&p->frames_by_id);
	vec_drop(p, &p->texts, sizeof(uint32_t));
	vec_drop(p, &p->functions, sizeof(struct pprof_function));
	vec_drop(p, &p->mappings, sizeof(uint32_t));
	vec_drop(p, &p->frames, sizeof(struct pprof_range));
	vec_drop(p, &p->locations, sizeof(uint32_t));
	vec_drop(p, &p->stack, sizeof(uint32_t));
	free(p);
	return err;
}
