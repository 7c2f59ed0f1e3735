// SPDX-License-Identifier: Apache-2.0
#include "options/flags.h"

#include <ctype.h>
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/text.h"
#include "options/config.h"

#define REASON_MAX 1024
#define WORD_MAX 32
#define HELP_COLUMN 27

/* Levenshtein distance of two short words; a big number for long ones. */
static unsigned int word_distance(const char *a, const char *b)
{
	size_t len_a = strlen(a), len_b = strlen(b);
	unsigned int row[WORD_MAX + 1];

	if (len_a > WORD_MAX || len_b > WORD_MAX)
		return WORD_MAX;
	for (unsigned int j = 0; j <= len_b; j++)
		row[j] = j;
	for (unsigned int i = 1; i <= len_a; i++) {
		unsigned int diagonal = row[0];

		row[0] = i;
		for (size_t j = 1; j <= len_b; j++) {
			unsigned int best = diagonal + (a[i - 1] != b[j - 1]);

			diagonal = row[j];
			if (row[j] + 1 < best)
				best = row[j] + 1;
			if (row[j - 1] + 1 < best)
				best = row[j - 1] + 1;
			row[j] = best;
		}
	}
	return row[len_b];
}

const char *word_nearest(const char *typed, const char *const words[], size_t nr)
{
	size_t len = strlen(typed);
	unsigned int limit = len < 4 ? 1 : len < 8 ? 2 : 3;
	const char *nearest = NULL;

	for (size_t i = 0; i < nr; i++) {
		unsigned int distance = word_distance(typed, words[i]);

		if (distance <= limit) {
			nearest = words[i];
			limit = distance ? distance - 1 : 0;
		}
	}
	return nearest;
}

static const struct flag *flag_by_letter(const struct flag_set *set, char letter)
{
	for (size_t i = 0; letter && i < set->nr_flags; i++) {
		if (set->flags[i].letter == letter || set->flags[i].alias == letter)
			return &set->flags[i];
	}
	return NULL;
}

static const struct flag *flag_by_name(const struct flag_set *set, const char *name, size_t len)
{
	for (size_t i = 0; i < set->nr_flags; i++) {
		const char *known = set->flags[i].name;

		if (known && strlen(known) == len && !memcmp(known, name, len))
			return &set->flags[i];
	}
	return NULL;
}

static int unknown_flag(const struct flag_set *set, const char *word, size_t len, struct buf *error)
{
	const char *names[64], *nearest;
	__cleanup(free_mem) char *typed = strndup(word, len);
	size_t nr = 0;

	if (!typed)
		return -ENOMEM;
	for (size_t i = 0; i < set->nr_flags && nr < 64; i++) {
		if (set->flags[i].name)
			names[nr++] = set->flags[i].name;
	}
	nearest = !strncmp(typed, "--", 2) ? word_nearest(typed + 2, names, nr) : NULL;
	text_add_typed(error, typed);
	if (nearest)
		buf_printf(error, ": no such flag, did you mean --%s?", nearest);
	else
		buf_add_str(error, ": no such flag, --help lists them");
	return -EINVAL;
}

/* How the user gave a value, for the sentence: "-F 0", "--rate=0", "BPFPROF_RATE=0". */
struct given {
	const char *flag;
	size_t flag_len;
	const char *separator;
};

static int take(const struct flag_set *set, const struct flag *flag, struct given given,
		const char *value, void *target, struct buf *error)
{
	__cleanup(buf_fini) struct buf why;
	int err;

	buf_init(&why, REASON_MAX);
	err = set->take(target, flag->key, value, &why);
	if (err != -EINVAL)
		return err;
	buf_add(error, given.flag, given.flag_len);
	if (value) {
		buf_add_str(error, given.separator);
		text_add_typed(error, value);
	}
	buf_printf(error, ": %s", why.data ? why.data : "not understood");
	return -EINVAL;
}

