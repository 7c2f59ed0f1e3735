// SPDX-License-Identifier: Apache-2.0
#include "tasks/task_group.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

TestSuite(task_group);

#define MAX 64

static int compare_text(const void *a, const void *b)
{
	return strcmp(a, b);
}

/* The groups of names, which have commas between them, with how many each has, in order of their text. */
static void groups(const char *names, char *ret, size_t cap)
{
	struct task_member members[MAX];
	char copy[1024], text[64], lines[MAX][80], *name, *rest = copy;
	size_t nr = 0, i, nr_lines = 0;

	snprintf(copy, sizeof(copy), "%s", names);
	while ((name = strsep(&rest, ","))) {
		members[nr] = (struct task_member){ .name = name, .index = nr };
		nr++;
	}
	task_groups_find(members, nr);
	for (i = 0; i < nr; i += members[i].nr) {
		cr_assert_gt(members[i].nr, 0);
		task_group_text(text, sizeof(text), members[i].name, members[i].numbers);
		snprintf(lines[nr_lines++], sizeof(lines[0]), "%s*%u", text, members[i].nr);
	}
	cr_assert_eq(i, nr);
	qsort(lines, nr_lines, sizeof(lines[0]), compare_text);
	for (i = 0, *ret = 0; i < nr_lines; i++)
		snprintf(ret + strlen(ret), cap - strlen(ret), "%s%s", i ? " " : "", lines[i]);
}

Test(task_group, names)
{
	static const struct {
		const char *names, *groups;
	} cases[] = {
		{ "part-0,part-1", "part-#*2" },
		{ "rank-3,rank-12,rank-007", "rank-#*3" },
		{ "part-0", "part-0*1" },
		{ "part-0,part-0", "part-0*2" },
		{ "shard[0],shard[1],shard[1]", "shard[#]*3" },
		{ "a-1/2,a-3/4,b-1/2", "a-#/#*2 b-1/2*1" },
		{ "load 1.5,load 2.25", "load #.#*2" },
		{ "7,8", "#*2" },
		{ "part-0,part-,part", "part*1 part-*1 part-0*1" },
		/* Functions of their own. */
		{ "conv2d,conv3d", "conv2d*1 conv3d*1" },
		{ "conv1d,conv2d,conv3d,conv4d,conv5d",
		  "conv1d*1 conv2d*1 conv3d*1 conv4d*1 conv5d*1" },
		{ "step1,step2", "step1*1 step2*1" },
		{ "stage_1,stage_2,stage_3", "stage_1*1 stage_2*1 stage_3*1" },
		{ "resnet18,resnet34,resnet50,resnet101,resnet152",
		  "resnet101*1 resnet152*1 resnet18*1 resnet34*1 resnet50*1" },
		{ "sha1,sha224,sha256,sha384,sha512",
		  "sha1*1 sha224*1 sha256*1 sha384*1 sha512*1" },
		{ "part-1a,part-2a", "part-1a*1 part-2a*1" },
		{ "1\xc3\xa9tape-,2\xc3\xa9tape-", "1\xc3\xa9tape-*1 2\xc3\xa9tape-*1" },
		/* Parts that look like functions: many, close to each other. */
		{ "part_0,part_1,part_2,part_3", "part_#*4" },
		{ "part0,part1,part2,part3,other", "other*1 part#*4" },
		{ "part0,part1,part2,part2,part2", "part0*1 part1*1 part2*3" },
		{ "Worker.run_0,Worker.run_9,Worker.run_33,Worker.run_60", "Worker.run_#*4" },
		{ "0_part,1_part,2_part,3_part", "#_part*4" },
		/* One of both kinds. */
		{ "step1-0,step1-1,step2-0,step2-1", "step1-#*2 step2-#*2" },
		{ "step1-0,step2-0,step3-0,step4-1,step4-2", "step#-#*5" },
		{ "conv2d-0,conv2d-1,conv3d-0,conv3d-1", "conv2d-#*2 conv3d-#*2" },
		/* Numbers past all bounds. */
		{ "x-99999999999999999999999,x-1", "x-#*2" },
		{ "x_99999999999999999999999,x_1,x_2,x_3,x_4",
		  "x_1*1 x_2*1 x_3*1 x_4*1 x_99999999999999999999999*1" },
		{ "", "*1" },
	};
	char text[1024];
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		groups(cases[i].names, text, sizeof(text));
		cr_expect_str_eq(text, cases[i].groups, "%s: %s", cases[i].names, text);
	}
	task_groups_find(NULL, 0);
}

Test(task_group, text)
{
	char text[6];

	task_group_text(text, sizeof(text), "part-12345", TASK_NUMBERS_APART);
	cr_expect_str_eq(text, "part-");
	task_group_text(text, sizeof(text), "p-12345", TASK_NUMBERS_APART);
	cr_expect_str_eq(text, "p-#");
	task_group_text(text, sizeof(text), "p-12345", TASK_NUMBERS_NONE);
	cr_expect_str_eq(text, "p-123");
	task_group_text(text, 1, "p", TASK_NUMBERS_ALL);
	cr_expect_str_eq(text, "");
}
