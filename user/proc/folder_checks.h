/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PROC_FOLDER_CHECKS_H
#define BPFPROF_PROC_FOLDER_CHECKS_H

/*
 * Answers to "does this folder hold a regular file of that name?". They are cached for some minutes,
 * since asking may block on a file system of a target.
 */

#include <stdint.h>

#define FOLDER_CHECKS_MAX 2048

struct deadline_runner;
struct image_place;
struct origin;

struct folder_checks {
	struct {
		uint64_t key; /* of the mount namespace, root, folder and name */
		uint64_t until_ns;
		int answer;
	} cached[FOLDER_CHECKS_MAX];
};

/* The folder as the process of origin sees it. 1, 0, or -errno: the folder cannot be seen. */
int folder_checks_ask(struct folder_checks *checks, struct deadline_runner *runner,
		      const struct origin *origin, const struct image_place *folder,
		      const char *name);

#endif
