// SPDX-License-Identifier: Apache-2.0
#include "cmd/watched.h"

#include <stdio.h>
#include <string.h>

#include "capture/capture_options.h"
#include "capture/container_filter.h"
#include "proc/usage.h"

/* Writes " in pod 'ml/trainer-0'", or nothing. */
static void where_fill(char *dst, size_t cap, const struct container_filter *filter)
{
	bool pods = filter->nr_pods;

	if (!container_filter_is_set(filter))
		return;
	snprintf(dst, cap, " in %s '%s'%s", pods ? "pod" : "container",
		 pods ? filter->pods[0] : filter->ids[0],
		 filter->nr_pods + filter->nr_ids > 1 ? " and others" : "");
}

void watched_text(char *dst, size_t cap, const struct capture_options *capture,
		  struct deadline_runner *runner, pid_t shown_pid)
{
	char cmdline[128] = "";
	size_t len;

	if (capture->nr_workers)
		snprintf(dst, cap, "workers '%s'%s", capture->workers[0],
			 capture->nr_workers + capture->nr_comms + capture->nr_pids > 1
				 ? " and others"
				 : "");
	else if (capture->nr_comms)
		snprintf(dst, cap, "processes named '%s'%s", capture->comms[0],
			 capture->nr_comms + capture->nr_pids > 1 ? " and others" : "");
	else if (capture->nr_pids > 1)
		snprintf(dst, cap, "%zu processes", capture->nr_pids);
	else if (!capture->nr_pids)
		snprintf(dst, cap, "%s",
			 container_filter_is_set(&capture->containers) ? "everything"
								       : "the whole machine");
	else if (!proc_cmdline_read(runner, cmdline, sizeof(cmdline), capture->pids[0]) &&
		 cmdline[0])
		snprintf(dst, cap, "pid %d, '%s'", shown_pid ? shown_pid : capture->pids[0],
			 cmdline);
	else
		snprintf(dst, cap, "pid %d", shown_pid ? shown_pid : capture->pids[0]);
	len = strlen(dst);
	where_fill(dst + len, cap - len, &capture->containers);
}
