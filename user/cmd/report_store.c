// SPDX-License-Identifier: Apache-2.0
#include "cmd/report_store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "base/names.h"
#include "base/strtab.h"
#include "base/vec.h"
#include "capture/process_choice.h"
#include "cmd/report_job.h"
#include "container/containers.h"
#include "daemon/store.h"
#include "formats/profile_read.h"

#define DEPTH 2 /* NAMESPACE/POD of --split pod */
#define INTERVALS_MAX 262144
#define NAME_BYTES 1024
#define DAY_S 86400

struct interval {
	uint64_t start_s, end_s;
	char *path;
};

/* The profiles of CPU time in a folder. */
struct intervals {
	struct interval *list;
	size_t nr, cap;
};

static void intervals_fini(struct intervals *intervals)
{
	size_t i;

	for (i = 0; i < intervals->nr; i++)
		free(intervals->list[i].path);
	free(intervals->list);
}

static int interval_add(struct intervals *to, const struct store_name *name, const char *path)
{
	char *copy = strdup(path);

	if (!copy || vec_grow(to->list, to->nr + 1, to->cap, INTERVALS_MAX)) {
		free(copy);
		return copy ? -E2BIG : -ENOMEM;
	}
	to->list[to->nr++] = (struct interval){ name->start, name->start + name->seconds, copy };
	return 0;
}

/* Links, hidden files and what the daemon does not write are passed over. */
static int folder_read(struct intervals *to, const char *path, unsigned int depth)
{
	__cleanup(buf_fini) struct buf below = { .max = PATH_MAX };
	DIR *dir = opendir(path);
	struct store_name name;
	struct dirent *entry;
	struct stat st;
	int err = dir ? 0 : -errno;

	while (!err && (entry = readdir(dir))) {
		if (*entry->d_name == '.' ||
		    fstatat(dirfd(dir), entry->d_name, &st, AT_SYMLINK_NOFOLLOW))
			continue;
		buf_reset(&below);
		buf_printf(&below, "%s/%s", path, entry->d_name);
		err = buf_error(&below);
		if (!err && S_ISREG(st.st_mode) && store_name_parse(&name, entry->d_name) &&
		    name.file == STORE_PPROF)
			err = interval_add(to, &name, below.data);
		else if (!err && S_ISDIR(st.st_mode) && depth)
			err = folder_read(to, below.data, depth - 1);
	}
	if (dir)
		closedir(dir);
	return err;
}

static int by_start(const void *a, const void *b)
{
	const struct interval *one = a, *other = b;

	return one->start_s != other->start_s ? (one->start_s < other->start_s ? -1 : 1)
					      : strcmp(one->path, other->path);
}

static const char *time_text(char text[32], uint64_t seconds)
{
	time_t when = (time_t)seconds;
	struct tm tm;

	*text = 0;
	if (gmtime_r(&when, &tm))
		strftime(text, 32, "%Y-%m-%dT%H:%M:%SZ", &tm);
	return text;
}

/* Adds the intervals that overlap the window. */
static int window_take(struct report_paths *to, const struct intervals *from,
		       const struct report_window *window, const char *folder)
{
	uint64_t start_s = window->at_s,
		 end_s = window->at_s ? start_s + window->for_s : UINT64_MAX;
	uint64_t first_s = UINT64_MAX, last_s = 0, newest_s = 0;
	char first[32], last[32];
	size_t i, before = to->nr;
	int err = 0;

	for (i = 0; i < from->nr; i++)
		newest_s = from->list[i].end_s > newest_s ? from->list[i].end_s : newest_s;
	if (window->last_s)
		start_s = newest_s > window->last_s ? newest_s - window->last_s : 0;
	for (i = 0; i < from->nr && !err; i++) {
		const struct interval *one = &from->list[i];

		if (one->end_s <= start_s || one->start_s >= end_s)
			continue;
		first_s = one->start_s < first_s ? one->start_s : first_s;
		last_s = one->end_s > last_s ? one->end_s : last_s;
		err = to->nr < PROFILE_READ_FILES
			      ? names_add(&to->list, &to->nr, one->path, strlen(one->path))
			      : -E2BIG;
	}
	if (err) {
		log_error("%s: %s", folder,
			  err == -E2BIG ? "more files than the 16384 that are "
					  "read; --last or --at takes some"
					: strerror(-err));
	} else if (to->nr == before) {
		log_error("%s: has no interval of that time; its intervals are from %s to %s",
			  folder, time_text(first, from->list[0].start_s),
			  time_text(last, newest_s));
		err = -ENOENT;
	} else {
		log_info("%s: %zu of %zu profiles, from %s to %s", folder, to->nr - before,
			 from->nr, time_text(first, first_s), time_text(last, last_s));
	}
	return err;
}

