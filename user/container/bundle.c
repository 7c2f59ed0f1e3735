// SPDX-License-Identifier: Apache-2.0
#include "container/bundle.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <stdio.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file_read.h"
#include "container/pod_logs.h"
#include "proc/image_file.h"

#define MAX_NAMESPACES 64 /* namespaces of containerd that are searched in one place */

/* Folders with containerd's bundles: PLACE/NAMESPACE/ID. */
static const char *const task_places[] = {
	"/run/containerd/io.containerd.runtime.v2.task",
	"/run/k3s/containerd/io.containerd.runtime.v2.task", /* also rke2 */
	"/run/k0s/containerd/io.containerd.runtime.v2.task",
	"/var/snap/microk8s/common/run/containerd/io.containerd.runtime.v2.task",
	"/run/docker/containerd/daemon/io.containerd.runtime.v2.task", /* dockerd's containerd */
};
static const char *const namespaces[] = { "k8s.io", "moby", "default" };

/* CRI-O and podman: PLACE/ID/userdata. */
static const char *const userdata_places[] = {
	"/run/containers/storage/overlay-containers",
	"/var/lib/containers/storage/overlay-containers",
};

/* Here dockerd keeps its own description, which has kubelet's labels. */
#define DOCKER_PLACE "/var/lib/docker/containers"

static int open_at(int dir, const char *path, uint64_t flags, uint64_t resolve)
{
	struct open_how how = { .flags = flags | O_CLOEXEC, .resolve = resolve };
	long fd = syscall(SYS_openat2, dir, path, &how, sizeof(how));

	return fd < 0 ? -errno : (int)fd;
}

/*
 * Opens a folder of the node. Above a bundle links are the administrator's (/var/run), and stay
 * within the node's root.
 */
