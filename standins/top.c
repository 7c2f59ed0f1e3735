// SPDX-License-Identifier: Apache-2.0
/*
 * py-spy top: the agent sends a table each second (bpfprof top --batch). Each is drawn over the one before on a
 * terminal, and copied as it is elsewhere.
 */
#include "standin.h"

#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define LINE_MAX_BYTES 4096
#define HEAD                                                                                       \
	"bpfprof top: " /* the first line of a table, which has the node's number of the process */

static struct {
	const char *pid;
	bool is_terminal;
	char line[LINE_MAX_BYTES];
	size_t len; /* of the line so far; the rest of a longer line is left out */
	unsigned int row; /* of the screen, from 0 */
	struct winsize size;
} shown;

/* Bytes of a character of UTF-8 that does not control the terminal; 0: there is none. */
static size_t character_len(const char *text)
{
	const unsigned char *c = (const unsigned char *)text;
	size_t len = *c < 0x80	 ? 1
		     : *c < 0xc2 ? 0
		     : *c < 0xe0 ? 2
		     : *c < 0xf0 ? 3
		     : *c < 0xf5 ? 4
				 : 0;
	size_t i;

	/* After 0xc2 these are the other controls. After 0xe0 and 0xf0 a longer form may hide one. */
	if (*c < ' ' || *c == 0x7f || (*c == 0xc2 && c[1] < 0xa0) || (*c == 0xe0 && c[1] < 0xa0) ||
	    (*c == 0xf0 && c[1] < 0x90))
		return 0;
	for (i = 1; i < len; i++)
		if ((c[i] & 0xc0) != 0x80)
			return 0;
	return len;
}

/* Draws a line, no longer than the screen is wide. */
static void line_draw(const char *text)
{
	unsigned int columns;
	size_t len;

	if (shown.row + 1 >= shown.size.ws_row)
		return;
	for (columns = 0; *text && columns < shown.size.ws_col; columns++) {
		len = character_len(text);
		fwrite(len ? text : "?", 1, len ? len : 1, stdout);
		text += len ? len : 1;
	}
	fputs("\033[K\n", stdout);
	shown.row++;
}

static void line_end(void)
{
	char head[64];

	shown.line[shown.len] = 0;
	shown.len = 0;
	if (!strncmp(shown.line, HEAD, strlen(HEAD))) {
		if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &shown.size) || !shown.size.ws_row)
			shown.size = (struct winsize){ .ws_row = 24, .ws_col = 80 };
		shown.row = 0;
		fputs("\033[H", stdout);
		snprintf(head, sizeof(head), "Process %.16s; press Control-C to quit.", shown.pid);
		line_draw(head);
		return;
	}
	line_draw(shown.line);
	fputs("\033[J", stdout); /* the last table may have been longer */
}

static bool bytes_take(const char *bytes, size_t len)
{
	size_t i;

	if (!shown.is_terminal)
		fwrite(bytes, 1, len, stdout);
	for (i = 0; i < len && shown.is_terminal; i++) {
		if (bytes[i] == '\n')
			line_end();
		else if (shown.len + 1 < sizeof(shown.line))
			shown.line[shown.len++] = bytes[i];
	}
	return !fflush(stdout) && !ferror(stdout);
}

int top_show(const struct question *question, const char *pid)
{
	shown.pid = pid;
	shown.is_terminal = isatty(STDOUT_FILENO);
	if (shown.is_terminal)
		fputs("\033[2J", stdout);
	return agent_stream(question, bytes_take);
}
