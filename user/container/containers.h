/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CONTAINER_CONTAINERS_H
#define BPFPROF_CONTAINER_CONTAINERS_H

/*
 * Room container: finds the container and the pod of a process in files of the node.
 *
 * Whose process is it: the container of a process and what the node's files tell of it. Asked
 * in this order: the runtime's bundle whose rootfs is the process's root mount, the process's cgroup path, the files that kubelet
 * mounted into it. What was learned for one process of a mount namespace holds for all of it, also when they
 * have exited. At most CONTAINERS_MAX containers; one that was not asked for in CONTAINERS_KEEP_NS is forgotten.
 * To be used from one thread.
 */

#include <stddef.h>
#include <stdint.h>

#define CONTAINERS_MAX 4096
#define CONTAINERS_KEEP_NS (600ULL * 1000000000)

struct deadline_runner;

/* The better, the lower. */
enum container_source {
	CONTAINER_FROM_NOWHERE = 0,
	CONTAINER_FROM_BUNDLE, /* proved by the root mount */
	CONTAINER_FROM_CGROUP,
	CONTAINER_FROM_MOUNTS,
};

/*
 * One container. All strings are "" if not known, valid UTF-8 without control characters, at most 255 bytes (rootfs: a path of
 * any bytes). Users choose names: they may hold '/' and "..", and are to be checked before a path is made of them.
 */
struct container {
	const char *id; /* full id */
	const char *name; /* in its pod; "POD": the one that holds the pod's namespaces */
	const char *pod, *namespace, *pod_uid, *image;
	const char *ray_cluster, *ray_group, *ray_node_type; /* "head" or "worker" */
	const char *rank, *local_rank, *world_size, *slurm_job,
		*slurm_node; /* of its environment */
	const char *rootfs; /* the node's path of its root, "" if not found */
	enum container_source source;
};

/* What became of mount namespaces whose processes were looked at. */
struct containers_stats {
	uint64_t from_bundle, from_cgroup, from_mounts; /* tagged, by source */
	uint64_t of_node; /* no container: the node's own root */
	uint64_t not_found; /* another root than the node's, and nothing says whose */
	/* Why less was found than there may be. */
	uint64_t exited; /* before it could be looked at */
	uint64_t proc_unreadable;
	uint64_t proc_cut; /* more mounts or cgroups than are read */
	uint64_t host_mounts_unreadable;
	uint64_t host_mounts_left_out; /* mounts of the node, for want of room */
	uint64_t host_root_unreadable;
	uint64_t config_refused; /* a link, FIFO or the like in its place, or no permission */
	uint64_t config_too_large;
	uint64_t config_malformed;
	uint64_t config_blocked; /* did not answer in time */
	uint64_t config_failed; /* any other error */
	uint64_t full; /* CONTAINERS_MAX reached */
	uint64_t no_memory;
};

struct containers;

/*
 * proc: "/proc"; host_root: the node's file system as we see it, or NULL. Borrows runner. 0 or
 * -ENOMEM. containers_free(NULL) is fine.
 */
int containers_new(struct containers **ret, struct deadline_runner *runner, const char *proc,
		   const char *host_root);
void containers_free(struct containers *containers);

/*
 * The container of a process; NULL: none (a process of the node itself), or not known. mnt_ns: a number of its mount namespace that
 * is never given to another one (mnt_namespace.seq up to 6.17, ns.ns_id later: the inode number goes to the next container), 0 if not
 * known. Borrowed until containers_free() or containers_expire(). May read files: some 50 us for the second process of a
 * mount namespace, nothing for later ones.
 */
const struct container *containers_of(struct containers *containers, uint32_t pid, uint64_t mnt_ns,
				      uint64_t now_ns);

/* Forgets what was not asked for in a while. Call it now and then, when nothing borrowed is held. */
void containers_expire(struct containers *containers, uint64_t now_ns);

size_t containers_count(const struct containers *containers);
const struct containers_stats *containers_stats(const struct containers *containers);

#endif
