// SPDX-License-Identifier: Apache-2.0
#include "kernel/probes/gpu_probes.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/hash_table.h"
#include "base/log.h"
#include "base/time.h"
#include "cuda/functions.h"
#include "cuda/library.h"
#include "cuda/sites.h"
#include "elf/image.h"
#include "elf/symbol_find.h"
#include "kernel/probes/gpu_links.h"
#include "kernel/probes/gpu_maps.h"
#include "kernel/session.h"
#include "proc/image_file.h"
#include "proc/images.h"
#include "proc/processes.h"

#define MAX_SCANNED (4 * PROCESSES_MAX) /* processes, including those whose end was not seen */
#define MAX_LISTED (2 * BPFPROF_GPU_MAX_FILES)

/* A scanned process with its state at that time. */
struct scanned_process {
	struct hash_node node;
	uint32_t pid;
	uint64_t start_ns, exec_id, read_ns;
	size_t nr_mappings;
	bool late; /* it inherited a library, and ran before the library was hooked in it */
};

struct listed_image {
	uint32_t image;
	int file; /* of gpu_links.h */
};

struct gpu_probes {
	struct session *session;
	struct images *images;
	struct gpu_links *links;
	uint32_t next_image; /* the next image to scan */
	struct gpu_hidden *hidden; /* the search for NCCL in next_image, or NULL */
	struct gpu_probes_library libraries[MAX_LISTED];
	size_t nr_libraries;
	struct gpu_probes_losses losses;
	/* The other fields are for links of single processes. */
	struct processes *processes;
	struct hash_table scanned;
	struct listed_image listed[MAX_LISTED]; /* images that are hooked files */
	size_t nr_listed;
	uint64_t begun_boot_ns; /* end of the first scan of processes; 0: not yet */
	uint64_t widened_boot_ns; /* when all processes were hooked; 0: not yet */
};

static const char *problem_text(int err)
{
	switch (err) {
	case -ENOTSUP:
		return "on a FUSE file system, which may hang";
	case -ETIMEDOUT:
	case -EBUSY:
		return "the kernel did not hook it in time";
	case -EDEADLK:
		return "the lock of a process's memory is held (-v names the process)";
	case -EPERM:
	case -EACCES:
		return "the kernel refused";
	case -ENOSPC:
		return "too many libraries are hooked already";
	case -EBADF:
		return "the file cannot be opened";
	default:
		return "the kernel could not hook it";
	}
}

/* Problems with the probes of a file. */
static const struct sites_problems {
	const char *absent, *unreadable;
} sites_problems[GPU_NR_LAYERS] = {
	[GPU_LAYER_TORCH] = { "PyTorch's probes are not in it",
			      "PyTorch's probes in it cannot be read" },
	[GPU_LAYER_PYTHON] = { "no probes of the garbage collector",
			       "Python's probes in it cannot be read" },
};

static struct gpu_links_file file_id(const struct image *image)
{
	return (struct gpu_links_file){ .dev = image->dev,
					.ino_gen = image->ino_gen,
					.ino = image->ino };
}

static bool is_of_file(const struct image *image, const struct gpu_links_file *id)
{
	return image->ino == id->ino && image->dev == id->dev && image->ino_gen == id->ino_gen;
}

/* The number of the file in links, or -errno. */
static int library_hook(struct gpu_probes *probes, const struct gpu_library *library,
			const struct image *image)
{
	const struct gpu_links_file id = file_id(image);
	int file_fd = image_file_fd(&image->source);

	return file_fd < 0 ? -EBADF
			   : gpu_links_add(probes->links, &id, image->tenant, library, file_fd);
}

/*
 * Is a file with a problem listed? A daemon forgets files that no process maps, and later finds
 * them again as new images.
 */
static bool is_listed(const struct gpu_probes *probes, const struct image *image)
{
	size_t i;

	for (i = 0; i < probes->nr_libraries; i++)
		if (probes->libraries[i].file < 0 && is_of_file(image, &probes->libraries[i].id))
			return true;
	return false;
}

/* Takes the first library with that file from the list, or the first one that is not hooked if file is negative. */
static void library_unlist(struct gpu_probes *probes, int file)
{
	struct gpu_probes_library *library = probes->libraries;
	const struct gpu_probes_library *end = library + probes->nr_libraries;

	while (library < end && (file < 0 ? library->file >= 0 : library->file != file))
		library++;
	if (library == end)
		return;
	free(library->path);
	memmove(library, library + 1, (size_t)(end - library - 1) * sizeof(*library));
	probes->nr_libraries--;
}

