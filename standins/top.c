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
	size_t len; /* of the line so far; what is longer is left out */
	unsigned int row; /* of the screen, from 0 */
	struct winsize size;
} shown;

/* One line of the screen, as wide as that is. */
static void line_draw(const char *text)
{
	unsigned int columns = 0;

	if (shown.row + 1 >= shown.size.ws_row)
		return;
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;

		columns += (c & 0xc0) != 0x80; /* not the rest of a character */
		if (columns > shown.size.ws_col)
			break;
		putchar(c < ' ' || c == 0x7f ? '?' : c);
	}
	fputs("\033[K\r\n", stdout);
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
	fputs("\033[J", stdout); /* what is left of a longer table */
}

static void bytes_take(const char *bytes, size_t len)
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
	fflush(stdout);
}

int top_show(const struct question *question, const char *pid)
{
	shown.pid = pid;
	shown.is_terminal = isatty(STDOUT_FILENO);
	if (shown.is_terminal)
		fputs("\033[2J", stdout);
	return agent_stream(question, bytes_take);
}
