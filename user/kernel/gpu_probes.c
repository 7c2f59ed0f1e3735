// SPDX-License-Identifier: Apache-2.0
#include "kernel/gpu_probes.h"

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
#include <sys/vfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/deadline.h"
#include "base/log.h"
#include "base/time.h"
#include "elf/image.h"
#include "gpu/functions.h"
#include "gpu/library.h"
#include "kernel/session.h"
#include "kernel/uprobe_multi.h"
#include "proc/image_file.h"
#include "proc/images.h"
#include "bpfprof.skel.h"

#define LINK_DEADLINE_MS 5000
#define MAX_LISTED (2 * BPFPROF_GPU_MAX_FILES)
#define SELF_FD_BYTES 32

/* A file whose probes hold for whatever its contents become: they belong to the inode. */
struct hooked_file {
	uint32_t dev, ino_gen;
	uint64_t ino;
	int enter_fd, return_fd; /* links; -1: none was needed */
};

struct gpu_probes {
	struct session *session;
	struct images *images;
	struct deadline_runner *runner;
	uint32_t next_image; /* to be looked at */
	struct hooked_file files[BPFPROF_GPU_MAX_FILES]; /* as in the map gpu_files */
	uint32_t nr_files;
	struct gpu_probes_library libraries[MAX_LISTED];
	size_t nr_libraries;
	uint64_t nr_refused;
};

/* Owns what it points to; made for a thread that may be left alone with it. */
struct link_job {
	int file_fd;
	int prog_fd;
	uint64_t offsets[BPFPROF_GPU_MAX_FUNCTIONS];
	uint64_t cookies[BPFPROF_GPU_MAX_FUNCTIONS];
	size_t nr;
	bool returns;
	int link_fd; /* result */
};

static long link_run(void *arg)
{
	struct link_job *job = arg;
	char path[SELF_FD_BYTES];
	struct uprobe_multi probes = { .prog_fd = job->prog_fd,
				       .path = path,
				       .offsets = job->offsets,
				       .cookies = job->cookies,
				       .nr = job->nr,
				       .returns = job->returns };
	struct statfs fs;

	if (fstatfs(job->file_fd, &fs))
		return -EIO;
	if ((unsigned long)fs.f_type == FUSE_SUPER_MAGIC)
		return -ENOTSUP;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", job->file_fd);
	job->link_fd = uprobe_multi_attach(&probes);
	if (job->link_fd == -ETIMEDOUT)
		return -EIO;
	return job->link_fd < 0 ? job->link_fd : 0;
}

static void link_close(void *arg)
{
	struct link_job *job = arg;

	if (job->link_fd >= 0)
		close(job->link_fd);
	close(job->file_fd);
}

/* A link for those of the hooks that want it; *ret_fd is -1 if none does. 0 or -errno. */
static int link_make(struct gpu_probes *probes, const struct gpu_library *library, int file_fd,
		     uint32_t file_nr, bool returns, int *ret_fd)
{
	struct bpfprof_bpf *skel = probes->session->skel;
	__cleanup(free_mem) struct link_job *job = calloc(1, sizeof(*job));
	size_t nr_functions;
	const struct gpu_function *functions = gpu_functions(&nr_functions);
	uint32_t function;
	size_t i;
	long err;

	*ret_fd = -1;
	if (!job)
		return -ENOMEM;
	for (i = 0; i < library->nr; i++) {
		function = library->hooks[i].function;
		if (returns && !(functions[function].wire.flags & BPFPROF_GPU_RETURNS))
			continue;
		job->offsets[job->nr] = library->hooks[i].off;
		job->cookies[job->nr++] = (uint64_t)file_nr << BPFPROF_GPU_FUNCTION_BITS | function;
	}
	if (!job->nr)
		return 0;
	job->returns = returns;
	job->prog_fd = bpf_program__fd(returns ? skel->progs.gpu_return : skel->progs.gpu_enter);
	job->link_fd = -1;
	job->file_fd = fcntl(file_fd, F_DUPFD_CLOEXEC, 0);
	if (job->file_fd < 0)
		return -errno;
	err = deadline_run(probes->runner, link_run, link_close, job, sizeof(*job),
			   LINK_DEADLINE_MS);
	if (err != -ETIMEDOUT)
		close(job->file_fd);
	if (!err)
		*ret_fd = job->link_fd;
	return (int)err;
}

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
		return "not to be had as a file";
	default:
		return "the kernel could not hook it";
	}
}

static bool is_hooked(const struct gpu_probes *probes, const struct image *image)
{
	uint32_t i;

	for (i = 0; i < probes->nr_files; i++)
		if (probes->files[i].ino == image->ino && probes->files[i].dev == image->dev &&
		    probes->files[i].ino_gen == image->ino_gen)
			return true;
	return false;
}

/* Both links or none: a call whose return alone is seen would be told as an accident. */
static int library_hook(struct gpu_probes *probes, const struct gpu_library *library,
			const struct image *image)
{
	struct bpfprof_bpf *skel = probes->session->skel;
	struct bpfprof_gpu_file file = { .comm_rank = library->comm_rank };
	struct hooked_file hooked = { .dev = image->dev,
				      .ino_gen = image->ino_gen,
				      .ino = image->ino };
	int file_fd = image_file_fd(&image->source), err;
	uint32_t nr = probes->nr_files;

	if (nr == BPFPROF_GPU_MAX_FILES)
		return -ENOSPC;
	if (file_fd < 0)
		return -EBADF;
	if (bpf_map__update_elem(skel->maps.gpu_files, &nr, sizeof(nr), &file, sizeof(file),
				 BPF_ANY))
		return -errno;
	err = link_make(probes, library, file_fd, nr, true, &hooked.return_fd);
	if (err)
		return err;
	err = link_make(probes, library, file_fd, nr, false, &hooked.enter_fd);
	if (err) {
		if (hooked.return_fd >= 0)
			close(hooked.return_fd);
		return err;
	}
	probes->files[probes->nr_files++] = hooked;
	return 0;
}

