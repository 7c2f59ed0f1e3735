// SPDX-License-Identifier: Apache-2.0
#include "capture/pod_processes.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/deadline.h"
#include "base/exit_status.h"
#include "base/log.h"
#include "base/time.h"
#include "capture/capture_options.h"
#include "capture/target.h"
#include "container/containers.h"
#include "proc/pids.h"
#include "proc/usage.h"

#define MESSAGE_MAX 1024

struct search {
	struct pids found;
	struct containers *containers;
	const struct container_filter *filter;
	const pid_t *pod_pids;
	size_t nr_pod_pids;
};

static int look(void *arg, pid_t pid, const struct proc_usage *usage)
{
	struct search *search = arg;

	if (!proc_usage_has_memory(usage))
		return 0;
	/* The cheap check comes first: the search for a container may read long lists. */
	if (search->nr_pod_pids &&
	    !pids_have(search->pod_pids, search->nr_pod_pids, target_pod_pid(pid)))
		return 0;
	if (!container_filter_matches(
		    search->filter,
		    containers_of(search->containers, (uint32_t)pid, 0, time_monotonic_ns())))
		return 0;
	return pids_add(&search->found, pid);
}

int pod_processes_find(struct pids *ret, struct containers *containers,
		       const struct container_filter *filter, const pid_t *pod_pids,
		       size_t nr_pod_pids)
{
	struct search search = { .containers = containers,
				 .filter = filter,
				 .pod_pids = pod_pids,
				 .nr_pod_pids = nr_pod_pids };
	int err = pids_each(look, &search);

	if (err) {
		pids_fini(&search.found);
		return err;
	}
	pids_sort(&search.found);
	*ret = search.found;
	return 0;
}

int pod_processes_none(struct containers *containers, const struct container_filter *filter,
		       const pid_t *pod_pids, size_t nr_pod_pids)
{
	__cleanup(buf_fini) struct buf text = { .max = MESSAGE_MAX };
	struct pids all = { 0 };

	container_filter_text(&text, filter);
	if (!nr_pod_pids || pod_processes_find(&all, containers, filter, NULL, 0) || !all.nr)
		log_error("%s: no process on this node lives there",
			  buf_error(&text) ? "--pod" : text.data);
	else
		log_error("%s: no process there has the pid %d%s (-p with --pod is the pid "
			  "inside the pod)",
			  buf_error(&text) ? "--pod" : text.data, pod_pids[0],
			  nr_pod_pids > 1 ? " or another one that was named" : "");
	pids_fini(&all);
	return EXIT_NO_TARGET;
}

static int resolve(struct pids *ret, struct capture_options *options)
{
	const struct container_filter *filter = &options->containers;
	struct containers *containers = NULL;
	struct deadline_runner *runner = NULL;
	int err, status = EXIT_DONE;

	err = deadline_runner_new(&runner);
	if (!err)
		err = containers_new(&containers, runner, "/proc", options->host_root);
	if (!err)
		err = pod_processes_find(ret, containers, filter, options->pids, options->nr_pids);
	if (err) {
		log_error("processes: %s", strerror(-err));
		status = EXIT_FAILED;
	} else if (!ret->nr) {
		status = pod_processes_none(containers, filter, options->pids, options->nr_pids);
		pids_fini(ret);
	}
	options->pids = ret->list;
	options->nr_pids = ret->nr;
	containers_free(containers);
	deadline_runner_free(runner);
	return status;
}

int pod_processes_resolve(struct pids *ret, struct capture_options *options)
{
	return options->nr_pids && options->containers.nr_pods ? resolve(ret, options) : EXIT_DONE;
}

int pod_processes_resolve_all(struct pids *ret, struct capture_options *options)
{
	if (options->nr_pids || !container_filter_is_set(&options->containers))
		return pod_processes_resolve(ret, options);
	return resolve(ret, options);
}
