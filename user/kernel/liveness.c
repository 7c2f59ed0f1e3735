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

/* A process that was found ended a second ago. */
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
	struct liveness *gone = calloc(1, sizeof(*gone));

	if (!gone)
		return -ENOMEM;
	gone->session = session;
	gone->processes = processes;
	gone->handlers = *handlers;
	gone->nr_rounds = 1;
	*ret = gone;
	return 0;
}

void liveness_free(struct liveness *gone)
{
	free(gone);
}

uint64_t liveness_count(const struct liveness *gone)
{
	return gone->nr_found;
}

bool liveness_is(pid_t pid, bool zombies)
{
	struct proc_usage usage;

	/* For a process: the number may belong to a thread by now. */
	if (syscall(SYS_tgkill, pid, pid, 0) && errno == ESRCH)
		return true;
	if (!zombies || proc_usage_read(&usage, pid))
		return false;
	/* A main thread that has ended waits for the others. */
	return (usage.state == 'Z' || usage.state == 'X') && usage.nr_threads <= 1;
}

/* A process without a known pid here counts as alive. */
static bool process_has_ended(const struct liveness *gone, const struct process *process,
			      bool zombies)
{
	uint32_t own = session_own_pid(gone->session, process->pid, process->place.agent_pid);

	return own && liveness_is((pid_t)own, zombies);
}

static bool target_has_ended(const struct liveness *gone, uint32_t pid, bool zombies)
{
	return session_pids_are_the_nodes(gone->session) && liveness_is((pid_t)pid, zombies);
}

static void suspect_add(struct liveness *gone, uint32_t pid, const struct process *process,
			bool zombies)
{
	gone->suspects[gone->nr_suspects++] = (struct suspect){
		.pid = pid,
		.process = process != NULL,
		.zombies = zombies,
		.start_ns = process ? process->start_ns : 0,
	};
}

/* If such a process is still known, and has still ended, no event will report it. */
static void suspects_judge(struct liveness *gone)
{
	struct process *process;
	struct suspect *s;

	for (s = gone->suspects; s < gone->suspects + gone->nr_suspects; s++) {
		process = processes_find(gone->processes, s->pid);
		if (s->process) {
			if (!process || process->dead || process->start_ns != s->start_ns ||
			    !process_has_ended(gone, process, s->zombies))
				continue;
			gone->nr_found++;
			gone->handlers.process(gone->handlers.arg, process);
		} else if ((!process || process->dead) &&
			   session_is_target(gone->session, (pid_t)s->pid) &&
			   target_has_ended(gone, s->pid, s->zombies)) {
			gone->nr_found++;
			gone->handlers.target(gone->handlers.arg, s->pid);
		}
	}
	gone->nr_suspects = 0;
}

static void round_begin(struct liveness *gone, struct round *round)
{
	uint64_t counters[BPFPROF_NR_COUNTERS];

	session_counters(gone->session, counters);
	round->zombies = counters[BPFPROF_COUNT_EVENT_LOST] != round->nr_lost;
	round->nr_lost = counters[BPFPROF_COUNT_EVENT_LOST];
}

static void processes_check(struct liveness *gone)
{
	struct round *round = &gone->processes_round;
	struct process *process;
	int nr = 0;

	for (process = processes_first(gone->processes); process && nr < CHECKS;
	     process = hash_table_next(process)) {
		if (process->dead || process->tables->liveness_round == gone->nr_rounds)
			continue;
		process->tables->liveness_round = gone->nr_rounds;
		nr++;
		if (process_has_ended(gone, process, round->zombies))
			suspect_add(gone, process->pid, process, round->zombies);
	}
	if (nr < CHECKS) {
		round_begin(gone, round);
		gone->nr_rounds++;
	}
}

static void targets_check(struct liveness *gone)
{
	struct round *round = &gone->targets_round;
	int fd = bpf_map__fd(gone->session->skel->maps.targets), nr;
	struct process *process;
	uint32_t pid;

	for (nr = 0; nr < CHECKS; nr++) {
		if (bpf_map_get_next_key(fd, gone->last_target ? &gone->last_target : NULL, &pid)) {
			gone->last_target = 0; /* the next call begins with the first one */
			round_begin(gone, round);
			return;
		}
		gone->last_target = pid;
		process = processes_find(gone->processes, pid);
		if ((!process || process->dead) && target_has_ended(gone, pid, round->zombies))
			suspect_add(gone, pid, NULL, round->zombies);
	}
}

void liveness_run(struct liveness *gone)
{
	suspects_judge(gone);
	processes_check(gone);
	targets_check(gone);
}
