// SPDX-License-Identifier: Apache-2.0
#include "proc/target_mount.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "proc/mountinfo.h"

/* The part of path below folder; NULL: path lies elsewhere. Both are absolute. */
static const char *path_below(const char *path, const char *folder)
{
	size_t len = strlen(folder);

	if (len == 1) /* "/" */
		return path;
	if (strncmp(path, folder, len) || (path[len] && path[len] != '/'))
		return NULL;
	return path + len;
}

struct search {
	const char *path;
	size_t best; /* length of the mount point */
	struct target_mount *mount;
	int err;
};

/* Chooses the longest mount point, and the last mount on it. */
static bool search_line(void *arg, const struct mount_line *line)
{
	struct search *s = arg;
	struct target_mount *mount = s->mount;
	const char *inside = path_below(s->path, line->point);
	size_t len = strlen(line->point);
	int n;

	if (!inside || len < s->best)
		return true;
	s->best = len;
	mount->dev = line->dev;
	n = snprintf(mount->inside, sizeof(mount->inside), "%s", inside);
	s->err = n < 0 || n >= (int)sizeof(mount->inside) ? -ENAMETOOLONG : 0;
	n = snprintf(mount->path, sizeof(mount->path), "%s%s",
		     strcmp(line->root, "/") ? line->root : "", inside);
	if (n < 0 || n >= (int)sizeof(mount->path))
		s->err = -ENAMETOOLONG;
	free(mount->layers);
	mount->layers = NULL;
	if (!strcmp(line->type, "overlay")) {
		mount->layers = strdup(line->options);
		if (!mount->layers)
			s->err = -ENOMEM;
	}
	return true;
}

int target_mount_find(struct target_mount *ret, int fd, const char *path)
{
	struct target_mount mount = { 0 };
	struct search s = { .path = path, .mount = &mount, .err = -ENOENT };
	int err = mountinfo_read(fd, TARGET_MOUNT_MAX_BYTES, search_line, &s);

	if (err || s.err) {
		target_mount_fini(&mount);
		return err ? err : s.err;
	}
	*ret = mount;
	return 0;
}

void target_mount_fini(struct target_mount *mount)
{
	free(mount->layers);
	mount->layers = NULL;
}

const char *target_mount_below(const struct target_mount *mount, const struct mount_line *line)
{
	return line->dev == mount->dev ? path_below(mount->path, line->root) : NULL;
}

/*
 * The value of the option that begins with key, up to the next comma; NULL: there is no such
 * option.
 */
static const char *option_find(const char *options, const char *key, size_t *ret_len)
{
	const char *at = options;
	size_t len = strlen(key);

	for (; at; at = strchr(at, ',')) {
		at += *at == ',';
		if (!strncmp(at, key, len)) {
			*ret_len = strcspn(at + len, ",");
			return at + len;
		}
	}
	return NULL;
}

/* The nth folder of lowerdir=A:B, or of several lowerdir+=A. */
static const char *lower_find(const char *options, unsigned int nth, size_t *ret_len)
{
	const char *at = option_find(options, "lowerdir=", ret_len), *end;
	size_t len;

	for (; at; nth--) {
		end = at + *ret_len;
		len = strcspn(at, ":,");
		if (!nth) {
			*ret_len = len;
			return at;
		}
		if (at + len >= end)
			return NULL;
		at += len + 1;
		at += *at == ':'; /* A::B: the following layers hold only data */
		*ret_len = (size_t)(end - at);
	}
	for (at = option_find(options, "lowerdir+=", ret_len); at && nth; nth--)
		at = option_find(at, "lowerdir+=", ret_len);
	return at;
}

/* Length of the path without its last component. */
static size_t dir_len(const char *path, size_t len)
{
	while (len > 1 && path[len - 1] != '/')
		len--;
	return len > 1 ? len - 1 : len;
}

/*
 * containerd shortens "ROOT/snapshots/12/fs" to "12/fs". docker and podman shorten "ROOT/ID/diff"
 * to "l/XXXX", a link to it. Both are relative to the folder two levels above the upper folder.
 */
int target_mount_layer(const struct target_mount *mount, unsigned int nth, char *ret, size_t size)
{
	size_t upper_len = 0, len, base = 0;
	const char *upper, *layer;
	int n;

	if (!mount->layers || nth >= TARGET_MOUNT_MAX_LAYERS)
		return -ENOENT;
	upper = option_find(mount->layers, "upperdir=", &upper_len);
	if (upper && !nth) {
		layer = upper;
		len = upper_len;
	} else {
		layer = lower_find(mount->layers, upper ? nth - 1 : nth, &len);
	}
	if (!layer || !len)
		return -ENOENT;
	if (layer[0] != '/') {
		if (!upper || upper[0] != '/')
			return -ENOENT;
		base = dir_len(upper, dir_len(upper, upper_len));
	}
	n = snprintf(ret, size, "%.*s%s%.*s", (int)base, upper ? upper : "", base ? "/" : "",
		     (int)len, layer);
	return n < 0 || n >= (int)size ? -ENAMETOOLONG : 0;
}
