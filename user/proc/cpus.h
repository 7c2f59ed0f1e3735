/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PROC_CPUS_H
#define BPFPROF_PROC_CPUS_H

/* The number of CPUs: of the machine, and for one process. */

#include <stdint.h>
#include <sys/types.h>

/* The online CPUs and their cores; if the cores are not known, both are the same. */
void cpus_count(uint32_t *ret_logical, uint32_t *ret_cores);
/* The CPUs that the first thread of the process may run on; 0: not known. */
uint32_t cpus_allowed(pid_t pid);

#endif
