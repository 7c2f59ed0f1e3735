// SPDX-License-Identifier: Apache-2.0
#include "threads/thread_reader.h"

#include <sys/resource.h>

#include "base/log.h"
#include "base/time.h"
#include "container/containers.h"
#include "kernel/private_file.h"
#include "kernel/python_maps.h"
#include "kernel/remote.h"
#include "kernel/tables.h"
#include "proc/images.h"
#include "proc/processes.h"
#include "python/pythons.h"

#define MAX_OPEN_IMAGES 1024
#define NR_ROWS                                                                                    \
	(1U << 17) /* 1 MiB, where nothing is sampled: few programs, and for a moment only */

static void on_retire(void *arg, struct process *process)
{
	const struct walker *walker = arg;

	tables_retire(walker->tables, process, time_monotonic_ns());
	if (walker->python_maps)
		python_maps_clear(walker->python_maps, process, time_monotonic_ns());
}

static int on_layout(void *arg, uint32_t nr, const struct bpfprof_python_layout *layout)
{
	const struct walker *walker = arg;

	return walker->python_maps ? python_maps_layout(walker->python_maps, nr, layout) : 0;
}

static void on_unknown_python(void *arg, const char *path, uint32_t version)
{
	(void)arg;
	if (version)
		log_warn("%s: Python %u.%u: layout not known, native frames only", path,
			 version >> 24, version >> 16 & 0xff);
	else
		log_warn("%s: a Python of unknown version: native frames only", path);
}

/* Raises the limit of open files: each image may be one. */
static void file_limit_raise(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

static uint32_t max_open_images(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur / 2 > MAX_OPEN_IMAGES)
		return MAX_OPEN_IMAGES;
	return (uint32_t)limit.rlim_cur / 2;
}

const struct session_options thread_reader_alone = { .hz = 1,
						     .nr_rows = NR_ROWS,
						     .iterators = true };
const struct session_options thread_reader_waits = {
	.hz = 1, .nr_rows = NR_ROWS, .iterators = true, .files = true
};

int thread_reader_open(struct thread_reader *reader, const struct session_options *options,
		       const struct process_part *parts, size_t nr_parts, const char *host_root)
{
	struct walker *walker = &reader->walker;
	int err;

	*reader = (struct thread_reader){ 0 };
	refusals_init(&reader->refusals);
	file_limit_raise();
	err = session_open(&reader->session, options ? options : &thread_reader_alone);
	if (!err)
		err = deadline_runner_new(&reader->runner);
	if (!err)
		err = images_new(&reader->images, reader->runner, host_root, max_open_images());
	if (!err)
		err = private_files_new(&reader->private_files);
	if (!err)
		err = containers_new(&reader->containers, reader->runner, "/proc", host_root);
	if (!err)
		err = tables_new(&walker->tables, &reader->session);
	if (!err)
		err = pythons_new(&walker->pythons, on_layout, on_unknown_python, walker);
	if (!err)
		err = processes_new(&reader->processes, parts, nr_parts, on_retire, walker);
	if (err)
		return err;
	deadline_set_refusals(reader->runner, &reader->refusals);
	images_set_refusals(reader->images, &reader->refusals);
	images_set_private(reader->images, private_files_open, reader->private_files);
	walker->session = &reader->session;
	walker->runner = reader->runner;
	walker->processes = reader->processes;
	walker->images = reader->images;
	walker->refusals = &reader->refusals;
	return walker_init(walker);
}

void thread_reader_let_go(struct thread_reader *reader)
{
	remote_child_free(reader->child);
	reader->child = NULL;
	walker_fini(&reader->walker);
	processes_free(reader->processes);
	reader->processes = NULL;
	tables_free(reader->walker.tables);
	reader->walker.tables = NULL;
	session_close(&reader->session);
}

void thread_reader_close(struct thread_reader *reader)
{
	thread_reader_let_go(reader);
	pythons_free(reader->walker.pythons);
	images_free(reader->images);
	private_files_free(reader->private_files);
	containers_free(reader->containers);
	deadline_runner_free(reader->runner);
	refusals_fini(&reader->refusals);
}

void thread_read_end(struct thread_reader *reader, enum thread_owner owner)
{
	reader->owners &= ~(1U << owner);
	if (reader->owners)
		return;
	remote_child_free(reader->child);
	reader->child = NULL;
}
