// SPDX-License-Identifier: Apache-2.0
#include "capture/worker_titles.h"

#include <errno.h>
#include <sys/types.h>

#include "base/time.h"
#include "capture/sampler.h"
#include "proc/pids.h"
#include "proc/title.h"
#include "proc/usage.h"
#include "bpfprof.h"

struct search {
	struct sampler *sampler;
	struct worker_titles_ask *ask;
};

static int look(void *arg, pid_t pid, const struct proc_usage *usage)
{
	char argv[PROC_CMDLINE_MAX], title[TITLE_MAX + 1];
	struct bpfprof_task_id task = { 0 };
	const struct search *search = arg;
	struct worker_titles_ask *ask = search->ask;
	uint64_t ts_ns = time_monotonic_ns();
	ssize_t len;
	int err;

	if (!proc_usage_has_memory(usage))
		return 0;
	len = proc_argv_read(search->sampler->reader.runner, argv, sizeof(argv), pid);
	ask->nr_unread += len < 0 && len != -ESRCH && len != -ENOENT;
	if (len <= 0 || title_parse(title, argv, (size_t)len) || !ask->wants(ask->arg, title))
		return 0;
	err = walker_learn(&search->sampler->reader.walker, (uint32_t)pid, time_monotonic_ns(),
			   &task);
	if (err)
		ask->nr_unread += err != -ESRCH && err != -ENOENT;
	else
		ask->found(ask->arg, &task, (uint32_t)pid, title, ts_ns);
	return 0;
}

int worker_titles_each(struct sampler *sampler, struct worker_titles_ask *ask)
{
	struct search search = { .sampler = sampler, .ask = ask };

	return pids_each(look, &search);
}
