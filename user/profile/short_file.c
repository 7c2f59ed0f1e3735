// SPDX-License-Identifier: Apache-2.0
#include "profile/short_file.h"

#include <errno.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "base/deadline.h"
#include "python/text.h"

#define STAT_TIMEOUT_MS 500

struct init_job {
	char path[PATH_MAX];
	size_t folder_len;
	int found;
};

static long init_look(void *arg)
{
	struct init_job *job = arg;
	struct stat st;

	job->found = 1;
	if (!stat(job->path, &st))
		return 0;
	/* Where the folder itself is not seen, it is another's file system. */
	job->found = -1;
	job->path[job->folder_len] = '\0';
	if (errno == ENOENT && !stat(job->path, &st))
		job->found = 0;
	return 0;
}

/* Does folder hold an __init__.py? */
static int has_init(void *arg, const char *folder)
{
	struct init_job job = { .folder_len = strlen(folder) };
	int len = snprintf(job.path, sizeof(job.path), "%s/__init__.py", folder);

	if (!arg || len < 0 || (size_t)len >= sizeof(job.path) ||
	    deadline_run(arg, init_look, NULL, &job, sizeof(job), STAT_TIMEOUT_MS))
		return -1;
	return job.found;
}

const char *short_file(struct deadline_runner *runner, const char *path)
{
	return python_short_file(path, has_init, runner);
}
