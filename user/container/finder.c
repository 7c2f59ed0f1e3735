// SPDX-License-Identifier: Apache-2.0
#include "container/finder.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/clean_text.h"
#include "base/deadline.h"
#include "container/bundle.h"
#include "container/host_mounts.h"

#define DEADLINE_MS 200

struct finder {
	struct deadline_runner *runner;
	char *proc, *host_root;
	struct host_mounts *mounts;
	struct containers_stats *stats;
	bool node_known;
	uint64_t stuck_call; /* number of a call that hung in a bundle, 0: none */
	struct cgroup_ids node; /* cgroups of pid 1: some nodes are containers themselves (kind) */
	struct placement placement;
	struct bundle_query query;
	struct finding finding;
};

int finder_new(struct finder **ret, struct deadline_runner *runner, const char *proc,
	       const char *host_root, struct containers_stats *stats)
{
	struct finder *finder = calloc(1, sizeof(*finder));

	if (!finder)
		return -ENOMEM;
	finder->runner = runner;
	finder->stats = stats;
	finder->proc = strdup(proc);
	finder->host_root = strdup(host_root ? host_root : "");
	if (!finder->proc || !finder->host_root ||
	    host_mounts_new(&finder->mounts, proc, host_root)) {
		finder_free(finder);
		return -ENOMEM;
	}
	*ret = finder;
	return 0;
}

void finder_free(struct finder *finder)
{
	if (!finder)
		return;
	host_mounts_free(finder->mounts);
	free(finder->host_root);
	free(finder->proc);
	free(finder);
}

static void count_placement(struct finder *finder, int err)
{
	if (err == -ESRCH)
		finder->stats->exited++;
	else if (err == -ENOMEM)
		finder->stats->no_memory++;
	else if (err)
		finder->stats->proc_unreadable++;
	else if (finder->placement.cut)
		finder->stats->proc_cut++;
}

const struct placement *finder_scan(struct finder *finder, uint32_t pid)
{
	int err;

	if (!finder->node_known) {
		finder->node_known = true;
		if (!placement_read(&finder->placement, finder->proc, 1))
			finder->node = finder->placement.cgroup;
	}
	err = placement_read(&finder->placement, finder->proc, pid);
	count_placement(finder, err);
	return err ? NULL : &finder->placement;
}

static bool is_nodes_id(const struct finder *finder, const char *id)
{
	size_t i;

	for (i = 0; i < finder->node.nr; i++)
		if (!strcmp(finder->node.ids[i], id))
			return true;
	return false;
}

/* The cgroup comes first: the maker of a sandbox chooses its mounts. */
static const char *pod_uid_of(const struct placement *placement)
{
	return placement->cgroup.pod_uid[0] ? placement->cgroup.pod_uid
					    : placement->kubelet.pod_uid;
}

/* Asks for the ids of the process's cgroups that are not the node's. */
static void query_init(struct finder *finder)
{
	const struct placement *placement = &finder->placement;
	struct bundle_query *query = &finder->query;
	size_t i;

	memset(query, 0, sizeof(*query));
	snprintf(query->host_root, sizeof(query->host_root), "%s", finder->host_root);
	for (i = 0; i < placement->cgroup.nr; i++) {
		if (is_nodes_id(finder, placement->cgroup.ids[i]))
			continue;
		memcpy(query->ids[query->nr_ids++], placement->cgroup.ids[i], CGROUP_ID_MAX);
		query->nr_sure += i < placement->cgroup.nr_sure;
	}
	query->has_root = placement->has_root && !strcmp(placement->root, "/");
	query->root_dev = placement->root_dev;
	snprintf(query->pod_uid, sizeof(query->pod_uid), "%s", pod_uid_of(placement));
}

static void count_config(struct finder *finder, int err)
{
	switch (err) {
	case 0:
		break;
	case -EFBIG:
	case -E2BIG:
		finder->stats->config_too_large++;
		break;
	case -EBADMSG:
		finder->stats->config_malformed++;
		break;
	case -ENOMEM:
		finder->stats->no_memory++;
		break;
	case -ELOOP:
	case -EXDEV:
	case -EACCES:
	case -EPERM:
	case -ENXIO:
		finder->stats->config_refused++;
		break;
	default:
		finder->stats->config_failed++;
		break;
	}
}

/*
 * Searches the bundle. While an earlier search hangs, no search starts: others need the runner,
 * too.
 */
