// SPDX-License-Identifier: Apache-2.0
/* fuzz: max_len=1024 */
#include "proc/ranks.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#define NR RANKS_NR

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static const char *const names[NR] = { "RANK=",		"LOCAL_RANK=",	 "WORLD_SIZE=",
				       "SLURM_JOB_ID=", "SLURM_NODEID=", "SLURM_PROCID=" };

static bool is_plain(const char *text, size_t len)
{
	static const char plain[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "0123456789_-+.:";
	size_t i;

	for (i = 0; i < len; i++)
		if (!text[i] || !strchr(plain, text[i]))
			return false;
	return len < RANKS_TEXT_MAX;
}

/* The first entry that says something, of those that are whole in pieces of that size. */
static void expected(char dst[RANKS_TEXT_MAX], const char *name, const char *text, size_t size,
		     size_t piece)
{
	size_t at, len, head = strlen(name);
	bool nul;

	memset(dst, 0, RANKS_TEXT_MAX);
	for (at = 0; at < size && !*dst; at += len + 1) {
		len = strnlen(text + at, size - at);
		nul = at + len < size;
		if (len + nul > piece || len <= head || memcmp(text + at, name, head) ||
		    !is_plain(text + at + head, len - head))
			continue;
		memcpy(dst, text + at + head, len - head);
	}
}

static struct ranks environment_read(const char *text, size_t size, size_t piece)
{
	struct ranks_reader reader = { 0 };
	size_t at = 0, len, done;
	char *copy;

	while (at < size) {
		len = size - at < piece ? size - at : piece;
		copy = malloc(len);
		if (!copy)
			abort();
		memcpy(copy, text + at, len);
		done = ranks_take(&reader, copy, len, at + len == size);
		free(copy);
		if (!done || done > len)
			abort();
		at += done;
	}
	return reader.ranks;
}

static void environment_try(const char *text, size_t size, size_t piece)
{
	struct ranks ranks = environment_read(text, size, piece);
	const char *fields[NR] = { ranks.rank,	    ranks.local_rank, ranks.world_size,
				   ranks.slurm_job, ranks.slurm_node, ranks.slurm_task };
	char wanted[RANKS_TEXT_MAX];
	bool any = false;
	size_t i;

	for (i = 0; i < NR; i++) {
		expected(wanted, names[i], text, size, piece);
		if (memcmp(fields[i], wanted, strlen(wanted) + 1))
			abort();
		any |= *wanted != 0;
	}
	if (any != ranks_any(&ranks))
		abort();
}

/* A number of a job stands in the text, behind a group of Slurm's in the same line. */
static void cgroup_try(const char *text)
{
	char part[RANKS_TEXT_MAX + 8] = "/job_";
	struct ranks ranks = { 0 }, known = { .slurm_job = "7" };
	const char *slurm, *at, *line;

	ranks_take_cgroup(&known, text);
	if (strcmp(known.slurm_job, "7"))
		abort();
	ranks_take_cgroup(&ranks, text);
	if (ranks.rank[0] || ranks.local_rank[0] || ranks.world_size[0] || ranks.slurm_node[0] ||
	    ranks.slurm_task[0] || !is_plain(ranks.slurm_job, strlen(ranks.slurm_job)))
		abort();
	if (!ranks.slurm_job[0])
		return;
	memcpy(part + 5, ranks.slurm_job, strlen(ranks.slurm_job) + 1);
	for (at = strstr(text, part); at; at = strstr(at + 1, part)) {
		line = at;
		while (line > text && line[-1] != '\n')
			line--;
		slurm = strstr(line, "slurm");
		if (slurm && slurm < at && strchr("/\n", at[strlen(part)]))
			return;
	}
	abort();
}

/* The first byte: how large the pieces are. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	size_t piece = size ? 1 + data[0] : 1;
	char *text = malloc(size + 1);

	if (!text)
		abort();
	if (size)
		memcpy(text, data + 1, --size);
	text[size] = 0;
	environment_try(text, size, piece);
	environment_try(text, size, size + 1);
	cgroup_try(text);
	free(text);
	return 0;
}
