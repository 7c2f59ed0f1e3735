// SPDX-License-Identifier: Apache-2.0
#include "kernel/probes/alloc_probes.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/closer.h"
#include "base/hash_table.h"
#include "base/log.h"
#include "base/time.h"
#include "elf/image.h"
#include "kernel/probes/allocator.h"
#include "kernel/probes/locked_memory.h"
#include "kernel/probes/uprobe_links.h"
#include "kernel/probes/uprobe_multi.h"
#include "kernel/session.h"
#include "proc/image_file.h"
#include "proc/images.h"
#include "proc/processes.h"
#include "bpfprof.skel.h"

#define MAX_ALLOCATORS 4096 /* files that were looked at */
#define NR_LINKS 2
_Static_assert(ALLOCATOR_NR_PARTS <= BPFPROF_ALLOC_FILES, "no room");
_Static_assert(ALLOCATOR_MAX_FUNCTIONS <= UPROBE_LINKS_MAX, "no room");
#define CALL_NS 1500 /* if it cannot be measured: of slow virtual machines */

/* A file that was looked at. */
struct looked_file {
	struct hash_node node;
	uint32_t image;
	struct allocator *parts[ALLOCATOR_NR_PARTS]; /* NULL: it has no such part */
	bool clean[ALLOCATOR_NR_PARTS]; /* alloc_probes_clean() has done it */
};

struct hooked_process {
	struct hash_node node;
	uint32_t pid;
	struct {
		uint32_t image; /* 0: none was found yet */
		int fds[NR_LINKS]; /* negative: no link */
	} parts[ALLOCATOR_NR_PARTS];
	uint64_t start_ns, exec_id, read_ns;
	size_t nr_mappings;
	bool off; /* alloc_probes_set() took them out */
	bool failed; /* counts as a process that could not be hooked */
	bool without; /* counts as a process without an allocator */
};

struct alloc_probes {
	struct session *session;
	struct images *images;
	struct processes *processes;
	struct deadline_runner *runner;
	struct closer *closer;
	struct locked_memory_patience patience; /* of closer */
	struct hash_table files, hooked;
	struct alloc_probes_losses losses;
	uint64_t nr_forks; /* at the last alloc_probes_clean() */
	bool over_limit;
};

/* A descriptor of a link, or -errno. */
static int link_make(struct alloc_probes *probes, const struct image *image,
		     const struct allocator *allocator, struct uprobe_multi what)
{
	int file_fd = image_file_fd(&image->source), fd, nr;

	what.offsets = allocator->offsets;
	what.cookies = allocator->cookies;
	nr = file_fd < 0 ? -EBADF
			 : uprobe_links_make(probes->session, probes->runner, &what, file_fd, false,
					     &fd);
	return nr < 0 ? nr : fd;
}

/* The probes at the begin of the calls, and from 6.13 on also at their end. */
static struct uprobe_multi begins_of(const struct alloc_probes *probes,
				     const struct allocator *allocator, pid_t own_pid)
{
	const struct bpfprof_bpf *skel = probes->session->skel;
	int session_fd = bpf_program__fd(skel->progs.alloc_session);

	return (struct uprobe_multi){
		.nr = allocator->nr,
		.session = session_fd >= 0,
		.prog_fd = session_fd >= 0 ? session_fd : bpf_program__fd(skel->progs.alloc_enter),
		.pid = own_pid,
	};
}

static int links_make(struct alloc_probes *probes, int fds[NR_LINKS], const struct image *image,
		      const struct allocator *allocator, pid_t own_pid)
{
	const struct uprobe_multi begins = begins_of(probes, allocator, own_pid);
	const struct uprobe_multi returns = {
		.nr = allocator->nr_allocating,
		.returns = true,
		.prog_fd = bpf_program__fd(probes->session->skel->progs.alloc_return),
		.pid = own_pid,
	};
	int fd;

	if (!begins.session) { /* returns come first: a begin without a return is worse */
		fd = link_make(probes, image, allocator, returns);
		if (fd < 0)
			return fd;
		fds[1] = fd;
	}
	fd = link_make(probes, image, allocator, begins);
	if (fd < 0)
		return fd;
	fds[0] = fd;
	return 0;
}

