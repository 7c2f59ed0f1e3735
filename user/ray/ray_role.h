/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_RAY_RAY_ROLE_H
#define BPFPROF_RAY_RAY_ROLE_H

/*
 * Room ray: reads Ray roles, calls and steps from the titles and arguments of processes.
 *
 * This file: the role of a process in a Ray cluster, recognized by its arguments (with a NUL after
 * each, as in /proc) and its threads, as Ray 2.60 has them. The target chooses both: a role is a label
 * and proves nothing.
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

enum ray_role {
	RAY_ROLE_NONE = 0,
	RAY_ROLE_DRIVER,
	RAY_ROLE_WORKER,
	RAY_ROLE_RAYLET,
	RAY_ROLE_GCS,
	RAY_ROLE_DASHBOARD,
	RAY_ROLE_AGENT,
	RAY_NR_ROLES,
};

#define RAY_ROLE_TEXT_MAX 96 /* with the NUL */

const char *ray_role_name(enum ray_role role); /* "raylet"; "" for NONE */

/* Recognizes all roles but that of a driver, which is started with any arguments. */
enum ray_role ray_role_of_argv(const char *argv, size_t len);

/*
 * Writes the script, module or -c that Python runs, without folders and cut at cap; control characters
 * become '?'. 0, or -ENOENT: the arguments name none.
 */
int ray_role_script(char *dst, size_t cap, const char *argv, size_t len);

/*
 * Has the process joined a cluster? ray.init(), which makes a Python program a driver, starts a thread
 * with a known name. Reads the names of up to 1024 threads.
 */
bool ray_role_has_joined(pid_t pid);

#endif
