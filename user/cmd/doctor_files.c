// SPDX-License-Identifier: Apache-2.0
#include "cmd/doctor_files.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clean_text.h"
#include "base/cleanup.h"
#include "base/time.h"
#include "capture/reader_open.h"
#include "capture/requirements.h"
#include "container/containers.h"
#include "proc/images.h"
#include "proc/processes.h"
#include "proc/usage.h"
#include "python/others.h"
#include "python/pythons.h"
#include "threads/thread_reader.h"

#define MAX_LINES 500 /* files of one process that are shown */
#define SHOWN_PATH 1024

static void container_line(struct requirements *reqs, struct thread_reader *reader,
			   struct process *process)
{
	static const char *const sources[] = {
		[CONTAINER_FROM_NOWHERE] = "nothing",
		[CONTAINER_FROM_BUNDLE] = "its runtime's bundle",
		[CONTAINER_FROM_CGROUP] = "its cgroup",
		[CONTAINER_FROM_MOUNTS] = "kubelet's mounts",
	};
	/* A process outside of bpfprof's pid namespace has no /proc here. */
	const struct container *container =
		process->ns_context.agent_pid
			? containers_of(reader->containers, process->ns_context.agent_pid,
					process->ns_context.mnt_ns, time_monotonic_ns())
			: NULL;
	const struct containers_stats *stats = containers_stats(reader->containers);

	if (container)
		requirements_add(reqs, "container", REQUIREMENT_OK, NULL,
				 "%.12s: %s/%s/%s, image %s (by %s)", container->id,
				 container->namespace, container->pod, container->name,
				 container->image, sources[container->source]);
	else if (stats->of_node)
		requirements_add(reqs, "container", REQUIREMENT_OK, NULL,
				 "none: a process of the node itself");
	else
		requirements_add(reqs, "container", REQUIREMENT_WARN,
				 "mount the node's / at /host and give --host-root /host",
				 "not known: no bundle, cgroup or mount names the container");
}

static void other_python_line(struct requirements *reqs, struct thread_reader *reader,
			      const struct process *process)
{
	char cmdline[PROC_CMDLINE_MAX] = "";
	const char *name;

	if (proc_cmdline_read(reader->runner, cmdline, sizeof(cmdline), (pid_t)process->pid))
		cmdline[0] = '\0';
	name = python_other_of(reader->images, process, cmdline);
	if (name)
		requirements_add(reqs, "python", REQUIREMENT_WARN,
				 "only native stacks are available",
				 "%s, not CPython: its Python frames are not known", name);
}

/* Adds each version once: only the memory of the process shows which of them run. */
static void python_line(struct requirements *reqs, struct thread_reader *reader,
			const struct process *process)
{
	uint32_t versions[BPFPROF_MAX_RUNTIMES], i, k;

	for (i = 0; i < process->pythons->nr; i++) {
		versions[i] =
			pythons_version(reader->walker.pythons, process->pythons->list[i].image) >>
			16;
		for (k = 0; k < i && versions[k] != versions[i]; k++)
			;
		if (k == i)
			requirements_add(reqs, "python", REQUIREMENT_OK, NULL,
					 "%u.%u: frames are named", versions[i] >> 8,
					 versions[i] & 0xff);
	}
	if (!process->pythons->nr)
		other_python_line(reqs, reader, process);
}

static const char *remedy_of(enum image_problem problem)
{
	switch (problem) {
	case IMAGE_GONE:
		return "mount the node's / at /host (HostToContainer) and give --host-root /host";
	case IMAGE_UNREADABLE:
		return "CAP_DAC_READ_SEARCH is needed; NFS and FUSE may refuse even that";
	case IMAGE_BLOCKED:
		return "its file system does not answer: look at the server";
	default:
		return "its stacks are walked by frame pointers only";
	}
}

/* The kind of symbols in the file. */
static const char *symbols_of(struct elf_image *elf)
{
	switch (elf_image_sections_error(elf)) {
	case 0:
		return elf_image_section(elf, ".symtab") ? "all symbols" : "exported symbols";
	case -E2BIG:
		return "more sections than are read, so exported symbols only";
	default:
		return "unreadable section headers, so exported symbols only";
	}
}

static void file_line(struct requirements *reqs, struct thread_reader *reader, struct image *image,
		      uint64_t now_ns)
{
	bool memory = image->way == IMAGE_WAY_MEMORY, rows;
	char path[SHOWN_PATH];
	int err = images_open(reader->images, image, now_ns);

	clean_text(path, sizeof(path), image->path[0] ? image->path : "(no path)",
		   image->path[0] ? strlen(image->path) : sizeof("(no path)"));
	if (err) {
		requirements_add(reqs, "file", REQUIREMENT_WARN, remedy_of(image->problem),
				 "%s: the file cannot be opened: %s", path,
				 image_problem_name(image->problem));
		return;
	}
	rows = !images_open_cfi(reader->images, image, now_ns);
	requirements_add(reqs, "file", memory ? REQUIREMENT_WARN : REQUIREMENT_OK,
			 memory ? "the file cannot be opened: functions that are not exported "
				  "have no names"
				: NULL,
			 "%s: by %s; %s, %s", path, image_way_name(image->way),
			 memory ? "exported symbols" : symbols_of(image->elf),
			 rows ? "unwind tables" : "no unwind tables");
}

static void file_lines(struct requirements *reqs, struct thread_reader *reader,
		       const struct process *process, uint64_t now_ns)
{
	size_t i, j, nr = 0;

	for (i = 0; i < process->nr_mappings && nr < MAX_LINES; i++) {
		for (j = 0; j < i; j++)
			if (process->mappings[j].image == process->mappings[i].image)
				break;
		if (j < i || process->mappings[i].image < BPFPROF_IMAGE_FIRST_FILE)
			continue;
		file_line(reqs, reader,
			  images_get(reader->images, (uint32_t)process->mappings[i].image), now_ns);
		nr++;
	}
	if (nr == MAX_LINES)
		requirements_add(reqs, "file", REQUIREMENT_OK, NULL, "... and more");
}

int doctor_files(struct requirements *reqs, pid_t pid, const char *host_root)
{
	struct thread_reader reader;
	struct process *process;
	uint64_t now_ns = time_monotonic_ns();
	int err = reader_open(&reader, NULL, host_root) ? -EIO : 0;

	if (!err)
		err = walker_learn(&reader.walker, (uint32_t)pid, now_ns, NULL);
	process = err < 0 ? NULL : processes_first(reader.processes);
	if (process) {
		container_line(reqs, &reader, process);
		python_line(reqs, &reader, process);
		file_lines(reqs, &reader, process, now_ns);
	}
	thread_reader_close(&reader);
	return err < 0 ? err : process ? reqs->error : -ESRCH;
}
