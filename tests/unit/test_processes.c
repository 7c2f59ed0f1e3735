// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "proc/processes.h"
#include "proc/ranks.h"
#include "proc/title.h"

/* The state that other rooms keep for a process, for these tests. */
struct process_pythons {
	char text[3];
};

struct process_owner {
	char *text;
	uint64_t nr;
};

static unsigned int nr_cleared;

static void owner_clear(void *state)
{
	nr_cleared++;
	free(((struct process_owner *)state)->text);
}

static const struct process_part parts[] = {
	{ PROCESS_PART(pythons), .follows_mappings = true },
	{ PROCESS_PART(owner), .clear = owner_clear },
};

#define PAGE 4096ULL

static struct processes *processes;
static unsigned int nr_retired;
static uint32_t last_retired;

/* The old incarnation is retired: the state of its tables is still there. */
static void on_retire(void *arg, struct process *process)
{
	cr_assert_eq(arg, &nr_retired);
	nr_retired++;
	last_retired = process->pid;
	cr_assert_not_null(process->owner);
}

static void setup(void)
{
	nr_retired = 0;
	nr_cleared = 0;
	cr_assert_eq(processes_new(&processes, parts, 2, on_retire, &nr_retired), 0);
}

static void teardown(void)
{
	processes_free(processes);
	processes = NULL;
}

TestSuite(processes, .init = setup, .fini = teardown);

static struct bpfprof_task_id task_of(uint32_t pid, uint64_t start_ns, uint64_t exec_id)
{
	return (struct bpfprof_task_id){
		.pid = pid, .tid = pid, .start_ns = start_ns, .exec_id = exec_id
	};
}

static struct process *get(uint32_t pid, uint64_t start_ns, uint64_t exec_id)
{
	struct bpfprof_task_id task = task_of(pid, start_ns, exec_id);

	return processes_get(processes, &task);
}

/* nr mappings of one page with a page between them. */
static void map(struct process *process, size_t nr, uint64_t image)
{
	struct process_mapping *mappings = calloc(nr + 1, sizeof(*mappings));

	cr_assert(mappings);
	for (size_t i = 0; i < nr; i++)
		mappings[i] = (struct process_mapping){ .start = 2 * i * PAGE,
							.end = (2 * i + 1) * PAGE,
							.image = image };
	cr_expect(process_mappings_set(process, mappings, nr));
	free(mappings);
}

Test(processes, incarnations)
{
	struct process *process = get(7, 100, 1);

	cr_assert(process);
	cr_expect_eq(get(7, 100, 1), process);
	cr_expect_eq(processes_find(processes, 7), process);
	cr_expect_null(processes_find(processes, 8));
	cr_expect_eq(nr_retired, 0);
	map(process, 3, 5);
	process->read_ns = 50;
	process->reread_ns = 60;

	/* exec */
	cr_assert_eq(get(7, 100, 2), process);
	cr_expect_eq(nr_retired, 1);
	cr_expect_not(process->mappings_known);
	cr_expect_null(process_mapping_find(process, 0));
	cr_expect(process->read_ns == 0 && process->reread_ns == 0);

	/* Another process under the same number, also when its counter of execs is lower. */
	map(process, 3, 5);
	cr_assert_eq(get(7, 200, 1), process);
	cr_expect_eq(nr_retired, 2);
	cr_expect_not(process->mappings_known);
	cr_expect_eq(process->exec_id, 1);
	cr_expect_eq(processes_count(processes), 1);

	/* A late record from before changes nothing. */
	map(process, 3, 5);
	cr_expect_null(get(7, 100, 9));
	cr_expect_null(get(7, 200, 0));
	cr_expect_eq(nr_retired, 2);
	cr_expect(process->mappings_known);
	cr_expect_eq(process->start_ns, 200);
}

