/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CONTAINER_POD_LOGS_H
#define BPFPROF_CONTAINER_POD_LOGS_H

/*
 * The name of a pod by its uid, from the names of the folders in which kubelet keeps logs:
 * /var/log/pods/NAMESPACE_POD_UID. For pods whose bundles are not visible.
 */

#include <stddef.h>

/* host: an O_PATH descriptor of the root of the node. The texts are clean. 0 or -ENOENT. May block. */
int pod_logs_find(int host, const char *pod_uid, char *namespace, size_t namespace_cap, char *pod,
		  size_t pod_cap);

#endif
