/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_BASE_HOST_NAME_H
#define BPFPROF_BASE_HOST_NAME_H

/*
 * The name of this machine, in labels and in file names. In a container the system reports the
 * container's (a pod's) own name, so the user can set the node's name by BPFPROF_HOST.
 */

#include <stddef.h>

#define HOST_NAME_BYTES 254 /* RFC 1035: 253, and the NUL */

/*
 * BPFPROF_HOST if it has only letters, digits, '.', '-' and '_' and does not begin with a dot (it
 * becomes part of paths), else the system's host name, else "localhost".
 */
void host_name(char dst[HOST_NAME_BYTES]);

#endif
