/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CAPTURE_WORKER_STEPS_H
#define BPFPROF_CAPTURE_WORKER_STEPS_H

/*
 * --steps: which samples fall into the wanted steps of the workers that --worker names, and when all
 * of these are through. Each worker counts its own. A step is one call of a method (or task) that
 * a pattern names, begun after the recording; its begin and end are the moments at which the
 * worker changed its title, so that none is too short to be seen. Of a worker that makes windows with
 * cudaProfilerStart these are the steps: what was taken before the first is forgotten; where windows were
 * asked for, calls never are. Bounded: at most WORKER_STEPS_MAX workers are counted.
 */

#include <stdbool.h>
#include <stdint.h>

#include "base/counters.h"

struct bpfprof_sample;
struct bpfprof_task_id;
struct bpfprof_title_event;
struct bpfprof_window_event;
struct gpu_probes;
struct process;
struct sampler;
struct stats_reasons;
struct worker_steps;

#define WORKER_STEPS_MAX 4096

/* Of a sampler that is open; borrows it. 0 or -ENOMEM. */
int worker_steps_new(struct worker_steps **ret, struct sampler *sampler);
void worker_steps_free(struct worker_steps *all);

/* Called as a wanted step of a worker begins, and as it ends; windows of the profiler are none. */
void worker_steps_notify(struct worker_steps *all,
			 void (*step)(void *arg, const struct bpfprof_task_id *task, bool begins),
			 void *arg);

/*
 * Before the look at those that are there: the probes that tell of workers' windows. NULL: they are
 * about to go.
 */
void worker_steps_windows(struct worker_steps *all, struct gpu_probes *probes);

/* While it is held no step begins but windows: whoever counts calls is not ready yet. */
void worker_steps_hold(struct worker_steps *all, bool held);

/* The workers that are there already: they are waited for, also before their first call. */
void worker_steps_poll(struct worker_steps *all);

/* What the stream tells, in its order. process: what is known of it, or NULL. */
void worker_steps_title(struct worker_steps *all, const struct bpfprof_title_event *e,
			struct process *process);
void worker_steps_window(struct worker_steps *all, const struct bpfprof_window_event *e);
void worker_steps_exit(struct worker_steps *all, const struct bpfprof_task_id *task);

bool worker_steps_want(struct worker_steps *all, const struct bpfprof_sample *sample);
/* Is it a worker that is asked for, and whose steps can be told? */
bool worker_steps_know(struct worker_steps *all, const struct bpfprof_task_id *task);
/* Has every worker that is waited for ended its last wanted step, or exited? */
bool worker_steps_through(struct worker_steps *all);

bool worker_steps_found(const struct worker_steps *all); /* any worker at all */
/* What became of it, a line for each worker on standard error. */
void worker_steps_tell(struct worker_steps *all);
/* Of one that was seen and is asked for; else nothing. */
void worker_steps_tell_one(struct worker_steps *all, const struct bpfprof_task_id *task);
extern const struct counter worker_steps_counters[];
void worker_steps_stats(const struct worker_steps *all, struct stats_reasons *dst);

#endif
