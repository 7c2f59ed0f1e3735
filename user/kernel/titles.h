/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_KERNEL_TITLES_H
#define BPFPROF_KERNEL_TITLES_H

/*
 * What the kernel side has to know to tell of changes of Ray workers' titles (bpf/titles.bpf.c), in
 * a session that was opened with session_options.titles. Nothing of it is needed for it to be
 * right: it keeps away what nobody wants to hear of.
 */

#include <stdbool.h>
#include <stdint.h>

#include "bpfprof.h"

struct session;

/*
 * The title of this event is of interest, or not. To be called for each event: the map is emptied when
 * it is full, and no more than a look at the event if it says that the kernel knows.
 */
void titles_judge(struct session *session, const struct bpfprof_title_event *event, bool wanted);
/* Of this process: changes since the last event that were lost, of which no event will tell if none comes. */
uint32_t titles_lost(const struct session *session, const struct bpfprof_task_id *task);
/* The same of all processes that lost some. */
void titles_each_lost(const struct session *session,
		      void (*each)(void *arg, const struct bpfprof_task_id *task, uint32_t lost),
		      void *arg);
/* No more of this process. */
void titles_finish(struct session *session, const struct bpfprof_task_id *task);
/* The process has ended. */
void titles_forget(struct session *session, uint32_t pid);

#endif
