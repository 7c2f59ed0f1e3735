// SPDX-License-Identifier: Apache-2.0
#include "options/flag.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/duration.h"
#include "base/names.h"
#include "options/values.h"

const struct flag *flag_next(struct flag_walk *walk)
{
	for (;;) {
		const struct flag *flag = walk->next;

		if (flag->type == FLAG_INCLUDE) {
			walk->outer = flag + 1;
			walk->next = flag->include;
			walk->offset = flag->offset;
		} else if (flag->type != FLAG_END) {
			walk->next++;
			walk->nr++;
			return flag;
		} else if (walk->outer) {
			*walk = (struct flag_walk){ .next = walk->outer, .nr = walk->nr };
		} else {
			return NULL;
		}
	}
}

const struct flag *flag_find(struct flag_walk *walk, const char *name, size_t len)
{
	const struct flag *flag;

	while ((flag = flag_next(walk)))
		if (strlen(flag->name) == len && !memcmp(flag->name, name, len))
			return flag;
	return NULL;
}

static void *field_at(void *object, size_t offset)
{
	return (char *)object + offset;
}

static const void *field_of(const void *object, size_t offset)
{
	return (const char *)object + offset;
}

static uint64_t number_get(const struct flag *flag, const void *object)
{
	const void *field = field_of(object, flag->offset);

	switch (flag->size) {
	case 1:
		return *(const uint8_t *)field;
	case 4:
		return *(const uint32_t *)field;
	default:
		assert(flag->size == 8);
		return *(const uint64_t *)field;
	}
}

static int number_set(const struct flag *flag, void *object, uint64_t number)
{
	void *field = field_at(object, flag->offset);

	switch (flag->size) {
	case 1:
		*(uint8_t *)field = (uint8_t)number;
		break;
	case 4:
		*(uint32_t *)field = (uint32_t)number;
		break;
	default:
		assert(flag->size == 8);
		*(uint64_t *)field = number;
	}
	return 0;
}

static int set(const struct flag *flag, void *object)
{
	uint64_t before = number_get(flag, object);

	if (flag->refusal && before != flag->initial && before != flag->min)
		return -EINVAL;
	return number_set(flag, object, flag->min);
}

static int count(const struct flag *flag, void *object)
{
	uint64_t before = number_get(flag, object);

	return number_set(flag, object, before + (before < flag->max));
}

static int take_number(const struct flag *flag, void *object, const char *value)
{
	uint64_t max = flag->max ?: UINT64_MAX, unit = 1, number;
	int err;

	if (flag->type == FLAG_DURATION) {
		err = duration_parse(value, &number);
		unit = flag->unit_ns ?: 1;
	} else if (flag->type == FLAG_BYTES) {
		err = value_bytes(value, &number) ? -EINVAL : 0;
	} else {
		err = value_number(value, max, &number);
	}
	if (err)
		return err;
	if (number < flag->min || number > max)
		return -ERANGE;
	if (flag->whole && number % unit)
		return -EINVAL;
	return number_set(flag, object, number / unit);
}

static int take_choice(const struct flag *flag, void *object, const char *value)
{
	uint64_t i;

	for (i = 0; flag->words[i]; i++)
		if (!strcmp(flag->words[i], value))
			return number_set(flag, object, flag->min + i);
	return -EINVAL;
}

static int take_typed(const struct flag *flag, void *object, const char *value, struct buf *why)
{
	void *field = field_at(object, flag->offset);
	size_t *length = field_at(object, flag->count);

	switch (flag->type) {
	case FLAG_BOOL:
		return number_set(flag, object, true);
	case FLAG_SET:
		return set(flag, object);
	case FLAG_COUNT:
		return count(flag, object);
	case FLAG_NUMBER:
	case FLAG_BYTES:
	case FLAG_DURATION:
		return take_number(flag, object, value);
	case FLAG_CHOICE:
		return take_choice(flag, object, value);
	case FLAG_TEXT:
		return !*value && flag->refusal ? -EINVAL : value_string(field, value);
	case FLAG_FOLDER:
		return value_folder(field, value, why);
	case FLAG_LIST:
		return *value ? value_add_name(field, length, value, strlen(value), why) : -EINVAL;
	case FLAG_PATTERNS:
		return value_add_patterns(field, length, value, why);
	case FLAG_PIDS:
		return value_add_pids(field, length, value, why);
	default:
		return -EINVAL;
	}
}

int flag_take(const struct flag *flag, void *object, const char *value, struct buf *why)
{
	size_t len = why->len;
	int err =
		flag->take ? flag->take(object, value, why) : take_typed(flag, object, value, why);

	if (err == -ERANGE && flag->out_of_range)
		buf_add_str(why, flag->out_of_range);
	else if ((err == -ERANGE || err == -EINVAL) && why->len == len && flag->refusal)
		buf_add_str(why, flag->refusal);
	return err == -ERANGE ? -EINVAL : err;
}

bool flag_is_set(const struct flag *flag, const void *object, const char *word, size_t len)
{
	const void *field = field_of(object, flag->offset);
	const char *chosen;

	switch (flag->type) {
	case FLAG_TEXT:
	case FLAG_FOLDER:
		return *(char *const *)field != NULL;
	case FLAG_LIST:
	case FLAG_PATTERNS:
	case FLAG_PIDS:
		return *(const size_t *)field_of(object, flag->count) > 0;
	case FLAG_SET:
		return number_get(flag, object) == flag->min;
	default:
		if (!word)
			return number_get(flag, object) != flag->initial;
		chosen = flag->words[number_get(flag, object) - flag->min];
		return strlen(chosen) == len && !memcmp(chosen, word, len);
	}
}

void flag_init(const struct flag *flag, void *object)
{
	if (flag->initial)
		number_set(flag, object, flag->initial);
}

void flag_release(const struct flag *flag, void *object)
{
	void *field = field_at(object, flag->offset);

	switch (flag->type) {
	case FLAG_TEXT:
	case FLAG_FOLDER:
		free(*(char **)field);
		break;
	case FLAG_LIST:
	case FLAG_PATTERNS:
		names_free(*(char ***)field, *(size_t *)field_at(object, flag->count));
		break;
	case FLAG_PIDS:
		free(*(pid_t **)field);
		break;
	default:
		if (flag->release)
			flag->release(object);
	}
}
