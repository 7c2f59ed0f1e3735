// SPDX-License-Identifier: Apache-2.0
#include "ray/ray_role.h"

#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "proc/title.h"
#include "proc/usage.h"

#define JOINED_THREAD "worker.io\n" /* the io service of a core worker (ray:src/ray/core_worker) */
#define MAX_THREADS 1024
#define MAX_WORDS 64

static const char *const role_names[RAY_NR_ROLES] = {
	[RAY_ROLE_NONE] = "",	      [RAY_ROLE_DRIVER] = "driver",
	[RAY_ROLE_WORKER] = "worker", [RAY_ROLE_RAYLET] = "raylet",
	[RAY_ROLE_GCS] = "gcs",	      [RAY_ROLE_DASHBOARD] = "dashboard",
	[RAY_ROLE_AGENT] = "agent",
};

/* Ends of the path of a program or script. */
static const struct {
	const char *end;
	enum ray_role role;
} programs[] = {
	{ "/raylet/raylet", RAY_ROLE_RAYLET },
	{ "/gcs/gcs_server", RAY_ROLE_GCS },
	{ "/ray/dashboard/dashboard.py", RAY_ROLE_DASHBOARD },
	{ "/ray/dashboard/agent.py", RAY_ROLE_AGENT },
	{ "/ray/_private/runtime_env/agent/main.py", RAY_ROLE_AGENT },
	{ "/ray/_private/workers/default_worker.py", RAY_ROLE_WORKER },
};

/* Titles of processes that are no workers. */
static const struct {
	const char *start;
	enum ray_role role;
} titles[] = {
	{ "ray::DashboardAgent", RAY_ROLE_AGENT },
	{ "ray::RuntimeEnvAgent", RAY_ROLE_AGENT },
	{ "ray::DashboardHead", RAY_ROLE_DASHBOARD },
	{ "ray-dashboard-", RAY_ROLE_DASHBOARD },
	{ TITLE_PREFIX, RAY_ROLE_WORKER },
};

const char *ray_role_name(enum ray_role role)
{
	return role < RAY_NR_ROLES ? role_names[role] : "";
}

/* The next argument, or NULL; *at moves behind it. */
static const char *word_next(const char *argv, size_t len, size_t *at, size_t *ret_len)
{
	const char *word = argv + *at;

	if (*at >= len)
		return NULL;
	*ret_len = strnlen(word, len - *at);
	*at += *ret_len + 1;
	return word;
}

static bool ends_with(const char *word, size_t len, const char *end)
{
	size_t end_len = strlen(end);

	return len >= end_len && !memcmp(word + len - end_len, end, end_len);
}

enum ray_role ray_role_of_argv(const char *argv, size_t len)
{
	size_t at = 0, word_len, i, nr;
	const char *word;

	for (i = 0; i < sizeof(titles) / sizeof(titles[0]); i++)
		if (strnlen(argv, len) >= strlen(titles[i].start) &&
		    !memcmp(argv, titles[i].start, strlen(titles[i].start)))
			return titles[i].role;
	/* It is the program itself, or the script after Python and its options. */
	for (nr = 0; nr < 6 && (word = word_next(argv, len, &at, &word_len)); nr++)
		for (i = 0; i < sizeof(programs) / sizeof(programs[0]); i++)
			if (ends_with(word, word_len, programs[i].end))
				return programs[i].role;
	return RAY_ROLE_NONE;
}

static void script_copy(char *dst, size_t cap, const char *word, size_t len)
{
	size_t i, start = 0;

	for (i = 0; i + 1 < len; i++)
		if (word[i] == '/')
			start = i + 1;
	word += start;
	len -= start;
	if (len > cap - 1)
		len = cap - 1;
	for (i = 0; i < len; i++)
		dst[i] = (unsigned char)word[i] < 0x20 || word[i] == 0x7f ? '?' : word[i];
	dst[len] = 0;
}

int ray_role_script(char *dst, size_t cap, const char *argv, size_t len)
{
	size_t at = 0, word_len, nr;
	const char *word = word_next(argv, len, &at, &word_len);

	for (nr = 0; word && nr < MAX_WORDS; nr++) {
		word = word_next(argv, len, &at, &word_len);
		if (!word)
			break;
		if (word_len && word[0] != '-') {
			script_copy(dst, cap, word, word_len);
			return 0;
		}
		if (word_len < 2)
			continue;
		/*
		 * -W and -X take a value. In a word of several letters the last one decides: -um.
		 */
		if (word[1] != '-' && word[word_len - 1] == 'c') {
			script_copy(dst, cap, "-c", 2);
			return 0;
		}
		if (word_len == 2 && (word[1] == 'W' || word[1] == 'X'))
			word = word_next(argv, len, &at, &word_len);
	}
	return -ENOENT;
}

bool ray_role_has_joined(pid_t pid)
{
	char path[64], name[64], comm[32];
	struct dirent *entry;
	bool joined = false;
	size_t nr = 0;
	DIR *dir;

	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	dir = opendir(path);
	while (dir && !joined && nr++ < MAX_THREADS && (entry = readdir(dir))) {
		if (entry->d_name[0] == '.')
			continue;
		snprintf(name, sizeof(name), "task/%.20s/comm", entry->d_name);
		joined = proc_file_read(comm, sizeof(comm), pid, name) > 0 &&
			 !strcmp(comm, JOINED_THREAD);
	}
	if (dir)
		closedir(dir);
	return joined;
}
