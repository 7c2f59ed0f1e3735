/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_DAEMON_STORE_ACCESS_H
#define BPFPROF_DAEMON_STORE_ACCESS_H

/*
 * The mode and the group of the files and folders that the daemon makes. Files have names of
 * functions of every program on the machine, so not all users may read them.
 */

#include <stdbool.h>
#include <sys/types.h>

struct stat;

#define STORE_FILE_MODE 0640
#define STORE_OTHERS 0007 /* the bits of the mode for all users outside of the group */

/*
 * All zero: STORE_FILE_MODE less the umask, and the group of the process. With either flag the
 * umask is ignored.
 */
struct store_access {
	unsigned int file_mode; /* of --file-mode; 0: STORE_FILE_MODE */
	gid_t group; /* of --group, with has_group */
	bool has_group;
};

mode_t store_file_mode(const struct store_access *access);
/* The mode of their folder: a user that may read the files may list and enter it. */
mode_t store_folder_mode(const struct store_access *access);

/*
 * Gives a file or a folder that was just made the mode and the group that the user asked for. 0 or
 * -errno: -EPERM if the process may not give files to the group.
 */
int store_access_file(const struct store_access *access, int fd);
int store_access_folder(const struct store_access *access, int fd);
/*
 * The same for a folder that may be older. It stays as it is without a request of the user, if it
 * belongs to another user, or if it is for everybody (with a sticky bit, such as /tmp).
 */
int store_access_old_folder(const struct store_access *access, int fd);
/* May users outside of the group list or enter the folder, although access does not allow it? */
bool store_access_is_open(const struct store_access *access, const struct stat *folder);

#endif
