// SPDX-License-Identifier: Apache-2.0
/*
 * Finds the rank of a process in its environment, when its program starts, or else with its first
 * sample. One read is enough, since a program keeps its first environment. A child that only forks
 * has the rank of its parent.
 */
#include "capture/sampler.h"

#include <errno.h>

#include "base/background.h"
#include "base/refusals.h"
#include "base/time.h"
#include "kernel/environ.h"
#include "proc/processes.h"
#include "proc/ranks.h"
#include "proc/usage.h"
#include "bpfprof.h"

/*
 * A read takes some 30 us. Reads for one tenant take at most 10% of the time, however many programs start.
 */
#define ASK_SHARE 10
#define ASK_SAVED_NS (NS_PER_SECOND / 10)
#define CGROUP_MAX_BYTES 4096

/* Counts why a read failed, or was incomplete. */
static void failure_count(struct sampler_ranks_stats *stats, int err)
{
	switch (err) {
	case -ESRCH:
		stats->exited++;
		break;
	case -E2BIG:
		stats->cut++;
		break;
	case -ETIMEDOUT:
	case -EBUSY:
		stats->blocked++;
		break;
	case -ENOMEM:
		stats->no_memory++;
		break;
	default:
		stats->unreadable++;
	}
}

static void ranks_read(struct sampler *sampler, struct process *process, uint32_t pid)
{
	const struct bpfprof_task_id task = { .start_ns = process->start_ns,
					      .exec_id = process->exec_id };
	char cgroup[CGROUP_MAX_BYTES];
	struct ranks ranks = { 0 };
	int err =
		environ_read(&sampler->reader.session, sampler->reader.runner, pid, &task, &ranks);

	if (err)
		failure_count(&sampler->ranks, err);
	if (!ranks.slurm_job[0] && err != -ESRCH &&
	    proc_file_read(cgroup, sizeof(cgroup), (pid_t)pid, "cgroup") > 0)
		ranks_take_cgroup(&ranks, cgroup);
	if (process_ranks_set(process, &ranks))
		sampler->ranks.no_memory++;
	sampler->ranks.found += process->ranks != NULL;
	process->ranks_known = true;
}

bool sampler_ranks_are_settled(const struct process *process)
{
	return process->ranks_known || process->dead;
}

void sampler_ranks_scan(struct sampler *sampler, struct process *process)
{
	struct budget *budget = budget_of(&sampler->ranking, background_tenant());
	uint64_t start_ns;
	uint32_t pid;

	if (process->ranks_known)
		return;
	pid = session_own_pid(&sampler->reader.session, process->pid,
			      process->ns_context.agent_pid);
	if (!pid || process->dead) {
		/*
		 * A later event may bring the pid in bpfprof's namespace; each case is counted
		 * once.
		 */
		if (process->dead || process->ns_context.mnt_ns) {
			process->ranks_known = true;
			sampler->ranks.exited += process->dead;
			sampler->ranks.outside += !process->dead;
		}
		return;
	}
	if (!background_may_wait(sampler->background))
		return;
	start_ns = time_monotonic_ns();
	if (!budget_allows(budget, ASK_SHARE, ASK_SAVED_NS, start_ns)) {
		sampler->ranks.deferred++;
		refusals_count(&sampler->reader.refusals, process->tenant, REFUSAL_ENVIRONMENT);
		return;
	}
	ranks_read(sampler, process, pid);
	sampler->ranks.read++;
	budget_spend(budget, time_monotonic_ns() - start_ns);
}
