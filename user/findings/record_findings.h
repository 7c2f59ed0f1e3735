/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_FINDINGS_RECORD_FINDINGS_H
#define BPFPROF_FINDINGS_RECORD_FINDINGS_H

/*
 * The findings of one recording: collects facts from samples, titles and /proc while it runs, and applies
 * the rules of findings/findings.h at the end. All functions take NULL for a recording without findings.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/counters.h"
#include "bpfprof.h"
#include "findings/findings.h"

struct aggregate_input;
struct buf;
struct process;
struct profile;
struct record_findings;
struct sampler;
struct stats_reasons;

/*
 * Borrows the open sampler, and host_root (or NULL). chosen: a filter chooses samples by name or
 * container, so calls count only for workers with a sample. judges: titles are recorded for findings
 * alone, so findings may choose among them. 0 or -ENOMEM.
 */
int record_findings_new(struct record_findings **ret, struct sampler *sampler,
			const char *host_root, bool chosen, bool judges);
void record_findings_free(struct record_findings *findings);

void record_findings_sample(struct record_findings *findings, const struct aggregate_input *input);
/* The samples of the process until now are not wanted. */
void record_findings_forget(struct record_findings *findings, const struct bpfprof_task_id *task);
void record_findings_title(struct record_findings *findings,
			   const struct bpfprof_title_event *event);
/* ts_ns: when the process exited. */
void record_findings_exit(struct record_findings *findings, const struct bpfprof_task_id *task,
			  uint64_t ts_ns);
void record_findings_tick(struct record_findings *findings, uint64_t now_ns);

extern const struct counter record_findings_counters[];

/* Adds the counters of facts for which there was no room. */
void record_findings_stats(const struct record_findings *findings, struct stats_reasons *dst);

/* Sampling stopped at now_ns. */
void record_findings_end(struct record_findings *findings, uint64_t now_ns);
/* Applies the rules; after record_findings_end(). duration_ns: of the recording. */
void record_findings_make(struct record_findings *findings, uint64_t duration_ns);
/* Before record_findings_make(): a finished profile of time that includes waiting. */
void record_findings_waits(struct record_findings *findings, const struct profile *profile);
/* Puts findings of others in place of those of that kind; after record_findings_make(). */
void record_findings_replace(struct record_findings *findings, enum finding_kind kind,
			     const struct findings *by);
void record_findings_report(const struct record_findings *findings);
/* As findings_json(). */
void record_findings_json(struct buf *json, const struct record_findings *findings);

#endif
