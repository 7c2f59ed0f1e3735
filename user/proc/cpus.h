/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PROC_CPUS_H
#define BPFPROF_PROC_CPUS_H

/* How many CPUs there are: in the machine, and for one process. */

#include <stdint.h>
#include <sys/types.h>

/* Online CPUs; the cores that they are threads of, the same number where that is not known. */
void cpus_count(uint32_t *ret_logical, uint32_t *ret_cores);
/* That the process's main thread may run on; 0: not to be had. */
uint32_t cpus_allowed(pid_t pid);

#endif
