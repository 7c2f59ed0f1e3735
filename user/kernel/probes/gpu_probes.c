// SPDX-License-Identifier: Apache-2.0
#include "kernel/probes/gpu_probes.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

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
#include "kernel/session.h"
#include "proc/image_file.h"
#include "proc/images.h"
#include "proc/processes.h"
#include "bpfprof.skel.h"

#define MAX_LOOKED_AT (4 * PROCESSES_MAX) /* processes, with those whose end was not seen */
#define MAX_LISTED (2 * BPFPROF_GPU_MAX_FILES)

/* What was found out of a process, as its mappings were then. */
struct looked_at {
	struct hash_node node;
	uint32_t pid;
	uint64_t start_ns, exec_id, read_ns;
	size_t nr_mappings;
	bool late; /* it had a library from its parent before that was hooked in it */
};

struct listed_image {
	uint32_t image;
	int file; /* of gpu_links.h */
};

struct gpu_probes {
	struct session *session;
	struct images *images;
	struct gpu_links *links;
	uint32_t next_image; /* to be looked at */
	struct gpu_hidden *hidden; /* how far next_image has been searched for NCCL, or NULL */
	struct gpu_probes_library libraries[MAX_LISTED];
	struct gpu_links_file library_ids[MAX_LISTED];
	int library_files[MAX_LISTED]; /* each one's number in links, or -1 */
	size_t nr_libraries;
	uint64_t nr_refused;
	uint64_t nr_bad_sites[GPU_NR_LAYERS], nr_without_sites[GPU_NR_LAYERS];
	uint64_t nr_unsearched;
	/* Only if links are of single processes: */
	struct processes *processes;
	struct hash_table looked_at;
	struct listed_image listed[MAX_LISTED]; /* images that are hooked files */
	size_t nr_listed;
	uint64_t begun_boot_ns; /* when those who were there at first had been looked at, or 0 */
	uint64_t widened_boot_ns; /* when it was found that they do not do, or 0 */
	uint64_t nr_late, nr_steps_refused;
};

