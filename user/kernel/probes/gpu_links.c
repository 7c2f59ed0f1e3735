// SPDX-License-Identifier: Apache-2.0
#include "kernel/probes/gpu_links.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/backoff.h"
#include "base/cleanup.h"
#include "base/closer.h"
#include "base/time.h"
#include "base/vec.h"
#include "cuda/functions.h"
#include "cuda/library.h"
#include "kernel/probes/locked_memory.h"
#include "kernel/probes/uprobe_links.h"
#include "kernel/probes/uprobe_multi.h"
#include "kernel/session.h"
#include "gpu_calls.h"
#include "bpfprof.skel.h"

#define MAX_PYTHONS (BPFPROF_GPU_MAX_FILES / 2)
#define MAX_OF_TENANT (BPFPROF_GPU_MAX_FILES / 4 * 3)
#define MAX_PYTHON_SITES (BPFPROF_GPU_MAX_SITES / 2)
/* Files in processes; each has three links at most. */
#define MAX_SCOPED (4 * GPU_LINKS_MAX_PROCESSES)

/*
 * Links for the beginnings of functions, for the ends of functions whose end matters, and for sites
 * inside functions.
 */
struct pair {
	int *fds; /* one per group; perf's uprobes need one per hook */
	size_t nr;
};

/* A place in the map gpu_files. */
struct hooked_file {
	struct gpu_links_file id;
	uint32_t tenant;
	struct gpu_library *library; /* NULL: the place is free */
	uint32_t use; /* differs from that of each other file that had the place */
	int fd;
	bool everywhere; /* the pair is for all processes */
	struct pair pair;
	struct backoff backoff;
	int err;
	uint32_t first_site; /* of the library's sites, in the map gpu_sites */
};

/* A file in one process. */
struct scoped {
	int file;
	uint32_t pid, own_pid;
	bool hooked;
	struct pair pair;
	struct backoff backoff;
};

struct gpu_links {
	struct session *session;
	struct deadline_runner *runner;
	struct closer *closer;
	struct locked_memory_patience patience; /* of closer */
	bool by_perf; /* the kernel lacks uprobe_multi */
	bool scoped;
	struct hooked_file files[BPFPROF_GPU_MAX_FILES];
	int nr_files; /* places up to the last one that was ever used */
	uint32_t last_use;
	struct scoped processes[MAX_SCOPED];
	size_t nr_processes;
};

/* The places in a file that links of one purpose hook. */
struct places {
	uint64_t offsets[UPROBE_LINKS_MAX], cookies[UPROBE_LINKS_MAX], semaphores[UPROBE_LINKS_MAX];
	size_t nr;
};

_Static_assert(BPFPROF_GPU_MAX_FUNCTIONS <= UPROBE_LINKS_MAX, "no room");

/* The purpose of a link. */
enum purpose { ENTRIES, RETURNS, SITES };

static void hooks_fill(struct places *places, const struct gpu_links *links, int nr, bool returns)
{
	const struct gpu_library *library = links->files[nr].library;
	size_t nr_functions, i;
	const struct gpu_function *functions = gpu_functions(&nr_functions);
	uint32_t function;

	for (i = 0; i < library->nr; i++) {
		function = library->hooks[i].function;
		/* A trace needs the end of each call. */
		if (returns && !(functions[function].wire.flags & BPFPROF_GPU_RETURNS) &&
		    !(links->session->options.gpu_trace &&
		      BPFPROF_GPU_IS_CALL(functions[function].wire.kind)))
			continue;
		places->offsets[places->nr] = library->hooks[i].off;
		places->cookies[places->nr++] = function;
	}
}

static void sites_fill(struct places *places, const struct hooked_file *file)
{
	const struct gpu_library *library = file->library;

	for (; places->nr < library->nr_sites; places->nr++) {
		places->offsets[places->nr] = library->sites[places->nr].off;
		places->semaphores[places->nr] = library->sites[places->nr].semaphore_off;
		places->cookies[places->nr] = file->first_site + places->nr;
	}
}

static int program_fd(const struct gpu_links *links, enum purpose purpose)
{
	const struct bpfprof_bpf *skel = links->session->skel;
	struct bpf_program *const programs[] = { [ENTRIES] = skel->progs.gpu_enter,
						 [RETURNS] = skel->progs.gpu_return,
						 [SITES] = skel->progs.gpu_site };

	if (!links->session->options.gpu) /* only windows of the profiler are hooked */
		return bpf_program__fd(skel->progs.window_called);
	return bpf_program__fd(programs[purpose]);
}

