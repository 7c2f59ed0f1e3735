// SPDX-License-Identifier: Apache-2.0
#include "standin.h"

#include <ctype.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define MESSAGE_MAX 4096

const char *standin_name = "py-spy";

static void say(FILE *out, const char *prefix, const char *fmt, va_list ap)
{
	static const char word[] = "permission", instead[] = "access";
	char text[MESSAGE_MAX];
	size_t i, len;

	vsnprintf(text, sizeof(text), fmt, ap);
	len = strlen(text);
	while (len && isspace((unsigned char)text[len - 1]))
		text[--len] = 0;
	fputs(prefix, out);
	for (i = 0; i < len; i++) {
		if (!strncasecmp(text + i, word, sizeof(word) - 1)) {
			fputs(instead, out);
			i += sizeof(word) - 2;
		} else {
			/* An agent's sentence may hold names that a process chose. */
			putc((unsigned char)text[i] >= ' ' || text[i] == '\n' ? text[i] : '?', out);
		}
	}
	putc('\n', out);
}

int standin_fail(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say(stderr, "Error: ", fmt, ap);
	va_end(ap);
	return STATUS_FAILED;
}

void standin_warn(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say(stderr, "", fmt, ap);
	va_end(ap);
}

void standin_say(const char *fmt, ...)
{
	va_list ap;

	va_start(ap, fmt);
	say(stdout, "", fmt, ap);
	va_end(ap);
}

void question_add(struct question *question, const char *name, const char *value)
{
	if (question->nr == sizeof(question->parameters) / sizeof(question->parameters[0])) {
		standin_fail("--%s: there are too many arguments", name);
		exit(STATUS_USAGE);
	}
	question->parameters[question->nr++] = (struct parameter){ .name = name, .value = value };
}

int main(int argc, char **argv)
{
	const char *name = argc ? strrchr(argv[0], '/') : NULL;

	if (!argc)
		return STATUS_USAGE;
	name = name ? name + 1 : argv[0];
	signal(SIGPIPE, SIG_IGN);
	if (argc == 3 && !strcmp(argv[1], "bpfprof-install"))
		return standin_install(argv[2]);
	if (!strncmp(name, "memray", 6)) {
		standin_name = "memray";
		return memray_main(argc, argv);
	}
	return py_spy_main(argc, argv);
}
