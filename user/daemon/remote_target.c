// SPDX-License-Identifier: Apache-2.0
/*
 * A client in a pod names a process by the pid in its own pid namespace. Each container has a pid 7, so the
 * client sends the start time of the process, too; it is the same number in all pid namespaces.
 */
#include "daemon/remote_profile.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/time.h"
#include "capture/container_filter.h"
#include "capture/target.h"
#include "container/containers.h"
#include "daemon/daemon.h"
#include "proc/pids.h"
#include "proc/usage.h"

struct search {
	const struct remote_profile_job *job;
	const struct container *of_peer; /* of by_socket; NULL: root of the node */
	pid_t pid; /* as the client sees it */
	struct remote_target found;
	size_t nr, nr_refused;
};

static bool is_same_pod(const struct container *a, const struct container *b)
{
	if (!strcmp(a->id, b->id))
		return true;
	return *a->pod_uid ? !strcmp(a->pod_uid, b->pod_uid)
			   : *a->pod && !strcmp(a->pod, b->pod) &&
				     !strcmp(a->namespace, b->namespace) && !*b->pod_uid;
}

static bool may_ask(const struct search *search, const struct container *container)
{
	const struct remote_profile_job *job = search->job;

	if (job->right.by_socket)
		return !search->of_peer || (container && is_same_pod(search->of_peer, container));
	return !job->right.bound || container_filter_matches(job->right.bound, container);
}

/*
 * Root of the node may ask about all, so that is to be proved: the cgroup of a process that exits reads as
 * that of the node, and a full table has no container for it.
 */
static bool is_root_of_node(const struct remote_profile_job *job, const struct http_peer *peer)
{
	return !peer->uid &&
	       containers_is_of_node(job->daemon->sampler.reader.containers, (uint32_t)peer->pid) &&
	       target_is_outermost(peer->pid); /* last, since an exit lasts */
}

/*
 * The number of a peer that has ended may be another process's by now. So it is asked after the search
 * whether the process that has connected still has it.
 */
static int peer_find(const struct container **ret, const struct remote_profile_job *job,
		     struct buf *why)
{
	const struct http_peer *peer = &job->right.peer;
	const struct container *container = NULL;
	bool of_node = false;

	if (peer->pid)
		container = containers_of(job->daemon->sampler.reader.containers,
					  (uint32_t)peer->pid, 0, time_monotonic_ns());
	if (peer->pid && !container)
		of_node = is_root_of_node(job, peer);
	if (!peer->pid || peer->pidfd < 0 ||
	    syscall(SYS_pidfd_send_signal, peer->pidfd, 0, NULL, 0)) {
		/* CAP_KILL is not needed to learn that it lives. */
		if (!peer->pid || peer->pidfd < 0 || errno != EPERM) {
			buf_add_str(why, "the process that asks cannot be identified");
			return -EACCES;
		}
	}
	if (!container && !of_node) {
		buf_add_str(why,
			    "the process that asks is in no known pod, and not root of the node");
		return -EACCES;
	}
	*ret = container;
	return 0;
}

int remote_target_peer(char owner[REMOTE_OWNER_MAX], const struct remote_profile_job *job,
		       struct buf *why)
{
	const struct container *container = NULL;
	int err = peer_find(&container, job, why);

	if (err)
		return err;
	snprintf(owner, REMOTE_OWNER_MAX, "socket %s",
		 !container	       ? "of the node"
		 : *container->pod_uid ? container->pod_uid
				       : container->id);
	return 0;
}

static int look(void *arg, pid_t pid, const struct proc_usage *usage)
{
	struct search *search = arg;
	const struct remote_profile_query *query = &search->job->query;
	const struct container *container;

	/* The cheap checks come first: the search for a container may read long lists. */
	if ((query->start_ticks && proc_usage_start_ticks(usage) != query->start_ticks) ||
	    !target_is_pid(pid, search->pid))
		return 0;
	container = containers_of(search->job->daemon->sampler.reader.containers, (uint32_t)pid, 0,
				  time_monotonic_ns());
	if (!container_filter_matches(&query->choice.containers, container))
		return 0;
	if (!may_ask(search, container)) {
		search->nr_refused++;
		return 0;
	}
	/* The start was read before the container: a pid that was reused meanwhile does not have it. */
	search->found = (struct remote_target){ pid, proc_usage_start_ticks(usage) };
	search->nr++;
	return 0;
}

int remote_target_find(struct remote_target *ret, const struct remote_profile_job *job,
		       struct buf *why)
{
	struct search search = { .job = job, .pid = job->query.choice.pids[0] };
	int err = job->right.by_socket ? peer_find(&search.of_peer, job, why) : 0;

	err = err ?: pids_each(look, &search);
	if (err)
		return err;
	if (search.nr == 1) {
		*ret = search.found;
		return 0;
	}
	if (search.nr) {
		buf_printf(why,
			   "pid %d: %zu containers have a process with this pid; pod= names one",
			   search.pid, search.nr);
		return -ENOTUNIQ;
	}
	/* The two answers are alike: a client learns nothing about pods of others. */
	buf_printf(why, "pid %d: no such process here that this client may ask about", search.pid);
	return search.nr_refused ? -EACCES : -ENOENT;
}
