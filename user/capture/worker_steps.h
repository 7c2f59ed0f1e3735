/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CAPTURE_WORKER_STEPS_H
#define BPFPROF_CAPTURE_WORKER_STEPS_H

/*
 * --steps: the samples that fall into the wanted steps of the workers of --worker, and the moment when
 * all workers are through. Each worker counts its own steps. A step is one call of a method (or task)
 * that a pattern names, begun after the recording. It begins and ends when the worker changes its title,
 * so that no step is too short. Steps of a worker may overlap: samples are wanted while any of them
 * runs. If a worker makes windows with cudaProfilerStart, the windows are its
 * steps, and its samples before the first one are forgotten; with --steps windows:, calls never are
 * steps. At most WORKER_STEPS_MAX workers are counted.
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

/* Borrows an open sampler. 0 or -ENOMEM. */
int worker_steps_new(struct worker_steps **ret, struct sampler *sampler);
void worker_steps_free(struct worker_steps *all);

/* Called as a wanted step of a worker begins, and as it ends; windows of the profiler are none. */
void worker_steps_notify(struct worker_steps *all,
			 void (*step)(void *arg, const struct bpfprof_task_id *task, bool begins),
			 void *arg);

/*
 * Before worker_steps_poll(): the probes that report windows of workers. NULL: the caller is about to
 * free them.
 */
void worker_steps_windows(struct worker_steps *all, struct gpu_probes *probes);

/* A call that begins before from_ns is no step: the hooks that count calls were not attached yet. A window is one. */
void worker_steps_from(struct worker_steps *all, uint64_t from_ns);

/* Finds the workers that run already: the recording waits for their steps, too. */
void worker_steps_poll(struct worker_steps *all);

/* Events of the stream, in its order. process: NULL if it is not known. */
void worker_steps_title(struct worker_steps *all, const struct bpfprof_title_event *e,
			struct process *process);
void worker_steps_window(struct worker_steps *all, const struct bpfprof_window_event *e);
void worker_steps_exit(struct worker_steps *all, const struct bpfprof_task_id *task);

bool worker_steps_want(struct worker_steps *all, const struct bpfprof_sample *sample);
/* Is this a wanted worker? */
bool worker_steps_know(struct worker_steps *all, const struct bpfprof_task_id *task);
/* Has every worker ended its last wanted step, or exited? */
bool worker_steps_through(struct worker_steps *all);

bool worker_steps_found(const struct worker_steps *all); /* any worker at all */
/* Reports the steps, a line for each worker on standard error. */
void worker_steps_report(struct worker_steps *all);
/* The same for one worker, if it is wanted and was seen. */
void worker_steps_report_one(struct worker_steps *all, const struct bpfprof_task_id *task);
extern const struct counter worker_steps_counters[];
void worker_steps_stats(const struct worker_steps *all, struct stats_reasons *dst);

#endif
