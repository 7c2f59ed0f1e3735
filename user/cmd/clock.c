// SPDX-License-Identifier: Apache-2.0
/*
 * bpfprof clock: prints the time of this machine, and once more for each line of standard input. The caller
 * at the other end of a connection learns how far the clocks differ, and when --start-at can be.
 */
#include <stdio.h>
#include <string.h>

#include "base/exit_status.h"
#include "base/log.h"
#include "base/print.h"
#include "base/time.h"
#include "cmd/command.h"

#define LINE_BYTES 64

static int print_now(void)
{
	uint64_t now_ns = time_wall_ns();
	char text[LINE_BYTES];
	int len = snprintf(text, sizeof(text), "%llu.%06llu\n",
			   (unsigned long long)(now_ns / NS_PER_SECOND),
			   (unsigned long long)(now_ns % NS_PER_SECOND / 1000));

	return print_lines(stdout, text, (size_t)len);
}

int clock_run(void)
{
	char line[LINE_BYTES];
	int err = print_now();

	while (!err && fgets(line, sizeof(line), stdin))
		if (strchr(line, '\n'))
			err = print_now();
	if (err)
		log_error("standard output: %s", strerror(-err));
	return err ? EXIT_FAILED : EXIT_DONE;
}
