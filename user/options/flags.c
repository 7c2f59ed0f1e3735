// SPDX-License-Identifier: Apache-2.0
#include "options/flags.h"

#include <assert.h>
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
#define HELP_WIDTH 58
#define HELP_COLUMN 27

static const char exit_text[] =
	"\nExit status: 0 done, 1 failed, 2 wrong flag or value, 3 a privilege or a kernel\n"
	"feature is missing (the message says how to get it), 4 no such process.\n";

/* The Levenshtein distance of two short words; a big number for long words. */
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

/* The state of parsing. */
struct cursor {
	const struct flag_set *set;
	const struct config *config;
	char *options; /* the struct that is filled */
	int argc;
	char *const *argv;
	int next; /* the next word of argv */
	uint64_t seen; /* bit n: the user gave the n-th flag */
	struct buf *error;
};

static struct flag_walk flags_of(const struct cursor *cursor)
{
	return flag_walk(cursor->set->flags, cursor->options);
}

static int unknown_flag(const struct cursor *cursor, const char *word, size_t len)
{
	struct flag_walk walk = flags_of(cursor);
	const char *names[64], *nearest;
	__cleanup(free_mem) char *typed = strndup(word, len);
	size_t nr = 0;

	if (!typed)
		return -ENOMEM;
	while (nr < 64 && flag_next(&walk))
		names[nr++] = walk.flag->name;
	nearest = !strncmp(typed, "--", 2) ? word_nearest(typed + 2, names, nr) : NULL;
	text_add_typed(cursor->error, typed);
	if (nearest)
		buf_printf(cursor->error, ": no such flag, did you mean --%s?", nearest);
	else
		buf_add_str(cursor->error, ": no such flag, --help lists them");
	return -EINVAL;
}

/* Stores the value for the current row of the walk. Errors show given and the separator before it. */
static int take(struct cursor *cursor, const struct flag_walk *row, const char *given,
		const char *separator, const char *value)
{
	__cleanup(buf_fini) struct buf why;
	int err;

	cursor->seen |= 1ULL << row->nr;
	if (row->flag->marked)
		*(const struct flag **)(void *)(cursor->options + cursor->set->mark) = row->flag;
	buf_init(&why, REASON_MAX);
	err = flag_take(row->flag, row->object, value, &why);
	if (err != -EINVAL)
		return err;
	buf_add_str(cursor->error, given);
	if (value) {
		buf_add_str(cursor->error, separator);
		text_add_typed(cursor->error, *value || *separator == '=' ? value : "''");
	}
	buf_printf(cursor->error, ": %s", why.data ? why.data : "not understood");
	return -EINVAL;
}

/* Takes the value of the flag: the next word. */
static int take_next(struct cursor *cursor, const struct flag_walk *row, const char *given)
{
	if (!row->flag->value)
		return take(cursor, row, given, "", NULL);
	if (cursor->next < cursor->argc)
		return take(cursor, row, given, " ", cursor->argv[cursor->next++]);
	buf_printf(cursor->error, "%s: its value is missing (%s)", given, row->flag->value);
	return -EINVAL;
}

/* Parses --name, --name=VALUE, --name VALUE. */
static int parse_long(struct cursor *cursor, const char *word)
{
	struct flag_walk walk = flags_of(cursor);
	size_t len = strcspn(word, "=");
	char given[64];

	if (!strcmp(word, "--help"))
		return -ECANCELED;
	if (!flag_find(&walk, word + 2, len - 2))
		return unknown_flag(cursor, word, len);
	snprintf(given, sizeof(given), "--%s", walk.flag->name);
	if (!word[len])
		return take_next(cursor, &walk, given);
	if (walk.flag->value)
		return take(cursor, &walk, given, "=", word + len + 1);
	buf_printf(cursor->error, "%s: takes no value, leave out ", given);
	text_add_typed(cursor->error, word + len);
	return -EINVAL;
}

