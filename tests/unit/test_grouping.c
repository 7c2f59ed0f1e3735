// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <string.h>

#include "base/strtab.h"
#include "profile/grouping.h"
#include "profile/profile.h"
#include "made_profile.h"

static struct profile *p;

static void setup(void)
{
	p = made_new();
}

static void teardown(void)
{
	made_free(p);
}

TestSuite(grouping, .init = setup, .fini = teardown);

static uint32_t worker(uint32_t pid, const char *task, uint64_t count)
{
	uint32_t at = made_process(p, pid, "ray::Trainer.fi", ""), frame = made_kernel(p, "f", 1);

	if (task)
		p->processes[at].task = p->processes[at].title = strtab_add(p->strings, task);
	made_add(p, at, count, frame);
	return at;
}

static const char *title(uint32_t process)
{
	return strtab_get(p->strings, p->processes[process].title);
}

Test(grouping, by_task_changes_nothing)
{
	uint32_t fit = worker(1, "ray::Trainer.fit", 3), idle = worker(1, "ray::IDLE", 1);

	cr_assert_eq(profile_group(p, PROFILE_BY_TASK), 0);
	cr_expect_str_eq(title(fit), "ray::Trainer.fit");
	cr_expect_str_eq(title(idle), "ray::IDLE");
}

/* The class of the task with the most samples, whichever comes first; tasks stay what they are. */
Test(grouping, by_process)
{
	uint32_t idle = worker(7, "ray::IDLE", 1), other = worker(8, "ray::IDLE", 5);
	uint32_t fit = worker(7, "ray::Trainer.fit", 3), step = worker(8, "ray::Trainer.fit", 2);
	uint32_t map = worker(9, "ray::MapBatches(a.b)", 1), plain = worker(10, NULL, 1);

	cr_assert_eq(profile_group(p, PROFILE_BY_PROCESS), 0);
	cr_expect_str_eq(title(idle), "ray::Trainer-7");
	cr_expect_eq(p->processes[fit].title, p->processes[idle].title);
	cr_expect_str_eq(title(other), "ray::IDLE-8");
	cr_expect_str_eq(title(step), "ray::IDLE-8");
	cr_expect_str_eq(title(map), "ray::MapBatches(a.b)-9");
	cr_expect_str_eq(title(plain), "ray::Trainer.fi-10");
	cr_expect_str_eq(strtab_get(p->strings, p->processes[idle].task), "ray::IDLE");
}

Test(grouping, without_name)
{
	uint32_t at = made_process(p, 5, "", "");

	made_add(p, at, 1, made_kernel(p, "f", 1));
	cr_assert_eq(profile_group(p, PROFILE_BY_PROCESS), 0);
	cr_expect_str_eq(title(at), "process-5");
}

static uint32_t ranked(uint32_t pid, const char *comm, const char *rank, const char *job)
{
	uint32_t at = made_process(p, pid, comm, "");

	p->processes[at].ranks.rank = strtab_add(p->strings, rank);
	p->processes[at].ranks.slurm_job = strtab_add(p->strings, job);
	made_add(p, at, 1, made_kernel(p, "f", 1));
	return at;
}

/* Processes of one rank are one, whatever their names; without a rank each is its own. */
Test(grouping, by_rank)
{
	uint32_t zero = ranked(7, "python3", "0", "77"), loader = ranked(8, "loader", "0", "77");
	uint32_t one = ranked(9, "python3", "1", "77"), none = ranked(10, "bash", "", "78");
	uint32_t fit = worker(11, "ray::Trainer.fit", 1);

	cr_assert_eq(profile_group(p, PROFILE_BY_RANK), 0);
	cr_expect_str_eq(title(zero), "rank 0");
	cr_expect_eq(p->processes[zero].title, p->processes[loader].title);
	cr_expect_str_eq(title(one), "rank 1");
	cr_expect_str_eq(title(none), "bash-10");
	cr_expect_str_eq(title(fit), "ray::Trainer-11");
}

Test(grouping, by_rank_of_several_jobs)
{
	uint32_t zero = ranked(7, "python3", "0", "77"), other = ranked(8, "python3", "0", "78");
	uint32_t jobless = ranked(9, "python3", "0", "");

	cr_assert_eq(profile_group(p, PROFILE_BY_RANK), 0);
	cr_expect_str_eq(title(zero), "job 77 rank 0");
	cr_expect_str_eq(title(other), "job 78 rank 0");
	cr_expect_str_eq(title(jobless), "rank 0");
}

/* srun sets no RANK: its task may also be the launcher of ranks, which have the task's number as well. */
Test(grouping, by_rank_of_tasks)
{
	uint32_t launcher = ranked(7, "torchrun", "", "77"), rank = ranked(8, "python3", "4", "77");
	uint32_t other = ranked(9, "python3", "", "78");

	p->processes[launcher].ranks.slurm_task = p->processes[rank].ranks.slurm_task =
		p->processes[other].ranks.slurm_task = strtab_add(p->strings, "1");
	cr_assert_eq(profile_group(p, PROFILE_BY_RANK), 0);
	cr_expect_str_eq(title(launcher), "job 77 task 1");
	cr_expect_str_eq(title(rank), "job 77 rank 4");
	cr_expect_str_eq(title(other), "job 78 task 1");
}

Test(grouping, by_pod)
{
	uint32_t one = worker(7, NULL, 1), two = worker(8, "ray::f", 1),
		 node = worker(9, "ray::g", 1);
	uint32_t nameless = worker(10, NULL, 1);

	p->processes[one].container = made_container(p, "c1", "ml", "train-0", "ray", NULL);
	p->processes[two].container = made_container(p, "c2", "ml", "train-0", "log", NULL);
	p->processes[nameless].container = made_container(p, "c3", "", "", "db", NULL);
	cr_assert_eq(profile_group(p, PROFILE_BY_POD), 0);
	cr_expect_str_eq(title(one), "ml/train-0");
	cr_expect_eq(p->processes[one].title, p->processes[two].title);
	cr_expect_str_eq(title(node), "ray::g");
	cr_expect_str_eq(title(nameless), "ray::Trainer.fi");
}

/* Processes outside of bpfprof's pid namespace have no pid here, and still are two. */
Test(grouping, outside_of_the_pid_namespace)
{
	uint32_t one = ranked(7, "bash", "", ""), two = ranked(8, "dash", "", "");

	p->processes[one].pid = p->processes[two].pid = 0;
	cr_assert_eq(profile_group(p, PROFILE_BY_PROCESS), 0);
	cr_expect_str_eq(title(one), "bash-0");
	cr_expect_str_eq(title(two), "dash-0");
}
