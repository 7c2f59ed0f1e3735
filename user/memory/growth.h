/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_MEMORY_GROWTH_H
#define BPFPROF_MEMORY_GROWTH_H

/* The processes whose memory grows without end, or that were killed, and the function that holds most of it. */

struct findings;
struct memory_monitor;
struct profile;

/* The profile is that of the monitor, with names. host_root: NULL is "/". 0 or -ENOMEM. */
int memory_findings(struct findings *findings, const struct memory_monitor *monitor,
		    const struct profile *profile, const char *host_root);

#endif
