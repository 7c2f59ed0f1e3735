// SPDX-License-Identifier: Apache-2.0
#include "proc/ranks.h"

#include <string.h>

const struct ranks_variable ranks_variables[RANKS_NR] = {
	{ "RANK", "rank" },
	{ "LOCAL_RANK", "local_rank" },
	{ "WORLD_SIZE", "world_size" },
	{ "SLURM_JOB_ID", "slurm_job" },
	{ "SLURM_NODEID", "slurm_node" },
	{ "SLURM_PROCID", "slurm_task" },
};

static bool is_plain(char c)
{
	return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
	       (c && strchr("_-+.:", c));
}

/* Sets a field. A value that is too long or no plain word is ignored. */
static void field_set(char field[RANKS_TEXT_MAX], const char *value, size_t len)
{
	size_t i;

	if (field[0] || len >= RANKS_TEXT_MAX)
		return;
	for (i = 0; i < len; i++)
		if (!is_plain(value[i]))
			return;
	memcpy(field, value, len);
	field[len] = 0;
}

static void entry_take(struct ranks *ranks, const char *entry, size_t len)
{
	size_t i, name;

	for (i = 0; i < RANKS_NR; i++) {
		name = strlen(ranks_variables[i].name);
		if (len > name && entry[name] == '=' &&
		    !memcmp(entry, ranks_variables[i].name, name))
			field_set(ranks->texts[i], entry + name + 1, len - name - 1);
	}
}

size_t ranks_take(struct ranks_reader *reader, const char *piece, size_t len, bool last)
{
	size_t done = 0, entry;
	const char *end;

	while (done < len) {
		end = memchr(piece + done, 0, len - done);
		if (!end && !last)
			break;
		entry = (end ? (size_t)(end - piece) : len) - done;
		if (!reader->in_long)
			entry_take(&reader->ranks, piece + done, entry);
		reader->in_long = false;
		done += entry + (end != NULL);
	}
	if (done || !len)
		return done;
	reader->in_long = true;
	return len;
}

static bool starts(const char *text, size_t len, const char *with)
{
	return len >= strlen(with) && !memcmp(text, with, strlen(with));
}

/*
 * Is it a group of Slurm? Slurm has /slurm/uid_N/job_N/step_N (cgroup v1; slurm_HOST if a machine
 * has several slurmd) and /system.slice/slurmstepd.scope/job_N/step_N (v2; HOST_slurmstepd.scope).
 */
static bool is_slurm(const char *part, size_t len)
{
	static const char scope[] = "slurmstepd.scope";
	const size_t tail = sizeof(scope) - 1;

	if (starts(part, len, "slurm") && (len == 5 || part[5] == '_'))
		return true;
	return len >= tail && !memcmp(part + len - tail, scope, tail) &&
	       (len == tail || part[len - tail - 1] == '_');
}

static void path_take(struct ranks *ranks, const char *path, const char *end)
{
	static const char job[] = "job_";
	bool slurm = false;
	size_t len;

	for (; path < end; path += len + 1) {
		len = 0;
		while (path + len < end && path[len] != '/')
			len++;
		if (slurm && starts(path, len, job)) {
			field_set(ranks->slurm_job, path + sizeof(job) - 1,
				  len - (sizeof(job) - 1));
			return;
		}
		slurm |= is_slurm(path, len);
	}
}

void ranks_take_cgroup(struct ranks *ranks, const char *text)
{
	const char *end, *path;

	for (; *text; text = *end ? end + 1 : end) {
		end = text + strcspn(text, "\n");
		path = memchr(text, '/', (size_t)(end - text));
		if (path)
			path_take(ranks, path, end);
	}
}

bool ranks_any(const struct ranks *ranks)
{
	size_t i;

	for (i = 0; i < RANKS_NR; i++)
		if (ranks->texts[i][0])
			return true;
	return false;
}
