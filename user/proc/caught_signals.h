/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PROC_CAUGHT_SIGNALS_H
#define BPFPROF_PROC_CAUGHT_SIGNALS_H

/* A process shows in /proc/PID/status for which signals it has handlers; reading that needs no ptrace rights. */

#include <stdbool.h>
#include <sys/types.h>

/* Is one of them a request: a signal by which others ask for something, or by which a timer or a child reports? */
bool caught_signals_have_request(pid_t pid);
/* The same from the text of the file. */
bool caught_signals_parse(const char *text);

#endif