static void library_list(struct gpu_probes *probes, const struct image *image,
			 const struct gpu_library *library, int err)
{
	struct gpu_probes_library *entry;

	if (probes->nr_libraries == MAX_LISTED) {
		probes->nr_refused++;
		return;
	}
	entry = &probes->libraries[probes->nr_libraries];
	entry->path = strdup(image->path);
	if (!entry->path)
		return;
	entry->layers = library->layers;
	entry->functions = err ? 0 : (uint32_t)library->nr;
	entry->problem = err ? problem_text(err) : NULL;
	probes->nr_libraries++;
	if (err)
		log_debug("%s: %s: %s", entry->path, entry->problem, strerror(-err));
	else
		log_debug("hooked %s: %u functions", entry->path, entry->functions);
}

static bool is_named(const struct image *image)
{
	const char *name = strrchr(image->path, '/');

	name = name ? name + 1 : image->path;
	return !strncmp(name, "libcuda.so", strlen("libcuda.so")) ||
	       !strncmp(name, "libnccl.so", strlen("libnccl.so"));
}

static void image_look(struct gpu_probes *probes, struct image *image, uint64_t now_ns)
{
	__cleanup(free_mem) struct gpu_library *library = calloc(1, sizeof(*library));

	if (!library)
		return;
	if (images_open(probes->images, image, now_ns)) {
		/* Of most files that cannot be had nobody expects anything. */
		if (is_named(image))
			library_list(probes, image, library, -EBADF);
		return;
	}
	if (!gpu_library_read(library, image->elf) && !is_hooked(probes, image))
		library_list(probes, image, library, library_hook(probes, library, image));
}

bool gpu_probes_look(struct gpu_probes *probes, uint64_t now_ns, uint64_t limit_ns)
{
	uint64_t end_ns = now_ns + limit_ns;
	struct image *image;

	while (probes->next_image < images_count(probes->images)) {
		if (now_ns >= end_ns)
			return true;
		image = images_get(probes->images, probes->next_image++);
		if (image)
			image_look(probes, image, now_ns);
		now_ns = time_monotonic_ns();
	}
	return false;
}

const struct gpu_probes_library *gpu_probes_libraries(const struct gpu_probes *probes,
						      size_t *ret_nr)
{
	*ret_nr = probes->nr_libraries;
	return probes->libraries;
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

void gpu_probes_counters(const struct gpu_probes *probes, uint64_t counters[GPU_NR_COUNTERS])
{
	struct bpf_map *map = probes->session->skel->maps.gpu_counters;
	uint32_t i;

	for (i = 0; i < GPU_NR_COUNTERS; i++)
		if (bpf_map__lookup_elem(map, &i, sizeof(i), &counters[i], sizeof(counters[i]), 0))
			counters[i] = 0;
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
	const struct session *session;
	struct bpf_map *map;
	uint64_t idle_since_ns;
	uint32_t pid;
	uint64_t start_ns;
};

/* In a call that it never returned from. Where we cannot ask, the end of its process tells. */
static bool thread_is_gone(const struct session *session, uint32_t pid, uint32_t tid)
{
	return session_pids_are_the_nodes(session) && syscall(SYS_tgkill, pid, tid, 0) &&
	       errno == ESRCH;
}

static void sweep_one(void *arg, uint32_t tid, const struct bpfprof_gpu_thread *thread)
{
	struct sweep *sweep = arg;
	bool gone = sweep->pid && thread->pid == sweep->pid && thread->start_ns == sweep->start_ns;

	if (!sweep->pid && thread->last_ns < sweep->idle_since_ns)
		gone = !thread->depth || thread_is_gone(sweep->session, thread->pid, tid);
	if (gone)
		bpf_map__delete_elem(sweep->map, &tid, sizeof(tid), 0);
}

void gpu_probes_sweep(struct gpu_probes *probes, uint64_t idle_since_ns)
{
	struct sweep sweep = { .session = probes->session,
			       .map = probes->session->skel->maps.gpu_threads,
			       .idle_since_ns = idle_since_ns };

	gpu_probes_threads(probes, sweep_one, &sweep);
}

void gpu_probes_forget_threads(struct gpu_probes *probes, uint32_t pid, uint64_t start_ns)
{
	struct sweep sweep = { .map = probes->session->skel->maps.gpu_threads,
			       .pid = pid,
			       .start_ns = start_ns };

	gpu_probes_threads(probes, sweep_one, &sweep);
}

static int maps_fill(struct bpfprof_bpf *skel)
{
	const struct gpu_function *functions;
	int stack_fd = bpf_program__fd(skel->progs.gpu_stack);
	uint32_t i = 0;
	size_t nr;

	if (bpf_map__update_elem(skel->maps.gpu_programs, &i, sizeof(i), &stack_fd,
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
	probes->runner = runner;
	probes->next_image = BPFPROF_IMAGE_FIRST_FILE;
	err = maps_fill(session->skel);
	if (err) {
		gpu_probes_free(probes);
		return err;
	}
	*ret = probes;
	return 0;
}

void gpu_probes_free(struct gpu_probes *probes)
{
	size_t i;

	if (!probes)
		return;
	for (i = 0; i < probes->nr_files; i++) {
		if (probes->files[i].enter_fd >= 0)
			close(probes->files[i].enter_fd);
		if (probes->files[i].return_fd >= 0)
			close(probes->files[i].return_fd);
	}
	for (i = 0; i < probes->nr_libraries; i++)
		free(probes->libraries[i].path);
	free(probes);
}
