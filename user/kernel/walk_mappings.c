// SPDX-License-Identifier: Apache-2.0
#include "kernel/walk_mappings.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/background.h"
#include "base/cleanup.h"
#include "base/refusals.h"
#include "base/tenant.h"
#include "base/time.h"
#include "base/vec.h"
#include "kernel/image_copy.h"
#include "kernel/python_maps.h"
#include "kernel/remapped.h"
#include "kernel/session.h"
#include "kernel/tables.h"
#include "kernel/vmas.h"
#include "kernel/walk.h"
#include "kernel/walk_rows.h"
#include "proc/images.h"
#include "proc/origins.h"
#include "proc/processes.h"
#include "proc/title.h"
#include "proc/usage.h"
#include "python/layout.h"
#include "python/pythons.h"
#include "bpfprof.h"

/* 1/READ_SHARE of the time may go into reading mappings; up to a tenth of a second can be saved. */
#define READ_SHARE 10

/* Mappings from the iterator. */
struct collected {
	struct images *images;
	struct process_mapping *mappings;
	size_t nr, cap;
	struct bpfprof_task_id task;
	struct bpfprof_ns_context ns_context;
	struct bpfprof_origin origin;
	uint32_t own_pid; /* in our pid namespace */
	uint32_t tenant; /* of the process, 0: it is that of its user */
	uint64_t program_va; /* entry point of the program, 0: not sent */
	bool too_many;
};

struct process_mapping walker_mapping_of(struct images *images, uint32_t pid, uint32_t tenant,
					 const struct bpfprof_vma *vma, const char *path)
{
	struct image *image = images_get(images, images_add(images, vma, path, tenant));
	struct process_mapping mapping = {
		.start = vma->start,
		.end = vma->end,
		.off = vma->flags & BPFPROF_VMA_VDSO ? 0 : vma->off,
		.image = image->id,
	};

	image->pid = pid;
	if (image_is_made_code(image))
		mapping.image = BPFPROF_IMAGE_NONE;
	return mapping;
}

/* A process of a container keeps its tenant, which does not depend on users. */
static uint32_t tenant_of(uint32_t known, uint32_t uid)
{
	return known & TENANT_CONTAINER ? known : tenant_of_user(uid);
}

static void collect(void *arg, const struct bpfprof_vma_record *record, const char *path)
{
	struct collected *c = arg;

	c->task = record->task;
	c->ns_context = record->ns_context;
	c->origin = record->origin;
	if (record->vma.flags & BPFPROF_VMA_DATA) /* a record of an earlier pass that hung */
		return;
	if (vec_grow(c->mappings, c->nr + 1, c->cap, PROCESS_MAX_MAPPINGS)) {
		c->too_many = true;
		return;
	}
	c->mappings[c->nr++] =
		walker_mapping_of(c->images, c->own_pid, tenant_of(c->tenant, record->origin.uid),
				  &record->vma, path);
	if (record->vma.flags & BPFPROF_VMA_PROGRAM)
		c->program_va = record->vma.start;
}

/*
 * Is the content of the image needed before a stack goes through it? It may be code made at run time, or
 * a Python; and a dump walks its stacks but once.
 */
static bool is_urgent(const struct walker *walker, const struct image *image)
{
	const char *base = strrchr(image->path, '/');

	return !walker->python_maps ||
	       image->vma_flags & (BPFPROF_VMA_MEMORY | BPFPROF_VMA_UNLINKED) ||
	       !strncmp(base ? base : "", "/python", 7) ||
	       !strncmp(base ? base : "", "/libpython", 10);
}

static void image_try(struct walker *walker, struct image *image, uint64_t now_ns)
{
	if (image->state == IMAGE_UNOPENED ||
	    (image->state == IMAGE_FAILED && now_ns >= image->retry_ns))
		images_open(walker->images, image, now_ns);
	if (image_copy_wanted(image, now_ns) && is_urgent(walker, image))
		image_copy_open(&walker->copies, image, now_ns);
}

/* Is the image a Python? For a new one, gives the kernel the ranges of its eval loop. */
static int python_scan(struct walker *walker, struct image *image)
{
	const struct python_range *ranges;
	size_t nr = pythons_holding_ranges(walker->pythons, image->id, &ranges);
	int err = nr ? 0 : pythons_scan(walker->pythons, image);

	if (nr || err)
		return err;
	nr = pythons_holding_ranges(walker->pythons, image->id, &ranges);
	if (nr && walker->python_maps &&
	    python_maps_evals(walker->python_maps, image->id, ranges, nr))
		walker->pythons_too_many++;
	return 0;
}

/* Opens files when they are first mapped: later they may be deleted. */
static void open_images(struct walker *walker, struct process *process,
			struct process_mapping *mappings, size_t nr, uint64_t now_ns)
{
	struct image *image;
	size_t i;

