// SPDX-License-Identifier: Apache-2.0
#include "cmd/output_files.h"

#include <string.h>
#include <unistd.h>

#include "base/log.h"
#include "options/options.h"
#include "profile/profile.h"

struct output_names output_files_names(const struct record_options *options, uint64_t time_ns)
{
	const struct capture_options *capture = &options->capture;

	return (struct output_names){
		.pid = (uint32_t)(capture->nr_pids == 1 ? capture->pids[0] : getpid()),
		.time_ns = time_ns,
	};
}

bool output_files_have_standard(const struct record_options *options)
{
	size_t i;

	for (i = 0; i < options->nr_outputs; i++)
		if (!strcmp(options->outputs[i].path, "-"))
			return true;
	return false;
}

bool output_files_several(const struct profile *profile)
{
	size_t i;

	for (i = 1; i < profile->nr_processes; i++)
		if (profile->processes[i].kernel_pid != profile->processes[0].kernel_pid)
			return true;
	return false;
}

int output_files_report(const char *pattern, const char *path, int err)
{
	if (err)
		log_error("%s: cannot be written: %s", path ? path : pattern, strerror(-err));
	else if (strcmp(path, "-"))
		log_info("wrote %s", path);
	return err;
}
