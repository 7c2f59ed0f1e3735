// SPDX-License-Identifier: Apache-2.0
#include "daemon/store.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "daemon/sets.h"

#define MAX_TRIES 100
#define MAX_COPIES 10000
#define RESERVE_AS_LAST UINT64_MAX /* as much as the newest set has */
#define TEMPORARY_PREFIX ".bpfprof-daemon-"
#define TEMPORARY_SUFFIX ".tmp"
#define TEMPORARY_DIGITS 16

struct store {
	char *path;
	int fd; /* of the folder, locked unless path is NULL */
	struct store_access access;
};

/* A folder below that of fd (AT_FDCWD: the current one). Its mode and group are those of access. */
static int folder_make(int fd, const char *name, const struct store_access *access)
{
	int made, err;

	if (mkdirat(fd, name, store_folder_mode(access)))
		return -errno;
	made = openat(fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (made < 0)
		return -errno;
	err = store_access_folder(access, made);
	close(made);
	return err;
}

/* Makes every folder on the way, and the last one. */
static int folders_make(const char *path, const struct store_access *access)
{
	__cleanup(free_mem) char *copy = strdup(path);
	char *slash;
	int err;

	if (!copy)
		return -ENOMEM;
	for (slash = strchr(copy + 1, '/'); slash; slash = strchr(slash + 1, '/')) {
		*slash = 0;
		folder_make(AT_FDCWD, copy, access); /* opening the folder reports what is wrong */
		*slash = '/';
	}
	err = folder_make(AT_FDCWD, copy, access);
	return err == -EEXIST ? 0 : err;
}

/* Opens and locks the folder, and makes it if it does not exist. */
static int folder_open(const char *path, const struct store_access *access)
{
	int fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC), err;

	if (fd < 0 && errno == ENOENT) {
		err = folders_make(path, access);
		if (err)
			return err;
		fd = open(path, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
	}
	if (fd < 0)
		return -errno;
	/* Some network file systems have no locks: two daemons cannot be kept apart there. */
	if (flock(fd, LOCK_EX | LOCK_NB) && errno == EWOULDBLOCK) {
		close(fd);
		return -EBUSY;
	}
	err = store_access_old_folder(access, fd);
	if (err) {
		close(fd);
		return err;
	}
	return fd;
}

int store_open(struct store **ret, const char *path, const struct store_access *access)
{
	struct store *store = calloc(1, sizeof(*store));

	if (!store)
		return -ENOMEM;
	store->path = strdup(path);
	store->access = *access;
	store->fd = store->path ? folder_open(path, access) : -ENOMEM;
	if (store->fd < 0) {
		int err = store->fd;

		free(store->path);
		free(store);
		return err;
	}
	*ret = store;
	return 0;
}

void store_close(struct store *store)
{
	if (!store)
		return;
	close(store->fd);
	free(store->path);
	free(store);
}

int store_open_below(struct store **ret, const struct store *above, const char *const names[],
		     size_t nr, bool make)
{
	struct store *store = calloc(1, sizeof(*store));
	int fd = store ? openat(above->fd, ".", O_RDONLY | O_DIRECTORY | O_CLOEXEC) : -1, next;
	int err = !store ? -ENOMEM : fd < 0 ? -errno : 0;
	size_t i;

	for (i = 0; i < nr && !err; i++) {
		if (make)
			err = folder_make(fd, names[i], &above->access);
		next = openat(fd, names[i], O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
		if (next < 0)
			err = err && err != -EEXIST ? err : -errno;
		else
			err = make ? store_access_old_folder(&above->access, next) : 0;
		close(fd);
		fd = next;
	}
	if (err) {
		if (fd >= 0)
			close(fd);
		free(store);
		return err;
	}
	store->fd = fd;
	store->access = above->access;
	*ret = store;
	return 0;
}

int store_fd(const struct store *store)
{
	return store->fd;
}

/* Opens the folder again if it was removed, or if another one is mounted on it. */
static int folder_refresh(struct store *store)
{
	struct stat at_path, ours;
	int fd;

	if (!store->path) /* a folder below is opened anew each time */
		return 0;
	if (!stat(store->path, &at_path) && !fstat(store->fd, &ours) &&
	    at_path.st_dev == ours.st_dev && at_path.st_ino == ours.st_ino)
		return 0;
	fd = folder_open(store->path, &store->access);
	if (fd < 0)
		return fd;
	close(store->fd);
	store->fd = fd;
	return 0;
}

static void temporary_name(char name[STORE_NAME_MAX])
{
	uint64_t random;

	if (getrandom(&random, sizeof(random), GRND_NONBLOCK) != sizeof(random))
		random = (uint64_t)getpid() << 32 ^ (uint64_t)clock();
	snprintf(name, STORE_NAME_MAX, TEMPORARY_PREFIX "%016" PRIx64 TEMPORARY_SUFFIX, random);
}

static bool is_temporary(const char *name)
{
	size_t prefix = sizeof(TEMPORARY_PREFIX) - 1;

	return !strncmp(name, TEMPORARY_PREFIX, prefix) &&
	       strspn(name + prefix, "0123456789abcdef") == TEMPORARY_DIGITS &&
	       !strcmp(name + prefix + TEMPORARY_DIGITS, TEMPORARY_SUFFIX);
}

/* Makes latest.* of one kind lead to target, unless a file that is no link has this name. */
static int link_set(struct store *store, enum store_file file, const char *target)
{
	char temporary[STORE_NAME_MAX], old[STORE_NAME_MAX + 16];
	struct stat st;
	ssize_t len;
	int err;

	if (!store_latest_name(file))
		return 0;
	if (!fstatat(store->fd, store_latest_name(file), &st, AT_SYMLINK_NOFOLLOW)) {
		if (!S_ISLNK(st.st_mode))
			return -EEXIST;
		len = readlinkat(store->fd, store_latest_name(file), old, sizeof(old) - 1);
		if (len > 0) {
			old[len] = 0;
			if (!strcmp(old, target))
				return 0;
		}
	}
	temporary_name(temporary);
	if (symlinkat(target, store->fd, temporary))
		return -errno;
	if (!renameat(store->fd, temporary, store->fd, store_latest_name(file)))
		return 0;
	err = -errno;
	unlinkat(store->fd, temporary, 0);
	return err;
}

static void links_count(struct store_counts *counts, int err)
{
	if (!err)
		return;
	if (!counts->links_failed++)
		counts->links_error = err;
}

/* The set to which latest.* of one kind leads. */
static bool link_read(const struct store *store, enum store_file file, struct store_name *ret)
{
	const char *latest = store_latest_name(file);
	char target[STORE_NAME_MAX];
	ssize_t len = latest ? readlinkat(store->fd, latest, target, sizeof(target) - 1) : 0;

	if (len <= 0)
		return false;
	target[len] = 0;
	return store_name_parse(ret, target);
}

/*
 * Removes the link of a kind that the newest set does not have. It would protect an older set for
 * ever.
 */
static int link_drop(struct store *store, enum store_file file)
{
	struct store_name name;

	if (!link_read(store, file, &name) || !unlinkat(store->fd, store_latest_name(file), 0))
		return 0;
	return -errno;
}

static int temporaries_remove(struct store *store, struct store_counts *counts)
{
	struct dirent *entry;
	struct stat st;
	DIR *dir;
	int err = folder_list(&dir, store->fd, ".");

	if (err)
		return err;
	while ((entry = readdir(dir))) {
		if (!is_temporary(entry->d_name) ||
		    fstatat(store->fd, entry->d_name, &st, AT_SYMLINK_NOFOLLOW) ||
		    !(S_ISREG(st.st_mode) || S_ISLNK(st.st_mode)))
			continue;
		if (!unlinkat(store->fd, entry->d_name, 0))
			counts->stale++;
		else if (!err)
			err = -errno;
	}
	closedir(dir);
	return err;
}

int store_clean(struct store *store, struct store_counts *counts)
{
	return temporaries_remove(store, counts);
}

int store_repair(struct store *store, uint64_t now_seconds, struct store_counts *counts)
{
	char name[STORE_NAME_MAX];
	enum store_file file;
	struct sets sets;
	size_t i;
	int err, first;

	err = temporaries_remove(store, counts);
	first = sets_read(&sets, store->fd, now_seconds);
	if (first)
		return err ? err : first;
	for (file = 0; file < STORE_NR_FILES; file++) {
		i = sets.nr;
		if (file >= STORE_NR_CPU_FILES && i && !(sets.sets[i - 1].files & 1U << file)) {
			links_count(counts, link_drop(store, file));
			continue;
		}
		for (; i && !(sets.sets[i - 1].files & 1U << file); i--)
			;
		if (!i)
			continue;
		set_file_name(name, &sets.sets[i - 1], file);
		links_count(counts, link_set(store, file, name));
	}
	sets_fini(&sets);
	return err;
}

/* Protects the sets to which latest.* lead. */
static void links_protect(struct store *store, struct sets *sets)
{
	struct store_name name;
	enum store_file file;
	size_t i;

	for (file = 0; file < STORE_NR_FILES; file++) {
		if (!link_read(store, file, &name))
			continue;
		for (i = 0; i < sets->nr; i++)
			if (set_is(&sets->sets[i], &name))
				sets->sets[i].keep = true;
	}
}

static void set_remove(struct store *store, const struct set *set, struct store_counts *counts)
{
	char name[STORE_NAME_MAX];
	enum store_file file;

	for (file = 0; file < STORE_NR_FILES; file++) {
		if (!(set->files & 1U << file))
			continue;
		set_file_name(name, set, file);
		if (unlinkat(store->fd, name, 0) && errno != ENOENT) {
			if (!counts->remove_error)
				counts->remove_error = -errno;
			return;
		}
	}
	counts->removed_sets++;
	counts->removed_bytes += set->bytes;
	counts->sets--;
	counts->bytes -= set->bytes;
}

bool store_is_ours(const struct store *store)
{
	struct store_name name;

	return link_read(store, STORE_PPROF, &name);
}

bool store_leads_to(const struct store *store, const struct set *set)
{
	struct store_name name;
	enum store_file file;

	for (file = 0; file < STORE_NR_FILES; file++)
		if (link_read(store, file, &name) && set_is(set, &name))
			return true;
	return false;
}

int store_remove(struct store *store, const struct set *set, const struct set *next)
{
	struct store_counts counts = { 0 };
	char target[STORE_NAME_MAX];
	struct store_name name;
	enum store_file file;
	int err;

	/* The links are changed first, so that they always lead to a file. */
	for (file = 0; file < STORE_NR_FILES; file++) {
		if (!link_read(store, file, &name) || !set_is(set, &name))
			continue;
		err = 0;
		if (next && next->files & 1U << file) {
			set_file_name(target, next, file);
			err = link_set(store, file, target);
		} else if (unlinkat(store->fd, store_latest_name(file), 0)) {
			err = -errno;
		}
		if (err)
			return err;
	}
	set_remove(store, set, &counts);
	return counts.remove_error;
}

/* reserve: bytes, or RESERVE_AS_LAST. */
static int prune(struct store *store, const struct store_limits *limits, uint64_t reserve,
		 uint64_t now_seconds, struct store_counts *counts)
{
	struct sets sets;
	size_t i;
	int err;

	if (!limits)
		return 0;
	err = sets_read(&sets, store->fd, now_seconds);
	if (err) {
		counts->remove_error = err;
		return err;
	}
	links_protect(store, &sets);
	if (reserve == RESERVE_AS_LAST)
		reserve = sets.nr ? sets.sets[sets.nr - 1].bytes : 0;
	if (sets.nr && !reserve)
		sets.sets[sets.nr - 1].keep = true;
	counts->sets = sets.nr;
	counts->bytes = sets.bytes;
	counts->remove_error = 0;
	for (i = 0; i < sets.nr; i++) {
		if (sets.sets[i].keep)
			continue;
		if (counts->bytes + reserve > limits->bytes ||
		    set_is_too_old(&sets.sets[i], now_seconds, limits->age_seconds))
			set_remove(store, &sets.sets[i], counts);
	}
	sets_fini(&sets);
	return counts->remove_error;
}

int store_prune(struct store *store, const struct store_limits *limits, uint64_t now_seconds,
		struct store_counts *counts)
{
	return prune(store, limits, 0, now_seconds, counts);
}

static int temporary_open(struct store *store, char name[STORE_NAME_MAX])
{
	int try, fd, err;

	for (try = 0; try < MAX_TRIES; try++) {
		temporary_name(name);
		fd = openat(store->fd, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
			    store_file_mode(&store->access));
		err = fd < 0 ? -errno : store_access_file(&store->access, fd);
		if (!err)
			return fd;
		if (fd >= 0) {
			close(fd);
			unlinkat(store->fd, name, 0);
		}
		if (err != -EEXIST)
			break;
	}
	name[0] = 0;
	return err;
}

int store_check(struct store *store)
{
	char name[STORE_NAME_MAX];
	int fd = temporary_open(store, name);

	if (fd < 0)
		return fd;
	close(fd);
	unlinkat(store->fd, name, 0);
	return 0;
}

static void set_init(struct store_set *set)
{
	enum store_file file;

	*set = (struct store_set){ 0 };
	for (file = 0; file < STORE_NR_FILES; file++)
		set->fds[file] = -1;
}

int store_begin(struct store *store, struct store_set *set, unsigned int parts,
		const struct store_limits *limits, uint64_t now_seconds,
		struct store_counts *counts)
{
	enum store_file file;
	int err;

	err = folder_refresh(store);
	if (err)
		return err;
	/* counts reports files that cannot be removed. The set is written nevertheless. */
	prune(store, limits, RESERVE_AS_LAST, now_seconds, counts);
	set_init(set);
	set->open = true;
	for (file = 0; file < STORE_NR_FILES && !err; file++) {
		if ((store_part_of(file) & parts) != store_part_of(file))
			continue;
		set->fds[file] = temporary_open(store, set->temporary[file]);
		err = set->fds[file] < 0 ? set->fds[file] : 0;
	}
	if (err)
		store_abort(store, set);
	return err;
}

void store_abort(struct store *store, struct store_set *set)
{
	enum store_file file;

	for (file = 0; set->open && file < STORE_NR_FILES; file++) {
		if (set->fds[file] >= 0)
			close(set->fds[file]);
		if (set->temporary[file][0])
			unlinkat(store->fd, set->temporary[file], 0);
	}
	set_init(set);
}

/* Writes all files to the disk, and adds up their sizes. */
static int set_sync(struct store_set *set)
{
	enum store_file file;
	struct stat st;

	for (file = 0; file < STORE_NR_FILES; file++) {
		if (set->fds[file] < 0)
			continue;
		if (fsync(set->fds[file]) && errno != EINVAL)
			return -errno;
		if (fstat(set->fds[file], &st))
			return -errno;
		set->bytes += (uint64_t)st.st_size;
	}
	return 0;
}

/* Is none of the set's names in use? */
static bool name_is_free(const struct store *store, const char *set_name)
{
	char name[STORE_NAME_MAX];
	enum store_file file;
	struct stat st;

	for (file = 0; file < STORE_NR_FILES; file++) {
		store_file_name(name, set_name, file);
		if (!fstatat(store->fd, name, &st, AT_SYMLINK_NOFOLLOW))
			return false;
	}
	return true;
}

static int name_choose(const struct store *store, struct store_set *set, uint64_t start,
		       uint64_t seconds)
{
	uint64_t copy;

	for (copy = 0; copy < MAX_COPIES; copy++) {
		store_name_make(set->name, start, seconds, copy);
		if (name_is_free(store, set->name))
			return 0;
	}
	return -EEXIST;
}

static int file_rename(const struct store *store, const char *from, const char *to)
{
	if (!renameat2(store->fd, from, store->fd, to, RENAME_NOREPLACE))
		return 0;
	/* The file system has no RENAME_NOREPLACE. name_choose() has just found the name free. */
	if (errno != EINVAL && errno != ENOSYS)
		return -errno;
	return renameat(store->fd, from, store->fd, to) ? -errno : 0;
}

/* Gives all temporary files their names, or none of them. */
static int set_rename(struct store *store, struct store_set *set)
{
	char name[STORE_NAME_MAX];
	enum store_file file, done;
	int err = 0;

	for (file = 0; file < STORE_NR_FILES && !err; file++) {
		if (set->fds[file] < 0)
			continue;
		store_file_name(name, set->name, file);
		err = file_rename(store, set->temporary[file], name);
		if (!err)
			set->temporary[file][0] = 0;
	}
	if (!err)
		return 0;
	for (done = 0; done + 1 < file; done++) {
		if (set->fds[done] < 0)
			continue;
		store_file_name(name, set->name, done);
		unlinkat(store->fd, name, 0);
	}
	return err;
}

int store_commit(struct store *store, struct store_set *set, uint64_t start, uint64_t seconds,
		 const struct store_limits *limits, uint64_t now_seconds,
		 struct store_counts *counts)
{
	char name[STORE_NAME_MAX];
	enum store_file file;
	int err;

	err = set_sync(set);
	if (!err)
		err = name_choose(store, set, start, seconds);
	if (!err) {
		prune(store, limits, set->bytes, now_seconds, counts);
		err = set_rename(store, set);
	}
	if (err) {
		store_abort(store, set);
		return err;
	}
	for (file = 0; file < STORE_NR_FILES; file++) {
		if (set->fds[file] < 0) {
			links_count(counts, link_drop(store, file));
			continue;
		}
		close(set->fds[file]);
		set->files |= 1U << file;
		store_file_name(name, set->name, file);
		links_count(counts, link_set(store, file, name));
	}
	set->open = false;
	/* The set to which latest.* led before may be removed now. */
	prune(store, limits, 0, now_seconds, counts);
	fsync(store->fd); /* some file systems cannot, which is no failure */
	return 0;
}

int store_file_begin(struct store *store, char temporary[STORE_NAME_MAX])
{
	return temporary_open(store, temporary);
}

int store_file_end(struct store *store, int fd, const char *temporary, const char *name)
{
	int err = name && fsync(fd) && errno != EINVAL ? -errno : 0;

	close(fd);
	if (name && !err && renameat(store->fd, temporary, store->fd, name))
		err = -errno;
	if (!name || err)
		unlinkat(store->fd, temporary, 0);
	return err;
}
