/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CAPTURE_CONTAINER_FILTER_H
#define BPFPROF_CAPTURE_CONTAINER_FILTER_H

/*
 * Which containers were asked for: --container and --pod. One of the ids and one of the pods must
 * match, of those of which any were given. Owned by the options.
 */

#include <stdbool.h>
#include <stddef.h>

struct buf;
struct container;

struct container_filter {
	char **ids; /* they begin so */
	size_t nr_ids;
	char **pods; /* fnmatch(3) patterns, in front of them NAMESPACE/ (a pattern too) or nothing */
	size_t nr_pods;
};

/* 0, -ENOMEM or -EINVAL with the reason added to why. As kubectl shows an id: "containerd://..." too. */
int container_filter_add_id(struct container_filter *filter, const char *id, struct buf *why);
int container_filter_add_pod(struct container_filter *filter, const char *pod, struct buf *why);
void container_filter_fini(struct container_filter *filter);

/* Was anything asked for? */
bool container_filter_is_set(const struct container_filter *filter);
/* container: NULL is what lives in none, and matches nothing. Without a filter everything matches. */
bool container_filter_matches(const struct container_filter *filter,
			      const struct container *container);
/* "--pod ml/x (and 2 more)", for a sentence. */
void container_filter_text(struct buf *dst, const struct container_filter *filter);

#endif
