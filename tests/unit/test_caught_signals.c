// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <signal.h>
#include <unistd.h>

#include "proc/caught_signals.h"

Test(caught_signals, text)
{
	cr_expect(caught_signals_parse(
			  "Name:\tx\nSigIgn:\t0000000000004000\nSigCgt:\t0000000000004000\n"),
		  "SIGTERM");
	cr_expect(caught_signals_parse("\nSigCgt:\t0000000000010002\n"), "SIGCHLD");
	cr_expect(caught_signals_parse("\nSigCgt:\t0000000200000000\n"), "a timer's");
	cr_expect_not(caught_signals_parse("\nSigCgt:\t0000000180000002\n"),
		      "SIGINT, and those of glibc");
	cr_expect_not(
		caught_signals_parse("\nSigIgn:\t0000000000004000\nSigCgt:\t0000000000000000\n"),
		"ignored");
	cr_expect_not(caught_signals_parse("Name:\tSigCgt:\n"));
	cr_expect_not(caught_signals_parse(""));
}

static void handler(int sig)
{
	(void)sig;
}

Test(caught_signals, own)
{
	signal(SIGTERM, SIG_DFL);
	signal(SIGUSR1, handler);
	cr_expect(caught_signals_have_request(getpid()));
	cr_expect_not(caught_signals_have_request(0x7fffffff), "no such process");
}
