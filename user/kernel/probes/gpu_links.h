/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_KERNEL_PROBES_GPU_LINKS_H
#define BPFPROF_KERNEL_PROBES_GPU_LINKS_H

/*
 * The links that hook libraries: in all processes that map a file, or in chosen processes alone, so
 * that calls in other processes cost nothing. Each process with a link costs the other such
 * processes some 40 ns per call. So past GPU_LINKS_MAX_PROCESSES the links are made anew for all
 * processes. No call is missed or counted twice then: the map gpu_files says which kind of link is
 * in force.
 *
 * Kernels without uprobe_multi have perf's uprobes (uprobe_perf.h), in all processes only.
 *
 * A link has a deadline (uprobe_links.h), after which it is tried again a few times (base/backoff.h).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct deadline_runner;
struct gpu_library;
struct gpu_links;
struct session;

#define GPU_LINKS_MAX_PROCESSES 16

/* The inode of a file. Probes belong to it, also when its content changes. */
struct gpu_links_file {
	uint32_t dev, ino_gen;
	uint64_t ino;
};

/* For a session with the option gpu. Borrows both. 0 or -errno. */
int gpu_links_new(struct gpu_links **ret, struct session *session, struct deadline_runner *runner);
/* Detaches. */
void gpu_links_free(struct gpu_links *links);

/* Hooks only the processes of gpu_links_process(). Called before the first file. */
void gpu_links_scope(struct gpu_links *links);
/* Hooks all processes from now on. */
void gpu_links_widen(struct gpu_links *links);
bool gpu_links_are_scoped(const struct gpu_links *links);

/* The number of an added file, or -ENOENT. */
int gpu_links_find(struct gpu_links *links, const struct gpu_links_file *file);
/*
 * Adds a file, and hooks it unless links are of single processes. Copies library and duplicates
 * file_fd. Files of one tenant (base/tenant.h) leave a quarter of the places. Returns the number of the file;
 * -ENOSPC: no room; or -errno: it cannot be hooked.
 */
int gpu_links_add(struct gpu_links *links, const struct gpu_links_file *file, uint32_t tenant,
		  const struct gpu_library *library, int file_fd);
/*
 * Hooks the file in one more process, which is pid in the outermost pid namespace and own_pid in
 * that of this program. 1; 0: it was hooked already; or the -errno of gpu_links_error().
 */
int gpu_links_process(struct gpu_links *links, int file, uint32_t pid, uint32_t own_pid);
/* A process has executed another program: links that have lost it are closed, so that it can be hooked again. */
void gpu_links_execute(struct gpu_links *links, uint32_t pid);
/* A process has ended. */
void gpu_links_exit(struct gpu_links *links, uint32_t pid);
/* Retries the links that are due. */
void gpu_links_retry(struct gpu_links *links);

/*
 * Detaches a file that no process maps, with links for all processes. Another file may get its number.
 */
void gpu_links_remove(struct gpu_links *links, int file);

/* The result of the last try to hook the file. -EBUSY, -ETIMEDOUT and -EDEADLK are tried again. */
int gpu_links_error(const struct gpu_links *links, int file);

#endif
