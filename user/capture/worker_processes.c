// SPDX-License-Identifier: Apache-2.0
#include "capture/worker_processes.h"

#include <string.h>
#include <sys/types.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "base/text.h"
#include "proc/pids.h"
#include "proc/title.h"
#include "proc/usage.h"
#include "ray/ray_role.h"
#include "ray/worker_match.h"

#define NAME_BYTES (TITLE_MAX + 1)

void worker_processes_report(pid_t pid, const char *name, const char *pattern)
{
	__cleanup(buf_fini) struct buf text = { .max = NAME_BYTES };

	text_add_shown(&text, name);
	log_info("watching worker '%s' pid %d (matched '%s')", text.data ? text.data : "", pid,
		 pattern);
}

struct search {
	struct deadline_runner *runner;
	char *const *patterns;
	size_t nr_patterns;
	int (*found)(void *arg, pid_t pid, const struct proc_usage *usage, const char *name,
		     const char *pattern);
	void *arg;
};

static int look(void *arg, pid_t pid, const struct proc_usage *usage)
{
	char argv[PROC_CMDLINE_MAX], title[TITLE_MAX + 1], script[RAY_ROLE_TEXT_MAX];
	struct worker_names names = { .comm = usage->comm };
	const struct search *search = arg;
	ssize_t len;
	int found;

	if (!proc_usage_has_memory(usage))
		return 0;
	len = proc_argv_read(search->runner, argv, sizeof(argv), pid);
	if (len > 0 && !title_parse(title, argv, (size_t)len))
		names.title = title;
	else if (len > 0 && ray_role_of_argv(argv, (size_t)len) == RAY_ROLE_NONE &&
		 ray_role_has_joined(pid) &&
		 !ray_role_script(script, sizeof(script), argv, (size_t)len))
		names.script = script;
	found = worker_match(search->patterns, search->nr_patterns, &names);
	if (found < 0)
		return 0;
	return search->found(search->arg, pid, usage, worker_name(&names), search->patterns[found]);
}

int worker_processes_each(struct deadline_runner *runner, char *const *patterns, size_t nr_patterns,
			  int (*found)(void *arg, pid_t pid, const struct proc_usage *usage,
				       const char *name, const char *pattern),
			  void *arg)
{
	struct search search = { .runner = runner,
				 .patterns = patterns,
				 .nr_patterns = nr_patterns,
				 .found = found,
				 .arg = arg };

	return pids_each(look, &search);
}

static int report_and_add(void *arg, pid_t pid, const struct proc_usage *usage, const char *name,
			  const char *pattern)
{
	(void)usage;
	worker_processes_report(pid, name, pattern);
	return pids_add(arg, pid);
}

int worker_processes_find(struct pids *ret, struct deadline_runner *runner, char *const *patterns,
			  size_t nr_patterns)
{
	struct pids found = { 0 };
	int err = worker_processes_each(runner, patterns, nr_patterns, report_and_add, &found);

	if (err) {
		pids_fini(&found);
		return err;
	}
	pids_sort(&found);
	*ret = found;
	return 0;
}
