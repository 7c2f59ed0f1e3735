// SPDX-License-Identifier: Apache-2.0
/* bpfprof report --lines: shows the source with its samples. */
#include "cmd/report_job.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/exit_status.h"
#include "base/log.h"
#include "base/text.h"
#include "base/time.h"
#include "cmd/report_options.h"
#include "report/source_report.h"

#define SOURCE_BYTES (16U << 20)
#define NAME_BYTES 4096
#define MAX_SHOWN 4

/* Finds files by the given name, or, for a copy elsewhere, by its last part. */
static int files_find(const struct profile *profile, const char *wanted, const char *ret[MAX_SHOWN])
{
	int nr;

	while (!strncmp(wanted, "./", 2))
		wanted += 2;
	nr = source_files(profile, wanted, ret, MAX_SHOWN);
	return nr ? nr : source_files(profile, text_base_name(wanted), ret, MAX_SHOWN);
}

/* The name that frames have for the file of --lines; NULL: none, and an error reports why. */
static const char *file_find(const struct profile *profile, const char *wanted)
{
	__cleanup(buf_fini) struct buf text = { .max = (size_t)MAX_SHOWN * NAME_BYTES };
	const char *files[MAX_SHOWN];
	int nr = files_find(profile, wanted, files), i;

	if (nr == 1)
		return files[0];
	report_file_name(&text, wanted);
	if (nr < 0)
		log_error("%s", strerror(-nr));
	else if (!nr)
		log_error("--lines %s: no sample has a line of this file", text.data);
	if (nr <= 0)
		return NULL;
	for (i = 0; i < nr && i < MAX_SHOWN; i++) {
		buf_add_str(&text, i ? ", " : ": it may be ");
		report_file_name(&text, files[i]);
	}
	log_error("--lines %s%s", text.data, nr > MAX_SHOWN ? ", ..." : "");
	return NULL;
}

/* Opens the source at the given path, else at the path at which it ran. */
static int source_open(const char *wanted, const char *file, struct stat *ret)
{
	int fd = open(wanted, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);

	if (fd < 0)
		fd = open(file, O_RDONLY | O_CLOEXEC | O_NOCTTY | O_NONBLOCK);
	if (fd < 0)
		return -errno;
	if (!fstat(fd, ret) && S_ISREG(ret->st_mode))
		return fd;
	close(fd);
	return -EINVAL;
}

static void compare_times(const struct profile *profile, const char *name, const struct stat *st)
{
	uint64_t changed = (uint64_t)st->st_mtim.tv_sec * NS_PER_SECOND;

	if (profile->time_ns && changed > profile->time_ns)
		log_warn("%s: was changed after the recording began: lines may have moved", name);
}

int report_lines(const struct report_options *options, const struct profile *profile)
{
	const char *file = file_find(profile, options->lines);
	__cleanup(buf_fini) struct buf source, text, name;
	__cleanup(close_fd) int fd = -1;
	uint64_t odd = 0;
	struct stat st;
	int err;

	buf_init(&source, SOURCE_BYTES);
	buf_init(&text, REPORT_TEXT_BYTES);
	buf_init(&name, NAME_BYTES);
	if (!file)
		return EXIT_FAILED;
	fd = source_open(options->lines, file, &st);
	report_file_name(&name, fd < 0 ? file : options->lines);
	err = fd < 0 ? fd : report_load_fd(&source, fd);
	if (err) {
		log_error("%s: the source cannot be read: %s", name.data,
			  err == -E2BIG ? "larger than 16 MiB" : strerror(-err));
		return EXIT_FAILED;
	}
	compare_times(profile, name.data, &st);
	err = source_report(&text, profile, file, source.len ? source.data : "", source.len, &odd);
	if (!err && odd)
		log_warn("%s: not the source that ran: some samples are at lines that are empty, "
			 "comments or past its end",
			 name.data);
	return report_print(&text, err);
}
