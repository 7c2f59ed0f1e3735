// SPDX-License-Identifier: Apache-2.0
/* One set of files in a folder. */
#include "daemon/daemon.h"

#include <errno.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/time.h"
#include "formats/output.h"
#include "formats/seconds_file.h"
#include "profile/profile.h"

static const struct profile *profile_of(const struct profiles *profiles, unsigned int part)
{
	return part == STORE_CUDA     ? profiles->calls
	       : part == STORE_MEMORY ? profiles->memory
				      : profiles->cpu;
}

struct seconds_job {
	const struct profile *profile;
	const struct seconds *seconds;
};

static int seconds_job_write(FILE *out, void *arg)
{
	const struct seconds_job *job = arg;

	return seconds_write(out, job->profile, job->seconds);
}

static int one_write(int fd, enum store_file file, const struct profiles *profiles,
		     const struct output_options *options)
{
	struct seconds_job job = { profiles->cpu, profiles->seconds };

	if (file == STORE_SECONDS_GZ)
		return output_write_fd_by(fd, seconds_job_write, &job);
	return output_write_fd(fd, output_format_by_path(store_latest_name(file)),
			       profile_of(profiles, store_part_of(file)), options);
}

/* The length of an interval in its name: start and length together cover each second that has samples. */
static uint64_t seconds_covered(const struct profile *profile)
{
	uint64_t end_ns = profile->time_ns + profile->duration_ns;
	uint64_t seconds =
		(end_ns + NS_PER_SECOND - 1) / NS_PER_SECOND - profile->time_ns / NS_PER_SECOND;

	return seconds ? seconds : 1;
}

int set_write(const struct daemon *daemon, struct store *store, const struct store_limits *limits,
	      const struct profiles *profiles, struct store_set *set, struct store_counts *counts)
{
	const struct profile *profile = profiles->cpu;
	struct output_options options = { .threads = daemon->options->threads };
	enum store_file file;
	int err;

	err = store_begin(store, set,
			  (profiles->calls ? STORE_CUDA : 0) |
				  (profiles->memory ? STORE_MEMORY : 0) |
				  (profiles->seconds ? STORE_SECONDS : 0),
			  limits, time_wall_ns() / NS_PER_SECOND, counts);
	if (err)
		return err;
	for (file = 0; file < STORE_NR_FILES && !err; file++)
		if (set->fds[file] >= 0)
			err = one_write(set->fds[file], file, profiles, &options);
	if (err) {
		store_abort(store, set);
		return err;
	}
	return store_commit(store, set, profile->time_ns / NS_PER_SECOND, seconds_covered(profile),
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