Test(processes, fork_copies)
{
	struct bpfprof_task_id parent = task_of(10, 1, 1), child = task_of(11, 2, 1);
	struct bpfprof_task_id other = task_of(10, 1, 2), stranger = task_of(99, 1, 1);
	struct process *from, *to;

	processes_fork(processes, &parent, &child);
	cr_expect_eq(processes_count(processes), 0, "nothing is known of the parent");
	from = get(10, 1, 1);
	processes_fork(processes, &parent, &child);
	cr_expect_null(processes_find(processes, 11), "the parent's mappings are not known");
	map(from, 5, 3);
	processes_fork(processes, &stranger, &child);
	processes_fork(processes, &other, &child);
	cr_expect_null(processes_find(processes, 11), "another incarnation of the parent");

	processes_fork(processes, &parent, &child);
	to = processes_find(processes, 11);
	cr_assert(to && to->mappings_known);
	cr_expect_eq(to->nr_mappings, 5);
	cr_expect_eq(process_mapping_find(to, 8 * PAGE)->image, 3);
	cr_expect_neq(to->mappings, from->mappings);
	/* The child's are its own from here on. */
	map(to, 2, 4);
	cr_expect_eq(from->nr_mappings, 5);
	/* Facts that were read for the child are not overwritten. */
	processes_fork(processes, &parent, &child);
	cr_expect_eq(to->nr_mappings, 2);
	/* A process cannot be its own child, whatever a record says. */
	child = task_of(10, 1, 1);
	processes_fork(processes, &parent, &child);
	cr_expect_eq(from->nr_mappings, 5);
}

/* The last good title stays, a child has its parent's, another program none. */
Test(processes, dear_reads)
{
	struct process *p = get(5, 100, 1);

	process_read_took(p, 10000000, false);
	cr_expect_eq(p->read_cost_ns, 0, "one read alone may be dear by chance");
	process_read_took(p, 50000, false);
	cr_expect_eq(p->read_cost_ns, 50000);
	process_read_took(p, 10000000, false);
	cr_expect_eq(p->read_cost_ns, 50000);
	process_read_took(p, 9000000, false);
	cr_expect_eq(p->read_cost_ns, 9000000, "twice is no chance");
	process_read_took(p, 50000, false);
	process_read_took(p, 200000000, true);
	cr_expect_eq(p->read_cost_ns, 200000000, "neither is a read that timed out");
	cr_expect_eq(get(5, 100, 2)->read_cost_ns, 0, "another program");
}

Test(processes, titles)
{
	struct bpfprof_task_id parent = task_of(10, 1, 1), child = task_of(11, 2, 1);
	struct process *from = get(10, 1, 1), *to;

	map(from, 1, 3);
	cr_expect_null(from->title);
	cr_expect_eq(process_title_set(from, "python3", 8), -EBADMSG);
	cr_expect_null(from->title);
	cr_expect_eq(process_title_set(from, "ray::f", 7), 0);
	cr_expect_eq(process_title_set(from, "ray::\033[m", 9), -EBADMSG);
	cr_expect_str_eq(from->title, "ray::f");
	processes_fork(processes, &parent, &child);
	to = processes_find(processes, 11);
	cr_assert(to && to->title);
	cr_expect_eq(process_title_set(from, "ray::IDLE", 10), 0);
	cr_expect_str_eq(from->title, "ray::IDLE");
	cr_expect_str_eq(to->title, "ray::f");
	from = get(10, 1, 2);
	cr_expect_null(from->title);
}

/* Half of one title and half of another count for the one before; whole ones only once. */
Test(processes, torn_titles)
{
	static const char *const titles[] = { "ray::MapBatches(expensive)", "ray::Train.fit",
					      "ray::Train.get", "ray::IDLE" };
	struct process *process = get(10, 1, 1);
	size_t i;

	cr_expect_eq(process_title_set(process, titles[0], 30), 0);
	cr_expect_eq(process_title_set(process, "ray::IDLEatches(expensive)", 30), -EAGAIN);
	cr_expect_str_eq(process->title, titles[0]);
	cr_expect_eq(process_title_set(process, titles[3], 30), 0);
	cr_expect_eq(process_title_set(process, titles[1], 30), 0);
	cr_expect_eq(process_title_set(process, titles[2], 30), -EAGAIN);
	cr_expect_str_eq(process->title, titles[1]);
	for (i = 0; i < 8; i++) {
		cr_expect_eq(process_title_set(process, titles[2 - i % 2], 30), 0);
		cr_expect_str_eq(process->title, titles[2 - i % 2]);
	}
	process = get(10, 1, 2);
	cr_expect_eq(process_title_set(process, titles[2], 30), 0);
	/* The text is ray::Train.evaluate, whose end still has bytes of the earlier title. */
	cr_expect_eq(process_title_set(process, "ray::Train.eva", 30), -EAGAIN);
	cr_expect_str_eq(process->title, titles[2]);
}

