// SPDX-License-Identifier: Apache-2.0
/*
 * --memory: files of each process that was killed in the interval, beside the sets: what it held at the last look.
 * oom-<UTC>-[<pod>-]<pid>.* if the OOM killer chose it, else kill-... if it held MIN_BYTES.
 */
#include "daemon/daemon.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/log.h"
#include "base/strtab.h"
#include "base/time.h"
#include "daemon/tree.h"
#include "formats/output.h"
#include "memory/growth.h"
#include "memory/monitor.h"
#include "profile/parts.h"

#define MAX_FILES 256 /* that are kept of each of both names: the newest */
#define MIN_BYTES                                                                                  \
	(16ULL                                                                                     \
	 << 20) /* a process with less was not killed for its memory, unless by the OOM killer */
#define MAX_TEXT (1U << 20)
#define POD_BYTES 24 /* of its name */
#define OOM "oom-"
#define KILL "kill-"
#define TIME_BYTES 17 /* 20261129T133712Z, with the NUL */

static const char *const suffixes[] = { ".txt", ".folded", ".pb.gz", ".html" };

bool kills_is_file(const char *name)
{
	size_t skip = strncmp(name, OOM, strlen(OOM)) ? strlen(KILL) : strlen(OOM), len, i;

	if (strncmp(name, OOM, strlen(OOM)) != 0 && strncmp(name, KILL, strlen(KILL)) != 0)
		return false;
	name += skip;
	len = strlen(name);
	if (len < TIME_BYTES || strspn(name, "0123456789") != 8 || name[8] != 'T' ||
	    strspn(name + 9, "0123456789") != 6 || strncmp(name + 15, "Z-", 2) != 0)
		return false;
	for (i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++)
		if (len > strlen(suffixes[i]) &&
		    !strcmp(name + len - strlen(suffixes[i]), suffixes[i]))
			return true;
	return false;
}

/* Without a suffix. The part is of the killed process alone. */
static void name_make(char name[STORE_NAME_MAX], const struct memory_kill *kill, time_t seconds,
		      const struct profile_part *part)
{
	const struct profile *profile = &part->profile;
	const struct profile_process *process = &profile->processes[0];
	const char *pod = "", *namespace = "";
	struct tree_name safe = { .pod = "" };
	char text[TIME_TEXT_BYTES];

	if (process->container) {
		pod = strtab_get(profile->strings, profile->containers[process->container - 1].pod);
		namespace = strtab_get(profile->strings,
				       profile->containers[process->container - 1].namespace);
	}
	if (*pod)
		tree_name_make(&safe, namespace, pod);
	snprintf(name, STORE_NAME_MAX, "%s%s-%.*s%s%u", kill->oom ? OOM : KILL,
		 time_text(text, (uint64_t)seconds, TIME_OF_NAMES), POD_BYTES, safe.pod,
		 *pod ? "-" : "", part->pid);
}

/* text: in place of the profile, for .txt. */
static int file_write(const struct daemon *daemon, const char *name, const char *suffix,
		      const struct profile *profile, const struct buf *text)
{
	struct output_options options = { 0 };
	char temporary[STORE_NAME_MAX], whole[STORE_NAME_MAX + 8];
	int fd = store_file_begin(daemon->store, temporary), err, end;

	if (fd < 0)
		return fd;
	snprintf(whole, sizeof(whole), "%s%s", name, suffix);
	err = file_fill(fd, whole, profile, text, &options);
	end = store_file_end(daemon->store, fd, temporary, err ? NULL : whole);
	return err ? err : end;
}

static int kill_write(struct daemon *daemon, const struct memory_kill *kill,
		      const struct profile *memory, const struct profile_part *part)
{
	uint64_t wall_ns = kill->ns + daemon->ended.offset_ns;
	char name[STORE_NAME_MAX];
	struct buf text;
	size_t i;
	int err;

	name_make(name, kill, (time_t)(wall_ns / NS_PER_SECOND), part);
	buf_init(&text, MAX_TEXT);
	err = memory_kill_text(&text, &daemon->pages, memory, kill);
	for (i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]) && !err; i++)
		err = file_write(daemon, name, suffixes[i], &part->profile, i ? NULL : &text);
	buf_fini(&text);
	return err;
}

/* scandirat() has sorted them: the oldest of each name come first. */
static void files_prune(int folder, struct dirent **list, size_t nr)
{
	size_t first, end, i;

	for (first = 0; first < nr; first = end) {
		for (end = first; end < nr && *list[end]->d_name == *list[first]->d_name; end++)
			;
		for (i = first; end - i > MAX_FILES; i++)
			unlinkat(folder, list[i]->d_name, 0);
	}
}

static int is_file(const struct dirent *entry)
{
	return kills_is_file(entry->d_name);
}

static void kills_prune(const struct daemon *daemon)
{
	int folder = store_fd(daemon->store), nr, i;
	struct dirent **list;

	nr = scandirat(folder, ".", &list, is_file, alphasort);
	if (nr < 0)
		return;
	files_prune(folder, list, (size_t)nr);
	for (i = 0; i < nr; i++)
		free(list[i]);
	free(list);
}

void kills_write(struct daemon *daemon, const struct profile *memory)
{
	const struct memory_kills *kills = &daemon->pages.kills;
	struct profile_parts *parts;
	struct profile_part part;
	size_t i, index;
	int err;

	if (!kills->nr)
		return;
	err = profile_parts_new(&parts, memory, PROFILE_CUT_PROCESSES);
	for (i = 0; i < kills->nr && !err; i++) {
		if (!profile_parts_find_process(parts, kills->list[i].key.pid, &index))
			continue; /* it held nothing */
		if (!kills->list[i].oom && kills->list[i].held_bytes < MIN_BYTES)
			continue;
		err = profile_part_make(parts, index, &part);
		if (err)
			break;
		err = kill_write(daemon, &kills->list[i], memory, &part);
		profile_part_fini(&part);
	}
	if (err)
		log_warn("%s: files of a killed process not written: %s", daemon->output,
			 strerror(-err));
	profile_parts_free(parts);
	kills_prune(daemon);
}
