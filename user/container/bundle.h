/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CONTAINER_BUNDLE_H
#define BPFPROF_CONTAINER_BUNDLE_H

/*
 * The bundle of a container: the folder of the runtime that holds config.json and, with most runtimes,
 * the mount rootfs. It is found by id in the places that containerd, k3s, k0s, microk8s, dockerd, CRI-O
 * and podman use, or by the place where the root of the container is mounted. No link inside a bundle
 * is followed, and only regular files of at most 1 MiB are read.
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
	/* Only the id matches: the root is not visible here, or it is another one (a sandbox inside). */
	BUNDLE_BY_ID,
	BUNDLE_PROVED, /* its root is the root of the process */
};

/* A search and its result. Fixed size, no pointers: a job of base/deadline.h. */
struct bundle_query {
	/* In. Paths are those of the node, below host_root ("" or "/": as seen here). */
	char host_root[BUNDLE_PATH_MAX];
	char ids[CGROUP_MAX_IDS][CGROUP_ID_MAX]; /* as in struct cgroup_ids */
	size_t nr_ids, nr_sure; /* the others need proof */
	bool has_root; /* the root of the process is all of root_dev, as only this container has it (overlay) */
	dev_t root_dev;
	char mount_point
		[BUNDLE_PATH_MAX]; /* the path on the node of the root of the process, "": not known */
	bool mounted; /* the node has mounted the root exactly there: no container made the folder */
	char pod_uid[CGROUP_POD_UID_MAX]; /* "": not known */
	/* Out. */
	enum bundle_proof proof;
	char id[CGROUP_ID_MAX];
	char rootfs[BUNDLE_PATH_MAX]; /* the path on the node of the root, "": not visible */
	struct oci_config config; /* without a bundle only pod and namespace, found by pod_uid */
	int config_error; /* of the last config.json that could not be used, else 0 */
};

/*
 * arg: a struct bundle_query. 0, and query->proof says whether a bundle with a readable config was found.
 * Without proof the outermost id counts: a container that may write its cgroups makes names only below
 * its own. -EIO: host_root cannot be opened. For deadline_run().
 */
long bundle_find(void *arg);

#endif