/* Without room for more titles the last one stays; an ended process makes room. */
Test(processes, long_titles)
{
	const size_t nr = PROCESSES_MAX_TITLE_BYTES / (TITLE_MAX + 1);
	struct bpfprof_task_id parent, child;
	char title[TITLE_MAX + 1] = "ray::";
	struct process *process;
	uint32_t pid;

	memset(title + 5, 'x', TITLE_MAX - 5);
	for (pid = 1; pid <= nr; pid++)
		cr_assert_eq(process_title_set(get(pid, 1, 1), title, TITLE_MAX), 0, "%u", pid);
	process = get(pid, 1, 1);
	cr_expect_eq(process_title_set(process, "ray::f", 6), -ENOMEM);
	cr_expect_null(process->title);
	parent = task_of(1, 1, 1);
	child = task_of(pid, 1, 1);
	processes_fork(processes, &parent, &child);
	cr_expect_null(process->title);
	get(1, 1, 2); /* another program */
	cr_expect_eq(process_title_set(process, title, TITLE_MAX), 0);
	cr_expect_str_eq(process->title, title);
	cr_expect_eq(process_title_set(get(1, 1, 2), "ray::f", 6), -ENOMEM);
	cr_expect_eq(process_title_set(get(2, 1, 1), "ray::IDLE", 9), 0);
	cr_expect_eq(process_title_set(get(1, 1, 2), "ray::f", 6), 0);
}

Test(processes, fork_of_no_mappings)
{
	struct bpfprof_task_id parent = task_of(10, 1, 1), child = task_of(11, 2, 1);
	struct process *from = get(10, 1, 1), *to;

	cr_expect_not(process_mappings_set(from, NULL, 0), "none before, none now");
	cr_expect(from->mappings_known);
	processes_fork(processes, &parent, &child);
	to = processes_find(processes, 11);
	cr_assert(to && to->mappings_known && to->nr_mappings == 0);
}

Test(processes, exit_and_expiry)
{
	struct bpfprof_task_id task = task_of(5, 10, 1), old = task_of(5, 9, 1);
	const uint64_t keep = PROCESS_KEEP_DEAD_NS;
	struct process *process = get(5, 10, 1);

	processes_exit(processes, &old, 100);
	cr_expect_not(process->dead, "another incarnation exited");
	process->reread_ns = 77;
	processes_exit(processes, &task, 100);
	cr_expect(process->dead && process->dead_ns == 100 && !process->reread_ns);
	processes_expire(processes, 100 + keep);
	cr_expect_eq(processes_find(processes, 5), process, "late samples still find it");
	cr_expect_eq(nr_retired, 0);
	processes_expire(processes, 101 + keep);
	cr_expect_null(processes_find(processes, 5));
	cr_expect(nr_retired == 1 && last_retired == 5);
	processes_exit(processes, &task, 100);
	/* The number is used again: alive. */
	get(5, 10, 1);
	processes_exit(processes, &task, 100);
	cr_assert(process = get(5, 11, 1));
	cr_expect_not(process->dead);
	processes_expire(processes, 1000 * keep);
	cr_expect_eq(processes_find(processes, 5), process);
}

Test(processes, all_are_retired_at_the_end)
{
	for (uint32_t pid = 1; pid <= 10; pid++)
		map(get(pid, 1, 1), pid, 2);
	teardown();
	cr_expect_eq(nr_retired, 10);
	setup();
}

/* A bomb of processes: the table stays within its bound, and the latest are in it. */
Test(processes, at_most_max)
{
	struct bpfprof_task_id parent, child;
	uint32_t pid;

	for (pid = 1; pid <= PROCESSES_MAX; pid++)
		get(pid, 1, 1);
	cr_expect_eq(nr_retired, 0);
	map(processes_find(processes, 1), 3, 2);
	/* The fork that throws out its own parent must not read from it. */
	parent = task_of(1, 1, 1);
	child = task_of(PROCESSES_MAX + 1, 2, 1);
	processes_fork(processes, &parent, &child);
	cr_expect_null(processes_find(processes, 1));
	cr_assert(processes_find(processes, child.pid));
	cr_expect_not(processes_find(processes, child.pid)->mappings_known);
	for (pid = PROCESSES_MAX + 2; pid <= 3 * PROCESSES_MAX; pid++)
		cr_assert(get(pid, 1, 1));
	cr_expect_eq(processes_count(processes), PROCESSES_MAX);
	cr_expect(processes_find(processes, 3 * PROCESSES_MAX));
	cr_expect(processes_find(processes, 2 * PROCESSES_MAX + 1));
}

