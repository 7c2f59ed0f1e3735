// SPDX-License-Identifier: Apache-2.0
#include "capture/process_choice.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/background.h"
#include "base/buf.h"
#include "base/names.h"
#include "capture/pod_processes.h"
#include "capture/sampler.h"
#include "capture/target.h"
#include "capture/workers.h"
#include "proc/pids.h"
#include "profile/aggregate.h"

void process_choice_fini(struct process_choice *choice)
{
	names_free(choice->workers, choice->nr_workers);
	free(choice->pids);
	container_filter_fini(&choice->containers);
	*choice = (struct process_choice){ 0 };
}

bool process_choice_is_set(const struct process_choice *choice)
{
	return choice->nr_pids || choice->nr_workers ||
	       container_filter_is_set(&choice->containers);
}

static int pid_check(pid_t pid, struct buf *why)
{
	struct target target;
	int err = target_probe(pid, &target);

	if (!err && !target.zombie && (!target.leader || target.leader == target.pid))
		return 0;
	if (err && err != -ESRCH)
		return 0; /* the process lives, but its files cannot be read */
	if (!err && target.zombie)
		buf_printf(why,
			   "pid %d: the process has exited and only waits for its parent (zombie)",
			   pid);
	else if (!err)
		buf_printf(why, "pid %d: is a thread of process %d", pid, target.leader);
	else
		buf_printf(why, "pid %d: no such process", pid);
	return -ENOENT;
}

static int pids_find(struct sampler *sampler, const struct process_choice *choice, uint32_t group,
		     struct buf *why)
{
	struct pids found = { 0 };
	size_t i;
	int err = 0;

	if (!choice->containers.nr_pods) {
		for (i = 0; i < choice->nr_pids && !err; i++)
			err = pid_check(choice->pids[i], why);
		return err ? err
			   : sampler_targets_add(sampler, choice->pids, choice->nr_pids, group,
						 NULL);
	}
	err = pod_processes_find(&found, sampler->reader.containers, &choice->containers,
				 choice->pids, choice->nr_pids);
	if (err)
		return err;
	if (!found.nr) {
		container_filter_text(why, &choice->containers);
		buf_add_str(why, ": no process on this node lives there");
		if (choice->nr_pids)
			buf_printf(why, " and has the pid %d in it", choice->pids[0]);
		return -ENOENT;
	}
	err = sampler_targets_add(sampler, found.list, found.nr, group, NULL);
	pids_fini(&found);
	return err;
}

int process_filter_open(struct process_filter *filter, struct sampler *sampler,
			const struct process_choice *choice, uint32_t group, struct buf *why)
{
	struct process_filter opened = { .choice = choice, .group = group };
	int err = 0;

	if (choice->nr_workers)
		err = workers_new(&opened.workers, choice->workers, choice->nr_workers);
	if (!err && choice->nr_pids) {
		background_pause(sampler->background); /* it searches containers, as jobs do */
		err = pids_find(sampler, choice, group, why);
		background_resume(sampler->background);
	}
	if (err) {
		process_filter_close(&opened, sampler);
		return err;
	}
	*filter = opened;
	return 0;
}

void process_filter_close(struct process_filter *filter, struct sampler *sampler)
{
	if (filter->choice && filter->choice->nr_pids)
		session_targets_clear(&sampler->reader.session, filter->group);
	workers_free(filter->workers);
	*filter = (struct process_filter){ 0 };
}

bool process_filter_wants(struct process_filter *filter, struct sampler *sampler,
			  const struct aggregate_input *input)
{
	const struct process_choice *choice = filter->choice;

	if (!choice || !process_choice_is_set(choice))
		return true;
	if (!container_filter_matches(&choice->containers, input->container))
		return false;
	if (!choice->nr_pids && !choice->nr_workers)
		return true;
	return (filter->workers && workers_want(filter->workers, input, filter->report)) ||
	       (choice->nr_pids &&
		session_target_groups(&sampler->reader.session, (pid_t)input->sample->task.pid) &
			filter->group);
}
