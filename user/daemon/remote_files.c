// SPDX-License-Identifier: Apache-2.0
/* /files/: the files in the folder of the daemon. A child reads them, since a disk may hang. */
#include "daemon/remote_profile.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "daemon/daemon.h"
#include "daemon/http_later.h"
#include "daemon/store.h"

#define MAX_NAMES 360000
#define COPY_BYTES 65536
#define NOT_FOUND 404
#define DEPTH_MAX 2 /* of folders in it */

static bool all_write(int fd, const void *data, size_t len)
{
	const char *at = data;
	ssize_t n;

	while (len) {
		n = write(fd, at, len);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return false;
		at += n;
		len -= (size_t)n;
	}
	return true;
}

static bool refuse(int fd, uint32_t status, const char *why)
{
	struct remote_profile_head head = { .status = status };

	snprintf(head.text, sizeof(head.text), "%s", why);
	return all_write(fd, &head, sizeof(head));
}

/* Opens the folder of path; *leaf becomes the part after the last slash. Links are not followed. */
static int folder_find(const char *root, const char *path, const char **leaf)
{
	int fd = open(root, O_RDONLY | O_DIRECTORY | O_CLOEXEC), next;
	const char *slash;
	char name[NAME_MAX + 1];

	if (fd < 0)
		return -errno;
	for (; (slash = strchr(path, '/')); path = slash + 1) {
		if ((size_t)(slash - path) > NAME_MAX) {
			close(fd);
			return -ENAMETOOLONG;
		}
		memcpy(name, path, (size_t)(slash - path));
		name[slash - path] = 0;
		next = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		close(fd);
		if (next < 0)
			return -errno;
		fd = next;
	}
	*leaf = path;
	return fd;
}

/* latest.* leads to a set of the same folder, or nowhere. */
static int file_open(int folder_fd, const char *leaf, bool of_death)
{
	struct store_name parsed;
	char target[STORE_NAME_MAX];
	struct stat st;
	ssize_t len;
	int fd;

	if (store_is_latest(leaf)) {
		len = readlinkat(folder_fd, leaf, target, sizeof(target) - 1);
		if (len < 0)
			return -errno;
		target[len] = 0;
		leaf = target;
	}
	if (!store_name_parse(&parsed, leaf) && !kills_is_file(leaf) &&
	    !(of_death && deaths_is_file(leaf)))
		return -ENOENT;
	fd = openat(folder_fd, leaf, O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (fstat(fd, &st) || !S_ISREG(st.st_mode)) {
		close(fd);
		return -ENOENT;
	}
	return fd;
}

static bool file_send(int folder_fd, const char *leaf, bool of_death, int to)
{
	__cleanup(close_fd) int fd = file_open(folder_fd, leaf, of_death);
	struct remote_profile_head head = { .status = 200 };
	static char bytes[COPY_BYTES];
	struct stat st;
	ssize_t n;

	if (fd < 0 || fstat(fd, &st))
		return refuse(to, NOT_FOUND, "no such file");
	head.size = (uint64_t)st.st_size;
	if (!all_write(to, &head, sizeof(head)))
		return false;
	while ((n = read(fd, bytes, sizeof(bytes))) > 0)
		if (!all_write(to, bytes, (size_t)n))
			return false;
	return !n;
}

static bool is_printable(const char *name)
{
	for (; *name; name++)
		if ((unsigned char)*name < ' ' || *name == 0x7f)
			return false;
	return true;
}

/* Finished files, links latest.*, and folders that have such files. */
static bool is_listed(int folder_fd, const char *name, bool folders, bool of_death, bool *is_folder)
{
	struct store_name parsed;
	struct stat st;

	*is_folder = false;
	if (*name == '.' || fstatat(folder_fd, name, &st, AT_SYMLINK_NOFOLLOW))
		return false;
	if (S_ISREG(st.st_mode))
		return store_name_parse(&parsed, name) || kills_is_file(name) ||
		       (of_death && deaths_is_file(name));
	if (S_ISLNK(st.st_mode))
		return store_is_latest(name);
	*is_folder = S_ISDIR(st.st_mode);
	return *is_folder && folders && is_printable(name);
}

static int compare_names(const void *a, const void *b)
{
	return strcmp(*(char *const *)a, *(char *const *)b);
}

static bool list_send(char **names, size_t nr, int to)
{
	struct remote_profile_head head = { .status = 200 };
	size_t i;

	for (i = 0; i < nr; i++)
		head.size += strlen(names[i]) + 1;
	if (!all_write(to, &head, sizeof(head)))
		return false;
	for (i = 0; i < nr; i++) {
		if (!all_write(to, names[i], strlen(names[i])) || !all_write(to, "\n", 1))
			return false;
	}
	return true;
}

static bool folder_send(int folder_fd, bool folders, bool of_death, int to)
{
	int fd = openat(folder_fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	char **names = calloc(MAX_NAMES, sizeof(*names));
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);
	struct dirent *entry;
	bool is_folder;
	size_t nr = 0;

	if (!dir || !names)
		return refuse(to, 500, strerror(errno));
	while (nr < MAX_NAMES && (entry = readdir(dir)))
		if (is_listed(folder_fd, entry->d_name, folders, of_death, &is_folder) &&
		    asprintf(&names[nr], "%s%s", entry->d_name, is_folder ? "/" : "") >= 0)
			nr++;
	qsort(names, nr, sizeof(*names), compare_names);
	return list_send(names, nr, to); /* the child ends now, so nothing is freed */
}

bool remote_profile_files_write(struct remote_profile_job *job, int to)
{
	const char *leaf = "", *at;
	__cleanup(close_fd) int folder_fd = folder_find(job->daemon->output, job->path, &leaf);
	bool of_death = deaths_is_path(job->path);
	unsigned int depth = 0;

	if (folder_fd < 0)
		return refuse(to, NOT_FOUND, "no such folder");
	for (at = job->path; *at; at++)
		depth += *at == '/';
	return *leaf ? file_send(folder_fd, leaf, of_death, to)
		     : folder_send(folder_fd, depth < DEPTH_MAX, of_death, to);
}