/*
 * Lists a library. file: its number in links, or -errno. problem: a static text; NULL: the text of
 * the errno.
 */
static void library_list(struct gpu_probes *probes, const struct image *image,
			 const struct gpu_library *library, int file, const char *problem)
{
	int err = file < 0 ? file : gpu_links_error(probes->links, file);
	struct gpu_probes_library *entry;

	if (file < 0 && is_listed(probes, image))
		return;
	if (probes->nr_libraries == MAX_LISTED)
		library_unlist(probes, -1);
	if (probes->nr_libraries == MAX_LISTED || err == -ENOSPC)
		probes->losses.nr_refused++;
	if (probes->nr_libraries == MAX_LISTED)
		return;
	entry = &probes->libraries[probes->nr_libraries];
	entry->path = strdup(image->path);
	if (!entry->path)
		return;
	entry->layers = library->layers;
	entry->functions = file < 0 ? 0 : (uint32_t)(library->nr + library->nr_sites);
	entry->problem = err && !problem ? problem_text(err) : problem;
	entry->id = file_id(image);
	entry->file = file;
	probes->nr_libraries++;
	if (err)
		log_debug("%s: %s: %s", entry->path, entry->problem, strerror(-err));
	else if (!gpu_links_are_scoped(probes->links))
		log_debug("hooked %s: %u functions", entry->path, entry->functions);
}

static void process_log(const struct gpu_probes *probes, int file, const struct process *process)
{
	size_t i;

	for (i = 0; i < probes->nr_libraries; i++)
		if (probes->libraries[i].file == file)
			log_debug("hooked %s: %u functions, in pid %u", probes->libraries[i].path,
				  probes->libraries[i].functions, process->pid);
}

static bool name_begins(const struct image *image, const char *with)
{
	const char *name = strrchr(image->path, '/');

	return !strncmp(name ? name + 1 : image->path, with, strlen(with));
}

/* Does the name belong to a library with PyTorch's probes, and are these wanted? */
static bool is_torch(const struct gpu_probes *probes, const struct image *image)
{
	return probes->session->options.gpu_tensors && name_begins(image, "libc10_cuda.so");
}

/* Does the name belong to a file that may have Python's probes, and are these wanted? */
static bool may_be_python(const struct gpu_probes *probes, const struct image *image)
{
	return probes->session->options.gpu_gc &&
	       (name_begins(image, "libpython") || name_begins(image, "python"));
}

/* The interpreter may be in the program or in a library of it. */
static bool is_python(const struct gpu_probes *probes, const struct image *image)
{
	static const char *const names[] = { "_PyRuntime" };
	struct symbol_found found;

	return may_be_python(probes, image) && !symbol_find_dynamic(image->elf, names, 1, &found) &&
	       found.pattern != UINT32_MAX;
}

static bool is_named(const struct gpu_probes *probes, const struct image *image)
{
	return name_begins(image, "libcuda.so") || name_begins(image, "libnccl.so") ||
	       name_begins(image, "librccl.so") || is_torch(probes, image) ||
	       may_be_python(probes, image);
}

static void image_is_file(struct gpu_probes *probes, uint32_t image, int file)
{
	if (file >= 0 && probes->processes && probes->nr_listed < MAX_LISTED)
		probes->listed[probes->nr_listed++] =
			(struct listed_image){ .image = image, .file = file };
}

/* 0; -ENODATA: the file has no probes of that layer; -EBADMSG: no probe can be read. */
static int sites_read(struct gpu_probes *probes, struct gpu_library *ret, const struct image *image,
		      enum bpfprof_gpu_layer layer)
{
	struct gpu_site sites[GPU_SITES_MAX];
	uint32_t nr_bad;
	size_t nr;
	int err = gpu_sites_read(sites, &nr, &nr_bad, image->elf, layer);

	if (err && err != -ENODATA)
		log_debug("%s: its probes: %s", image->path, strerror(-err));
	if (err)
		return err == -ENODATA ? err : -EBADMSG;
	if (!is_listed(probes, image))
		probes->losses.nr_bad_sites[layer] += nr_bad;
	if (layer == GPU_LAYER_PYTHON && nr_bad) /* one of the two probes alone is useless */
		return -EBADMSG;
	if (!nr || nr > GPU_SITES_MAX - ret->nr_sites)
		return -EBADMSG;
	memcpy(ret->sites + ret->nr_sites, sites, nr * sizeof(*sites));
	ret->nr_sites += nr;
	ret->layers |= 1U << layer;
	return 0;
}