/* Parses -v, -F99, -F 99, -vF99. */
static int parse_letters(struct cursor *cursor, const char *word)
{
	int err = 0;

	for (const char *letter = word + 1; *letter && !err; letter++) {
		struct flag_walk walk = flags_of(cursor);
		char given[] = { '-', *letter, 0 };

		while (flag_next(&walk))
			if (walk.flag->letter == *letter || walk.flag->alias == *letter)
				break;
		if (!walk.flag)
			return *letter == 'h' ? -ECANCELED : unknown_flag(cursor, given, 2);
		if (walk.flag->value && letter[1])
			return take(cursor, &walk, given, " ", letter + 1);
		err = take_next(cursor, &walk, given);
		if (walk.flag->value)
			break;
	}
	return err;
}

/* Makes BPFPROF_NO_SUBPROCESSES of no-subprocesses; command: "" or its name. */
static void twin_name(char name[64], const struct flag *flag, const char *command)
{
	size_t len = (size_t)snprintf(name, 64, "BPFPROF_%.20s%s", command, *command ? "_" : "");

	for (const char *c = flag->name; *c && len < 63; c++)
		name[len++] = *c == '-' ? '_' : (char)toupper((unsigned char)*c);
	name[len] = 0;
}

/* The number of times that a flag without a value is given, or -EINVAL. */
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

static int take_list(struct cursor *cursor, const struct flag_walk *row, const char *given,
		     const char *text)
{
	int err = 0;

	while (*text && !err) {
		size_t len = strcspn(text, ",");
		__cleanup(free_mem) char *value = strndup(text, len);

		if (!value)
			return -ENOMEM;
		err = len ? take(cursor, row, given, "=", value) : 0;
		text += len + (text[len] == ',');
	}
	return err;
}

static int parse_twin(struct cursor *cursor, const struct flag_walk *row)
{
	const struct flag *flag = row->flag;
	const char *text;
	char name[64];
	int on, err = 0;

	twin_name(name, flag, cursor->set->twins);
	text = config_get(cursor->config, name);
	if (!text || !*text) {
		twin_name(name, flag, "");
		text = config_get(cursor->config, name);
	}
	if (!text || !*text)
		return 0;
	if (flag->value)
		return flag->repeatable ? take_list(cursor, row, name, text)
					: take(cursor, row, name, "=", text);
	on = switch_parse(text, flag->repeatable);
	if (on < 0) {
		buf_printf(cursor->error, "%s=", name);
		text_add_typed(cursor->error, text);
		buf_add_str(cursor->error, ": must be 1 or 0");
		return -EINVAL;
	}
	while (on-- > 0 && !err)
		err = take(cursor, row, name, "=", NULL);
	return err;
}

static int take_operand(struct cursor *cursor, const char *word)
{
	const char *operand = cursor->set->operand;
	struct flag_walk walk = flags_of(cursor);

	if (operand && flag_find(&walk, operand, strlen(operand)))
		return take(cursor, &walk, "", "", word);
	text_add_typed(cursor->error, *word ? word : "''");
	buf_printf(cursor->error, ": %s", cursor->set->no_operand);
	return -EINVAL;
}

/* "-- CMD ARGS..." ends the flags. */
static int take_command(struct cursor *cursor)
{
	if (cursor->next >= cursor->argc) {
		buf_add_str(cursor->error, "--: the program to run is missing");
		return -EINVAL;
	}
	*(char *const **)(void *)(cursor->options + cursor->set->command) =
		&cursor->argv[cursor->next];
	cursor->next = cursor->argc;
	return 0;
}

