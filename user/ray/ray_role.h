/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_RAY_RAY_ROLE_H
#define BPFPROF_RAY_RAY_ROLE_H

/*
 * Room ray: reads Ray roles, calls and steps from the titles and arguments of processes.
 *
 * What a process is to a Ray cluster, told from its arguments (NUL between them, as /proc has
 * them) and its threads; seen with Ray 2.60. They are the target's to choose: a label, no proof.
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

/* All but drivers: those have a command line of their own. */
enum ray_role ray_role_of_argv(const char *argv, size_t len);

/*
 * The script, module or -c that Python runs, without folders; control characters as '?', cut at cap.
 * 0, or -ENOENT: the arguments name none.
 */
int ray_role_script(char *dst, size_t cap, const char *argv, size_t len);

/*
 * Has the process joined a cluster? Ray's library starts a thread for that by ray.init(), which
 * in the end makes a Python program a driver. Reads the names of up to 1024 threads.
 */
bool ray_role_has_joined(pid_t pid);

#endif
