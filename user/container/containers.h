/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CONTAINER_CONTAINERS_H
#define BPFPROF_CONTAINER_CONTAINERS_H

/*
 * Room container: finds the container and the pod of a process in files of the node.
 *
 * This file: the container of a process, with the facts about it in files of the node. The sources,
 * best first: the bundle of the runtime whose rootfs is the root mount of the process; the cgroup path
 * of the process; the files that kubelet mounted into it. The result for one process holds for all
 * processes of its mount namespace, also after they have exited. At most CONTAINERS_MAX containers; one
 * that was not asked for in CONTAINERS_KEEP_NS is forgotten. For one thread.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "proc/ranks.h"

#define CONTAINERS_MAX 4096
#define CONTAINERS_KEEP_NS (600ULL * 1000000000)

struct deadline_runner;

/* A lower number is a better source. */
enum container_source {
	CONTAINER_FROM_NOWHERE = 0,
	CONTAINER_FROM_BUNDLE, /* proved by the root mount */
	CONTAINER_FROM_CGROUP,
	CONTAINER_FROM_MOUNTS,
};

/*
 * One container. A string is "" if not known, else valid UTF-8 without control characters of at most
 * 255 bytes (rootfs: a path of any bytes). Users choose names: a name may hold '/' and "..", so check
 * it before it becomes part of a path.
 */
struct container {
	const char *id; /* full id */
	const char
		*name; /* in its pod; "POD": the container that holds the namespaces of the pod */
	const char *pod, *namespace, *pod_uid, *image;
	const char *ray_cluster, *ray_group, *ray_node_type; /* "head" or "worker" */
	union { /* of its environment */
		struct {
			const char *rank, *local_rank, *world_size, *slurm_job, *slurm_node,
				*slurm_task;
		};
		const char *ranks[RANKS_NR];
	};
	const char *rootfs; /* the node's path of its root, "" if not found */
	enum container_source source;
};

/* The results for mount namespaces whose processes were searched. */
struct containers_stats {
	uint64_t from_bundle, from_cgroup, from_mounts; /* found, by source */
	uint64_t of_node; /* no container: the root of the node */
	uint64_t not_found; /* another root than the node's, and no source names the container */
	/* Reasons for missing facts. */
	uint64_t exited; /* before it could be read */
	uint64_t proc_unreadable;
	uint64_t proc_cut; /* more mounts or cgroups than are read */
	uint64_t host_mounts_unreadable;
	uint64_t host_mounts_left_out; /* mounts of the node for which there was no room */
	uint64_t host_root_unreadable;
	uint64_t config_refused; /* a link, FIFO or the like in its place, or no permission */
	uint64_t config_too_large;
	uint64_t config_malformed;
	uint64_t config_blocked; /* the file system did not answer in time */
	uint64_t config_failed; /* any other error */
	uint64_t full; /* CONTAINERS_MAX reached */
	uint64_t no_memory;
};

struct containers;

/*
 * proc: "/proc"; host_root: the folder with the file system of the node, or NULL. Borrows runner. 0 or
 * -ENOMEM. containers_free(NULL) is fine.
 */
int containers_new(struct containers **ret, struct deadline_runner *runner, const char *proc,
		   const char *host_root);
void containers_free(struct containers *containers);

/*
 * The container of a process; NULL: none (a process of the node itself), or not known. mnt_ns: a number
 * of its mount namespace that is never reused (mnt_namespace.seq up to kernel 6.17, ns.ns_id later; the
 * inode number is reused), 0: not known. Borrowed until containers_free() or containers_expire(). May
 * read files: some 50 us for the second process of a mount namespace, none for later ones.
 */
const struct container *containers_of(struct containers *containers, uint32_t pid, uint64_t mnt_ns,
				      uint64_t now_ns);

/*
 * Is the process proved to be in no container? Reads its files anew. False, too: it exits, or its place
 * cannot be read as a whole.
 */
bool containers_is_of_node(struct containers *containers, uint32_t pid);

/* Forgets containers that were not asked for in a while. The caller must not hold a borrowed one. */
void containers_expire(struct containers *containers, uint64_t now_ns);

/* Calls see() for each container. */
void containers_each(const struct containers *containers,
		     void (*see)(void *arg, const struct container *container), void *arg);
size_t containers_count(const struct containers *containers);
const struct containers_stats *containers_stats(const struct containers *containers);

#endif
