// SPDX-License-Identifier: Apache-2.0
#include "daemon/store_access.h"

#include <errno.h>
#include <sys/stat.h>
#include <unistd.h>

mode_t store_file_mode(const struct store_access *access)
{
	return access->file_mode ? access->file_mode : STORE_FILE_MODE;
}

mode_t store_folder_mode(const struct store_access *access)
{
	mode_t mode = store_file_mode(access);

	return mode | (mode & 0444) >> 2;
}

/*
 * keep: the bits of the old mode that stay. The group is set first, since chown(2) clears bits of
 * the mode.
 */
static int apply(const struct store_access *access, int fd, mode_t mode, mode_t keep)
{
	struct stat st;

	if (!access->file_mode && !access->has_group)
		return 0;
	if (fstat(fd, &st))
		return -errno;
	if (access->has_group && st.st_gid != access->group && fchown(fd, (uid_t)-1, access->group))
		return -errno;
	mode |= st.st_mode & keep;
	if ((st.st_mode & 07777) == mode)
		return 0;
	return fchmod(fd, mode) ? -errno : 0;
}

int store_access_file(const struct store_access *access, int fd)
{
	return apply(access, fd, store_file_mode(access), 0);
}

int store_access_folder(const struct store_access *access, int fd)
{
	return apply(access, fd, store_folder_mode(access), S_ISGID);
}

int store_access_old_folder(const struct store_access *access, int fd)
{
	struct stat st;

	if (fstat(fd, &st))
		return -errno;
	return st.st_uid == geteuid() && !(st.st_mode & S_ISVTX) ? store_access_folder(access, fd)
								 : 0;
}

bool store_access_is_open(const struct store_access *access, const struct stat *folder)
{
	return folder->st_mode & STORE_OTHERS & ~store_folder_mode(access);
}
