// SPDX-License-Identifier: Apache-2.0
#include "capture/container_filter.h"

#include <errno.h>
#include <fnmatch.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/names.h"
#include "base/text.h"
#include "container/containers.h"

#define MAX_LIST 1024

static int list_add(char ***list, size_t *nr, const char *text, struct buf *why)
{
	if (*nr < MAX_LIST)
		return names_add(list, nr, text, strlen(text));
	buf_add_str(why, "at most 1024 can be given");
	return -EINVAL;
}

int container_filter_add_id(struct container_filter *filter, const char *id, struct buf *why)
{
	const char *scheme = strstr(id, "://");

	if (scheme)
		id = scheme + 3;
	if (!*id || strchr(id, '/')) {
		buf_add_str(why, "must be a container's id, or how it begins");
		return -EINVAL;
	}
	return list_add(&filter->ids, &filter->nr_ids, id, why);
}

int container_filter_add_pod(struct container_filter *filter, const char *pod, struct buf *why)
{
	const char *slash = strchr(pod, '/');

	if (!*pod || slash == pod || (slash && (!slash[1] || strchr(slash + 1, '/')))) {
		buf_add_str(why, "must be a pod's name or a pattern, such as 'trainer-*', or one "
				 "with its namespace: 'ml/trainer-*'");
		return -EINVAL;
	}
	return list_add(&filter->pods, &filter->nr_pods, pod, why);
}

void container_filter_fini(struct container_filter *filter)
{
	names_free(filter->ids, filter->nr_ids);
	names_free(filter->pods, filter->nr_pods);
	*filter = (struct container_filter){ 0 };
}

bool container_filter_is_set(const struct container_filter *filter)
{
	return filter->nr_ids || filter->nr_pods;
}

static bool id_matches(const struct container_filter *filter, const struct container *container)
{
	size_t i;

	for (i = 0; i < filter->nr_ids; i++)
		if (!strncmp(container->id, filter->ids[i], strlen(filter->ids[i])))
			return true;
	return !filter->nr_ids;
}

static bool pattern_matches(const char *pattern, const struct container *container)
{
	const char *slash = strchr(pattern, '/');
	__cleanup(free_mem) char *namespace = NULL;

	if (!slash)
		return !fnmatch(pattern, container->pod, 0);
	namespace = strndup(pattern, (size_t)(slash - pattern));
	return namespace && !fnmatch(namespace, container->namespace, 0) &&
	       !fnmatch(slash + 1, container->pod, 0);
}

static bool pod_matches(const struct container_filter *filter, const struct container *container)
{
	size_t i;

	/* A process outside of pods has no pod name, so "*" does not match it. */
	for (i = 0; container->pod[0] && i < filter->nr_pods; i++)
		if (pattern_matches(filter->pods[i], container))
			return true;
	return !filter->nr_pods;
}

bool container_filter_matches(const struct container_filter *filter,
			      const struct container *container)
{
	if (!container_filter_is_set(filter))
		return true;
	return container && id_matches(filter, container) && pod_matches(filter, container);
}

void container_filter_text(struct buf *dst, const struct container_filter *filter)
{
	const char *const flags[] = { "--pod", "--container" };
	char *const *const lists[] = { filter->pods, filter->ids };
	const size_t nr[] = { filter->nr_pods, filter->nr_ids };
	size_t i;

	for (i = 0; i < 2; i++) {
		if (!nr[i])
			continue;
		if (i && nr[0])
			buf_add_str(dst, " and ");
		buf_printf(dst, "%s ", flags[i]);
		text_add_typed(dst, lists[i][0]);
		if (nr[i] > 1)
			buf_printf(dst, " (and %zu more)", nr[i] - 1);
	}
}