/* A job works on the process: it stays, with its mappings, whatever others do. */
Test(processes, pinned)
{
	struct bpfprof_task_id first = task_of(1, 1, 1), parent = first, child;
	struct process *pinned = get(1, 1, 1);
	struct process_mapping *mappings;
	uint32_t pid;

	map(pinned, PROCESS_MAX_MAPPINGS, 2);
	mappings = pinned->mappings;
	processes_pin(processes, 1);
	for (pid = 2; pid < 100; pid++, parent = child) {
		child = task_of(pid, 2, 1);
		processes_fork(processes, &parent, &child);
	}
	cr_expect_eq(pinned->mappings, mappings);
	cr_expect_eq(pinned->nr_mappings, PROCESS_MAX_MAPPINGS);
	for (; pid <= 2 * PROCESSES_MAX; pid++)
		get(pid, 1, 1);
	cr_expect_eq(processes_find(processes, 1), pinned);
	cr_expect_null(processes_find(processes, 2));
	processes_exit(processes, &first, 100);
	processes_expire(processes, 200 + PROCESS_KEEP_DEAD_NS);
	cr_expect_eq(processes_find(processes, 1), pinned);
	processes_pin(processes, 0);
	processes_expire(processes, 200 + PROCESS_KEEP_DEAD_NS);
	cr_expect_null(processes_find(processes, 1));
}

static size_t nr_mappings_in_all(void)
{
	struct process *process;
	size_t nr = 0;

	for (process = processes_first(processes); process; process = hash_table_next(process))
		nr += process->cap_mappings;
	return nr;
}

/* A process with thousands of mappings that forks thousands of times. */
Test(processes, mappings_in_all_are_bounded)
{
	struct bpfprof_task_id parent = task_of(1, 1, 1), child;
	struct process *process;
	uint32_t pid;

	map(get(1, 1, 1), PROCESS_MAX_MAPPINGS, 2);
	for (pid = 2; pid < 500; pid++) {
		child = task_of(pid, 2, 1);
		processes_fork(processes, &parent, &child);
		cr_assert_leq(nr_mappings_in_all(), PROCESSES_MAX_MAPPINGS);
		parent = child; /* the latest is always complete */
		cr_assert(process = processes_find(processes, pid));
		cr_assert_eq(process->nr_mappings, PROCESS_MAX_MAPPINGS);
	}
	process = processes_find(processes, 1);
	cr_assert(process, "only its mappings went");
	cr_expect_not(process->mappings_known);
	cr_expect_eq(process->nr_mappings, 0);
	cr_expect_gt(nr_retired, 0);
	for (pid = 1; pid < 500; pid++)
		map(processes_find(processes, pid), PROCESS_MAX_MAPPINGS - 1, 3);
	cr_expect_leq(nr_mappings_in_all(), PROCESSES_MAX_MAPPINGS);
	cr_expect_gt(nr_mappings_in_all(), PROCESSES_MAX_MAPPINGS / 2);
}

