// SPDX-License-Identifier: Apache-2.0
/* Command lines in the form of py-spy's and memray's: --name VALUE, --name=VALUE, -n VALUE, -nVALUE, -abc. */
#include "standin.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static int usage(const char *what, const char *word)
{
	standin_fail("%s '%s'; %s --help shows what there is", what, word, standin_name);
	return STATUS_USAGE;
}

static int take(const struct option_row *row, struct question *question, const char *value)
{
	if (row->refusal) {
		return standin_fail("--%s: %s", row->name, row->refusal);
	}
	if (row->count)
		(*row->count)++;
	if (row->value)
		*row->value = value;
	if (row->parameter)
		question_add(question, row->parameter, value);
	return 0;
}

static const struct option_row *row_find(const struct option_row *row, const char *name, size_t len,
					 char letter)
{
	for (; row->name; row++)
		if (name ? strlen(row->name) == len && !memcmp(row->name, name, len)
			 : row->letter == letter)
			return row;
	return NULL;
}

/* --name, --name=VALUE, --name VALUE */
static int long_read(struct command_line *line, struct question *question, char **argv, int *at)
{
	const char *word = argv[*at] + 2, *value = strchr(word, '=');
	size_t len = value ? (size_t)(value - word) : strlen(word);
	const struct option_row *row = row_find(line->rows, word, len, 0);

	if (!row || (value && !row->takes_value))
		return usage("unexpected argument", argv[*at]);
	if (!row->takes_value)
		return take(row, question, "1");
	if (!value && !argv[*at + 1])
		return usage("a value is missing after", argv[*at]);
	return take(row, question, value ? value + 1 : argv[++*at]);
}

/* -abc, -nVALUE, -n VALUE */
static int short_read(struct command_line *line, struct question *question, char **argv, int *at)
{
	const char *letter = argv[*at] + 1;
	const struct option_row *row;
	int status = 0;

	for (; *letter && !status; letter++) {
		row = row_find(line->rows, NULL, 0, *letter);
		if (!row)
			return usage("unexpected argument", argv[*at]);
		if (!row->takes_value) {
			status = take(row, question, "1");
			continue;
		}
		if (letter[1])
			return take(row, question, letter[1] == '=' ? letter + 2 : letter + 1);
		if (!argv[*at + 1])
			return usage("a value is missing after", argv[*at]);
		return take(row, question, argv[++*at]);
	}
	return status;
}

int options_read(struct command_line *line, struct question *question, int argc, char **argv)
{
	const size_t cap = sizeof(line->operands) / sizeof(line->operands[0]);
	int i, status = 0;

	line->rest = argc;
	for (i = 1; i < argc && !status; i++) {
		if (!strcmp(argv[i], "--")) {
			line->rest = i + 1;
			return 0;
		}
		if (argv[i][0] == '-' && argv[i][1] == '-')
			status = long_read(line, question, argv, &i);
		else if (argv[i][0] == '-' && argv[i][1])
			status = short_read(line, question, argv, &i);
		else if (line->nr_operands < cap)
			line->operands[line->nr_operands++] = argv[i];
		else
			status = usage("unexpected argument", argv[i]);
	}
	return status;
}

/* Field 22 of /proc/PID/stat, or NULL. The name of the process, in parentheses, may hold anything. */
static const char *start_read(unsigned long pid)
{
	static char text[1024];
	char path[48], *at, *end;
	ssize_t len;
	int fd, field;

	snprintf(path, sizeof(path), "/proc/%lu/stat", pid);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	len = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);
	if (fd >= 0)
		close(fd);
	if (len <= 0)
		return NULL;
	text[len] = 0;
	at = strrchr(text, ')');
	for (field = 2; at && field < 22; field++)
		at = strchr(at + 1, ' ');
	if (!at)
		return NULL;
	at++;
	end = at + strspn(at, "0123456789");
	*end = 0;
	return at;
}

int question_add_pid(struct question *question, const char *text, bool may_have_ended)
{
	static char number[24];
	const char *start;
	char *end;
	unsigned long pid;

	errno = 0;
	pid = strtoul(text, &end, strncmp(text, "0x", 2) ? 10 : 16);
	if (errno || *end || *text < '0' || *text > '9' || !pid || pid > INT32_MAX) {
		standin_fail("invalid pid '%s'", text);
		return STATUS_USAGE;
	}
	start = start_read(pid);
	if (!start && !may_have_ended)
		return standin_fail(
			"there is no process with the pid %lu here. Check that the process is "
			"running.",
			pid);
	snprintf(number, sizeof(number), "%lu", pid);
	question_add(question, "pid", number);
	if (start)
		question_add(question, "start", start);
	return 0;
}

int seconds_read(const char *text, unsigned int *ret)
{
	char *end;
	double seconds = strtod(text, &end);

	if (*end || !*text || !(seconds > 0) || seconds > SECONDS_MAX) {
		standin_fail("a duration of '%s' seconds: it must be more than 0 and at most %d",
			     text, SECONDS_MAX);
		return STATUS_USAGE;
	}
	*ret = (unsigned int)seconds + 1;
	return 0;
}
