/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CONTAINER_BUNDLE_H
#define BPFPROF_CONTAINER_BUNDLE_H

/*
 * The folder in which a runtime keeps a container: it holds config.json and, with most runtimes, the mount
 * rootfs. Found by id in the places that containerd, k3s, k0s, microk8s, dockerd, CRI-O and podman use, or by the place
 * where the container's root is mounted. No link inside a bundle is followed, and only regular
 * files of at most 1 MiB are read.
 */

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "container/cgroup_path.h"
#include "container/oci_config.h"

#define BUNDLE_CONFIG_MAX_BYTES (1 << 20)
#define BUNDLE_PATH_MAX 4096

enum bundle_proof {
	BUNDLE_NONE, /* there is no such bundle */
	BUNDLE_BY_ID, /* its id alone says so: its root is not seen from here, or is another one (a sandbox in the container) */
	BUNDLE_PROVED, /* its root is the process's */
};

/* What is sought and what was found. Fixed size, no pointers: a job of base/deadline.h. */
struct bundle_query {
	/* In. Paths are the node's, below host_root ("" or "/": as we see them). */
	char host_root[BUNDLE_PATH_MAX];
	char ids[CGROUP_MAX_IDS][CGROUP_ID_MAX]; /* as in struct cgroup_ids */
	size_t nr_ids, nr_sure; /* the others need proof */
	bool has_root; /* the process's root is all of root_dev, which no other container has (overlay) */
	dev_t root_dev;
	char mount_point[BUNDLE_PATH_MAX]; /* the node's path of the process's root; "" not known */
	bool mounted; /* the node has mounted it just there: no folder that a container made */
	char pod_uid[CGROUP_POD_UID_MAX]; /* "" not known */
	/* Out. */
	enum bundle_proof proof;
	char id[CGROUP_ID_MAX];
	char rootfs[BUNDLE_PATH_MAX]; /* node's path of the root, "" if not seen */
	struct oci_config config; /* pod and namespace also without a bundle, by pod_uid */
	int config_error; /* of the last config.json that was there and could not be used, else 0 */
};

/*
 * 0; query->proof tells what was found, and only with a config that could be read. Without proof it is the
 * outermost id: a container that may write its cgroups makes names only below its own.
 * -EIO: host_root cannot be opened. arg is a struct bundle_query. Fits deadline_run().
 */
long bundle_find(void *arg);

#endif