static void part_close(struct alloc_probes *probes, struct hooked_process *hooked, int part)
{
	int i;

	for (i = 0; i < NR_LINKS; i++) {
		closer_close(probes->closer, hooked->parts[part].fds[i]);
		hooked->parts[part].fds[i] = -1;
	}
}

static void links_close(struct alloc_probes *probes, struct hooked_process *hooked)
{
	const struct bpfprof_bpf *skel = probes->session->skel;
	int part;

	/* From here on calls do not count, although the probes need some milliseconds to go. */
	bpf_map_delete_elem(bpf_map__fd(skel->maps.alloc_costs), &hooked->pid);
	bpf_map_delete_elem(bpf_map__fd(skel->maps.alloc_codes), &hooked->pid);
	for (part = 0; part < ALLOCATOR_NR_PARTS; part++)
		part_close(probes, hooked, part);
}

/* The file, looked at when it is seen first; NULL: it cannot be read. */
static const struct looked_file *file_look(struct alloc_probes *probes, uint32_t id, bool program)
{
	struct looked_file *file = hash_table_find(&probes->files, &id);
	struct image *image = images_get(probes->images, id);
	struct allocator part;
	int i;

	if (file)
		return file;
	if (!image || images_open(probes->images, image, time_monotonic_ns()))
		return NULL;
	file = hash_table_add(&probes->files, &id);
	for (i = 0; file && i < ALLOCATOR_NR_PARTS; i++)
		if (!allocator_read(&part, image->elf, (enum allocator_part)i, program)) {
			file->parts[i] = malloc(sizeof(part));
			if (file->parts[i])
				*file->parts[i] = part;
		}
	return file;
}

static bool name_begins(const struct image *image, const char *with)
{
	const char *name = strrchr(image->path, '/');

	return !strncmp(name ? name + 1 : image->path, with, strlen(with));
}

/* That of musl is its loader, too. */
static bool is_libc(const struct image *image)
{
	return name_begins(image, "libc.") || name_begins(image, "libc-") ||
	       name_begins(image, "ld-musl");
}

/*
 * Finds the file of each part, or NULL. The allocator in force is that of the program, else of a library,
 * last that of the C library. A library that comes later than the C library does not replace it, since the
 * loader has bound malloc by then. image_before: whose allocator the program was found to use before, 0: none.
 */
static void parts_find(struct alloc_probes *probes, const struct process *process,
		       uint32_t image_before, const struct looked_file *ret[ALLOCATOR_NR_PARTS])
{
	const struct looked_file *file, *libc = NULL, *library = NULL, *own = NULL;
	const struct image *image;
	size_t i;

	for (i = 0; i < process->nr_mappings; i++) {
		uint32_t id = (uint32_t)process->mappings[i].image;
		bool program = id == process->program;

		image = id >= BPFPROF_IMAGE_FIRST_FILE ? images_get(probes->images, id) : NULL;
		/* Another loader's malloc serves itself alone. */
		if (!image || (name_begins(image, "ld-") && !is_libc(image)))
			continue;
		file = file_look(probes, id, program);
		if (!file || !file->parts[ALLOCATOR_HEAP])
			continue;
		if (is_libc(image))
			libc = file;
		else if (program)
			own = file;
		else if (!library)
			library = file;
	}
	if (libc && libc->image == image_before)
		library = NULL;
	ret[ALLOCATOR_HEAP] = own ? own : library ? library : libc;
	ret[ALLOCATOR_MAPS] = libc && libc->parts[ALLOCATOR_MAPS] ? libc : NULL;
}

