/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_KERNEL_PROBES_GPU_LINKS_H
#define BPFPROF_KERNEL_PROBES_GPU_LINKS_H

/*
 * The links that hook libraries: in all processes that map a file, or in chosen ones alone, so that
 * a call in any other costs it nothing. Every process that has a link costs the others who have
 * one some 40 ns at each call: past GPU_LINKS_MAX_PROCESSES of them the links are made anew for all
 * processes, without a call that is missed or counted twice: the map gpu_files says which kind is in force.
 *
 * Kernels without uprobe_multi have perf's uprobes (uprobe_perf.h), in all processes only.
 *
 * Making a link reads pages of the file while no process of the machine may fork: files on FUSE,
 * whose server may never answer, are left alone. It is done under a deadline all the same; what
 * was not done in time is tried again a few times (base/backoff.h).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct deadline_runner;
struct gpu_library;
struct gpu_links;
struct session;

#define GPU_LINKS_MAX_PROCESSES 16

/* The inode, whatever its contents become: probes belong to it. */
struct gpu_links_file {
	uint32_t dev, ino_gen;
	uint64_t ino;
};

/* Of a session with the option gpu; borrows both. 0 or -errno. */
int gpu_links_new(struct gpu_links **ret, struct session *session, struct deadline_runner *runner);
/* Detaches. */
void gpu_links_free(struct gpu_links *links);

/* Before the first file: for processes that are named alone. */
void gpu_links_scope(struct gpu_links *links);
/* From now on in all processes. */
void gpu_links_widen(struct gpu_links *links);
bool gpu_links_are_scoped(const struct gpu_links *links);

/* The number of a file that was added, or -ENOENT. */
int gpu_links_find(const struct gpu_links *links, const struct gpu_links_file *file);
/*
 * Adds a file, and hooks it if that is to be done in all processes. Copies library, duplicates
 * file_fd. Its number; -ENOSPC: there is no room; or -errno, if it cannot be hooked at all.
 */
int gpu_links_add(struct gpu_links *links, const struct gpu_links_file *file,
		  const struct gpu_library *library, int file_fd);
/*
 * Hooks the file in the process, too, which is pid in the outermost pid namespace and own_pid in
 * ours, unless it is hooked there. 1: it is new; 0, or -errno as gpu_links_error() says it.
 */
int gpu_links_process(struct gpu_links *links, int file, uint32_t pid, uint32_t own_pid);
/* A process is gone. */
void gpu_links_exit(struct gpu_links *links, uint32_t pid);
/* Tries again what is due. */
void gpu_links_retry(struct gpu_links *links);

/* 0, or what came of the last try to hook it: -EBUSY and -ETIMEDOUT may yet be made good. */
int gpu_links_error(const struct gpu_links *links, int file);

#endif
