// SPDX-License-Identifier: Apache-2.0
#include "cmd/report_store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "base/strtab.h"
#include "base/time.h"
#include "base/vec.h"
#include "capture/process_choice.h"
#include "cmd/report_job.h"
#include "container/containers.h"
#include "daemon/store.h"
#include "formats/profile_read.h"
#include "formats/seconds_file.h"

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

static int path_add(struct report_paths *to, const char *path)
{
	struct report_path one = { .path = strdup(path) };

	if (!one.path || vec_grow(to->list, to->nr + 1, to->cap, VEC_BOUNDED)) {
		free(one.path);
		return -ENOMEM;
	}
	to->list[to->nr++] = one;
	return 0;
}

/* Only the seconds from start_s up to end_s of the interval that was added last are wanted. */
static int path_cut(struct report_paths *to, const struct interval *interval, uint64_t start_s,
		    uint64_t end_s)
{
	const char *slash = strrchr(interval->path, '/');
	struct report_path *path = &to->list[to->nr - 1];
	char set[STORE_NAME_MAX], name[STORE_NAME_MAX];
	struct store_name of;

	if (!slash || !store_name_parse(&of, slash + 1))
		return 0;
	store_name_make(set, of.start, of.seconds, of.copy);
	store_file_name(name, set, STORE_SECONDS_GZ);
	path->from_s = start_s;
	path->until_s = end_s;
	if (asprintf(&path->seconds, "%.*s/%s", (int)(slash - interval->path), interval->path,
		     name) >= 0)
		return 0;
	path->seconds = NULL;
	return -ENOMEM;
}

static int interval_take(struct report_paths *to, const struct interval *interval,
			 const struct report_window *window, uint64_t start_s, uint64_t end_s)
{
	int err;

	if (to->nr >= PROFILE_READ_FILES)
		return -E2BIG;
	err = path_add(to, interval->path);
	if (err || (window->at_s && !window->for_s) ||
	    (interval->start_s >= start_s && interval->end_s <= end_s))
		return err;
	return path_cut(to, interval, start_s, end_s);
}

/* Adds the intervals that overlap the window. */
static int window_take(struct report_paths *to, const struct intervals *from,
		       const struct report_window *window, const char *folder)
{
	uint64_t start_s = window->at_s,
		 end_s = window->at_s ? start_s + (window->for_s ? window->for_s : 1) : UINT64_MAX;
	uint64_t first_s = UINT64_MAX, last_s = 0, newest_s = 0;
	char first[TIME_TEXT_BYTES], last[TIME_TEXT_BYTES];
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
		err = interval_take(to, one, window, start_s, end_s);
	}
	if (err) {
		log_error("%s: %s", folder,
			  err == -E2BIG ? "more files than the 16384 that are "
					  "read; --last or --at takes some"
					: strerror(-err));
	} else if (to->nr == before) {
		log_error("%s: has no interval of that time; its intervals are from %s to %s",
			  folder, time_text(first, from->list[0].start_s, TIME_OF_OPTIONS),
			  time_text(last, newest_s, TIME_OF_OPTIONS));
		err = -ENOENT;
	} else {
		if (window->for_s || window->last_s) {
			first_s = first_s < start_s ? start_s : first_s;
			last_s = last_s > end_s ? end_s : last_s;
		}
		log_info("%s: %zu of %zu profiles, from %s to %s", folder, to->nr - before,
			 from->nr, time_text(first, first_s, TIME_OF_OPTIONS),
			 time_text(last, last_s, TIME_OF_OPTIONS));
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
			err = path_add(ret, files[i]);
	}
	return err;
}

static bool cut_read(const struct report_path *path, int fd, struct seconds_cut *ret)
{
	__cleanup(buf_fini) struct buf data = { .max = PROFILE_READ_FILE_BYTES };
	__cleanup(buf_fini) struct buf name = { .max = NAME_BYTES }, why = { .max = NAME_BYTES };
	int err = fd < 0 ? fd : report_load_fd(&data, fd);

	*ret = (struct seconds_cut){ .from_s = path->from_s, .until_s = path->until_s };
	if (!err)
		err = seconds_read(ret, data.len ? data.data : "", data.len, &why);
	if (!err)
		return true;
	report_file_name(&name, path->seconds);
	log_warn("%s: %s; the whole interval is taken", name.data,
		 why.len ? why.data : strerror(-err));
	seconds_cut_fini(ret);
	return false;
}

bool report_cut_begin(struct report_paths *paths, const struct report_path *path,
		      struct seconds_cut *ret)
{
	__cleanup(close_fd) int fd = -1;
	struct stat st;

	if (!path->seconds)
		return false;
	/* A pipe would wait for its writer. */
	fd = lstat(path->seconds, &st) || S_ISREG(st.st_mode) ? report_open(path->seconds)
							      : -ENOENT;
	if (fd != -ENOENT)
		return cut_read(path, fd, ret);
	paths->nr_without++;
	return false;
}

void report_cut_end(struct report_paths *paths, const struct report_path *path,
		    struct seconds_cut *cut)
{
	__cleanup(buf_fini) struct buf name = { .max = NAME_BYTES };

	paths->nr_left_out += cut->nr_left_out;
	if (cut->foreign) {
		report_file_name(&name, path->seconds);
		log_warn("%s: the seconds of another profile; the whole interval is taken",
			 name.data);
	}
	seconds_cut_fini(cut);
}

void report_paths_end(const struct report_paths *paths)
{
	if (paths->nr_without)
		log_warn("%zu profiles reach beyond that time, and are taken whole: they have no "
			 "seconds (daemon --wall, or an earlier version)",
			 paths->nr_without);
	if (paths->nr_left_out)
		log_warn("%" PRIu64 " samples of intervals that reach beyond that time have no "
			 "second, and are left out",
			 paths->nr_left_out);
}

void report_paths_fini(struct report_paths *paths)
{
	size_t i;

	for (i = 0; i < paths->nr; i++) {
		free(paths->list[i].path);
		free(paths->list[i].seconds);
	}
	free(paths->list);
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
