/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CAPTURE_CONTAINER_FILTER_H
#define BPFPROF_CAPTURE_CONTAINER_FILTER_H

/*
 * The containers that --container and --pod name. If there are ids, one of them must match; if there
 * are pods, one of them must match. The options own it.
 */

#include <stdbool.h>
#include <stddef.h>

struct buf;
struct container;

struct container_filter {
	char **ids; /* the beginnings of ids */
	size_t nr_ids;
	char **pods; /* fnmatch(3) patterns, in front of them NAMESPACE/ (a pattern too) or nothing */
	size_t nr_pods;
};

/* 0, -ENOMEM or -EINVAL with the reason added to why. As kubectl shows an id: "containerd://..." too. */
int container_filter_add_id(struct container_filter *filter, const char *id, struct buf *why);
int container_filter_add_pod(struct container_filter *filter, const char *pod, struct buf *why);
void container_filter_fini(struct container_filter *filter);

/* Is there any id or pod? */
bool container_filter_is_set(const struct container_filter *filter);
/* container: NULL (the process lives in none) matches no id and no pod. An empty filter matches all. */
bool container_filter_matches(const struct container_filter *filter,
			      const struct container *container);
/* "--pod ml/x (and 2 more)", for a sentence. */
void container_filter_text(struct buf *dst, const struct container_filter *filter);

#endif
