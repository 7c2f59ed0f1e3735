// SPDX-License-Identifier: Apache-2.0
#include "kernel/liveness.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "kernel/session.h"
#include "kernel/tables.h"
#include "proc/processes.h"
#include "proc/usage.h"
#include "bpfprof.skel.h"

#define CHECKS 100 /* processes per call, and as many targets */

/* A process that had ended a second ago, as the check then found. */
struct suspect {
	uint32_t pid;
	bool process; /* false: a target that is no known process */
	bool zombies; /* the check included zombies */
	uint64_t start_ns;
};

/* One pass over all processes, or over all targets. */
struct round {
	uint64_t nr_lost; /* lost events when the pass began */
	bool zombies; /* events were lost in the pass before, so this one includes zombies */
};

struct liveness {
	struct session *session;
	struct processes *processes;
	struct liveness_handlers handlers;
	struct suspect suspects[2 * CHECKS];
	size_t nr_suspects;
	struct round processes_round, targets_round;
	uint32_t nr_rounds; /* of processes */
	uint32_t last_target;
	uint64_t nr_found;
};

int liveness_new(struct liveness **ret, struct session *session, struct processes *processes,
		 const struct liveness_handlers *handlers)
{
	struct liveness *liveness = calloc(1, sizeof(*liveness));

	if (!liveness)
		return -ENOMEM;
	liveness->session = session;
	liveness->processes = processes;
	liveness->handlers = *handlers;
	liveness->nr_rounds = 1;
	*ret = liveness;
	return 0;
}

void liveness_free(struct liveness *liveness)
{
	free(liveness);
}

uint64_t liveness_count(const struct liveness *liveness)
{
	return liveness->nr_found;
}

/*
 * Has the process with this pid of our pid namespace ended? With zombies, which costs a read of
 * /proc/PID/stat, a process that waits for its parent has ended, too.
 */
static bool has_ended(pid_t pid, bool zombies)
{
	struct proc_usage usage;

	/* tgkill() checks for a process: a thread may have this number by now. */
	if (syscall(SYS_tgkill, pid, pid, 0) && errno == ESRCH)
		return true;
	if (!zombies || proc_usage_read(&usage, pid))
		return false;
	/* A main thread that has ended stays a zombie until the other threads end. */
	return (usage.state == 'Z' || usage.state == 'X') && usage.nr_threads <= 1;
}

/* A process without a known pid here counts as alive. */
static bool process_has_ended(const struct liveness *liveness, const struct process *process,
			      bool zombies)
{
	uint32_t own =
		session_own_pid(liveness->session, process->pid, process->ns_context.agent_pid);

	return own && has_ended((pid_t)own, zombies);
}

static bool target_has_ended(const struct liveness *liveness, uint32_t pid, bool zombies)
{
	return session_pids_are_the_nodes(liveness->session) && has_ended((pid_t)pid, zombies);
}

static void suspect_add(struct liveness *liveness, uint32_t pid, const struct process *process,
			bool zombies)
{
	liveness->suspects[liveness->nr_suspects++] = (struct suspect){
		.pid = pid,
		.process = process != NULL,
		.zombies = zombies,
		.start_ns = process ? process->start_ns : 0,
	};
}

/* A suspect that is still known, and has still ended, raises no event any more: it is removed. */
static void suspects_judge(struct liveness *liveness)
{
	struct process *process;
	struct suspect *s;

	for (s = liveness->suspects; s < liveness->suspects + liveness->nr_suspects; s++) {
		process = processes_find(liveness->processes, s->pid);
		if (s->process) {
			if (!process || process->dead || process->start_ns != s->start_ns ||
			    !process_has_ended(liveness, process, s->zombies))
				continue;
			liveness->nr_found++;
			liveness->handlers.process(liveness->handlers.arg, process);
		} else if ((!process || process->dead) &&
			   session_is_target(liveness->session, (pid_t)s->pid) &&
			   target_has_ended(liveness, s->pid, s->zombies)) {
			liveness->nr_found++;
			liveness->handlers.target(liveness->handlers.arg, s->pid);
		}
	}
	liveness->nr_suspects = 0;
}

static void round_begin(struct liveness *liveness, struct round *round)
{
	uint64_t counters[BPFPROF_NR_COUNTERS];

	session_counters(liveness->session, counters);
	round->zombies = counters[BPFPROF_COUNT_EVENT_LOST] != round->nr_lost;
	round->nr_lost = counters[BPFPROF_COUNT_EVENT_LOST];
}

static void processes_check(struct liveness *liveness)
{
	struct round *round = &liveness->processes_round;
	struct process *process;
	int nr = 0;

	for (process = processes_first(liveness->processes); process && nr < CHECKS;
	     process = hash_table_next(process)) {
		if (process->dead || process->tables->liveness_round == liveness->nr_rounds)
			continue;
		process->tables->liveness_round = liveness->nr_rounds;
		nr++;
		if (process_has_ended(liveness, process, round->zombies))
			suspect_add(liveness, process->pid, process, round->zombies);
	}
	if (nr < CHECKS) {
		round_begin(liveness, round);
		liveness->nr_rounds++;
	}
}

static void targets_check(struct liveness *liveness)
{
	struct round *round = &liveness->targets_round;
	int fd = bpf_map__fd(liveness->session->skel->maps.targets), nr;
	struct process *process;
	uint32_t pid;

	if (!liveness->session->had_targets)
		return; /* the kernel would look through all of an empty map */
	for (nr = 0; nr < CHECKS; nr++) {
		if (bpf_map_get_next_key(fd, liveness->last_target ? &liveness->last_target : NULL,
					 &pid)) {
			liveness->last_target = 0; /* the next call begins with the first target */
			round_begin(liveness, round);
			return;
		}
		liveness->last_target = pid;
		process = processes_find(liveness->processes, pid);
		if ((!process || process->dead) && target_has_ended(liveness, pid, round->zombies))
			suspect_add(liveness, pid, NULL, round->zombies);
	}
}

void liveness_run(struct liveness *liveness)
{
	suspects_judge(liveness);
	processes_check(liveness);
	targets_check(liveness);
}