/* Adds the links for the hooks that need them. 0 or -errno. */
static int links_make(struct gpu_links *links, int nr, pid_t pid, enum purpose purpose,
		      struct pair *pair)
{
	__cleanup(free_mem) struct places *places = calloc(1, sizeof(*places));
	const struct hooked_file *file = &links->files[nr];
	uint64_t cookie = (uint64_t)file->use << 32 | (uint64_t)nr << BPFPROF_GPU_FUNCTION_BITS |
			  (pid ? BPFPROF_GPU_OF_ONE_PROCESS : 0);
	struct uprobe_multi probes = { .prog_fd = program_fd(links, purpose),
				       .returns = purpose == RETURNS,
				       .pid = pid };
	int nr_fds;

	if (!places)
		return -ENOMEM;
	if (purpose == SITES)
		sites_fill(places, file);
	else
		hooks_fill(places, links, nr, purpose == RETURNS);
	for (; probes.nr < places->nr; probes.nr++)
		places->cookies[probes.nr] |= cookie;
	if (!probes.nr)
		return 0;
	probes.offsets = places->offsets;
	probes.cookies = places->cookies;
	probes.semaphores = purpose == SITES ? places->semaphores : NULL;
	if (!vec_fit(pair->fds, pair->nr + probes.nr))
		return -ENOMEM;
	nr_fds = uprobe_links_make(links->session, links->runner, &probes, file->fd, links->by_perf,
				   pair->fds + pair->nr);
	if (nr_fds < 0)
		return nr_fds;
	pair->nr += (size_t)nr_fds;
	return 0;
}

static void pair_close(struct gpu_links *links, struct pair *pair)
{
	while (pair->nr)
		closer_close(links->closer, pair->fds[--pair->nr]);
	free(pair->fds);
	pair->fds = NULL;
}

/* Makes all links or none: a call whose return alone is seen would count as an error. */
static int pair_make(struct gpu_links *links, int nr, pid_t pid, struct pair *ret)
{
	struct pair pair = { 0 };
	int err = links_make(links, nr, pid, RETURNS, &pair);

	if (!err)
		err = links_make(links, nr, pid, ENTRIES, &pair);
	if (!err)
		err = links_make(links, nr, pid, SITES, &pair);
	if (err)
		pair_close(links, &pair);
	else
		*ret = pair;
	return err;
}

static bool may_work_later(int err)
{
	return err == -EBUSY || err == -ETIMEDOUT || err == -EDEADLK;
}

/*
 * Publishes which links of a place count, and the offset of the rank in the communicators of its file. In a free
 * place none does.
 */
static int file_publish(struct gpu_links *links, int nr, bool everywhere)
{
	const struct hooked_file *file = &links->files[nr];
	const struct bpfprof_gpu_file wire = {
		.comm_rank = file->library ? file->library->comm_rank : 0,
		.everywhere = everywhere,
		.use = file->use,
	};
	uint32_t key = (uint32_t)nr;

	return bpf_map__update_elem(links->session->skel->maps.gpu_files, &key, sizeof(key), &wire,
				    sizeof(wire), BPF_ANY)
		       ? -errno
		       : 0;
}

static bool is_python(const struct gpu_library *library)
{
	return library->layers == 1U << GPU_LAYER_PYTHON;
}

/* The next hooked file from place nr on, whose number is set. NULL: there is none. */
static struct hooked_file *file_from(struct gpu_links *links, int *nr)
{
	while (*nr < links->nr_files && !links->files[*nr].library)
		++*nr;
	return *nr < links->nr_files ? &links->files[*nr] : NULL;
}

/*
 * Does a limit refuse the library? One tenant leaves room for others. Each virtual environment may have a
 * Python of its own, and libraries with calls need room, too.
 */
static bool too_many(struct gpu_links *links, uint32_t tenant, const struct gpu_library *library)
{
	int i, nr_of_tenant = 0, nr_pythons = 0;
	size_t nr_sites = library->nr_sites;
	const struct hooked_file *file;

	for (i = 0; (file = file_from(links, &i)); i++) {
		nr_of_tenant += file->tenant == tenant;
		if (!is_python(file->library))
			continue;
		nr_pythons++;
		nr_sites += file->library->nr_sites;
	}
	return nr_of_tenant >= MAX_OF_TENANT ||
	       (is_python(library) && (nr_pythons >= MAX_PYTHONS || nr_sites > MAX_PYTHON_SITES));
}

