/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CMD_DOCTOR_FILES_H
#define BPFPROF_CMD_DOCTOR_FILES_H

/*
 * What is found of one process, as a recording would: its container, its Python, and each file
 * that it runs code of: by which way that was had and what is in it, or why not.
 */

#include <sys/types.h>

struct requirements;

/* Adds a line for each. host_root may be NULL. 0, or -errno if nothing can be told. */
int doctor_files(struct requirements *reqs, pid_t pid, const char *host_root);

#endif