static int open_folder(int host, const char *path)
{
	return open_at(host, path, O_PATH | O_DIRECTORY, RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
}

/* Checks that path_fd is a regular file, and opens it for reading. */
static int open_regular(int path_fd, size_t *ret_size)
{
	struct stat st;
	int fd;

	if (fstat(path_fd, &st))
		return -errno;
	if (!S_ISREG(st.st_mode))
		return -ELOOP;
	if (st.st_size > BUNDLE_CONFIG_MAX_BYTES)
		return -EFBIG;
	fd = image_file_reopen(path_fd);
	if (fd < 0)
		return -errno;
	*ret_size = (size_t)st.st_size;
	return fd;
}

/*
 * Reads and parses one file of a bundle. The text holds secrets: it is in one buffer, which is
 * wiped. 0, -ENOENT, -ELOOP (a link, or no regular file), -EFBIG, -errno.
 */
static int read_config(struct oci_config *ret, int bundle, const char *name,
		       int (*parse)(struct oci_config *ret, const char *text, size_t len))
{
	__cleanup(close_fd) int path_fd = -1;
	__cleanup(close_fd) int fd = -1;
	size_t size = 0;
	char *text;
	int err;

	path_fd = open_at(bundle, name, O_PATH, RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS);
	if (path_fd < 0)
		return path_fd;
	fd = open_regular(path_fd, &size);
	if (fd < 0)
		return fd;
	text = malloc(size + 1);
	if (!text)
		return -ENOMEM;
	err = (int)file_read_at(fd, text, size, 0);
	if (err >= 0)
		err = parse(ret, text, (size_t)err);
	explicit_bzero(text, size + 1);
	free(text);
	return err;
}

/* Is the root of the process mounted on that folder? */
static bool folder_is_root(const struct bundle_query *query, int parent, const char *folder)
{
	struct stat st;

	return query->has_root && !fstatat(parent, folder, &st, AT_SYMLINK_NOFOLLOW) &&
	       S_ISDIR(st.st_mode) && st.st_dev == query->root_dev;
}

/*
 * Docker, CRI-O and podman mount the root outside of the bundle, mostly in a mount namespace of
 * their own.
 */
static bool path_is_root(const struct bundle_query *query, int host, const char *path)
{
	__cleanup(close_fd) int fd = -1;

	if (path[0] != '/')
		return false;
	if (!strcmp(path, query->mount_point))
		return true;
	fd = open_folder(host, path);
	return fd >= 0 && folder_is_root(query, fd, ".");
}

static bool is_sure(const struct bundle_query *query, const char *id)
{
	size_t i;

	for (i = 0; i < query->nr_sure; i++)
		if (!strcmp(query->ids[i], id))
			return true;
	return false;
}

static void note_error(struct bundle_query *query, int err)
{
	if (err && err != -ENOENT && err != -ENOTDIR)
		query->config_error = err;
}

/*
 * Reads one bundle at a path of the node. mounted: the root of the process is mounted on its
 * rootfs.
 */
static void try_bundle(struct bundle_query *query, int host, const char *path, const char *id,
		       bool mounted)
{
	__cleanup(close_fd) int bundle = open_folder(host, path);
	__cleanup(free_mem) struct oci_config *config = NULL;
	bool in_bundle, proved;
	int err;

	if (bundle < 0) {
		note_error(query, bundle);
		return;
	}
	in_bundle = mounted || folder_is_root(query, bundle, "rootfs");
	if (!in_bundle && !is_sure(query, id) && !query->mount_point[0])
		return;
	config = calloc(1, sizeof(*config));
	err = config ? read_config(config, bundle, "config.json", oci_config_parse) : -ENOMEM;
	if (err) {
		note_error(query, err);
		return;
	}
	proved = in_bundle || path_is_root(query, host, config->root_path);
	if (!proved && !is_sure(query, id))
		return;
	/*
	 * The pod uid is the outermost one, which no container can change; any container may make
	 * an id below it.
	 */
	if (!proved && query->pod_uid[0] && config->pod_uid[0] &&
	    strcmp(query->pod_uid, config->pod_uid) != 0)
		return;
	query->proof = proved ? BUNDLE_PROVED : BUNDLE_BY_ID;
	query->config = *config;
	snprintf(query->id, sizeof(query->id), "%s", id);
	query->rootfs[0] = 0;
	if (in_bundle)
		snprintf(query->rootfs, sizeof(query->rootfs), "%s/rootfs", path);
	else if (proved)
		memcpy(query->rootfs, config->root_path, sizeof(query->rootfs));
}

/* Adds the facts that dockerd keeps outside of config.json: labels of kubelet, name and image. */
static void add_docker(struct bundle_query *query, int host)
{
	__cleanup(free_mem) struct oci_config *config = calloc(1, sizeof(*config));
	__cleanup(close_fd) int folder = -1;
	char path[BUNDLE_PATH_MAX];
	int err;

	if (!config)
		return;
	snprintf(path, sizeof(path), DOCKER_PLACE "/%s", query->id);
	folder = open_folder(host, path);
	if (folder < 0)
		return;
	err = read_config(config, folder, "config.v2.json", oci_config_parse_docker);
	if (err) {
		note_error(query, err);
		return;
	}
	memcpy(config->root_path, query->config.root_path, sizeof(config->root_path));
	query->config = *config;
}

static void try_in_namespace(struct bundle_query *query, int host, const char *place,
			     const char *namespace, const char *id)
{
	char path[BUNDLE_PATH_MAX];

	if ((size_t)snprintf(path, sizeof(path), "%s/%s/%s", place, namespace, id) < sizeof(path))
		try_bundle(query, host, path, id, false);
}

static bool is_known_namespace(const char *name)
{
	size_t i;

	for (i = 0; i < sizeof(namespaces) / sizeof(namespaces[0]); i++)
		if (!strcmp(name, namespaces[i]))
			return true;
	return false;
}

/* Tries namespaces of containerd that an administrator made. */
static void try_other_namespaces(struct bundle_query *query, int host, const char *place)
{
	struct dirent *entry;
	unsigned int i;
	size_t id;
	DIR *dir;
	int fd;

	fd = open_at(host, place, O_RDONLY | O_DIRECTORY, RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS);
	dir = fd < 0 ? NULL : fdopendir(fd);
	if (!dir) {
		if (fd >= 0)
			close(fd);
		return;
	}
	for (i = 0; i < MAX_NAMESPACES && query->proof < BUNDLE_PROVED && (entry = readdir(dir));
	     i++) {
		if (entry->d_name[0] == '.' || is_known_namespace(entry->d_name))
			continue;
		for (id = 0; id < query->nr_ids; id++)
			try_in_namespace(query, host, place, entry->d_name, query->ids[id]);
	}
	closedir(dir);
}

static void try_id(struct bundle_query *query, int host, const char *id)
{
	char path[BUNDLE_PATH_MAX];
	size_t i, j;

	for (i = 0; i < sizeof(task_places) / sizeof(task_places[0]); i++)
		for (j = 0; j < sizeof(namespaces) / sizeof(namespaces[0]); j++)
			if (query->proof < BUNDLE_PROVED)
				try_in_namespace(query, host, task_places[i], namespaces[j], id);
	for (i = 0; i < sizeof(userdata_places) / sizeof(userdata_places[0]); i++) {
		if (query->proof == BUNDLE_PROVED)
			return;
		snprintf(path, sizeof(path), "%s/%s/userdata", userdata_places[i], id);
		try_bundle(query, host, path, id, false);
	}
}

/* Tries BUNDLE/rootfs: most runtimes mount the root there. */
static void try_mount_point(struct bundle_query *query, int host)
{
	char path[BUNDLE_PATH_MAX], *name;

	memcpy(path, query->mount_point, sizeof(path));
	name = strrchr(path, '/');
	if (!name || name == path || strcmp(name, "/rootfs"))
		return;
	*name = 0;
	name = strrchr(path, '/');
	if (strlen(name + 1) < CGROUP_ID_MAX)
		try_bundle(query, host, path, name + 1, true);
}

long bundle_find(void *arg)
{
	struct bundle_query *query = arg;
	__cleanup(close_fd) int host = -1;
	size_t i;

	query->proof = BUNDLE_NONE;
	query->config_error = 0;
	host = open(query->host_root[0] ? query->host_root : "/", O_PATH | O_DIRECTORY | O_CLOEXEC);
	if (host < 0)
		return -EIO;
	if (query->mounted)
		try_mount_point(query, host);
	for (i = 0; i < query->nr_ids && query->proof < BUNDLE_PROVED; i++)
		try_id(query, host, query->ids[i]);
	for (i = 0; i < sizeof(task_places) / sizeof(task_places[0]); i++)
		if (query->proof < BUNDLE_PROVED)
			try_other_namespaces(query, host, task_places[i]);
	if (query->proof && !query->config.name[0])
		add_docker(query, host);
	if (query->pod_uid[0] && !query->config.pod[0])
		pod_logs_find(host, query->pod_uid, query->config.namespace, OCI_NAME_MAX,
			      query->config.pod, OCI_NAME_MAX);
	return 0;
}
