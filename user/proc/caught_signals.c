// SPDX-License-Identifier: Apache-2.0
#include "proc/caught_signals.h"

#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "proc/usage.h"

#define STATUS_BYTES 8192
#define LINE "\nSigCgt:\t"
#define BIT(sig) (1ULL << ((sig)-1))
/* SIGINT is none: each Python has a handler that raises an exception. glibc has its own for the first two of the rest. */
#define REQUESTS                                                                                   \
	(BIT(SIGHUP) | BIT(SIGUSR1) | BIT(SIGUSR2) | BIT(SIGALRM) | BIT(SIGTERM) | BIT(SIGCHLD) |  \
	 BIT(SIGIO))
#define FIRST_TIMER 34

bool caught_signals_parse(const char *text)
{
	const char *at = strstr(text, LINE);
	uint64_t caught = at ? strtoull(at + strlen(LINE), NULL, 16) : 0;

	return caught & REQUESTS || caught >> (FIRST_TIMER - 1);
}

bool caught_signals_have_request(pid_t pid)
{
	char text[STATUS_BYTES];

	return proc_file_read(text, sizeof(text), pid, "status") > 0 && caught_signals_parse(text);
}
