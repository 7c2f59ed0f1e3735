// SPDX-License-Identifier: Apache-2.0
/* One set of files in a folder. */
#include "daemon/daemon.h"

#include <errno.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/time.h"
#include "formats/output.h"
#include "profile/profile.h"

static const struct profile *profile_of(const struct profiles *profiles, unsigned int part)
{
	return part == STORE_CUDA     ? profiles->calls
	       : part == STORE_MEMORY ? profiles->memory
				      : profiles->cpu;
}

int set_write(const struct daemon *daemon, struct store *store, const struct store_limits *limits,
	      const struct profiles *profiles, struct store_set *set, struct store_counts *counts)
{
	const struct profile *profile = profiles->cpu;
	struct output_options options = { .threads = daemon->options->threads };
	uint64_t seconds;
	enum store_file file;
	int err;

	err = store_begin(store, set,
			  (profiles->calls ? STORE_CUDA : 0) |
				  (profiles->memory ? STORE_MEMORY : 0),
			  limits, time_wall_ns() / NS_PER_SECOND, counts);
	if (err)
		return err;
	for (file = 0; file < STORE_NR_FILES && !err; file++)
		if (set->fds[file] >= 0)
			err = output_write_fd(set->fds[file],
					      output_format_by_path(store_latest_name(file)),
					      profile_of(profiles, store_part_of(file)), &options);
	if (err) {
		store_abort(store, set);
		return err;
	}
	seconds = (profile->duration_ns + NS_PER_SECOND / 2) / NS_PER_SECOND;
	return store_commit(store, set, profile->time_ns / NS_PER_SECOND, seconds ? seconds : 1,
			    limits, time_wall_ns() / NS_PER_SECOND, counts);
}

static int text_write(int fd, const struct buf *text)
{
	const char *at = text->data;
	size_t left = text->len;
	ssize_t n;

	while (left) {
		n = write(fd, at, left);
		if (n < 0 && errno == EINTR)
			continue;
		if (n < 0)
			return -errno;
		at += n;
		left -= (size_t)n;
	}
	return 0;
}

int file_fill(int fd, const char *name, const struct profile *profile, const struct buf *text,
	      const struct output_options *options)
{
	return text ? text_write(fd, text)
		    : output_write_fd(fd, output_format_by_path(name), profile, options);
}
