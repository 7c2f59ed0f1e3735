/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CMD_DOCTOR_FILES_H
#define BPFPROF_CMD_DOCTOR_FILES_H

/*
 * Facts that a recording would find about one process: its container, its Python, and each file with
 * code that it runs: how the file was opened and which symbols it has, or why it cannot be opened.
 */

#include <sys/types.h>

struct requirements;

/* Adds a line for each. host_root may be NULL. 0, or -errno if nothing can be found. */
int doctor_files(struct requirements *reqs, pid_t pid, const char *host_root);

#endif