/* Says where the code of the allocator lies in the process. 0 or -errno. */
static int code_publish(struct alloc_probes *probes, const struct process *process,
			const struct hooked_process *hooked)
{
	const struct looked_file *file =
		hash_table_find(&probes->files, &hooked->parts[ALLOCATOR_HEAP].image);
	const struct allocator *heap = file ? file->parts[ALLOCATOR_HEAP] : NULL;
	const struct process_mapping *mapping;
	struct bpfprof_alloc_code code = { .exec_id = process->exec_id };
	size_t i, k;

	for (i = 0; heap && i < process->nr_mappings; i++) {
		mapping = &process->mappings[i];
		for (k = 0; k < ALLOCATOR_NR_PARTS; k++)
			if (mapping->image == hooked->parts[k].image) {
				code.files[k].start = mapping->start;
				code.files[k].end = mapping->end;
			}
		for (k = 0; mapping->image == file->image && k < heap->nr_allocating; k++) {
			uint64_t in = heap->starts[k] - mapping->off;

			if (in >= mapping->end - mapping->start)
				continue;
			code.functions[k].start = mapping->start + in;
			code.functions[k].end = mapping->start + in + heap->bytes[k];
		}
	}
	return bpf_map_update_elem(bpf_map__fd(probes->session->skel->maps.alloc_codes),
				   &process->pid, &code, BPF_ANY)
		       ? -errno
		       : 0;
}

/* Counts its calls from now on. 0 or -errno. */
static int costs_begin(struct alloc_probes *probes, uint32_t pid)
{
	__cleanup(free_mem) struct bpfprof_alloc_cost *none =
		calloc(probes->session->nr_cpus, sizeof(*none));

	if (!none)
		return -ENOMEM;
	return bpf_map_update_elem(bpf_map__fd(probes->session->skel->maps.alloc_costs), &pid, none,
				   BPF_ANY)
		       ? -errno
		       : 0;
}

/* 0 or -errno. */
static int part_hook(struct alloc_probes *probes, struct hooked_process *hooked, int part,
		     pid_t own_pid)
{
	struct image *image = images_get(probes->images, hooked->parts[part].image);
	const struct looked_file *file =
		hash_table_find(&probes->files, &hooked->parts[part].image);
	int err = image && file ? images_open(probes->images, image, time_monotonic_ns()) : -ENOENT;

	if (!err)
		err = links_make(probes, hooked->parts[part].fds, image, file->parts[part],
				 own_pid);
	if (err)
		return err;
	image->hooked = true;
	log_debug("pid %u: hooked %zu functions of %s", hooked->pid, file->parts[part]->nr,
		  image->path);
	return 0;
}

/* Hooks the parts that are not hooked. */
static void process_hook(struct alloc_probes *probes, struct hooked_process *hooked,
			 const struct process *process)
{
	uint32_t own_pid =
		session_own_pid(probes->session, process->pid, process->ns_context.agent_pid);
	bool any = false;
	int err, part;

	for (part = 0; part < ALLOCATOR_NR_PARTS; part++)
		any |= hooked->parts[part].fds[0] >= 0;
	err = own_pid ? code_publish(probes, process, hooked) : -ESRCH;
	if (!err && !any)
		err = costs_begin(probes, process->pid);
	for (part = 0; part < ALLOCATOR_NR_PARTS && !err; part++)
		if (hooked->parts[part].image && hooked->parts[part].fds[0] < 0)
			err = part_hook(probes, hooked, part, (pid_t)own_pid);
	if (!err)
		return;
	links_close(probes, hooked);
	if (err == -EDEADLK)
		hooked->nr_mappings = SIZE_MAX; /* the next scan tries again */
	probes->losses.nr_failed += err != -ESRCH && !hooked->failed;
	hooked->failed |= err != -ESRCH;
	log_debug("pid %u: its allocations cannot be hooked: %s", process->pid, strerror(-err));
}

static void process_scan(struct alloc_probes *probes, struct hooked_process *hooked,
			 const struct process *process, bool same_program)
{
	const struct looked_file *files[ALLOCATOR_NR_PARTS];
	bool changed = false;
	int part;

	for (part = 0; part < ALLOCATOR_NR_PARTS && !same_program; part++)
		if (hooked->parts[part].fds[0] >= 0 &&
		    uprobe_multi_is_orphan(hooked->parts[part].fds[0]))
			part_close(probes, hooked, part);
	parts_find(probes, process, same_program ? hooked->parts[ALLOCATOR_HEAP].image : 0, files);
	probes->losses.nr_without -= hooked->without;
	hooked->without = !files[ALLOCATOR_HEAP];
	probes->losses.nr_without += hooked->without;
	for (part = 0; part < ALLOCATOR_NR_PARTS; part++) {
		uint32_t image = files[part] ? files[part]->image : 0;

		if (image && !hooked->off && hooked->parts[part].fds[0] < 0)
			changed = true; /* an earlier try has failed */
		/* A program that was just executed has not mapped its libraries yet. */
		if (!image || image == hooked->parts[part].image)
			continue;
		part_close(probes, hooked, part);
		hooked->parts[part].image = image;
		changed = true;
	}
	if (hooked->off || !files[ALLOCATOR_HEAP])
		return;
	if (!changed)
		code_publish(probes, process, hooked); /* the file may lie at another place */
	else
		process_hook(probes, hooked, process);
}