Test(processes, mappings_set)
{
	struct process_mapping in[] = {
		{ .start = 0x5000, .end = 0x6000, .off = 1, .image = 2 },
		{ .start = 0x1000, .end = 0x3000, .off = 2, .image = 3 },
		{ .start = 0x3000, .end = 0x4000, .off = 3, .image = 4 },
	};
	struct process_mapping again[3], moved[] = {
		{ .start = 0x1000, .end = 0x3000, .image = 2 },
		{ .start = 0x2000, .end = 0x5000, .image = 3 }, /* came twice, overlaps */
		{ .start = 0x4000, .end = 0x4000, .image = 4 }, /* empty */
		{ .start = 0x6000, .end = 0x7000, .image = 5 },
	};
	struct process *process = get(1, 1, 1);

	memcpy(again, in, sizeof(in));
	cr_expect(process_mappings_set(process, in, 3));
	cr_expect_not(process_mappings_set(process, again, 3), "the same in another order");
	cr_expect_eq(process->nr_mappings, 3);
	cr_expect_null(process_mapping_find(process, 0xfff));
	cr_expect_eq(process_mapping_find(process, 0x1000)->image, 3);
	cr_expect_eq(process_mapping_find(process, 0x2fff)->image, 3);
	cr_expect_eq(process_mapping_find(process, 0x3000)->image, 4);
	cr_expect_null(process_mapping_find(process, 0x4000));
	cr_expect_eq(process_mapping_find(process, 0x5fff)->image, 2);
	cr_expect_null(process_mapping_find(process, 0x6000));
	cr_expect_null(process_mapping_find(process, UINT64_MAX));
	again[0].off++;
	cr_expect(process_mappings_set(process, again, 3));
	cr_expect(process_mappings_set(process, again, 2));
	cr_expect(process_mappings_set(process, moved, 4));
	cr_expect_eq(process->nr_mappings, 2);
	cr_expect_eq(process_mapping_find(process, 0x2fff)->image, 2);
	cr_expect_null(process_mapping_find(process, 0x3000));
	cr_expect_eq(process_mapping_find(process, 0x6000)->image, 5);
}

Test(processes, mappings_full)
{
	struct process_mapping mapping = { .start = PAGE, .end = 2 * PAGE, .image = 9 };
	struct process *process = get(1, 1, 1);

	map(process, PROCESS_MAX_MAPPINGS, 2);
	cr_expect_eq(process_mapping_add(process, &mapping), -E2BIG);
	cr_expect_eq(process->nr_mappings, PROCESS_MAX_MAPPINGS);
	/* One that takes another's place needs no room. */
	mapping.end = 3 * PAGE;
	cr_expect_eq(process_mapping_add(process, &mapping), 0);
	cr_expect_eq(process_mapping_find(process, 2 * PAGE)->image, 9);
	cr_expect_eq(process->nr_mappings, PROCESS_MAX_MAPPINGS);
}

/* The model: which mapping each page belongs to, and which are there at all. */
#define MODEL_PAGES 400

struct model {
	struct process_mapping by_page[MODEL_PAGES]; /* image 0: none */
	uint64_t next_image;
};

static struct process_mapping model_random(struct model *model)
{
	uint64_t first = (uint64_t)rand() % MODEL_PAGES, nr = 1 + (uint64_t)rand() % 40;

	if (first + nr > MODEL_PAGES)
		nr = MODEL_PAGES - first;
	return (struct process_mapping){ .start = first * PAGE,
					 .end = (first + nr) * PAGE,
					 .off = (uint64_t)rand(),
					 .image = ++model->next_image };
}

/* A new mapping removes every mapping that it overlaps, as a whole. */
static void model_add(struct model *model, const struct process_mapping *mapping)
{
	uint64_t page, k, gone;

	for (page = mapping->start / PAGE; page < mapping->end / PAGE; page++) {
		gone = model->by_page[page].image;
		for (k = 0; gone && k < MODEL_PAGES; k++)
			if (model->by_page[k].image == gone)
				model->by_page[k].image = 0;
	}
	for (page = mapping->start / PAGE; page < mapping->end / PAGE; page++)
		model->by_page[page] = *mapping;
}

static void model_compare(const struct model *model, const struct process *process)
{
	const struct process_mapping *found, *wanted;
	size_t page, i;

	for (page = 0; page < MODEL_PAGES; page++) {
		wanted = &model->by_page[page];
		found = process_mapping_find(process, page * PAGE + (uint64_t)rand() % PAGE);
		cr_assert_eq(found != NULL, wanted->image != 0, "page %zu", page);
		cr_assert(!found || !memcmp(found, wanted, sizeof(*found)), "page %zu", page);
	}
	for (i = 1; i < process->nr_mappings; i++)
		cr_assert_geq(process->mappings[i].start, process->mappings[i - 1].end);
}

Test(processes, model)
{
	struct process *process = get(1, 1, 1);
	struct process_mapping mapping, all[8];
	static struct model model;
	int i, k;

	srand(1);
	for (i = 0; i < 20000; i++) {
		if (rand() % 200) {
			mapping = model_random(&model);
			cr_assert_eq(process_mapping_add(process, &mapping), 0);
			model_add(&model, &mapping);
		} else {
			memset(model.by_page, 0, sizeof(model.by_page));
			for (k = 0; k < 8; k++) {
				all[7 - k] = model_random(&model);
				all[7 - k].start = (uint64_t)k * 50 * PAGE;
				all[7 - k].end = (uint64_t)(k * 50 + 1 + rand() % 50) * PAGE;
				model_add(&model, &all[7 - k]);
			}
			cr_assert(process_mappings_set(process, all, 8));
		}
		if (!(i % 20))
			model_compare(&model, process);
	}
}