static int folder_expand(struct report_paths *to, const char *path,
			 const struct report_window *window)
{
	__cleanup(buf_fini) struct buf name = { .max = NAME_BYTES };
	struct intervals found = { 0 };
	int err = folder_read(&found, path, DEPTH);

	report_file_name(&name, path);
	if (err) {
		log_error("%s: %s", name.data, err == -E2BIG ? "too many files" : strerror(-err));
	} else if (!found.nr) {
		log_error("%s: holds no profile of bpfprof daemon", name.data);
		err = -ENOENT;
	} else {
		qsort(found.list, found.nr, sizeof(*found.list), by_start);
		err = window_take(to, &found, window, name.data);
	}
	intervals_fini(&found);
	return err;
}

int report_paths_expand(struct report_paths *ret, char *const *files, size_t nr,
			const struct report_window *window)
{
	struct stat st;
	size_t i;
	int err = 0;

	*ret = (struct report_paths){ 0 };
	for (i = 0; i < nr && !err; i++) {
		if (strcmp(files[i], "-") && !stat(files[i], &st) && S_ISDIR(st.st_mode))
			err = folder_expand(ret, files[i], window);
		else
			err = names_add(&ret->list, &ret->nr, files[i], strlen(files[i]));
	}
	return err;
}

void report_paths_fini(struct report_paths *paths)
{
	names_free(paths->list, paths->nr);
}

static bool process_is_chosen(const struct profile *profile, const struct profile_process *process,
			      const struct process_choice *choice)
{
	const struct profile_container *stored =
		process->container ? &profile->containers[process->container - 1] : NULL;
	const struct strtab *strings = profile->strings;
	struct container container;
	size_t i;

	if (stored)
		container =
			(struct container){ .id = strtab_get(strings, stored->id),
					    .pod = strtab_get(strings, stored->pod),
					    .namespace = strtab_get(strings, stored->namespace) };
	if (!container_filter_matches(&choice->containers, stored ? &container : NULL))
		return false;
	for (i = 0; i < choice->nr_pids; i++)
		if ((uint32_t)choice->pids[i] ==
		    (choice->containers.nr_pods ? process->pod_pid : process->pid))
			return true;
	return !choice->nr_pids;
}

int report_samples_choose(struct profile *profile, const struct process_choice *choice)
{
	__cleanup(free_mem) bool *chosen = NULL;
	size_t i, nr = 0;

	if (!process_choice_is_set(choice) || !profile->nr_samples)
		return 0;
	chosen = calloc(profile->nr_processes, sizeof(*chosen));
	if (!chosen)
		return -ENOMEM;
	for (i = 0; i < profile->nr_processes; i++)
		chosen[i] = process_is_chosen(profile, &profile->processes[i], choice);
	for (i = 0; i < profile->nr_samples; i++) {
		if (!chosen[profile->samples[i].process])
			continue;
		profile->samples[nr] = profile->samples[i];
		if (profile->call_values)
			memcpy(profile->call_values[nr], profile->call_values[i],
			       sizeof(profile->call_values[i]));
		nr++;
	}
	profile->nr_samples = nr;
	if (nr)
		return 0;
	log_error("no sample of these files is of a process that --pod, --container or -p names");
	return -ENOENT;
}

int report_time(const char *text, uint64_t now_s, uint64_t *ret_s)
{
	static const char *const forms[] = { "%H:%M", "%H:%M:%S", "%Y-%m-%dT%H:%M:%SZ" };
	time_t now = (time_t)now_s, when;
	const char *end;
	struct tm tm;
	size_t i;

	for (i = 0; i < sizeof(forms) / sizeof(forms[0]); i++) {
		gmtime_r(&now, &tm);
		tm.tm_sec = 0;
		end = strptime(text, forms[i], &tm);
		if (end && !*end)
			break;
	}
	if (i == sizeof(forms) / sizeof(forms[0]))
		return -EINVAL;
	when = timegm(&tm);
	if (i < 2 && when > now)
		when -= DAY_S;
	if (when <= 0)
		return -EINVAL;
	*ret_s = (uint64_t)when;
	return 0;
}
