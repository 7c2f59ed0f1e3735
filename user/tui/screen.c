// SPDX-License-Identifier: Apache-2.0
#include "tui/screen.h"

#include <errno.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#define NCURSES_NOMACROS
#include <curses.h>

#include "tui/terminal.h"
#include "tui/view.h"

#define ESCAPE_DELAY_MS 25

static SCREEN *screen; /* ncurses has only one screen; NULL: it is not open */

int screen_open(void)
{
	int err = terminal_save();

	if (err)
		return err;
	screen = newterm(NULL, stdout, stdin);
	if (!screen)
		return -ENOENT;
	terminal_guard();
	if (cbreak() == ERR || noecho() == ERR) {
		screen_close();
		return -EIO;
	}
	nonl();
	intrflush(stdscr, FALSE);
	keypad(stdscr, TRUE);
	nodelay(stdscr, TRUE);
	set_escdelay(ESCAPE_DELAY_MS);
	curs_set(0);
	return 0;
}

void screen_close(void)
{
	if (!screen)
		return;
	endwin();
	delscreen(screen);
	screen = NULL;
	terminal_restore();
}

void screen_resize(void)
{
	struct winsize size;

	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) || !size.ws_row || !size.ws_col)
		return;
	resizeterm(size.ws_row, size.ws_col);
	clearok(curscr, TRUE);
}

void screen_size(size_t *ret_columns, size_t *ret_rows)
{
	int columns = getmaxx(stdscr), rows = getmaxy(stdscr);

	*ret_columns = columns > 0 ? (size_t)columns : 1;
	*ret_rows = rows > 0 ? (size_t)rows : 1;
}

static chtype style_of(enum page_style style)
{
	switch (style) {
	case PAGE_BOLD:
	case PAGE_MESSAGE:
		return A_BOLD;
	case PAGE_HEADING:
	case PAGE_SELECTED:
		return A_REVERSE;
	default:
		return A_NORMAL;
	}
}

void screen_draw(const struct page *page)
{
	size_t columns, rows, i;
	chtype style;

	screen_size(&columns, &rows);
	terminal_bound_messages();
	erase();
	for (i = 0; i < page->nr && i < rows; i++) {
		style = style_of(page->lines[i].style);
		attrset((int)style);
		/* No line is wider than the screen: ncurses would continue it on the next line. */
		mvaddstr((int)i, 0, page_text(page, i));
		if (style == A_REVERSE)
			mvchgat((int)i, 0, -1, style, 0, NULL);
	}
	attrset(A_NORMAL);
	refresh();
}

uint32_t screen_key(void)
{
	int key = getch();

	switch (key) {
	case ERR:
		return 0;
	case KEY_UP:
		return VIEW_KEY_UP;
	case KEY_DOWN:
		return VIEW_KEY_DOWN;
	case KEY_PPAGE:
		return VIEW_KEY_PAGE_UP;
	case KEY_NPAGE:
		return VIEW_KEY_PAGE_DOWN;
	case KEY_HOME:
		return VIEW_KEY_HOME;
	case KEY_END:
		return VIEW_KEY_END;
	case KEY_ENTER:
	case '\n':
	case '\r':
		return VIEW_KEY_ENTER;
	case KEY_BACKSPACE:
	case '\b':
	case 0x7f:
		return VIEW_KEY_BACKSPACE;
	case 0x1b:
		return VIEW_KEY_ESCAPE;
	default:
		return key > 0 && key <= 0xff ? (uint32_t)key : VIEW_KEY_OTHER;
	}
}