static struct hooked_process *hooked_get(struct alloc_probes *probes, const struct process *process)
{
	struct hooked_process *hooked = hash_table_find(&probes->hooked, &process->pid);
	int part;

	if (hooked)
		return hooked;
	hooked = hash_table_add(&probes->hooked, &process->pid);
	if (!hooked)
		return NULL;
	for (part = 0; part < ALLOCATOR_NR_PARTS; part++)
		hooked->parts[part].fds[0] = hooked->parts[part].fds[1] = -1;
	return hooked;
}

size_t alloc_probes_scan(struct alloc_probes *probes)
{
	const struct process *process = processes_first(probes->processes);
	struct hooked_process *hooked;
	size_t nr = 0, nr_full = 0;
	bool same;

	for (; process; process = hash_table_next(process)) {
		if (!process->mappings_known || process->dead ||
		    !session_is_target(probes->session, (pid_t)process->pid))
			continue;
		hooked = hooked_get(probes, process);
		if (!hooked) {
			nr_full++;
			continue;
		}
		same = hooked->start_ns == process->start_ns && hooked->exec_id == process->exec_id;
		if (!same || hooked->read_ns != process->read_ns ||
		    hooked->nr_mappings != process->nr_mappings) {
			hooked->start_ns = process->start_ns;
			hooked->exec_id = process->exec_id;
			hooked->read_ns = process->read_ns;
			hooked->nr_mappings = process->nr_mappings;
			process_scan(probes, hooked, process, same);
		}
		nr += hooked->parts[ALLOCATOR_HEAP].fds[0] >= 0;
	}
	probes->over_limit = nr_full;
	if (nr_full > probes->losses.nr_full)
		probes->losses.nr_full = nr_full;
	return nr;
}

/*
 * Takes the breakpoints of a part out of processes that no link is for: the kernel does that where any link is closed, so
 * a link of our own process will do. False: it must be tried again.
 */
static bool part_clean(struct alloc_probes *probes, const struct hooked_process *hooked, int part)
{
	struct image *image = images_get(probes->images, hooked->parts[part].image);
	struct looked_file *file = hash_table_find(&probes->files, &hooked->parts[part].image);
	int fd;

	if (file && file->clean[part])
		return true;
	if (!image || !file || images_open(probes->images, image, time_monotonic_ns()))
		return false;
	fd = link_make(probes, image, file->parts[part],
		       begins_of(probes, file->parts[part], getpid()));
	closer_close(probes->closer, fd);
	file->clean[part] = fd >= 0;
	return fd >= 0;
}

void alloc_probes_clean(struct alloc_probes *probes)
{
	uint64_t nr_forks = session_target_forks(probes->session);
	const struct hooked_process *hooked;
	struct looked_file *file;
	bool clean = true;
	int part;

	if (nr_forks == probes->nr_forks ||
	    (probes->session->options.follow && !probes->over_limit))
		return;
	hash_table_each(&probes->files, file)
		memset(file->clean, 0, sizeof(file->clean));
	hash_table_each(&probes->hooked, hooked)
		for (part = 0; part < ALLOCATOR_NR_PARTS; part++)
			if (hooked->parts[part].fds[0] >= 0 && !part_clean(probes, hooked, part))
				clean = false;
	if (clean)
		probes->nr_forks = nr_forks;
	probes->losses.nr_unclean += !clean;
}

void alloc_probes_exit(struct alloc_probes *probes, uint32_t pid)
{
	struct hooked_process *hooked = hash_table_find(&probes->hooked, &pid);

	if (!hooked)
		return;
	probes->losses.nr_without -= hooked->without;
	links_close(probes, hooked);
	hash_table_remove(&probes->hooked, hooked);
}