static const char *problem_text(int err)
{
	switch (err) {
	case -ENOTSUP:
		return "on a FUSE file system, which may hang";
	case -ETIMEDOUT:
	case -EBUSY:
		return "the kernel did not hook it in time";
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

/* Why nothing is known of what a file should tell of itself. */
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

/* The number of the file in links, or -errno. */
static int library_hook(struct gpu_probes *probes, const struct gpu_library *library,
			const struct image *image)
{
	const struct gpu_links_file id = file_id(image);
	int file_fd = image_file_fd(&image->source);

	return file_fd < 0 ? -EBADF : gpu_links_add(probes->links, &id, library, file_fd);
}

/* Who runs for ever forgets files that nobody maps, and meets them again as new ones. */
static bool is_listed(const struct gpu_probes *probes, const struct image *image)
{
	const struct gpu_links_file id = file_id(image), *ids = probes->library_ids;
	size_t i;

	for (i = 0; i < probes->nr_libraries; i++)
		if (probes->library_files[i] < 0 && ids[i].ino == id.ino && ids[i].dev == id.dev &&
		    ids[i].ino_gen == id.ino_gen)
			return true;
	return false;
}

/* file: its number in links, or -errno; problem: static, NULL: what that says. */
static void library_list(struct gpu_probes *probes, const struct image *image,
			 const struct gpu_library *library, int file, const char *problem)
{
	int err = file < 0 ? file : gpu_links_error(probes->links, file);
	struct gpu_probes_library *entry;

	if (file < 0 && is_listed(probes, image))
		return;
	if (probes->nr_libraries == MAX_LISTED || err == -ENOSPC)
		probes->nr_refused++;
	if (probes->nr_libraries == MAX_LISTED)
		return;
	entry = &probes->libraries[probes->nr_libraries];
	entry->path = strdup(image->path);
	if (!entry->path)
		return;
	entry->layers = library->layers;
	entry->functions = file < 0 ? 0 : (uint32_t)(library->nr + library->nr_sites);
	entry->problem = err && !problem ? problem_text(err) : problem;
	probes->library_ids[probes->nr_libraries] = file_id(image);
	probes->library_files[probes->nr_libraries++] = file;
	if (err)
		log_debug("%s: %s: %s", entry->path, entry->problem, strerror(-err));
	else if (!gpu_links_are_scoped(probes->links))
		log_debug("hooked %s: %u functions", entry->path, entry->functions);
}

static void process_tell(const struct gpu_probes *probes, int file, const struct process *process)
{
	size_t i;

	for (i = 0; i < probes->nr_libraries; i++)
		if (probes->library_files[i] == file)
			log_debug("hooked %s: %u functions, in pid %u", probes->libraries[i].path,
				  probes->libraries[i].functions, process->pid);
}

static bool name_begins(const struct image *image, const char *with)
{
	const char *name = strrchr(image->path, '/');

	return !strncmp(name ? name + 1 : image->path, with, strlen(with));
}

/* Is it to have PyTorch's probes, which are wanted? */
static bool is_torch(const struct gpu_probes *probes, const struct image *image)
{
	return probes->session->options.gpu_tensors && name_begins(image, "libc10_cuda.so");
}

/* Has it the name of a file in which Python's may be, and are they wanted? */
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

/* 0; -ENODATA: it has no probes of that layer; -EBADMSG: none that can be read. */
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
		probes->nr_bad_sites[layer] += nr_bad;
	if (layer == GPU_LAYER_PYTHON && nr_bad) /* one of the two tells nothing */
		return -EBADMSG;
	if (!nr || nr > GPU_SITES_MAX - ret->nr_sites)
		return -EBADMSG;
	memcpy(ret->sites + ret->nr_sites, sites, nr * sizeof(*sites));
	ret->nr_sites += nr;
	ret->layers |= 1U << layer;
	return 0;
}

/* Of what it exports only where windows of the profiler begin and end. Is that there? */
static bool windows_only(struct gpu_library *library)
{
	const struct gpu_function *functions;
	size_t nr_functions, i, kept = 0;
	uint32_t kind;

	functions = gpu_functions(&nr_functions);
	for (i = 0; i < library->nr; i++) {
		kind = functions[library->hooks[i].function].wire.kind;
		if (kind == GPU_KIND_WINDOW_BEGIN || kind == GPU_KIND_WINDOW_END)
			library->hooks[kept++] = library->hooks[i];
	}
	library->nr = kept;
	return kept;
}

/* NCCL may be in it, but nobody can know. */
static void unsearched_list(struct gpu_probes *probes, const struct image *image,
			    const struct gpu_library *library, int err)
{
	if (is_listed(probes, image))
		return;
	probes->nr_unsearched++;
	library_list(probes, image, library, err,
		     err == -E2BIG ? "too many symbols to be searched for NCCL"
				   : "its symbols cannot be searched for NCCL");
}

/* -EAGAIN: at end_ns there was more to be searched. */
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
 * 0: there is something to be hooked in it; -EAGAIN: that is to be gone on with; else what the
 * library is to be listed with, if at all.
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

/* A library without which zeros do not mean that there is nothing. */
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
	probes->nr_without_sites[layer]++;
	problems = &sites_problems[layer];
	library_list(probes, image, library, err,
		     err == -ENODATA ? problems->absent : problems->unreadable);
}