static int missing_value(struct given given, const struct flag *flag, struct buf *error)
{
	buf_add(error, given.flag, given.flag_len);
	buf_printf(error, ": its value is missing (%s)", flag->value);
	return -EINVAL;
}

struct cursor {
	int argc;
	char *const *argv;
	int next;
	uint64_t seen; /* bit n: flags[n] was given */
};

/* --name, --name=VALUE, --name VALUE */
static int parse_long(const struct flag_set *set, struct cursor *cursor, const char *word,
		      void *target, struct buf *error)
{
	size_t len = strcspn(word + 2, "=");
	const struct flag *flag = flag_by_name(set, word + 2, len);
	struct given given = { .flag = word, .flag_len = len + 2, .separator = " " };
	const char *value = NULL;

	if (!strcmp(word, "--help"))
		return -ECANCELED;
	if (!flag)
		return unknown_flag(set, word, len + 2, error);
	cursor->seen |= 1ULL << (flag - set->flags);
	if (word[len + 2] == '=') {
		value = word + len + 3;
		given.separator = "=";
		if (!flag->value) {
			buf_printf(error, "--%s: takes no value, leave out ", flag->name);
			text_add_typed(error, word + len + 2);
			return -EINVAL;
		}
	} else if (flag->value) {
		if (cursor->next >= cursor->argc)
			return missing_value(given, flag, error);
		value = cursor->argv[cursor->next++];
	}
	return take(set, flag, given, value, target, error);
}

/* -v, -F99, -F 99, -vF99 */
static int parse_letters(const struct flag_set *set, struct cursor *cursor, const char *word,
			 void *target, struct buf *error)
{
	for (const char *letter = word + 1; *letter; letter++) {
		const struct flag *flag = flag_by_letter(set, *letter);
		char text[] = { '-', *letter, 0 };
		struct given given = { .flag = text, .flag_len = 2, .separator = " " };
		const char *value = NULL;
		int err;

		if (*letter == 'h' && !flag)
			return -ECANCELED;
		if (!flag)
			return unknown_flag(set, text, 2, error);
		cursor->seen |= 1ULL << (flag - set->flags);
		if (flag->value) {
			value = letter[1] ? letter + 1 : NULL;
			if (!value && cursor->next >= cursor->argc)
				return missing_value(given, flag, error);
			if (!value)
				value = cursor->argv[cursor->next++];
		}
		err = take(set, flag, given, value, target, error);
		if (err || flag->value)
			return err;
	}
	return 0;
}

/* BPFPROF_NO_SUBPROCESSES for no-subprocesses. */
/* command: "" or its name. */
static void twin_name(char name[64], const struct flag *flag, const char *command)
{
	size_t len = (size_t)snprintf(name, 64, "BPFPROF_%.20s%s", command, *command ? "_" : "");

	for (const char *c = flag->name; *c && len < 63; c++)
		name[len++] = *c == '-' ? '_' : (char)toupper((unsigned char)*c);
	name[len] = 0;
}

/* How often it is given, or -EINVAL: the value of a flag that takes none. */
static int switch_parse(const char *text, bool repeatable)
{
	static const char *const on[] = { "1", "true", "yes", "on" };
	static const char *const off[] = { "0", "false", "no", "off" };

	for (size_t i = 0; i < sizeof(on) / sizeof(on[0]); i++) {
		if (!strcasecmp(text, on[i]))
			return 1;
		if (!strcasecmp(text, off[i]))
			return 0;
	}
	if (repeatable && text[0] >= '2' && text[0] <= '9' && !text[1])
		return text[0] - '0';
	return -EINVAL;
}

static int take_list(const struct flag_set *set, const struct flag *flag, struct given given,
		     const char *text, void *target, struct buf *error)
{
	for (const char *item = text; *item;) {
		size_t len = strcspn(item, ",");
		__cleanup(free_mem) char *value = strndup(item, len);
		int err;

		if (!value)
			return -ENOMEM;
		err = len ? take(set, flag, given, value, target, error) : 0;
		if (err)
			return err;
		item += len + (item[len] == ',');
	}
	return 0;
}

