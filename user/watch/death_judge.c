// SPDX-License-Identifier: Apache-2.0
#include "watch/death.h"

#include <signal.h>
#include <string.h>

#include "base/time.h"

/* A process that another one has asked to end has this long for it; the default of Kubernetes is 30 s. */
#define ASKED_NS (120 * NS_PER_SECOND)
#define SIGNAL_BITS 0x7f

static bool is_recent(const struct bpfprof_kill_event *event, uint64_t ns)
{
	return event->rec.ts_ns && ns - event->rec.ts_ns < ASKED_NS;
}

bool death_is_asked(const struct death_facts *facts, uint64_t ns)
{
	return is_recent(&facts->asked, ns);
}

static bool is_raylet(const struct bpfprof_kill_event *event)
{
	return !strncmp(event->comm, "raylet", BPFPROF_COMM_LEN);
}

/*
 * The sender decides whether a request to end is an order: a process above ends its children and all below
 * (terminate() of a pool, torchrun, timeout, the raylet at the end of a job, systemd, slurmstepd), a process of
 * another pid namespace ends the container (runc, at the end of a pod), and the kernel passes on a terminal's
 * Ctrl-C or its end. Any other process is a stranger.
 */
static bool is_order(const struct bpfprof_kill_event *event)
{
	return event->flags & (BPFPROF_KILL_ABOVE | BPFPROF_KILL_OUTSIDE | BPFPROF_KILL_KERNEL);
}

static enum death_kind judge_kill(const struct death_facts *facts)
{
	const struct bpfprof_kill_event *kill = &facts->kill;
	bool asked = death_is_asked(facts, facts->ts_ns);

	if (!kill->rec.ts_ns)
		return DEATH_SIGNAL;
	if (kill->flags & BPFPROF_KILL_OOM)
		return DEATH_OOM;
	/* The first process of its pid namespace has ended, which is an end of its own. */
	if (kill->flags & BPFPROF_KILL_NAMESPACE)
		return DEATH_NONE;
	if (kill->flags & BPFPROF_KILL_KERNEL || kill->sender == facts->pid)
		return DEATH_SIGNAL;
	/*
	 * kill() of a process above is the plan of that one. The raylet asks first (SIGTERM) when a job ends, and kills its
	 * agents and workers when it ends itself; else it takes a worker away from a task, such as for its memory.
	 */
	if (kill->flags & BPFPROF_KILL_ABOVE)
		return is_raylet(kill) && facts->taken && !asked ? DEATH_KILLED : DEATH_NONE;
	/* A runtime that asked first ends a pod whose time is over. */
	if (kill->flags & BPFPROF_KILL_OUTSIDE && asked && is_order(&facts->asked))
		return DEATH_NONE;
	return DEATH_KILLED;
}

enum death_kind death_judge(const struct death_facts *facts,
			    const struct bpfprof_kill_event **ret_by)
{
	const struct bpfprof_kill_event *asked = &facts->asked;
	uint32_t signal = facts->status & SIGNAL_BITS, code = facts->status >> 8 & 0xff;
	enum death_kind kind;

	*ret_by = NULL;
	if (!signal && !code)
		return DEATH_NONE;
	if (signal == SIGKILL) {
		kind = judge_kill(facts);
		if (kind == DEATH_KILLED || kind == DEATH_OOM)
			*ret_by = &facts->kill;
		return kind;
	}
	/* A handler may turn the request into an exit code, or end the process by another signal. */
	if (death_is_asked(facts, facts->ts_ns) && (!signal || signal == asked->signal)) {
		if (is_order(asked))
			return DEATH_NONE;
		*ret_by = asked;
		return DEATH_KILLED;
	}
	if (signal && is_recent(&facts->fault, facts->ts_ns) && facts->fault.signal == signal &&
	    !(facts->fault.flags & BPFPROF_KILL_KERNEL)) {
		*ret_by = &facts->fault;
		return DEATH_KILLED;
	}
	if (signal)
		return DEATH_SIGNAL;
	/*
	 * Ray ends workers by a message (ray.kill(), the end of a job, idle ones), and they exit with code 1. An
	 * exception of a task goes to its caller instead.
	 */
	if (facts->ray && code == 1)
		return DEATH_NONE;
	/* grep ends with 1 if it finds nothing. */
	return facts->helper ? DEATH_NONE : DEATH_EXIT;
}