	process->images_left = false;
	for (i = 0; i < nr; i++) {
		image = images_get(walker->images, (uint32_t)mappings[i].image);
		if (!image || image->id == BPFPROF_IMAGE_NONE)
			continue;
		image->used_ns = now_ns;
		if (background_time_is_up())
			process->images_left |= image->state == IMAGE_UNOPENED;
		else
			image_try(walker, image, now_ns);
	}
	for (i = 0; i < nr; i++) {
		image = images_get(walker->images, (uint32_t)mappings[i].image);
		if (image && image_is_made_code(image))
			mappings[i].image = BPFPROF_IMAGE_NONE;
	}
}

static void look_at_images(struct walker *walker, struct process *process, uint64_t now_ns)
{
	struct image *image;
	size_t i;
	int err;

	process->images_failed = process->images_left;
	for (i = 0; i < process->nr_mappings; i++) {
		image = images_get(walker->images, (uint32_t)process->mappings[i].image);
		if (!image || image->id == BPFPROF_IMAGE_NONE)
			continue;
		if (background_time_is_up()) {
			process->images_failed = process->images_left = true;
			break;
		}
		err = python_scan(walker, image);
		if (err)
			images_fail(walker->images, image, err, now_ns);
		process->images_failed |= image->state == IMAGE_FAILED;
		rows_prefetch(walker, image, &process->mappings[i], now_ns);
	}
}

int walker_publish(struct walker *walker, struct process *process, uint64_t now_ns)
{
	if (walker->python_maps && (process->pythons->nr || process->tables->python_slots[0]) &&
	    python_maps_set(walker->python_maps, process, now_ns) == -ENOSPC)
		walker->pythons_too_many++;
	return tables_publish(walker->tables, process, now_ns);
}

uint32_t walker_own_pid(const struct walker *walker, const struct process *process)
{
	return session_own_pid(walker->session, process->pid, process->ns_context.agent_pid);
}

/*
 * Looks for a title. The kernel knows a worker by the name of its main thread, which some libraries
 * change while a task runs (PyTorch: pt_main_thread); such a worker is recognized by its title.
 */
static void title_scan(struct walker *walker, struct process *process)
{
	uint32_t pid = walker_own_pid(walker, process);
	char cmdline[TITLE_MAX + 9]; /* one more byte shows a longer title */

	if (!process->title && pid &&
	    !proc_cmdline_read(walker->runner, cmdline, sizeof(cmdline), (pid_t)pid))
		process_title_set(process, cmdline, strlen(cmdline));
}

static bool is_loader(const struct image *image)
{
	const char *base = strrchr(image->path, '/');

	return base && (!strncmp(base, "/ld-", 4) || !strncmp(base, "/ld.so", 6));
}

/*
 * Finds the file of the program. `ld.so PROGRAM` starts the loader, which maps the program before
 * all libraries: at its own address if that is low, or else next below itself, because mmap goes
 * downwards.
 */
static uint32_t program_find(const struct walker *walker, const struct process *process,
			     const struct process_mapping *found)
{
	const struct process_mapping *first = process->mappings, *at;
	const struct image *image =
		found ? images_get(walker->images, (uint32_t)found->image) : NULL;

	if (!image || image->id < BPFPROF_IMAGE_FIRST_FILE)
		return 0;
	if (!is_loader(image))
		return image->id;
	if (first->end <= UINT32_MAX && first->image >= BPFPROF_IMAGE_FIRST_FILE)
		return (uint32_t)first->image;
	for (at = found; at-- > first;)
		if (at->image >= BPFPROF_IMAGE_FIRST_FILE && at->image != image->id)
			return (uint32_t)at->image;
	return image->id;
}

static void root_take(void *arg, const struct bpfprof_vma_record *record, const char *path)
{
	char **root = arg;

	if (!*root && path[0] == '/')
		*root = strdup(path);
	(void)record;
}

/* Keeps the origin of the files, as code may be named after the process has ended. */
static void origin_take(struct walker *walker, const struct process *process,
			const struct collected *c)
{
	__cleanup(free_mem) char *root = NULL;
	struct origin origin = { .pid = c->own_pid,
				 .pod_pid = c->ns_context.pod_pid,
				 .start_ns = c->task.start_ns,
				 .exec_id = c->task.exec_id,
				 .mnt_ns = c->ns_context.mnt_ns,
				 .facts = c->origin };
	uint64_t cost_ns;

	origin.since_ns = c->task.start_ns;
	/* Code objects from before the exec belong to another program. */
	if (process->known_ns)
		origin.since_ns = origin_boot_ns(process->known_ns);

	if (c->origin.flags & BPFPROF_ORIGIN_OUR_MOUNTS && !origin_is_here(&origin)) {
		vmas_read(walker->session, walker->runner, c->own_pid, VMAS_ROOT, root_take, &root,
			  &cost_ns);
		budget_spend(budget_of(&walker->reading, background_tenant()), cost_ns);
	}
	origin.root = root;
	origins_set(images_origins(walker->images), &origin);
}

