/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PROFILE_RAY_CALLS_H
#define BPFPROF_PROFILE_RAY_CALLS_H

/*
 * The call of a Ray actor that each sample belongs to, by its stack. The title of an actor that has
 * several calls at once is that of the call which began or ended last; a stack holds the frame of its
 * own method. That is the outermost Python frame behind those of Ray, asyncio and threading, if Ray
 * calls it: through its library _raylet.so, or through ray/util/tracing (Ray 2.60,
 * python/ray/_raylet.pyx execute_task, python/ray/util/tracing/tracing_helper.py).
 */

#include "base/counters.h"

struct profile;
struct stats_reasons;

extern const struct counter ray_calls_counters[];

/*
 * Samples of Ray actors get the title of their call: a function of the class in the title they had, or one
 * whose title the process had, too. In the thread of an actor's loop, a stack without such a frame gets the
 * title of the class. Others stay: a call may have a name of its own. To be called when the processes have their parents and command lines. 0 or -ENOMEM.
 */
int ray_calls_name(struct profile *profile, struct stats_reasons *walk);

#endif