static int parse_twin(const struct flag_set *set, const struct flag *flag, void *target,
		      struct buf *error)
{
	char name[64];
	struct given given = { .flag = name, .separator = "=" };
	const char *text;
	int on, err = 0;

	twin_name(name, flag, set->twins);
	text = config_get(set->config, name);
	if (!text || !*text) {
		twin_name(name, flag, "");
		text = config_get(set->config, name);
	}
	given.flag_len = strlen(name);
	if (!text || !*text)
		return 0;
	if (flag->repeatable && flag->value)
		return take_list(set, flag, given, text, target, error);
	if (flag->value)
		return take(set, flag, given, text, target, error);
	on = switch_parse(text, flag->repeatable);
	if (on < 0) {
		buf_printf(error, "%s=", name);
		text_add_typed(error, text);
		buf_add_str(error, ": must be 1 or 0");
		return -EINVAL;
	}
	while (on-- > 0 && !err)
		err = take(set, flag, given, NULL, target, error);
	return err;
}

static int take_operand(const struct flag_set *set, struct cursor *cursor, const char *word,
			void *target, struct buf *error)
{
	struct given given = { .flag = "", .separator = "" };
	size_t i = 0;

	while (set->flags[i].key != set->operand_key)
		i++;
	cursor->seen |= 1ULL << i;
	return take(set, &set->flags[i], given, word, target, error);
}

int flags_parse(const struct flag_set *set, int argc, char *const argv[], void *target,
		int *command, struct buf *error)
{
	struct cursor cursor = { .argc = argc, .argv = argv, .next = 1 };
	int err = 0;

	*command = 0;
	while (!err && cursor.next < argc) {
		const char *word = argv[cursor.next++];

		if (!strcmp(word, "--") && set->command) {
			if (cursor.next >= argc) {
				buf_add_str(error, "--: the program to run is missing");
				return -EINVAL;
			}
			*command = cursor.next;
			break;
		}
		if (!strncmp(word, "--", 2) && word[2]) {
			err = parse_long(set, &cursor, word, target, error);
		} else if (word[0] == '-' && word[1] && word[1] != '-') {
			err = parse_letters(set, &cursor, word, target, error);
		} else if (set->operand_key && *word) {
			err = take_operand(set, &cursor, word, target, error);
		} else {
			text_add_typed(error, *word ? word : "''");
			buf_printf(error, ": %s", set->no_operand);
			return -EINVAL;
		}
	}
	for (size_t i = 0; !err && i < set->nr_flags; i++) {
		if (set->flags[i].name && !(cursor.seen & 1ULL << i))
			err = parse_twin(set, &set->flags[i], target, error);
	}
	return err;
}

/* To where the words begin: two blanks behind the flag, else on a line of their own. */
static void pad(struct buf *dst, size_t line_start)
{
	size_t column = dst->len - line_start;

	if (column + 2 > HELP_COLUMN && column) {
		buf_add_char(dst, '\n');
		column = 0;
	}
	for (; column < HELP_COLUMN; column++)
		buf_add_char(dst, ' ');
}

void flags_help(struct buf *dst, const struct flag_set *set)
{
	for (size_t i = 0; i < set->nr_flags; i++) {
		const struct flag *flag = &set->flags[i];
		size_t start = dst->len;

		buf_add_str(dst, "  ");
		if (flag->letter)
			buf_printf(dst, "-%c, ", flag->letter);
		else
			buf_add_str(dst, "    ");
		if (flag->alias)
			buf_printf(dst, "-%c, ", flag->alias);
		buf_printf(dst, "--%s", flag->name);
		if (flag->value)
			buf_printf(dst, " %s", flag->value);
		for (const char *line = flag->help; *line;) {
			size_t len = strcspn(line, "\n");

			pad(dst, start);
			buf_add(dst, line, len);
			buf_add_char(dst, '\n');
			start = dst->len;
			line += len + (line[len] == '\n');
		}
	}
	buf_add_str(dst, "  -h, --help               show this\n");
}
