/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CONTAINER_POD_LOGS_H
#define BPFPROF_CONTAINER_POD_LOGS_H

/*
 * A pod's name by its uid, from the names of the folders in which kubelet keeps logs:
 * /var/log/pods/NAMESPACE_POD_UID. For pods whose bundles cannot be seen.
 */

#include <stddef.h>

/* host: O_PATH descriptor of the node's root folder. Cleaned text. 0 or -ENOENT. May block. */
int pod_logs_find(int host, const char *pod_uid, char *namespace, size_t namespace_cap, char *pod,
		  size_t pod_cap);

#endif
