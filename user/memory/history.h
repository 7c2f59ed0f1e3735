/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_MEMORY_HISTORY_H
#define BPFPROF_MEMORY_HISTORY_H

/* The moments of a monitor that keeps them (memory/moments.h), for the time line of a flame graph. */

struct memory_moments;
struct memory_monitor;
struct profile;

/* Adds what the last answer has found as a moment. 0 or -errno. */
int memory_history_look(struct memory_monitor *monitor);
/*
 * Before the profile is made: the profile then has the processes of all stacks, for the files of Python frames.
 * Without memory some have longer paths.
 */
void memory_history_hold(struct memory_monitor *monitor);
/* Gives the profile of the monitor its history, if moments are kept and there is room, which is logged. */
void memory_history_make(const struct memory_monitor *monitor, struct profile *profile);
/*
 * The same of any moments, whose processes and stacks have the indexes of the profile. subject, what: as in
 * profile/history.h.
 */
void memory_moments_history(const struct memory_moments *moments, const char *subject,
			    const char *what, struct profile *profile);

#endif
