// SPDX-License-Identifier: Apache-2.0
/* Makes the input of an aggregate from a decoded sample: adds its owner, and applies the filters. */
#include "capture/sampler.h"

#include <fnmatch.h>
#include <string.h>

#include "base/time.h"
#include "capture/container_filter.h"
#include "capture/process_owner.h"
#include "capture/ray_roles.h"
#include "capture/worker_steps.h"
#include "capture/workers.h"
#include "proc/processes.h"
#include "profile/aggregate.h"

bool sampler_comm_matches(const struct capture_options *options, const char comm[BPFPROF_COMM_LEN])
{
	char name[BPFPROF_COMM_LEN + 1] = { 0 };
	size_t i;

	memcpy(name, comm, BPFPROF_COMM_LEN);
	for (i = 0; i < options->nr_comms; i++)
		if (!fnmatch(options->comms[i], name, 0))
			return true;
	return false;
}

/*
 * Does the sample pass the filters? With --comm and --worker the kernel samples every process,
 * since any process may take a matching name at any time. The pids of -p are also filtered in the
 * kernel.
 */
static bool is_wanted(struct sampler *sampler, const struct aggregate_input *input)
{
	const struct capture_options *options = sampler->options;
	const struct bpfprof_sample *sample = input->sample;

	if (!container_filter_matches(&options->containers, input->container))
		return false;
	/* With steps, the kernel drops calls outside of them. */
	if (sampler->steps && sample->flags & BPFPROF_SAMPLE_CALL)
		return sampler->reader.session.options.filter ||
		       worker_steps_know(sampler->steps, &sample->task);
	if (sampler->steps)
		return worker_steps_want(sampler->steps, sample);
	if (!options->nr_comms && !options->nr_workers)
		return true;
	return (sampler->workers &&
		workers_want(sampler->workers, input, options->report_workers)) ||
	       sampler_comm_matches(options, sample->leader_comm) ||
	       sampler_comm_matches(options, sample->comm) ||
	       session_is_target(&sampler->reader.session, (pid_t)sample->task.pid);
}

void sampler_input_fill(struct sampler *sampler, const struct sample_view *view,
			struct aggregate_input *ret)
{
	struct aggregate_input input = {
		.sample = view->sample,
		.kernel = view->kernel,
		.nr_kernel = view->nr_kernel,
		.user = view->user,
		.nr_user = view->nr_user,
		.stop = view->stop,
		.unmerged = view->unmerged,
		.own_pid = session_own_pid(&sampler->reader.session, view->sample->task.pid,
					   view->ns_context.agent_pid),
		.ns_context = view->ns_context,
		.title = view->title,
	};

	if (view->process) {
		ray_roles_poll(sampler, view->process, view->sample, time_monotonic_ns());
		input.role = view->process->owner->role;
		input.program = view->process->program;
		input.container = sampler_container(sampler, view->process);
		if (!(view->sample->flags & BPFPROF_SAMPLE_KTHREAD))
			sampler_ranks_scan(sampler, view->process);
		input.ranks = view->process->ranks;
	}
	*ret = input;
}

bool sampler_input(struct sampler *sampler, const struct sample_view *view,
		   struct aggregate_input *ret)
{
	sampler_input_fill(sampler, view, ret);
	return is_wanted(sampler, ret);
}