static int parse_words(struct cursor *cursor)
{
	struct flag_walk walk = flags_of(cursor);
	int err = 0;

	while (!err && cursor->next < cursor->argc) {
		const char *word = cursor->argv[cursor->next++];

		if (!strcmp(word, "--") && cursor->set->command)
			err = take_command(cursor);
		else if (!strncmp(word, "--", 2) && word[2])
			err = parse_long(cursor, word);
		else if (word[0] == '-' && word[1] && word[1] != '-')
			err = parse_letters(cursor, word);
		else
			err = take_operand(cursor, word);
	}
	while (!err && flag_next(&walk))
		if (!(cursor->seen & 1ULL << walk.nr))
			err = parse_twin(cursor, &walk);
	return err;
}

int options_read(const struct flag_set *set, void *options, const struct config *config, int argc,
		 char *const argv[], struct buf *error)
{
	struct cursor cursor = {
		.set = set, .config = config, .options = options, .argc = argc, .argv = argv
	};
	struct flag_walk walk = flag_walk(set->flags, options);
	int err;

	cursor.next = 1;
	cursor.error = error;
	memset(options, 0, set->size);
	while (flag_next(&walk))
		flag_init(walk.flag, walk.object);
	err = parse_words(&cursor);
	if (err)
		options_fini(set, options);
	return err == -ECANCELED ? OPTIONS_HELP : err;
}

/* Is one of the flags of a rule set? */
static bool any_set(const struct flag_set *set, void *options, const char *names)
{
	for (size_t len; *names; names += len + (names[len] == ' ')) {
		struct flag_walk walk = flag_walk(set->flags, options);
		size_t name_len = strcspn(names, " =");
		bool found = flag_find(&walk, names, name_len);

		assert(found);
		len = strcspn(names, " ");
		if (found && flag_is_set(walk.flag, walk.object, names + name_len, len - name_len))
			return true;
	}
	return false;
}

static int check_rule(const struct flag_set *set, const struct flag_rule *rule, void *options,
		      struct buf *error)
{
	if (rule->check)
		return rule->check(options, error);
	if ((rule->flags && !any_set(set, options, rule->flags)) ||
	    any_set(set, options, rule->others) == (rule->relation == FLAG_NEEDS))
		return 0;
	buf_add_str(error, rule->sentence);
	return -EINVAL;
}

int options_parse(const struct flag_set *set, void *options, const struct config *config, int argc,
		  char *const argv[], struct buf *error)
{
	const struct flag_rule *rule = set->rules;
	int err = options_read(set, options, config, argc, argv, error);

	if (err)
		return err;
	for (; !err && rule && (rule->check || rule->sentence); rule++)
		err = check_rule(set, rule, options, error);
	if (err)
		options_fini(set, options);
	return err;
}

void options_fini(const struct flag_set *set, void *options)
{
	struct flag_walk walk = flag_walk(set->flags, options);

	while (flag_next(&walk))
		flag_release(walk.flag, walk.object);
	memset(options, 0, set->size);
}

/* Moves to the column of the words: two blanks after the flag, or on the next line. */
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

/* The length of the next line: a list of formats may be longer than the room for it. */
static size_t help_line(const char *text)
{
	size_t len = strcspn(text, "\n");

	if (len <= HELP_WIDTH)
		return len;
	for (len = HELP_WIDTH; len && text[len] != ' '; len--)
		;
	return len;
}

static void flags_help(struct buf *dst, const struct flag *flags)
{
	struct flag_walk walk = flag_walk(flags, NULL);

	while (flag_next(&walk)) {
		const struct flag *flag = walk.flag;
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
			size_t len = help_line(line);

			pad(dst, start);
			buf_add(dst, line, len);
			buf_add_char(dst, '\n');
			start = dst->len;
			line += len + (line[len] != 0);
		}
	}
	buf_add_str(dst, "  -h, --help               show this\n");
}

void options_help(struct buf *dst, const struct flag_set *set)
{
	buf_printf(dst, "%s\n", set->about);
	flags_help(dst, set->flags);
	buf_printf(dst, "\n%s", set->notes);
	buf_add_str(dst, exit_text);
	if (set->statuses)
		buf_add_str(dst, set->statuses);
}
