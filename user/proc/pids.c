// SPDX-License-Identifier: Apache-2.0
#include "proc/pids.h"

#include <dirent.h>
#include <errno.h>
#include <stdlib.h>

#include "base/vec.h"
#include "proc/usage.h"

int pids_add(struct pids *pids, pid_t pid)
{
	int err = vec_grow(pids->list, pids->nr + 1, pids->cap, PIDS_MAX);

	if (!err)
		pids->list[pids->nr++] = pid;
	return err;
}

static int compare(const void *a, const void *b)
{
	pid_t x = *(const pid_t *)a, y = *(const pid_t *)b;

	return x < y ? -1 : x > y;
}

void pids_sort(struct pids *pids)
{
	if (pids->nr)
		qsort(pids->list, pids->nr, sizeof(*pids->list), compare);
}

void pids_fini(struct pids *pids)
{
	free(pids->list);
	*pids = (struct pids){ 0 };
}

bool pids_have(const pid_t *list, size_t nr, pid_t pid)
{
	size_t i;

	for (i = 0; i < nr; i++)
		if (list[i] == pid)
			return true;
	return false;
}

int pids_each(int (*fn)(void *arg, pid_t pid, const struct proc_usage *usage), void *arg)
{
	struct proc_usage usage;
	DIR *dir = opendir("/proc");
	struct dirent *entry;
	int err = 0;
	pid_t pid;

	if (!dir)
		return -errno;
	while (!err && (entry = readdir(dir))) {
		pid = (pid_t)strtoul(entry->d_name, NULL, 10);
		if (pid > 0 && !proc_usage_read(&usage, pid))
			err = fn(arg, pid, &usage);
	}
	closedir(dir);
	return err;
}
