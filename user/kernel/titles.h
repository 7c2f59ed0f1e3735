/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_KERNEL_TITLES_H
#define BPFPROF_KERNEL_TITLES_H

/*
 * The kernel side of titles of Ray workers (bpf/titles.bpf.c), for a session with
 * session_options.titles. It only suppresses events of unwanted titles; results do not depend on
 * it.
 */

#include <stdbool.h>
#include <stdint.h>

#include "bpfprof.h"

struct session;

/*
 * Sets the verdict on the title of this event. Call it for each event: the map is emptied when it
 * is full. It costs nothing if the event shows that the kernel has the verdict.
 */
void titles_judge(struct session *session, const struct bpfprof_title_event *event, bool wanted);
/* Changes of this process that were lost since its last event. */
uint32_t titles_lost(const struct session *session, const struct bpfprof_task_id *task);
/* The same for all processes that have lost some. */
void titles_each_lost(const struct session *session,
		      void (*each)(void *arg, const struct bpfprof_task_id *task, uint32_t lost),
		      void *arg);
/* Stops the events of this process. */
void titles_finish(struct session *session, const struct bpfprof_task_id *task);
/* Deletes the state of a process that has ended. */
void titles_forget(struct session *session, uint32_t pid);

#endif
