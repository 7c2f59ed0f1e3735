// SPDX-License-Identifier: Apache-2.0
#include "container/kubelet_mounts.h"

#include <stdbool.h>
#include <string.h>

#include "proc/mountinfo.h"

/* Names of containers are DNS labels (RFC 1123). */
static bool is_label(const char *text, size_t len)
{
	size_t i;

	if (!len || len >= KUBELET_NAME_MAX)
		return false;
	for (i = 0; i < len; i++)
		if ((text[i] < 'a' || text[i] > 'z') && (text[i] < '0' || text[i] > '9') &&
		    text[i] != '-')
			return false;
	return true;
}

/*
 * Finds .../pods/UID/etc-hosts or .../pods/UID/containers/NAME/HASH. The first match counts, as the
 * pod may choose folders below.
 */
void kubelet_mounts_note(struct kubelet_mounts *ret, const struct mount_line *line)
{
	const char *uid = line->root, *rest, *name;
	size_t len = 0;

	do {
		uid = strstr(uid, "/pods/");
		if (!uid)
			return;
		uid += strlen("/pods/");
		len = strcspn(uid, "/");
	} while (!cgroup_is_pod_uid(uid, len));
	rest = uid + len;
	name = strncmp(rest, "/containers/", 12) ? NULL : rest + 12;
	if (!name && strcmp(rest, "/etc-hosts"))
		return;
	if (!ret->pod_uid[0]) {
		memcpy(ret->pod_uid, uid, len);
		ret->pod_uid[len] = 0;
	}
	if (!name || ret->container[0] || strncmp(ret->pod_uid, uid, len))
		return;
	len = strcspn(name, "/");
	if (name[len] && !strchr(name + len + 1, '/') && is_label(name, len)) {
		memcpy(ret->container, name, len);
		ret->container[len] = 0;
	}
}
