/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_MEMORY_GROWTH_H
#define BPFPROF_MEMORY_GROWTH_H

/* The processes whose memory grows without end, or that were killed, and the function that holds most of it. */

struct buf;
struct findings;
struct memory_kill;
struct memory_monitor;
struct profile;
struct run_stats;
struct stats_reasons;

/* The profile is that of the monitor, with names. 0 or -ENOMEM. */
int memory_findings(struct findings *findings, const struct memory_monitor *monitor,
		    const struct profile *profile);
/*
 * Adds the finding and the table of a process that was killed. The profile is that of the monitor, with names.
 * 0, or -ENOMEM, or -ENOENT.
 */
int memory_kill_text(struct buf *dst, const struct memory_monitor *monitor,
		     const struct profile *profile, const struct memory_kill *kill);
/*
 * Makes the profile of a monitor that runs beside samples of the CPU, after memory_monitor_fill(), and its
 * findings. The profile points to stats, whose counts of samples become those of pages. files: counts what
 * names cost. The caller sets the time. 0 or -errno; profile_fini() is due.
 */
int memory_profile(struct profile *ret, struct findings *findings, struct run_stats *stats,
		   struct stats_reasons *files, struct memory_monitor *monitor);

#endif
