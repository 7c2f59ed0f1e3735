// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "proc/ranks.h"

#define PIECE(text) (text), sizeof(text)

/* The pieces come in buffers of their size, so that the address sanitizer sees what is read beyond. */
static size_t take(struct ranks_reader *reader, const char *text, size_t len, bool last)
{
	char *copy = malloc(len ? len : 1);
	size_t done;

	memcpy(copy, text, len);
	done = ranks_take(reader, copy, len, last);
	free(copy);
	return done;
}

static struct ranks whole(const char *text, size_t len)
{
	struct ranks_reader reader = { 0 };

	cr_expect_eq(take(&reader, text, len, true), len);
	return reader.ranks;
}

Test(ranks, torchrun)
{
	struct ranks r =
		whole(PIECE("PATH=/bin\0RANK=3\0LOCAL_RANK=1\0WORLD_SIZE=8\0TOKEN=secret"));

	cr_expect_str_eq(r.rank, "3");
	cr_expect_str_eq(r.local_rank, "1");
	cr_expect_str_eq(r.world_size, "8");
	cr_expect_str_eq(r.slurm_job, "");
	cr_expect(ranks_any(&r));
}

Test(ranks, slurm)
{
	struct ranks r = whole(PIECE("SLURM_JOB_ID=4711_2\0SLURM_NODEID=5\0SLURM_PROCID=12"));

	cr_expect_str_eq(r.slurm_job, "4711_2");
	cr_expect_str_eq(r.slurm_node, "5");
	cr_expect_str_eq(r.slurm_task, "12");
	cr_expect_str_eq(r.rank, "");
}

/* Names that resemble the variables, and values that are no plain words. */
Test(ranks, nothing)
{
	static const struct {
		const char *text;
		size_t len;
	} all[] = {
		{ PIECE("") },
		{ PIECE("RANK") },
		{ PIECE("RANK=") },
		{ PIECE("XRANK=1\0RANK1=1\0rank=1\0 RANK=1") },
		{ PIECE("GLOBAL_RANK=1\0=RANK=1") },
		{ PIECE("RANK=1 2") },
		{ PIECE("RANK=1\n2") },
		{ PIECE("RANK=\033[2J") },
		{ PIECE("RANK=\xff") },
		{ PIECE("RANK=/etc/passwd") },
		{ PIECE("RANK="
			"0123456789012345678901234567890123456789012345678901234567890123") },
		{ PIECE("TOKEN=RANK=1\0MORE=\nRANK=2") },
	};
	struct ranks r;
	size_t i;

	for (i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		r = whole(all[i].text, all[i].len);
		cr_expect(!ranks_any(&r), "%s", all[i].text);
	}
}

Test(ranks, longest_value)
{
	struct ranks r = whole(
		PIECE("RANK=012345678901234567890123456789012345678901234567890123456789012"));

	cr_expect_eq(strlen(r.rank), RANKS_TEXT_MAX - 1);
}

/* The first of several counts, as in getenv() of the loader. */
Test(ranks, first_one_counts)
{
	struct ranks r = whole(PIECE("RANK=1\0RANK=2"));

	cr_expect_str_eq(r.rank, "1");
}

/* Every cut, and every size of the pieces, gives the same result. */
Test(ranks, pieces)
{
	static const char text[] = "A=b\0RANK=12\0C=d\0WORLD_SIZE=16\0E=f\0SLURM_JOB_ID=77";
	struct ranks_reader reader;
	size_t size, off, len;

	for (size = 16; size <= sizeof(text); size++) {
		memset(&reader, 0, sizeof(reader));
		for (off = 0; off < sizeof(text);) {
			len = sizeof(text) - off < size ? sizeof(text) - off : size;
			off += take(&reader, text + off, len, off + len == sizeof(text));
		}
		cr_expect_str_eq(reader.ranks.rank, "12", "%zu", size);
		cr_expect_str_eq(reader.ranks.world_size, "16", "%zu", size);
		cr_expect_str_eq(reader.ranks.slurm_job, "77", "%zu", size);
	}
}

/* One longer than a piece is passed over, also what looks like a variable at the next piece's start. */
Test(ranks, longer_than_a_piece)
{
	struct ranks_reader reader = { 0 };

	cr_expect_eq(take(&reader, "TOKEN=aaaa", 10, false), 10);
	cr_expect_eq(take(&reader, "RANK=1bbbb", 10, false), 10);
	cr_expect_eq(take(&reader, PIECE("RANK=2\0LOCAL_RANK=3"), true), 20);
	cr_expect_str_eq(reader.ranks.rank, "");
	cr_expect_str_eq(reader.ranks.local_rank, "3");
}

/* The last one may lack its NUL, and pieces may be empty. */
Test(ranks, cut_at_the_end)
{
	struct ranks_reader reader = { 0 };

	cr_expect_eq(take(&reader, "RANK=1", 6, true), 6);
	cr_expect_eq(take(&reader, "", 0, true), 0);
	cr_expect_str_eq(reader.ranks.rank, "1");
}

Test(ranks, cgroups)
{
	static const struct {
		const char *text, *job;
	} all[] = {
		{ "0::/system.slice/slurmstepd.scope/job_123/step_0/user/task_0\n", "123" },
		{ "0::/system.slice/node1_slurmstepd.scope/job_9/step_batch\n", "9" },
		{ "12:pids:/x\n4:memory:/slurm/uid_1000/job_55/step_extern\n0::/\n", "55" },
		{ "4:memory:/slurm_node7/uid_0/job_56\n", "56" },
		{ "4:memory:/slurm/uid_0/job_57", "57" },
		{ "0::/user.slice/job_1/step_0\n", "" },
		{ "0::/slurmx/job_1\n", "" },
		{ "0::/xslurmstepd.scope/job_1\n", "" },
		{ "0::/job_1/slurm\n", "" },
		{ "0::/slurm/uid_0/job_\n", "" },
		{ "0::/slurm/uid_0/job_1;2\n", "" },
		{ "0::/slurm/uid_0\njob_5\n", "" },
		{ "slurm", "" },
		{ "", "" },
	};
	struct ranks r;
	size_t i;

	for (i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		r = (struct ranks){ 0 };
		ranks_take_cgroup(&r, all[i].text);
		cr_expect_str_eq(r.slurm_job, all[i].job, "%s", all[i].text);
	}
}

Test(ranks, environment_before_cgroup)
{
	struct ranks r = whole(PIECE("SLURM_JOB_ID=1"));

	ranks_take_cgroup(&r, "0::/slurm/uid_0/job_2\n");
	cr_expect_str_eq(r.slurm_job, "1");
}