/* Publishes the mappings just read of process. 0 or -errno. */
static int mappings_take(struct walker *walker, struct process *process, struct collected *c,
			 bool was_void, uint64_t now_ns)
{
	struct remapped_job remapped = { .session = walker->session,
					 .runner = walker->runner,
					 .images = walker->images,
					 .process = process,
					 .pid = c->own_pid,
					 .now_ns = now_ns };
	bool was_python = process->pythons->nr, pythons_differ = false, differ;
	const struct process_mapping *executed;

	open_images(walker, process, c->mappings, c->nr, now_ns);
	remapped_find(&remapped, &c->mappings, &c->nr);
	budget_spend(budget_of(&walker->reading, background_tenant()), remapped.cost_ns);
	differ = process_mappings_set(process, c->mappings, c->nr);
	process_ns_context_set(process, &c->ns_context);
	process->tenant = tenant_of(process->tenant, c->origin.uid);
	executed = c->program_va ? process_mapping_find(process, c->program_va) : NULL;
	process->program = program_find(walker, process, executed);
	origin_take(walker, process, c);
	if (differ || process->images_failed) {
		look_at_images(walker, process, now_ns);
		pythons_differ = pythons_find(walker->pythons, process);
	}
	if (process->pythons->nr && !was_python)
		title_scan(walker, process);
	return differ || was_void || pythons_differ ? walker_publish(walker, process, now_ns) : 0;
}

void walker_forked(struct walker *walker, const struct process *parent, const struct process *child)
{
	struct origin ids = { .pid = walker_own_pid(walker, child),
			      .pod_pid = child->ns_context.pod_pid,
			      .start_ns = child->start_ns,
			      .since_ns = child->start_ns,
			      .exec_id = child->exec_id };

	origins_fork(images_origins(walker->images), walker_own_pid(walker, parent), &ids);
}

static int mappings_read(struct walker *walker, uint32_t pid, struct collected *c,
			 uint64_t *ret_cost_ns)
{
	int err;

	*ret_cost_ns = 0;
	if (!pid)
		return -ESRCH;
	c->own_pid = pid;
	walker->vma_reads++;
	err = vmas_read(walker->session, walker->runner, pid, VMAS_EXECUTABLE, collect, c,
			ret_cost_ns);
	if (err == -ETIMEDOUT)
		walker->vma_timeouts++;
	if (c->too_many || err == -E2BIG)
		walker->vmas_too_many++;
	return err == -E2BIG ? 1 : err;
}

int walker_refresh(struct walker *walker, struct process *process, uint64_t now_ns)
{
	struct collected c = { .images = walker->images, .tenant = process->tenant };
	bool was_void = tables_is_void(walker->tables, process);
	uint64_t start_ns = time_monotonic_ns(), cost_ns;
	int err;

	process->reread_ns = 0;
	if (!budget_allows(budget_of(&walker->reading, background_tenant()), READ_SHARE,
			   NS_PER_SECOND / READ_SHARE, start_ns)) {
		walker->vma_deferred++;
		refusals_count(walker->refusals, process->tenant, REFUSAL_MAPPINGS);
		return -EAGAIN;
	}
	process->read_ns = start_ns;
	tables_watch(walker->tables, process);
	err = mappings_read(walker, walker_own_pid(walker, process), &c, &cost_ns);
	process_read_took(process, cost_ns, err == -ETIMEDOUT);
	/* A job that waits takes no time from other processes. */
	if (err != -ETIMEDOUT || !background_is_job())
		budget_spend(budget_of(&walker->reading, background_tenant()), cost_ns);
	/* The pid may belong to another process by now. */
	if (err > 0 && c.task.start_ns == process->start_ns && c.task.exec_id == process->exec_id)
		err = mappings_take(walker, process, &c, was_void, now_ns);
	else if (err >= 0)
		err = -ESRCH;
	if (err == -ESRCH) /* the process is in the middle of exec; the next sample tries again */
		process->read_ns = 0;
	free(c.mappings);
	return err;
}

int walker_learn(struct walker *walker, uint32_t pid, uint64_t now_ns,
		 struct bpfprof_task_id *ret_task)
{
	struct collected c = { .images = walker->images };
	struct process *process;
	uint64_t cost_ns;
	int err = mappings_read(walker, pid, &c, &cost_ns);

	if (err > 0) {
		if (ret_task)
			*ret_task = c.task;
		process = processes_get(walker->processes, &c.task);
		if (process)
			process_ns_context_set(process, &c.ns_context);
		err = process && !process->mappings_known
			      ? mappings_take(walker, process, &c, true, now_ns)
			      : 0;
	}
	free(c.mappings);
	return err;
}
