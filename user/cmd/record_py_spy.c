// SPDX-License-Identifier: Apache-2.0
/* record --py-spy: the frames and the pids of py-spy's files. */
#include "cmd/recording.h"

#include "capture/target.h"
#include "formats/py_spy.h"
#include "options/options.h"

/* A thread that has ended keeps the number by which we see it. */
static uint32_t pod_pid(uint32_t pid)
{
	return (uint32_t)target_pod_pid((pid_t)pid) ?: pid;
}

static void use_pod_pids(struct profile *profile)
{
	size_t i;

	for (i = 0; i < profile->nr_processes; i++) {
		if (profile->processes[i].pod_pid)
			profile->processes[i].pid = profile->processes[i].pod_pid;
		if (profile->processes[i].parent)
			profile->processes[i].parent = pod_pid(profile->processes[i].parent);
	}
	for (i = 0; i < profile->nr_samples; i++)
		if (profile->samples[i].tid)
			profile->samples[i].tid = pod_pid(profile->samples[i].tid);
}

int recording_py_spy(const struct recording *rec, struct profile *profile)
{
	const struct record_options *options = rec->options;
	const struct py_spy_form form = { .native = options->native,
					  .function = options->function,
					  .no_lines = options->no_lines,
					  .full_filenames = options->full_filenames };

	if (!options->py_spy)
		return 0;
	if (options->pod_pids)
		use_pod_pids(profile);
	return py_spy_shape(profile, &form);
}
