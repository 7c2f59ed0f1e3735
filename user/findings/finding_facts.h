/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_FINDINGS_FINDING_FACTS_H
#define BPFPROF_FINDINGS_FINDING_FACTS_H

/* Makes the facts that the rules of findings/findings.h take out of the watched processes. */

#include <stdint.h>

struct findings;
struct process_watch;

/* Call it after process_watch_finish(). duration_ns: of the recording. */
void finding_facts(struct findings *findings, const struct process_watch *watch,
		   uint64_t duration_ns);

#endif
