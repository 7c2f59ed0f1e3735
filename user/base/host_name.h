/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_BASE_HOST_NAME_H
#define BPFPROF_BASE_HOST_NAME_H

/*
 * What this machine is called, in labels and in file names. In a container the system's answer is the container's own
 * name (a pod's), so who starts it can say the node's by BPFPROF_HOST.
 */

#include <stddef.h>

#define HOST_NAME_BYTES 254 /* RFC 1035: 253, and the NUL */

/*
 * BPFPROF_HOST if that is letters, digits, '.', '-' and '_' and begins with no dot (it becomes part of paths), else
 * the system's host name, else "localhost".
 */
void host_name(char dst[HOST_NAME_BYTES]);

#endif