static void query_run(struct finder *finder)
{
	struct bundle_query *query = &finder->query;
	long err;

	if (finder->stuck_call && deadline_is_stuck(finder->runner, finder->stuck_call)) {
		err = -ETIMEDOUT;
	} else {
		err = deadline_run(finder->runner, DEADLINE_NODE, bundle_find, NULL, query,
				   sizeof(*query), DEADLINE_MS);
		finder->stuck_call = err == -ETIMEDOUT ? deadline_last_stuck(finder->runner) : 0;
	}
	if (err == -ETIMEDOUT || err == -EBUSY)
		finder->stats->config_blocked++;
	else if (err == -ENOMEM)
		finder->stats->no_memory++;
	else if (err)
		finder->stats->host_root_unreadable++;
	else
		count_config(finder, query->proof == BUNDLE_PROVED ? 0 : query->config_error);
}

static void refresh_mounts(struct finder *finder)
{
	if (host_mounts_refresh(finder->mounts))
		finder->stats->host_mounts_unreadable++;
	finder->stats->host_mounts_left_out = host_mounts_nr_left_out(finder->mounts);
}

static void find_bundle(struct finder *finder)
{
	struct bundle_query *query = &finder->query;
	int exact;

	if (query->nr_ids || query->pod_uid[0])
		query_run(finder);
	if (query->proof == BUNDLE_PROVED || !finder->placement.has_root)
		return;
	refresh_mounts(finder);
	exact = host_mounts_path(finder->mounts, finder->placement.root_dev, finder->placement.root,
				 query->mount_point, sizeof(query->mount_point));
	query->mounted = exact > 0;
	if (exact >= 0)
		query_run(finder);
}

static void fill(char *dst, const char *src)
{
	if (!dst[0])
		clean_text(dst, OCI_NAME_MAX, src, strlen(src));
}

/* Joins the facts of all sources. */
static void finding_fill(struct finder *finder)
{
	const struct placement *placement = &finder->placement;
	const struct bundle_query *query = &finder->query;
	struct finding *finding = &finder->finding;
	const char *rootfs = query->rootfs[0] ? query->rootfs : query->mount_point;
	const char *id = query->proof	  ? query->id
			 : query->nr_sure ? query->ids[query->nr_sure - 1]
					  : "";

	finding->config = query->config;
	if (!strcmp(pod_uid_of(placement), placement->kubelet.pod_uid))
		fill(finding->config.name, placement->kubelet.container);
	fill(finding->config.pod_uid, pod_uid_of(placement));
	clean_text(finding->id, sizeof(finding->id), id, strlen(id));
	memcpy(finding->rootfs, rootfs, strlen(rootfs) + 1);
	finding->more_later = query->proof != BUNDLE_PROVED;
	if (query->proof == BUNDLE_PROVED)
		finding->source = CONTAINER_FROM_BUNDLE;
	else if (id[0] || placement->cgroup.pod_uid[0])
		finding->source = CONTAINER_FROM_CGROUP;
	else if (placement->kubelet.pod_uid[0])
		finding->source = CONTAINER_FROM_MOUNTS;
}

const struct finding *finder_find(struct finder *finder)
{
	const struct placement *placement = &finder->placement;
	struct finding *finding = &finder->finding;
	bool node_root;

	memset(finding, 0, sizeof(*finding));
	query_init(finder);
	if (!host_mounts_count(finder->mounts))
		refresh_mounts(finder);
	node_root = placement->has_root &&
		    host_mounts_is_root(finder->mounts, placement->root_dev, placement->root);
	if (node_root && !finder->query.nr_sure) {
		finding->of_node = finding->whole_space = true;
		finder->stats->of_node++;
		return finding;
	}
	find_bundle(finder);
	finding_fill(finder);
	/*
	 * A process of a container may enter the node's mount namespace, or change its root to that
	 * of the node. It then shows nothing about other processes of that namespace.
	 */
	finding->whole_space = !node_root;
	finding->of_node = node_root && !finding->source;
	finder->stats->from_bundle += finding->source == CONTAINER_FROM_BUNDLE;
	finder->stats->from_cgroup += finding->source == CONTAINER_FROM_CGROUP;
	finder->stats->from_mounts += finding->source == CONTAINER_FROM_MOUNTS;
	finder->stats->not_found += !finding->source && !node_root;
	return finding;
}
