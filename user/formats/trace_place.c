// SPDX-License-Identifier: Apache-2.0
#include "formats/trace_place.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "formats/trace_facts.h"

/* The folder of the file that path will name; "": path is no file. */
static int folder_of(struct buf *dst, const char *path)
{
	const char *slash = strrchr(path, '/');
	struct stat st;

	if (!strcmp(path, "-") || !strncmp(path, "/dev/", 5) || !strncmp(path, "/proc/", 6) ||
	    (!stat(path, &st) && !S_ISREG(st.st_mode)))
		return 0;
	if (slash)
		buf_add(dst, path, (size_t)(slash - path) + 1);
	else
		buf_add_str(dst, ".");
	return buf_error(dst);
}

/* Opens a file in the first temporary folder that works. */
static int open_anywhere(int (*open)(void *arg, const char *folder), void *arg)
{
	const char *const folders[] = { getenv("TMPDIR"), "/tmp", "/var/tmp", "/dev/shm" };
	int err = -ENOENT;
	size_t i;

	for (i = 0; i < sizeof(folders) / sizeof(folders[0]) && err; i++)
		if (folders[i] && *folders[i])
			err = open(arg, folders[i]);
	return err;
}

int trace_place_open(const char *path, int (*open)(void *arg, const char *folder), void *arg)
{
	__cleanup(buf_fini) struct buf folder = { .max = PATH_MAX };
	int err = folder_of(&folder, path);

	if (err)
		return err;
	return folder.len ? open(arg, folder.data) : open_anywhere(open, arg);
}

void trace_place_say_missing(const char *path, const struct trace_facts *facts, int err)
{
	if (facts->nr_dropped)
		log_warn("%s: the newest %" PRIu64 " of %" PRIu64
			 " calls are kept: all are larger than --max-trace-bytes %" PRIu64,
			 path, facts->nr_kept, facts->nr_kept + facts->nr_dropped,
			 facts->max_bytes);
	if (err)
		log_warn("%s: some calls could not be stored: %s", path, strerror(-err));
}
