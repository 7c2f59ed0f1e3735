// SPDX-License-Identifier: Apache-2.0
#include "tui/terminal.h"

#include <errno.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <termios.h>
#include <unistd.h>

#define NCURSES_NOMACROS
#include <curses.h>
#include <term.h> /* this header defines hundreds of short names, so it comes last */

#define MAX_MESSAGES (1 << 20)
#define MAX_RESTORE 256
#define CRASH_STACK_BYTES 65536

static const int crash_signals[] = { SIGSEGV, SIGBUS, SIGABRT, SIGFPE, SIGILL };

/* A signal handler has no argument, so the state is global. */
static struct {
	struct termios termios; /* settings before bpfprof */
	char restore[MAX_RESTORE]; /* bytes that restore the terminal */
	size_t restore_len;
	int old_stderr, messages; /* -1: standard error is left alone */
	void *crash_stack;
	struct sigaction old_actions[sizeof(crash_signals) / sizeof(crash_signals[0])];
} state = { .old_stderr = -1, .messages = -1 };

/* Prints the kept messages. Only async-signal-safe calls. */
static void messages_replay(void)
{
	char chunk[512];
	ssize_t got;
	off_t off = 0;

	if (state.old_stderr < 0)
		return;
	dup2(state.old_stderr, STDERR_FILENO);
	while ((got = pread(state.messages, chunk, sizeof(chunk), off)) > 0) {
		if (write(STDERR_FILENO, chunk, (size_t)got) < 0)
			break;
		off += got;
	}
}

static void messages_begin(void)
{
	if (!isatty(STDERR_FILENO))
		return;
	state.messages = memfd_create("messages", MFD_CLOEXEC);
	if (state.messages < 0)
		return;
	state.old_stderr = dup(STDERR_FILENO);
	if (state.old_stderr >= 0)
		dup2(state.messages, STDERR_FILENO);
}

static void messages_end(void)
{
	messages_replay();
	if (state.old_stderr >= 0)
		close(state.old_stderr);
	if (state.messages >= 0)
		close(state.messages);
	state.old_stderr = state.messages = -1;
}

/* Bounds the messages of a long session with --verbose: the first ones are kept. */
void terminal_bound_messages(void)
{
	struct stat st;

	if (state.messages < 0 || fstat(state.messages, &st) || st.st_size <= MAX_MESSAGES)
		return;
	if (!ftruncate(state.messages, MAX_MESSAGES))
		lseek(state.messages, MAX_MESSAGES, SEEK_SET);
}

static void on_crash(int signal_number)
{
	ssize_t written = write(STDOUT_FILENO, state.restore, state.restore_len);

	(void)written; /* there is no way to handle an error here */
	tcsetattr(STDIN_FILENO, TCSANOW, &state.termios);
	messages_replay();
	raise(signal_number); /* SA_RESETHAND: the default action, or the earlier handler */
}

static void crash_catch(void)
{
	struct sigaction action = { .sa_handler = on_crash,
				    .sa_flags = (int)SA_RESETHAND | SA_ONSTACK | SA_NODEFER };
	stack_t stack = { .ss_size = CRASH_STACK_BYTES };
	size_t i;

	state.crash_stack = stack.ss_sp = malloc(CRASH_STACK_BYTES);
	if (!stack.ss_sp || sigaltstack(&stack, NULL))
		action.sa_flags &= ~SA_ONSTACK;
	sigemptyset(&action.sa_mask);
	for (i = 0; i < sizeof(crash_signals) / sizeof(crash_signals[0]); i++)
		sigaction(crash_signals[i], &action, &state.old_actions[i]);
}

static void crash_release(void)
{
	stack_t stack = { .ss_flags = SS_DISABLE };
	size_t i;

	for (i = 0; i < sizeof(crash_signals) / sizeof(crash_signals[0]); i++)
		sigaction(crash_signals[i], &state.old_actions[i], NULL);
	sigaltstack(&stack, NULL);
	free(state.crash_stack);
	state.crash_stack = NULL;
}

static int restore_add(int c)
{
	if (state.restore_len < MAX_RESTORE)
		state.restore[state.restore_len++] = (char)c;
	return c;
}

/* Colours off, cursor on, keypad off, back to the earlier screen. */
static void restore_prepare(void)
{
	static const char *const names[] = { "sgr0", "rmkx", "cnorm", "rmcup" };
	const char *text;
	size_t i;

	state.restore_len = 0;
	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++) {
		text = tigetstr(names[i]);
		if (text && text != (const char *)-1)
			tputs(text, 1, restore_add);
	}
}

int terminal_save(void)
{
	if (!isatty(STDIN_FILENO) || !isatty(STDOUT_FILENO))
		return -ENOTTY;
	return tcgetattr(STDIN_FILENO, &state.termios) ? -errno : 0;
}

void terminal_guard(void)
{
	restore_prepare();
	crash_catch();
	messages_begin();
}

void terminal_restore(void)
{
	/* ncurses restores the settings that it found; these are the earlier ones. */
	tcsetattr(STDIN_FILENO, TCSADRAIN, &state.termios);
	crash_release();
	messages_end();
}