/* Keeps only the functions that begin and end windows of the profiler. False: there are none. */
static bool windows_only(struct gpu_library *library)
{
	size_t i, kept = 0;
	uint32_t kind;

	for (i = 0; i < library->nr; i++) {
		kind = gpu_function(library->hooks[i].function)->wire.kind;
		if (kind == GPU_KIND_WINDOW_BEGIN || kind == GPU_KIND_WINDOW_END)
			library->hooks[kept++] = library->hooks[i];
	}
	library->nr = kept;
	return kept;
}

/* Lists a file that may contain NCCL and cannot be searched. */
static void unsearched_list(struct gpu_probes *probes, const struct image *image,
			    const struct gpu_library *library, int err)
{
	if (is_listed(probes, image))
		return;
	probes->losses.nr_unsearched++;
	library_list(probes, image, library, err,
		     err == -E2BIG ? "too many symbols to be searched for NCCL"
				   : "its symbols cannot be searched for NCCL");
}

/* Searches a file for NCCL. -EAGAIN: the search continues after end_ns. */
static int hidden_read(struct gpu_probes *probes, struct gpu_library *ret,
		       const struct image *image, uint64_t end_ns)
{
	int err = 0;

	if (!probes->session->options.gpu) /* NCCL has no windows */
		return -ENODATA;
	if (!probes->hidden)
		err = gpu_hidden_new(&probes->hidden, image->elf);
	if (!err)
		do
			err = gpu_hidden_step(probes->hidden, ret, image->elf);
		while (err == -EAGAIN && time_monotonic_ns() < end_ns);
	if (err && err != -EAGAIN && err != -ENODATA)
		unsearched_list(probes, image, ret, err);
	return err;
}

/*
 * Finds the functions to hook. 0: there are some; -EAGAIN: the search continues; or the error that
 * is listed for the library, if it is listed.
 */
static int library_read(struct gpu_probes *probes, struct gpu_library *ret,
			const struct image *image, uint64_t end_ns)
{
	int err = gpu_library_read(ret, image->elf), torch = -ENODATA, python = -ENODATA;

	if (err == -EAGAIN)
		err = hidden_read(probes, ret, image, end_ns);
	if (err == -EAGAIN)
		return err;
	if (!probes->session->options.gpu)
		return !err && windows_only(ret) ? 0 : -ENODATA;
	if (probes->session->options.gpu_tensors)
		torch = sites_read(probes, ret, image, GPU_LAYER_TORCH);
	if (probes->session->options.gpu_gc)
		python = sites_read(probes, ret, image, GPU_LAYER_PYTHON);
	if (!err || !torch || !python)
		return 0;
	return torch != -ENODATA ? torch : python;
}

/* Lists a library whose missing probes make counts of 0 wrong. */
static void without_sites_list(struct gpu_probes *probes, const struct image *image,
			       const struct gpu_library *library, int err)
{
	enum bpfprof_gpu_layer layer = GPU_LAYER_PYTHON;
	const struct sites_problems *problems;

	if (is_torch(probes, image))
		layer = GPU_LAYER_TORCH;
	else if (!is_python(probes, image))
		return;
	if (is_listed(probes, image))
		return;
	probes->losses.nr_without_sites[layer]++;
	problems = &sites_problems[layer];
	library_list(probes, image, library, err,
		     err == -ENODATA ? problems->absent : problems->unreadable);
}

/* True: the scan continues after end_ns. */
static bool image_scan(struct gpu_probes *probes, struct image *image, uint64_t now_ns,
		       uint64_t end_ns)
{
	__cleanup(free_mem) struct gpu_library *library = calloc(1, sizeof(*library));
	struct gpu_links_file id;
	int file, err;

	if (!library)
		return false;
	if (images_open(probes->images, image, now_ns)) {
		/* Most files that cannot be opened are not of interest. */
		if (is_named(probes, image))
			library_list(probes, image, library, -EBADF, NULL);
		return false;
	}
	id = file_id(image);
	file = gpu_links_find(probes->links, &id);
	if (file < 0) {
		err = library_read(probes, library, image, end_ns);
		if (err == -EAGAIN)
			return true;
		if (err) {
			without_sites_list(probes, image, library, err);
			return false;
		}
		file = library_hook(probes, library, image);
		library_list(probes, image, library, file, NULL);
	}
	image->hooked = file >= 0;
	image_is_file(probes, image->id, file);
	return false;
}