/* The first of that many free elements in the map gpu_sites: 0, or behind the sites of a file. */
static uint32_t sites_place(struct gpu_links *links, size_t nr)
{
	const struct hooked_file *file;
	uint32_t first = 0, end;
	int i;

	for (i = 0; nr && (file = file_from(links, &i)); i++) {
		end = file->first_site + (uint32_t)file->library->nr_sites;
		if (first + nr <= file->first_site || first >= end)
			continue;
		first = end;
		i = -1;
	}
	return first;
}

/* Writes the library's sites into their map. */
static int sites_publish(struct gpu_links *links, struct hooked_file *file, uint32_t first)
{
	const struct gpu_library *library = file->library;
	uint32_t i, key;

	file->first_site = first;
	if (first + library->nr_sites > BPFPROF_GPU_MAX_SITES)
		return -ENOSPC;
	for (i = 0; i < library->nr_sites; i++) {
		key = file->first_site + i;
		if (bpf_map__update_elem(links->session->skel->maps.gpu_sites, &key, sizeof(key),
					 &library->sites[i].wire, sizeof(library->sites[i].wire),
					 BPF_ANY))
			return -errno;
	}
	return 0;
}

/* Hooks a file in all processes. Until these links exist, the links of single processes count. */
static int file_hook(struct gpu_links *links, int nr)
{
	struct hooked_file *file = &links->files[nr];
	size_t i;

	file->err = pair_make(links, nr, 0, &file->pair);
	if (!file->err)
		file->err = file_publish(links, nr, true);
	if (may_work_later(file->err))
		backoff_fail(&file->backoff, time_monotonic_ns());
	else
		file->backoff.due_ns = 0;
	if (file->err)
		return file->err;
	file->everywhere = true;
	for (i = 0; i < links->nr_processes; i++)
		if (links->processes[i].file == nr)
			pair_close(links, &links->processes[i].pair);
	return 0;
}

void gpu_links_remove(struct gpu_links *links, int nr)
{
	struct hooked_file *file = &links->files[nr];

	pair_close(links, &file->pair);
	closer_close(links->closer, file->fd);
	free(file->library);
	*file = (struct hooked_file){ .library = NULL };
	file_publish(links, nr, false); /* before its links are closed another file may be hooked */
}

int gpu_links_find(struct gpu_links *links, const struct gpu_links_file *id)
{
	const struct hooked_file *file;
	int i;

	for (i = 0; (file = file_from(links, &i)); i++)
		if (file->id.ino == id->ino && file->id.dev == id->dev &&
		    file->id.ino_gen == id->ino_gen)
			return i;
	return -ENOENT;
}

int gpu_links_add(struct gpu_links *links, const struct gpu_links_file *id, uint32_t tenant,
		  const struct gpu_library *library, int file_fd)
{
	uint32_t first_site = sites_place(links, library->nr_sites);
	struct hooked_file *file;
	int nr, err;

	for (nr = 0; nr < links->nr_files && links->files[nr].library; nr++)
		;
	if (nr == BPFPROF_GPU_MAX_FILES || too_many(links, tenant, library))
		return -ENOSPC;
	file = &links->files[nr];
	*file = (struct hooked_file){ .id = *id,
				      .tenant = tenant,
				      .library = malloc(sizeof(*library)),
				      .use = ++links->last_use,
				      .fd = fcntl(file_fd, F_DUPFD_CLOEXEC, 0) };
	if (nr == links->nr_files)
		links->nr_files++;
	err = file->fd < 0 ? -errno : file->library ? 0 : -ENOMEM;
	if (file->library)
		*file->library = *library;
	if (!err)
		err = sites_publish(links, file, first_site);
	if (!err)
		err = file_publish(links, nr, !links->scoped);
	if (!err && !links->scoped)
		err = file_hook(links, nr);
	if (err && !may_work_later(err)) {
		gpu_links_remove(links, nr);
		return err;
	}
	return nr;
}

static struct scoped *scoped_find(struct gpu_links *links, int file, uint32_t pid)
{
	size_t i;

	for (i = 0; i < links->nr_processes; i++)
		if (links->processes[i].pid == pid && links->processes[i].file == file)
			return &links->processes[i];
	return NULL;
}

