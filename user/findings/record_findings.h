/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_FINDINGS_RECORD_FINDINGS_H
#define BPFPROF_FINDINGS_RECORD_FINDINGS_H

/*
 * The findings of one recording: what samples, titles and /proc tell while it runs, and the sentences
 * that findings/findings.h makes of it in the end. All functions take NULL for a recording that
 * wants none.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/counters.h"
#include "bpfprof.h"

struct aggregate_input;
struct buf;
struct process;
struct profile;
struct record_findings;
struct sampler;
struct stats_reasons;

/*
 * Of a sampler that is open; borrows it, and host_root (or NULL). chosen: samples are chosen by what
 * only they tell (name, container): calls count only of workers that had one. judges: titles are
 * told of for its sake alone, so it may say which it wants. 0 or -ENOMEM.
 */
int record_findings_new(struct record_findings **ret, struct sampler *sampler,
			const char *host_root, bool chosen, bool judges);
void record_findings_free(struct record_findings *findings);

void record_findings_sample(struct record_findings *findings, const struct aggregate_input *input);
/* The samples of a process until now turn out not to be wanted. */
void record_findings_forget(struct record_findings *findings, const struct bpfprof_task_id *task);
void record_findings_title(struct record_findings *findings,
			   const struct bpfprof_title_event *event);
/* ts_ns: when it ended. */
void record_findings_exit(struct record_findings *findings, const struct bpfprof_task_id *task,
			  uint64_t ts_ns);
void record_findings_tick(struct record_findings *findings, uint64_t now_ns);

extern const struct counter record_findings_counters[];
/* Adds what findings do not know of for want of room. */
void record_findings_stats(const struct record_findings *findings, struct stats_reasons *dst);

/* Sampling has stopped, at now_ns. */
void record_findings_end(struct record_findings *findings, uint64_t now_ns);
/* After that. duration_ns: of the recording. */
void record_findings_make(struct record_findings *findings, uint64_t duration_ns);
/* Before that, of a finished profile of time that includes waiting. */
void record_findings_waits(struct record_findings *findings, const struct profile *profile);
void record_findings_tell(const struct record_findings *findings);
/* A JSON array of {kind, text, command}. */
void record_findings_json(struct buf *dst, const struct record_findings *findings);

#endif
