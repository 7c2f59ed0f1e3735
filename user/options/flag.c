// SPDX-License-Identifier: Apache-2.0
#include "options/flag.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/duration.h"
#include "base/names.h"
#include "options/values.h"

/* Integers of all sizes are copied through the first bytes of a uint64_t. */
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "numbers would be stored shifted");

static void *field_of(const struct flag *flag, void *object)
{
	return (char *)object + flag->offset;
}

static size_t *length_of(const struct flag *flag, void *object)
{
	return (size_t *)(void *)((char *)object + flag->count);
}

struct flag_walk flag_walk(const struct flag *rows, void *options)
{
	return (struct flag_walk){ .next = rows, .nr = UINT_MAX, .options = options };
}

bool flag_next(struct flag_walk *walk)
{
	if (!walk->outer)
		walk->object = walk->options;
	if (walk->next->type == FLAG_INCLUDE) {
		walk->object = walk->options ? field_of(walk->next, walk->options) : NULL;
		walk->outer = walk->next + 1;
		walk->next = walk->next->include;
	} else if (walk->next->type == FLAG_END && walk->outer) {
		walk->next = walk->outer;
		walk->outer = NULL;
		return flag_next(walk);
	}
	walk->flag = walk->next->type == FLAG_END ? NULL : walk->next++;
	walk->nr++;
	return walk->flag;
}

bool flag_find(struct flag_walk *walk, const char *name, size_t len)
{
	while (flag_next(walk))
		if (strlen(walk->flag->name) == len && !memcmp(walk->flag->name, name, len))
			return true;
	return false;
}

static uint64_t number_get(const struct flag *flag, void *object)
{
	uint64_t number = 0;

	memcpy(&number, field_of(flag, object), flag->size);
	return number;
}

static int number_set(const struct flag *flag, void *object, uint64_t number)
{
	memcpy(field_of(flag, object), &number, flag->size);
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
	size_t len = strlen(value);
	char digits[24];
	int err;

	if (flag->type == FLAG_DURATION) {
		err = duration_parse(value, &number);
		unit = flag->unit_ns ?: 1;
	} else if (flag->type == FLAG_BYTES) {
		err = value_bytes(value, &number) ? -EINVAL : 0;
	} else if (flag->type == FLAG_PERCENT && len && len < sizeof(digits) &&
		   value[len - 1] == '%') {
		memcpy(digits, value, len - 1);
		digits[len - 1] = '\0';
		err = value_number(digits, max, &number);
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
	void *field = field_of(flag, object);
	size_t *length = length_of(flag, object);

	switch (flag->type) {
	case FLAG_BOOL:
		return number_set(flag, object, true);
	case FLAG_SET:
		return set(flag, object);
	case FLAG_COUNT:
		return count(flag, object);
	case FLAG_NUMBER:
	case FLAG_PERCENT:
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

bool flag_is_set(const struct flag *flag, void *object, const char *choice, size_t len)
{
	uint64_t number = number_get(flag, object);
	const char *word;

	switch (flag->type) {
	case FLAG_LIST:
	case FLAG_PATTERNS:
	case FLAG_PIDS:
		return *length_of(flag, object) > 0;
	case FLAG_SET:
		return number == flag->min;
	default:
		if (!len)
			return number != flag->initial;
		word = flag->words[number - flag->min];
		return strlen(word) == len - 1 && !memcmp(word, choice + 1, len - 1);
	}
}

void flag_init(const struct flag *flag, void *object)
{
	if (flag->initial)
		number_set(flag, object, flag->initial);
}

void flag_release(const struct flag *flag, void *object)
{
	switch (flag->type) {
	case FLAG_TEXT:
	case FLAG_FOLDER:
		free(*(char **)field_of(flag, object));
		break;
	case FLAG_LIST:
	case FLAG_PATTERNS:
		names_free(*(char ***)field_of(flag, object), *length_of(flag, object));
		break;
	case FLAG_PIDS:
		free(*(pid_t **)field_of(flag, object));
		break;
	default:
		if (flag->release)
			flag->release(object);
	}
}