void alloc_probes_set(struct alloc_probes *probes, uint32_t pid, bool on)
{
	struct hooked_process *hooked = hash_table_find(&probes->hooked, &pid);
	const struct process *process = processes_find(probes->processes, pid);

	if (!hooked || hooked->off != on)
		return;
	hooked->off = !on;
	if (!on) {
		links_close(probes, hooked);
		return;
	}
	if (process)
		process_hook(probes, hooked, process);
}

size_t alloc_probes_nr_others(const struct alloc_probes *probes, uint32_t pid)
{
	const struct hooked_process *hooked = hash_table_find(&probes->hooked, &pid), *other;
	size_t nr = 0;

	if (!hooked)
		return 0;
	hash_table_each(&probes->hooked, other)
		nr += other != hooked && other->parts[ALLOCATOR_HEAP].fds[0] >= 0 &&
		      other->parts[ALLOCATOR_HEAP].image == hooked->parts[ALLOCATOR_HEAP].image;
	return nr;
}

bool alloc_probes_are_on(const struct alloc_probes *probes, uint32_t pid)
{
	const struct hooked_process *hooked = hash_table_find(&probes->hooked, &pid);

	return hooked && hooked->parts[ALLOCATOR_HEAP].fds[0] >= 0;
}

uint64_t alloc_probes_call_ns(struct alloc_probes *probes)
{
	const struct bpfprof_bpf *skel = probes->session->skel;
	bool session = bpf_program__fd(skel->progs.alloc_session) >= 0;
	int fd = bpf_program__fd(session ? skel->progs.alloc_session : skel->progs.alloc_enter);
	uint32_t pid = (uint32_t)getpid();
	uint64_t ns;

	/* In a pid namespace of our own the program ends earlier, which is cheaper by a few percent. */
	costs_begin(probes, pid);
	ns = uprobe_multi_call_ns(fd, ALLOC_FREE, session);
	bpf_map_delete_elem(bpf_map__fd(skel->maps.alloc_costs), &pid);
	return ns ? ns : CALL_NS;
}

const struct alloc_probes_losses *alloc_probes_losses(const struct alloc_probes *probes)
{
	return &probes->losses;
}

const char *alloc_probes_lack(const char **remedy)
{
	if (!uprobe_multi_probe()) {
		*remedy = "Linux 6.6 or newer, or resident memory, without --allocations";
		return "this kernel lacks uprobe_multi links";
	}
	if (uprobe_multi_pids_work() <= 0) {
		*remedy = "Linux 6.12 or newer, or a later stable version of this one";
		return "this kernel takes the first thread of a process for all of it";
	}
	if (!uprobe_multi_returns_are_safe()) {
		*remedy = "Linux 6.14 or newer, or a later stable version of this one";
		return "this kernel would end programs under seccomp where their calls return";
	}
	return NULL;
}

int alloc_probes_new(struct alloc_probes **ret, struct session *session, struct images *images,
		     struct processes *processes, struct deadline_runner *runner)
{
	struct alloc_probes *probes = calloc(1, sizeof(*probes));
	int err;

	if (!probes)
		return -ENOMEM;
	probes->session = session;
	probes->images = images;
	probes->processes = processes;
	probes->runner = runner;
	hash_table_init(&probes->files, MAX_ALLOCATORS, struct looked_file, image);
	hash_table_init(&probes->hooked, BPFPROF_MAX_ALLOC_PROCESSES, struct hooked_process, pid);
	probes->patience.prog_fd = bpf_program__fd(session->skel->progs.locked_memory);
	err = closer_new(&probes->closer, locked_memory_wait, &probes->patience);
	if (err) {
		alloc_probes_free(probes);
		return err;
	}
	*ret = probes;
	return 0;
}

void alloc_probes_free(struct alloc_probes *probes)
{
	struct hooked_process *hooked;
	struct looked_file *file;
	int i;

	if (!probes)
		return;
	hash_table_each(&probes->hooked, hooked)
		links_close(probes, hooked);
	hash_table_each(&probes->files, file)
		for (i = 0; i < ALLOCATOR_NR_PARTS; i++)
			free(file->parts[i]);
	closer_free(probes->closer);
	hash_table_clear(&probes->files);
	hash_table_clear(&probes->hooked);
	free(probes);
}