static bool has_room(const struct gpu_links *links, uint32_t pid)
{
	size_t nr = 0, i, k;

	if (links->nr_processes == MAX_SCOPED)
		return false;
	for (i = 0; i < links->nr_processes; i++) {
		if (links->processes[i].pid == pid)
			return true;
		for (k = 0; k < i && links->processes[k].pid != links->processes[i].pid; k++)
			;
		nr += k == i;
	}
	return nr < GPU_LINKS_MAX_PROCESSES;
}

/*
 * Hooks all files in all processes. If this fails for a file, its links of single processes stay.
 */
void gpu_links_widen(struct gpu_links *links)
{
	int i;

	links->scoped = false;
	for (i = 0; file_from(links, &i); i++)
		file_hook(links, i);
}

static int scoped_hook(struct gpu_links *links, struct scoped *process)
{
	struct hooked_file *file = &links->files[process->file];
	int err = pair_make(links, process->file, (pid_t)process->own_pid, &process->pair);

	process->hooked = !err;
	process->backoff.due_ns = 0;
	if (may_work_later(err))
		backoff_fail(&process->backoff, time_monotonic_ns());
	if (err != -ESRCH) /* the process has exited meanwhile */
		file->err = err;
	return err;
}

int gpu_links_process(struct gpu_links *links, int file, uint32_t pid, uint32_t own_pid)
{
	struct scoped *process;
	int err;

	if (!links->scoped || scoped_find(links, file, pid))
		return 0;
	if (!own_pid || !has_room(links, pid)) {
		gpu_links_widen(links);
		return 0;
	}
	process = &links->processes[links->nr_processes++];
	*process = (struct scoped){ .file = file, .pid = pid, .own_pid = own_pid };
	err = scoped_hook(links, process);
	return err ?: 1;
}

/* orphans: only links that have lost the process. */
static void scoped_close(struct gpu_links *links, uint32_t pid, bool orphans)
{
	struct scoped *process;
	size_t i = 0;

	while (i < links->nr_processes) {
		process = &links->processes[i];
		if (process->pid != pid ||
		    (orphans &&
		     !(process->pair.nr && uprobe_multi_is_orphan(process->pair.fds[0])))) {
			i++;
			continue;
		}
		pair_close(links, &process->pair);
		*process = links->processes[--links->nr_processes];
	}
}

void gpu_links_execute(struct gpu_links *links, uint32_t pid)
{
	scoped_close(links, pid, true);
}

void gpu_links_exit(struct gpu_links *links, uint32_t pid)
{
	scoped_close(links, pid, false);
}

void gpu_links_retry(struct gpu_links *links)
{
	uint64_t now_ns = time_monotonic_ns();
	size_t k;
	int i;

	for (i = 0; file_from(links, &i); i++)
		if (backoff_is_due(&links->files[i].backoff, now_ns))
			file_hook(links, i);
	for (k = 0; k < links->nr_processes && links->scoped; k++)
		if (backoff_is_due(&links->processes[k].backoff, now_ns))
			scoped_hook(links, &links->processes[k]);
}

int gpu_links_error(const struct gpu_links *links, int file)
{
	return links->files[file].err;
}

void gpu_links_scope(struct gpu_links *links)
{
	links->scoped = true;
}

bool gpu_links_are_scoped(const struct gpu_links *links)
{
	return links->scoped;
}

int gpu_links_new(struct gpu_links **ret, struct session *session, struct deadline_runner *runner)
{
	struct gpu_links *links = calloc(1, sizeof(*links));
	int err;

	if (!links)
		return -ENOMEM;
	links->patience.prog_fd = bpf_program__fd(session->skel->progs.locked_memory);
	err = closer_new(&links->closer, locked_memory_wait, &links->patience);
	if (err) {
		free(links);
		return err;
	}
	links->by_perf = !uprobe_multi_probe();
	links->session = session;
	links->runner = runner;
	*ret = links;
	return 0;
}

void gpu_links_free(struct gpu_links *links)
{
	size_t k;
	int i;

	if (!links)
		return;
	for (k = 0; k < links->nr_processes; k++)
		pair_close(links, &links->processes[k].pair);
	for (i = 0; file_from(links, &i); i++)
		gpu_links_remove(links, i);
	closer_free(links->closer);
	free(links);
}
