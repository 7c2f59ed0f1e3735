/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_FINDINGS_FINDING_FACTS_H
#define BPFPROF_FINDINGS_FINDING_FACTS_H

/* Brings what was watched of processes into the form that the rules of findings/findings.h take. */

#include <stdint.h>

struct findings;
struct process_watch;

/* After process_watch_finish(). Of a recording of duration_ns. */
void finding_facts(struct findings *findings, const struct process_watch *watch,
		   uint64_t duration_ns);

#endif
