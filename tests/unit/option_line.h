/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_TESTS_OPTION_LINE_H
#define BPFPROF_TESTS_OPTION_LINE_H

/* A command line: "record", and words that are split at blanks. */

#include <string.h>

#define MAX_WORDS 16

struct line {
	char text[512];
	char *argv[MAX_WORDS + 2];
	int argc;
};

static inline void line_split(struct line *line, const char *words)
{
	char *word = line->text;

	*line = (struct line){ .argv = { (char *)"record" }, .argc = 1 };
	strncpy(line->text, words, sizeof(line->text) - 1);
	while (*word && line->argc <= MAX_WORDS) {
		line->argv[line->argc++] = word;
		word += strcspn(word, " ");
		if (*word)
			*word++ = 0;
	}
}

#endif