/*
 * The number of the next hooked file, or -1: searches from mapping *at on, and sets it behind
 * the match.
 */
static int file_next(const struct gpu_probes *probes, const struct process *process, size_t *at)
{
	size_t k;

	for (; *at < process->nr_mappings; ++*at)
		for (k = 0; k < probes->nr_listed; k++)
			if (probes->listed[k].image == process->mappings[*at].image) {
				++*at;
				return probes->listed[k].file;
			}
	return -1;
}

static void late_set(struct gpu_probes *probes, struct scanned_process *last, bool late)
{
	probes->losses.nr_late += late;
	probes->losses.nr_late -= last->late;
	last->late = late;
}

/* Did the process begin after the first scan? Then a target has started it. */
static bool is_child(const struct gpu_probes *probes, uint64_t start_ns)
{
	return probes->begun_boot_ns && start_ns > probes->begun_boot_ns;
}

/* Did it begin before all processes were hooked, as a copy of a process with a mapped library? */
static bool is_late(const struct gpu_probes *probes, const struct process *process)
{
	size_t at = 0;

	return is_child(probes, process->start_ns) && !process->read_ns &&
	       (!probes->widened_boot_ns || process->start_ns < probes->widened_boot_ns) &&
	       file_next(probes, process, &at) >= 0;
}

/* A child may end before it can be hooked by itself, so all processes are hooked. */
static void widen(struct gpu_probes *probes)
{
	if (!gpu_links_are_scoped(probes->links))
		return;
	gpu_links_widen(probes->links);
	probes->widened_boot_ns = time_of_clock_ns(CLOCK_BOOTTIME);
}

/* The process is scanned again if it still runs. */
static void scanned_evict(struct gpu_probes *probes)
{
	struct scanned_process *oldest = (void *)probes->scanned.oldest;

	late_set(probes, oldest, false);
	hash_table_remove(&probes->scanned, oldest);
}

/* False: the process has not changed since its last scan, or there is no memory. */
static bool process_has_changed(struct gpu_probes *probes, const struct process *process)
{
	struct scanned_process *last = hash_table_find(&probes->scanned, &process->pid);

	if (!last) {
		if (probes->scanned.nr == MAX_SCANNED)
			scanned_evict(probes);
		last = hash_table_add(&probes->scanned, &process->pid);
		if (!last)
			return false;
	} else if (last->start_ns == process->start_ns && last->read_ns == process->read_ns &&
		   last->nr_mappings == process->nr_mappings) {
		return false;
	}
	if (process->exec_id != last->exec_id) { /* its libraries of then are unmapped */
		late_set(probes, last, false);
		gpu_links_execute(probes->links, process->pid);
	}
	last->start_ns = process->start_ns;
	last->exec_id = process->exec_id;
	last->read_ns = process->read_ns;
	last->nr_mappings = process->nr_mappings;
	if (is_late(probes, process))
		late_set(probes, last, true);
	if (is_child(probes, process->start_ns))
		widen(probes);
	return true;
}

static void process_scan(struct gpu_probes *probes, const struct process *process)
{
	uint32_t own_pid =
		session_own_pid(probes->session, process->pid, process->ns_context.agent_pid);
	size_t at = 0;
	int file;

	while ((file = file_next(probes, process, &at)) >= 0)
		if (gpu_links_process(probes->links, file, process->pid, own_pid) > 0)
			process_log(probes, file, process);
}

/*
 * Also runs when all processes are hooked, to count children that began before that and were
 * late.
 */
static void processes_scan(struct gpu_probes *probes)
{
	uint64_t now_ns;
	const struct process *process = processes_first(probes->processes);

	for (; process; process = hash_table_next(process))
		if (process->mappings_known && !process->dead &&
		    session_is_target(probes->session, (pid_t)process->pid) &&
		    process_has_changed(probes, process) && gpu_links_are_scoped(probes->links))
			process_scan(probes, process);
	now_ns = time_of_clock_ns(CLOCK_BOOTTIME);
	if (!probes->begun_boot_ns)
		probes->begun_boot_ns = now_ns;
	if (!gpu_links_are_scoped(probes->links) && !probes->widened_boot_ns)
		probes->widened_boot_ns = now_ns; /* there were too many processes */
}

