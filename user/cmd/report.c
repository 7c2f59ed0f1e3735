// SPDX-License-Identifier: Apache-2.0
/* bpfprof report: shows stored files as one. */
#include "cmd/report_job.h"

#include "cmd/command.h"
#include "cmd/report_options.h"

int report_run(const struct report_options *options)
{
	if (options->nccl)
		return report_nccl_run(options);
	if (options->tasks)
		return report_tasks_run(options);
	return options->diff ? report_diff_run(options) : report_profiles_run(options);
}
