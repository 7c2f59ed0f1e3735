// SPDX-License-Identifier: Apache-2.0
/* The folders of deaths and stalls below the folder of the daemon: writing, limits, retention. */
#include "daemon/daemon.h"

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
#include "base/time.h"
#include "formats/output.h"
#include "watch/folder_name.h"

#define MAX_FOLDERS 256 /* that are kept */
/* Folders that are written in an hour. The first one of a tenant is written whatever the others have used. */
#define PER_TENANT 40
#define PER_HOUR 120
#define MAX_TENANTS 512
#define HOUR_NS (3600 * NS_PER_SECOND)
#define MAX_TRIES 100 /* names for folders in the same second */

struct tenant {
	struct hash_node node;
	uint32_t tenant;
	uint32_t nr; /* folders of this hour */
};

static const char *const files[] = { "summary.txt", "stacks.folded", "dump-1.txt", "dump-2.txt" };

bool deaths_is_file(const char *name)
{
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		if (!strcmp(name, files[i]))
			return true;
	return false;
}

bool deaths_is_path(const char *path)
{
	const char *slash = strchr(path, '/');
	char name[NAME_MAX + 1];

	if (!slash || (size_t)(slash - path) > NAME_MAX || (slash[1] && !deaths_is_file(slash + 1)))
		return false;
	memcpy(name, path, (size_t)(slash - path));
	name[slash - path] = 0;
	return folder_name_is(name);
}

static int file_write(const struct daemon *daemon, int folder, const char *name,
		      const struct profile *profile, const struct buf *text)
{
	const struct store_access *access = &daemon->options->access;
	const struct output_options options = { .threads = true };
	int fd = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
			store_file_mode(access));
	int err;

	if (fd < 0)
		return -errno;
	err = store_access_file(access, fd) ?: file_fill(fd, name, profile, text, &options);
	if (!err && fsync(fd) && errno != EINVAL)
		err = -errno;
	close(fd);
	return err;
}

static void folder_remove(int parent, const char *name)
{
	int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	for (size_t i = 0; fd >= 0 && i < sizeof(files) / sizeof(files[0]); i++)
		unlinkat(fd, files[i], 0);
	if (fd >= 0)
		close(fd);
	unlinkat(parent, name, AT_REMOVEDIR);
}

/* Gives the finished folder its name, or that name and a number. */
static int folder_name(int parent, const char *temporary, struct buf *name)
{
	size_t len = name->len;
	int i;

	for (i = 1; i < MAX_TRIES; i++) {
		/* A folder with files is not replaced. */
		if (!renameat(parent, temporary, parent, name->data))
			return 0;
		if (errno != EEXIST && errno != ENOTEMPTY)
			return -errno;
		name->len = len;
		buf_printf(name, "-%d", i);
		if (buf_error(name))
			return buf_error(name);
	}
	return -EEXIST;
}

int watch_folder_write(const struct daemon *daemon, const char *temporary,
		       const struct folder_file *list, size_t nr, struct buf *name)
{
	const struct store_access *access = &daemon->options->access;
	int parent = store_fd(daemon->store), folder, err;
	size_t i;

	folder_remove(parent, temporary); /* of a child that was killed */
	if (mkdirat(parent, temporary, store_folder_mode(access)))
		return -errno;
	folder = openat(parent, temporary, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (folder < 0)
		return -errno;
	err = store_access_folder(access, folder);
	for (i = 0; i < nr && !err; i++)
		err = file_write(daemon, folder, list[i].name, list[i].profile, list[i].text);
	close(folder);
	if (!err)
		err = folder_name(parent, temporary, name);
	if (err)
		folder_remove(parent, temporary);
	return err;
}

static int is_folder(const struct dirent *entry)
{
	return folder_name_is(entry->d_name);
}

/* The <who> of the name of a folder: a pod or a program. */
static size_t owner_of(const char *folder, const char **ret)
{
	const char *end = strrchr(folder, '-');

	*ret = strchr(strchr(folder, '-') + 1, '-') + 1; /* folder_name_is() has seen both */
	return end > *ret ? (size_t)(end - *ret) : 0;
}

static bool is_same_owner(const char *a, const char *b)
{
	const char *of_a, *of_b;
	size_t len = owner_of(a, &of_a);

	return len == owner_of(b, &of_b) && !memcmp(of_a, of_b, len);
}

/* The oldest folder of the owner that has the most of them; the list is sorted. */
static size_t folder_choose(struct dirent *const *list, size_t nr)
{
	size_t i, j, of_owner, most = 0, chosen = 0;

	for (i = 0; i < nr; i++) {
		for (j = i, of_owner = 0; j < nr; j++)
			of_owner += is_same_owner(list[i]->d_name, list[j]->d_name);
		if (of_owner > most) {
			most = of_owner;
			chosen = i;
		}
	}
	return chosen;
}

static bool is_too_old(const struct daemon *daemon, const char *folder)
{
	struct stat st;

	return !fstatat(store_fd(daemon->store), folder, &st, AT_SYMLINK_NOFOLLOW) &&
	       (uint64_t)st.st_mtime + daemon->options->limits.age_seconds <
		       time_wall_ns() / NS_PER_SECOND;
}

/* Removes the folder, and its entry in the list. */
static void entry_remove(int parent, struct dirent **list, size_t *nr, size_t i)
{
	folder_remove(parent, list[i]->d_name);
	free(list[i]);
	memmove(list + i, list + i + 1, (--*nr - i) * sizeof(*list));
}

/* scandirat() has sorted them: the oldest come first. */
void watch_folders_prune(const struct daemon *daemon)
{
	int parent = store_fd(daemon->store), found;
	struct dirent **list;
	size_t nr, i;

	found = scandirat(parent, ".", &list, is_folder, alphasort);
	if (found < 0)
		return;
	nr = (size_t)found;
	for (i = 0; i < nr;)
		if (is_too_old(daemon, list[i]->d_name))
			entry_remove(parent, list, &nr, i);
		else
			i++;
	while (nr > MAX_FOLDERS)
		entry_remove(parent, list, &nr, folder_choose(list, nr));
	for (i = 0; i < nr; i++)
		free(list[i]);
	free(list);
}

bool watch_folder_take(struct watch_folders *folders, uint32_t number, uint64_t now_ns)
{
	struct tenant *tenant;

	if (!folders->hour_ns || now_ns > folders->hour_ns + HOUR_NS) {
		folders->hour_ns = now_ns;
		folders->nr_hour = 0;
		hash_table_clear(&folders->tenants);
		hash_table_init(&folders->tenants, MAX_TENANTS, struct tenant, tenant);
	}
	tenant = hash_table_get(&folders->tenants, &number);
	if (!tenant || (tenant->nr && (tenant->nr >= PER_TENANT || folders->nr_hour >= PER_HOUR)))
		return false;
	tenant->nr++;
	folders->nr_hour++;
	return true;
}