static struct bpfprof_ns_context ns_context_of(uint64_t mnt_ns, uint32_t pod_pid)
{
	return (struct bpfprof_ns_context){ .mnt_ns = mnt_ns, .pod_pid = pod_pid };
}

Test(processes, ns_context)
{
	static const struct bpfprof_ns_context unknown;
	struct bpfprof_ns_context ns_context = ns_context_of(7, 12);
	struct process *process = get(1, 10, 0);

	process_ns_context_set(process, &ns_context);
	/* A field that is not known stays. */
	process_ns_context_set(process, &unknown);
	cr_expect_eq(process->ns_context.mnt_ns, 7);
	cr_expect_eq(process->ns_context.pod_pid, 12);
	ns_context = ns_context_of(8, 12);
	process_ns_context_set(process, &ns_context);
	cr_expect_eq(process->ns_context.mnt_ns, 8);
	cr_expect_eq(get(1, 10, 1), process);
	cr_expect_eq(process->ns_context.mnt_ns, 0);
	cr_expect_eq(process->ns_context.pod_pid, 0);
}

/* Each process has its own state of each room; a child gets a copy only if the part says so. */
Test(processes, parts)
{
	const struct bpfprof_task_id parent = { .pid = 1, .start_ns = 10 };
	const struct bpfprof_task_id child = { .pid = 2, .start_ns = 11 };
	struct process *process = get(1, 10, 0), *to;

	cr_assert_null(process->tables, "no such part");
	cr_assert_eq((uintptr_t)process->owner % sizeof(uint64_t), 0);
	cr_expect_null(process->owner->text);
	memcpy(process->pythons->text, "abc", 3);
	process->owner->text = strdup("pod");
	process->owner->nr = UINT64_MAX;
	process_mappings_set(process, NULL, 0);
	processes_fork(processes, &parent, &child);
	to = processes_find(processes, 2);
	cr_assert_not_null(to);
	cr_expect(!memcmp(to->pythons->text, "abc", 3));
	cr_expect_null(to->owner->text);
	cr_expect_eq(to->owner->nr, 0);
	/* Another program starts with zeros. */
	cr_expect_eq(get(1, 10, 1), process);
	cr_expect_eq(nr_cleared, 1);
	cr_expect_null(process->owner->text);
	cr_expect_eq(process->owner->nr, 0);
	cr_expect_eq(process->pythons->text[0], 0);
	cr_expect_eq(to->pythons->text[0], 'a');
	process->owner->text = strdup("freed with the process");
}

/* A child that only forks has its parent's; another program starts over. */
Test(processes, ranks)
{
	static const struct ranks none, three = { .rank = "3" };
	const struct bpfprof_task_id parent = { .pid = 1, .start_ns = 10 };
	const struct bpfprof_task_id child = { .pid = 2, .start_ns = 11 };
	const struct bpfprof_task_id other = { .pid = 3, .start_ns = 12 };
	struct process *process = get(1, 10, 0);

	cr_expect(!process->ranks_known);
	cr_assert_eq(process_ranks_set(process, &three), 0);
	processes_fork(processes, &parent, &child);
	process = processes_find(processes, 2);
	cr_assert_not_null(process);
	cr_expect(process->ranks_known);
	cr_assert_not_null(process->ranks);
	cr_expect_str_eq(process->ranks->rank, "3");
	process = get(2, 11, 1);
	cr_expect_null(process->ranks);
	cr_expect(!process->ranks_known);
	/* A process without variables is known to have none. */
	process = get(1, 10, 0);
	cr_assert_eq(process_ranks_set(process, &none), 0);
	cr_expect_null(process->ranks);
	process_mappings_set(process, NULL, 0);
	processes_fork(processes, &parent, &other);
	process = processes_find(processes, 3);
	cr_assert_not_null(process);
	cr_expect(process->ranks_known);
	cr_expect_null(process->ranks);
}