/* True: at end_ns it was not through. */
static bool image_scan(struct gpu_probes *probes, struct image *image, uint64_t now_ns,
		       uint64_t end_ns)
{
	__cleanup(free_mem) struct gpu_library *library = calloc(1, sizeof(*library));
	struct gpu_links_file id;
	int file, err;

	if (!library)
		return false;
	if (images_open(probes->images, image, now_ns)) {
		/* Of most files that cannot be had nobody expects anything. */
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
	image_is_file(probes, image->id, file);
	return false;
}

/* The file that a mapping is of, or -1. From *at on, which goes on behind it. */
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

static void late_set(struct gpu_probes *probes, struct looked_at *last, bool late)
{
	probes->nr_late += late;
	probes->nr_late -= last->late;
	last->late = late;
}

/* Did it begin while we watched? Then one of those that we watch has started it. */
static bool is_child(const struct gpu_probes *probes, uint64_t start_ns)
{
	return probes->begun_boot_ns && start_ns > probes->begun_boot_ns;
}

/* It has begun before all processes were hooked, as a copy of one that has a library mapped. */
static bool is_late(const struct gpu_probes *probes, const struct process *process)
{
	size_t at = 0;

	return is_child(probes, process->start_ns) && !process->read_ns &&
	       (!probes->widened_boot_ns || process->start_ns < probes->widened_boot_ns) &&
	       file_next(probes, process, &at) >= 0;
}

/* Children may be gone before one of them could be hooked by itself. */
static void widen(struct gpu_probes *probes)
{
	if (!gpu_links_are_scoped(probes->links))
		return;
	gpu_links_widen(probes->links);
	probes->widened_boot_ns = time_of_clock_ns(CLOCK_BOOTTIME);
}

/* The process is looked at once more if it is still there. */
static void looked_at_evict(struct gpu_probes *probes)
{
	struct looked_at *oldest = (void *)probes->looked_at.oldest;

	late_set(probes, oldest, false);
	hash_table_remove(&probes->looked_at, oldest);
}

/* False: nothing has changed since it was looked at, or there is no memory. */
static bool process_is_news(struct gpu_probes *probes, const struct process *process)
{
	struct looked_at *last = hash_table_find(&probes->looked_at, &process->pid);

	if (!last) {
		if (probes->looked_at.nr == MAX_LOOKED_AT)
			looked_at_evict(probes);
		last = hash_table_add(&probes->looked_at, &process->pid);
		if (!last)
			return false;
	} else if (last->start_ns == process->start_ns && last->read_ns == process->read_ns &&
		   last->nr_mappings == process->nr_mappings) {
		return false;
	}
	if (process->exec_id != last->exec_id) /* what it had then is gone */
		late_set(probes, last, false);
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
	uint32_t own_pid = session_own_pid(probes->session, process->pid, process->place.agent_pid);
	size_t at = 0;
	int file;

	while ((file = file_next(probes, process, &at)) >= 0)
		if (gpu_links_process(probes->links, file, process->pid, own_pid) > 0)
			process_tell(probes, file, process);
}

/* Also when all are hooked: of children that began before that it is told who was late. */
static void processes_scan(struct gpu_probes *probes)
{
	uint64_t now_ns;
	const struct process *process = processes_first(probes->processes);

	for (; process; process = hash_table_next(process))
		if (process->mappings_known && !process->dead &&
		    session_is_target(probes->session, (pid_t)process->pid) &&
		    process_is_news(probes, process) && gpu_links_are_scoped(probes->links))
			process_scan(probes, process);
	now_ns = time_of_clock_ns(CLOCK_BOOTTIME);
	if (!probes->begun_boot_ns)
		probes->begun_boot_ns = now_ns;
	if (!gpu_links_are_scoped(probes->links) && !probes->widened_boot_ns)
		probes->widened_boot_ns = now_ns; /* as there were too many */
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
	struct looked_at *last;

	gpu_links_exit(probes->links, pid);
	if (!probes->processes)
		return;
	last = hash_table_find(&probes->looked_at, &pid);
	if (last) {
		hash_table_remove(&probes->looked_at, last);
		return;
	}
	process = processes_find(probes->processes, pid); /* gone before it was looked at */
	probes->nr_late += process && process->start_ns == start_ns && is_late(probes, process);
	if (is_child(probes, start_ns))
		widen(probes);
}

bool gpu_probes_are_scoped(const struct gpu_probes *probes)
{
	return gpu_links_are_scoped(probes->links);
}

uint64_t gpu_probes_nr_late(const struct gpu_probes *probes)
{
	return probes->nr_late;
}

const struct gpu_probes_library *gpu_probes_libraries(struct gpu_probes *probes, size_t *ret_nr)
{
	size_t i;
	int err;

	for (i = 0; i < probes->nr_libraries; i++) {
		if (probes->library_files[i] < 0)
			continue;
		err = gpu_links_error(probes->links, probes->library_files[i]);
		probes->libraries[i].problem = err ? problem_text(err) : NULL;
	}
	*ret_nr = probes->nr_libraries;
	return probes->libraries;
}

uint64_t gpu_probes_nr_bad_sites(const struct gpu_probes *probes, enum bpfprof_gpu_layer layer)
{
	return probes->nr_bad_sites[layer];
}

uint64_t gpu_probes_nr_without_sites(const struct gpu_probes *probes, enum bpfprof_gpu_layer layer)
{
	return probes->nr_without_sites[layer];
}

uint64_t gpu_probes_nr_unsearched(const struct gpu_probes *probes)
{
	return probes->nr_unsearched;
}

uint64_t gpu_probes_nr_refused(const struct gpu_probes *probes)
{
	return probes->nr_refused;
}

/* Calls each() with key and value of every entry of map. */
static void map_each(struct bpf_map *map, void *key, void *next, void *value,
		     void (*each)(void *arg), void *arg)
{
	size_t key_bytes = bpf_map__key_size(map), value_bytes = bpf_map__value_size(map);
	/* Entries may come while this goes on. */
	size_t left = 2 * (size_t)bpf_map__max_entries(map);
	int err = bpf_map__get_next_key(map, NULL, next, key_bytes);

	while (!err && left--) {
		memcpy(key, next, key_bytes);
		/* Asked for before each(), which may delete the entry. */
		err = bpf_map__get_next_key(map, key, next, key_bytes);
		if (!bpf_map__lookup_elem(map, key, key_bytes, value, value_bytes, 0))
			each(arg);
	}
}

struct counts_call {
	struct bpfprof_gpu_key key, next;
	struct bpfprof_gpu_count value;
	void (*each)(void *arg, const struct bpfprof_gpu_key *key,
		     const struct bpfprof_gpu_count *count);
	void *arg;
};

static void counts_one(void *arg)
{
	struct counts_call *call = arg;

	call->each(call->arg, &call->key, &call->value);
}

void gpu_probes_counts(const struct gpu_probes *probes,
		       void (*each)(void *arg, const struct bpfprof_gpu_key *key,
				    const struct bpfprof_gpu_count *count),
		       void *arg)
{
	struct counts_call call = { .each = each, .arg = arg };

	map_each(probes->session->skel->maps.gpu_counts, &call.key, &call.next, &call.value,
		 counts_one, &call);
}

struct threads_call {
	uint32_t key, next;
	struct bpfprof_gpu_thread value;
	void (*each)(void *arg, uint32_t tid, const struct bpfprof_gpu_thread *thread);
	void *arg;
};

static void threads_one(void *arg)
{
	struct threads_call *call = arg;

	if (call->value.depth <= BPFPROF_GPU_MAX_OPEN)
		call->each(call->arg, call->key, &call->value);
}

void gpu_probes_threads(const struct gpu_probes *probes,
			void (*each)(void *arg, uint32_t tid,
				     const struct bpfprof_gpu_thread *thread),
			void *arg)
{
	struct threads_call call = { .each = each, .arg = arg };

	map_each(probes->session->skel->maps.gpu_threads, &call.key, &call.next, &call.value,
		 threads_one, &call);
}

static bool thread_get(const struct gpu_probes *probes, uint32_t tid,
		       struct bpfprof_gpu_thread *ret)
{
	return !bpf_map__lookup_elem(probes->session->skel->maps.gpu_threads, &tid, sizeof(tid),
				     ret, sizeof(*ret), 0);
}

bool gpu_probes_thread_has_called(const struct gpu_probes *probes, uint32_t tid, uint32_t pid,
				  uint64_t start_ns)
{
	struct bpfprof_gpu_thread thread;

	return thread_get(probes, tid, &thread) && thread.pid == pid && thread.start_ns == start_ns;
}

bool gpu_probes_thread_is_in(const struct gpu_probes *probes, uint32_t tid,
			     const struct bpfprof_gpu_open *open)
{
	struct bpfprof_gpu_thread thread;
	uint32_t i;

	if (!thread_get(probes, tid, &thread))
		return false;
	for (i = 0; i < thread.depth && i < BPFPROF_GPU_MAX_OPEN; i++)
		if (thread.open[i].begin_ns == open->begin_ns &&
		    !memcmp(&thread.open[i].key, &open->key, sizeof(open->key)))
			return true;
	return false;
}

bool gpu_probes_thread_copies(const struct gpu_probes *probes, uint32_t tid, uint64_t start_ns)
{
	struct bpfprof_gpu_thread thread;
	uint32_t i;

	if (!thread_get(probes, tid, &thread) || thread.start_ns != start_ns)
		return false;
	for (i = 0; i < thread.depth && i < BPFPROF_GPU_MAX_OPEN; i++)
		if (thread.open[i].flags & BPFPROF_CALL_TO_DEVICE)
			return true;
	return false;
}

struct comms_call {
	struct bpfprof_gpu_comm_key key, next;
	struct bpfprof_gpu_comm value;
	void (*each)(void *arg, const struct bpfprof_gpu_comm_key *key,
		     const struct bpfprof_gpu_comm *comm);
	void *arg;
};

static void comms_one(void *arg)
{
	struct comms_call *call = arg;

	call->each(call->arg, &call->key, &call->value);
}

void gpu_probes_comms(const struct gpu_probes *probes,
		      void (*each)(void *arg, const struct bpfprof_gpu_comm_key *key,
				   const struct bpfprof_gpu_comm *comm),
		      void *arg)
{
	struct comms_call call = { .each = each, .arg = arg };

	map_each(probes->session->skel->maps.gpu_comms, &call.key, &call.next, &call.value,
		 comms_one, &call);
}

struct memory_call {
	struct bpfprof_gpu_process_key key, next;
	struct bpfprof_gpu_memory value;
	void (*each)(void *arg, const struct bpfprof_gpu_process_key *key,
		     const struct bpfprof_gpu_memory *memory);
	void *arg;
};

static void memory_one(void *arg)
{
	struct memory_call *call = arg;

	call->each(call->arg, &call->key, &call->value);
}

void gpu_probes_memory(const struct gpu_probes *probes,
		       void (*each)(void *arg, const struct bpfprof_gpu_process_key *key,
				    const struct bpfprof_gpu_memory *memory),
		       void *arg)
{
	struct memory_call call = { .each = each, .arg = arg };

	map_each(probes->session->skel->maps.gpu_memory, &call.key, &call.next, &call.value,
		 memory_one, &call);
}

struct windows_call {
	struct bpfprof_gpu_process_key key, next;
	struct bpfprof_gpu_window value;
	void (*each)(void *arg, const struct bpfprof_gpu_process_key *key,
		     const struct bpfprof_gpu_window *window);
	void *arg;
};

static void windows_one(void *arg)
{
	struct windows_call *call = arg;

	call->each(call->arg, &call->key, &call->value);
}

void gpu_probes_windows(const struct gpu_probes *probes,
			void (*each)(void *arg, const struct bpfprof_gpu_process_key *key,
				     const struct bpfprof_gpu_window *window),
			void *arg)
{
	struct windows_call call = { .each = each, .arg = arg };

	map_each(probes->session->skel->maps.gpu_windows, &call.key, &call.next, &call.value,
		 windows_one, &call);
}

bool gpu_probes_has_window(const struct gpu_probes *probes, uint32_t pid, uint64_t start_ns)
{
	const struct bpfprof_gpu_process_key key = { .start_ns = start_ns, .pid = pid };
	struct bpfprof_gpu_window window;

	return !bpf_map__lookup_elem(probes->session->skel->maps.gpu_windows, &key, sizeof(key),
				     &window, sizeof(window), 0);
}

int gpu_probes_steps(struct gpu_probes *probes, uint64_t start, uint64_t stop)
{
	const struct bpfprof_gpu_steps steps = { .start = start, .stop = stop };
	uint32_t zero = 0;

	return bpf_map__update_elem(probes->session->skel->maps.gpu_steps, &zero, sizeof(zero),
				    &steps, sizeof(steps), BPF_ANY)
		       ? -errno
		       : 0;
}

static void stepping_set(struct gpu_probes *probes, uint32_t pid, uint64_t start_ns, uint32_t bit,
			 bool on)
{
	const struct bpfprof_gpu_process_key key = { .start_ns = start_ns, .pid = pid };
	struct bpf_map *map = probes->session->skel->maps.gpu_stepping;
	uint32_t bits = 0;

	if (bpf_map__lookup_elem(map, &key, sizeof(key), &bits, sizeof(bits), 0))
		bits = 0;
	bits = on ? bits | bit : bits & ~bit;
	if (!bits)
		bpf_map__delete_elem(map, &key, sizeof(key), 0);
	else if (bpf_map__update_elem(map, &key, sizeof(key), &bits, sizeof(bits), BPF_ANY))
		probes->nr_steps_refused++;
}

void gpu_probes_step(struct gpu_probes *probes, uint32_t pid, uint64_t start_ns, bool in_step)
{
	stepping_set(probes, pid, start_ns, BPFPROF_STEPPING_IN_STEP, in_step);
}

void gpu_probes_tell_windows(struct gpu_probes *probes, uint32_t pid, uint64_t start_ns, bool tell)
{
	stepping_set(probes, pid, start_ns, BPFPROF_STEPPING_WINDOWS, tell);
}

uint64_t gpu_probes_nr_steps_refused(const struct gpu_probes *probes)
{
	return probes->nr_steps_refused;
}

void gpu_probes_counters(const struct gpu_probes *probes, uint64_t counters[GPU_NR_COUNTERS])
{
	struct bpf_map *map = probes->session->skel->maps.gpu_counters;
	uint32_t i;

	for (i = 0; i < GPU_NR_COUNTERS; i++)
		if (bpf_map__lookup_elem(map, &i, sizeof(i), &counters[i], sizeof(counters[i]), 0))
			counters[i] = 0;
}

void gpu_probes_count_add(struct gpu_probes *probes, const struct bpfprof_gpu_key *key, uint64_t ns)
{
	struct bpf_map *map = probes->session->skel->maps.gpu_counts;
	struct bpfprof_gpu_count count;

	if (bpf_map__lookup_elem(map, key, sizeof(*key), &count, sizeof(count), 0))
		return;
	count.ns += ns;
	if (count.max_ns < ns)
		count.max_ns = ns;
	bpf_map__update_elem(map, key, sizeof(*key), &count, sizeof(count), BPF_EXIST);
}

void gpu_probes_count_delete(struct gpu_probes *probes, const struct bpfprof_gpu_key *key)
{
	bpf_map__delete_elem(probes->session->skel->maps.gpu_counts, key, sizeof(*key), 0);
}

void gpu_probes_comm_delete(struct gpu_probes *probes, const struct bpfprof_gpu_comm_key *key)
{
	bpf_map__delete_elem(probes->session->skel->maps.gpu_comms, key, sizeof(*key), 0);
}

void gpu_probes_memory_delete(struct gpu_probes *probes, const struct bpfprof_gpu_process_key *key)
{
	bpf_map__delete_elem(probes->session->skel->maps.gpu_memory, key, sizeof(*key), 0);
}

void gpu_probes_process_delete(struct gpu_probes *probes, const struct bpfprof_gpu_process_key *key)
{
	bpf_map__delete_elem(probes->session->skel->maps.gpu_processes, key, sizeof(*key), 0);
}

bool gpu_probes_process_is_gone(const struct gpu_probes *probes, uint32_t pid)
{
	return session_pids_are_the_nodes(probes->session) && kill((pid_t)pid, 0) && errno == ESRCH;
}

struct sweep {
	const struct gpu_probes *probes;
	struct bpf_map *map;
	uint64_t idle_since_ns;
	uint32_t pid;
	uint64_t start_ns;
	void (*each)(void *arg, uint32_t tid, const struct bpfprof_gpu_thread *thread);
	void *arg;
};

bool gpu_probes_thread_is_gone(const struct gpu_probes *probes, uint32_t pid, uint32_t tid)
{
	return session_pids_are_the_nodes(probes->session) && syscall(SYS_tgkill, pid, tid, 0) &&
	       errno == ESRCH;
}

static void sweep_one(void *arg, uint32_t tid, const struct bpfprof_gpu_thread *thread)
{
	struct sweep *sweep = arg;
	bool gone = sweep->pid && thread->pid == sweep->pid && thread->start_ns == sweep->start_ns;

	if (!sweep->pid && thread->last_ns < sweep->idle_since_ns)
		gone = !thread->depth || gpu_probes_thread_is_gone(sweep->probes, thread->pid, tid);
	if (!gone)
		return;
	if (sweep->each)
		sweep->each(sweep->arg, tid, thread);
	bpf_map__delete_elem(sweep->map, &tid, sizeof(tid), 0);
}

void gpu_probes_sweep(struct gpu_probes *probes, uint64_t idle_since_ns)
{
	struct sweep sweep = { .probes = probes,
			       .map = probes->session->skel->maps.gpu_threads,
			       .idle_since_ns = idle_since_ns };

	gpu_probes_threads(probes, sweep_one, &sweep);
}

void gpu_probes_forget_threads(struct gpu_probes *probes, uint32_t pid, uint64_t start_ns,
			       void (*each)(void *arg, uint32_t tid,
					    const struct bpfprof_gpu_thread *thread),
			       void *arg)
{
	struct sweep sweep = { .map = probes->session->skel->maps.gpu_threads,
			       .pid = pid,
			       .start_ns = start_ns,
			       .each = each,
			       .arg = arg };

	gpu_probes_threads(probes, sweep_one, &sweep);
}

static int maps_fill(struct bpfprof_bpf *skel)
{
	const struct gpu_function *functions;
	int stack_fd = bpf_program__fd(skel->progs.gpu_stack);
	uint32_t i = 0;
	size_t nr;

	if (stack_fd >= 0 && bpf_map__update_elem(skel->maps.gpu_programs, &i, sizeof(i), &stack_fd,
						  sizeof(stack_fd), BPF_ANY))
		return -errno;
	functions = gpu_functions(&nr);
	for (i = 1; i < nr && i < BPFPROF_GPU_MAX_FUNCTIONS; i++)
		if (bpf_map__update_elem(skel->maps.gpu_functions, &i, sizeof(i),
					 &functions[i].wire, sizeof(functions[i].wire), BPF_ANY))
			return -errno;
	return 0;
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
	hash_table_init(&probes->looked_at, MAX_LOOKED_AT, struct looked_at, pid);
	err = gpu_links_new(&probes->links, session, runner);
	if (!err)
		err = maps_fill(session->skel);
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
	hash_table_clear(&probes->looked_at);
	for (i = 0; i < probes->nr_libraries; i++)
		free(probes->libraries[i].path);
	free(probes);
}