bool gpu_probes_scan(struct gpu_probes *probes, uint64_t now_ns, uint64_t limit_ns)
{
	uint64_t end_ns = now_ns + limit_ns;
	struct image *image;

	while (probes->next_image < images_count(probes->images)) {
		if (now_ns >= end_ns)
			return true;
		image = images_get(probes->images, probes->next_image);
		if (image && image_scan(probes, image, now_ns, end_ns))
			return true;
		gpu_hidden_free(probes->hidden);
		probes->hidden = NULL;
		probes->next_image++;
		now_ns = time_monotonic_ns();
	}
	if (probes->processes)
		processes_scan(probes);
	gpu_links_retry(probes->links);
	return false;
}

void gpu_probes_exit(struct gpu_probes *probes, uint32_t pid, uint64_t start_ns)
{
	const struct process *process;
	struct scanned_process *last;

	gpu_links_exit(probes->links, pid);
	if (!probes->processes)
		return;
	last = hash_table_find(&probes->scanned, &pid);
	if (last) {
		hash_table_remove(&probes->scanned, last);
		return;
	}
	process = processes_find(probes->processes, pid); /* it ended before its first scan */
	probes->losses.nr_late +=
		process && process->start_ns == start_ns && is_late(probes, process);
	if (is_child(probes, start_ns))
		widen(probes);
}

void gpu_probes_unused(struct gpu_probes *probes, const struct image *image)
{
	const struct gpu_links_file id = file_id(image);
	int file = image->hooked ? gpu_links_find(probes->links, &id) : -ENOENT;
	const struct image *other;
	uint32_t i;

	if (file < 0)
		return;
	/* The same file, after its content changed: its probes are the same. */
	for (i = BPFPROF_IMAGE_FIRST_FILE; i < images_count(probes->images); i++) {
		other = images_get(probes->images, i);
		if (other && other != image && other->hooked && is_of_file(other, &id))
			return;
	}
	gpu_links_remove(probes->links, file);
	log_debug("unhooked %s", image->path);
	library_unlist(probes, file);
}

bool gpu_probes_are_scoped(const struct gpu_probes *probes)
{
	return gpu_links_are_scoped(probes->links);
}

const struct gpu_probes_losses *gpu_probes_losses(const struct gpu_probes *probes)
{
	return &probes->losses;
}

const struct gpu_probes_library *gpu_probes_libraries(struct gpu_probes *probes, size_t *ret_nr)
{
	size_t i;
	int err;

	for (i = 0; i < probes->nr_libraries; i++) {
		if (probes->libraries[i].file < 0)
			continue;
		err = gpu_links_error(probes->links, probes->libraries[i].file);
		probes->libraries[i].problem = err ? problem_text(err) : NULL;
	}
	*ret_nr = probes->nr_libraries;
	return probes->libraries;
}

void gpu_probes_step(struct gpu_probes *probes, uint32_t pid, uint64_t start_ns, bool in_step)
{
	probes->losses.nr_steps_refused += !gpu_maps_stepping_set(
		probes->session, pid, start_ns, BPFPROF_STEPPING_IN_STEP, in_step);
}

void gpu_probes_report_windows(struct gpu_probes *probes, uint32_t pid, uint64_t start_ns, bool on)
{
	probes->losses.nr_steps_refused += !gpu_maps_stepping_set(probes->session, pid, start_ns,
								  BPFPROF_STEPPING_WINDOWS, on);
}

int gpu_probes_new(struct gpu_probes **ret, struct session *session, struct images *images,
		   struct deadline_runner *runner)
{
	struct gpu_probes *probes = calloc(1, sizeof(*probes));
	int err;

	if (!probes)
		return -ENOMEM;
	probes->session = session;
	probes->images = images;
	probes->next_image = BPFPROF_IMAGE_FIRST_FILE;
	hash_table_init(&probes->scanned, MAX_SCANNED, struct scanned_process, pid);
	err = gpu_links_new(&probes->links, session, runner);
	if (!err)
		err = gpu_maps_init(session);
	if (err) {
		gpu_probes_free(probes);
		return err;
	}
	*ret = probes;
	return 0;
}

void gpu_probes_scope(struct gpu_probes *probes, struct processes *processes)
{
	probes->processes = processes;
	gpu_links_scope(probes->links);
}

void gpu_probes_free(struct gpu_probes *probes)
{
	size_t i;

	if (!probes)
		return;
	gpu_links_free(probes->links);
	gpu_hidden_free(probes->hidden);
	hash_table_clear(&probes->scanned);
	for (i = 0; i < probes->nr_libraries; i++)
		free(probes->libraries[i].path);
	free(probes);
}
