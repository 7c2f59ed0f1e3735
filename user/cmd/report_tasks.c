// SPDX-License-Identifier: Apache-2.0
/* bpfprof report --tasks */
#include "cmd/report_job.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/exit_status.h"
#include "base/log.h"
#include "cmd/report_options.h"
#include "tasks/task_cpu.h"
#include "tasks/task_read.h"
#include "tasks/task_report.h"

#define NAME_BYTES 1024
#define CHUNK_BYTES 65536

static int read_fd(struct task_read *read_to, int fd, bool *ret_empty)
{
	char chunk[CHUNK_BYTES];
	ssize_t got;
	int err = 0;

	*ret_empty = true;

	do {
		got = read(fd, chunk, sizeof(chunk));
		*ret_empty &= got <= 0;
		if (got > 0)
			err = task_read_push(read_to, chunk, (size_t)got);
	} while (!err && (got > 0 || (got < 0 && errno == EINTR)));
	if (!err && got < 0)
		err = -errno;
	return err ?: task_read_end(read_to);
}

static int read_file(struct task_read *read_to, const char *path, struct report_seen *seen)
{
	__cleanup(close_fd) int fd = report_open(path);
	__cleanup(buf_fini) struct buf name = { .max = NAME_BYTES };
	bool empty = false;
	int err;

	if (fd >= 0 && report_is_seen(seen, fd, path))
		return 0;
	err = fd < 0 ? fd : read_fd(read_to, fd, &empty);
	if (!err)
		return 0;
	report_file_name(&name, path);
	if (empty)
		log_error("%s: the file is empty: its writer was cut off", name.data);
	else if (err == -EBADMSG)
		log_error("%s: not a timeline as bpfprof record -o FILE.json writes it", name.data);
	else if (err == -ENODATA)
		log_error("%s: its end is missing", name.data);
	else
		log_error("%s: %s", name.data, strerror(-err));
	return err;
}

static int print_timelines(const struct report_options *options, struct task_read *read_to)
{
	__cleanup(buf_fini) struct buf text = { .max = REPORT_TEXT_BYTES };
	struct report_seen seen = { 0 };
	struct task_row *list;
	size_t nr, i;
	int status, err = 0;

	for (i = 0; i < options->nr_files && !err; i++)
		err = read_file(read_to, options->files[i], &seen);
	report_seen_fini(&seen);
	if (err)
		return EXIT_FAILED;
	list = task_read_rows(read_to, &nr);
	if (list)
		task_report(&text, list, nr, task_read_totals(read_to), options->rows);
	status = report_print(&text, list ? 0 : -ENOMEM);
	free(list);
	return status;
}

static int run_timelines(const struct report_options *options)
{
	struct task_read *read_to = NULL;
	int status = EXIT_FAILED;

	if (task_read_new(&read_to))
		log_error("%s", strerror(ENOMEM));
	else
		status = print_timelines(options, read_to);
	task_read_free(read_to);
	return status;
}

static int print_profile(const struct report_options *options, const struct profile *profile)
{
	__cleanup(buf_fini) struct buf text = { .max = REPORT_TEXT_BYTES };
	struct task_cpu *list;
	int status, err;
	size_t nr;

	list = task_cpu_list(profile, &nr);
	if (!list) {
		log_error("these profiles do not count time on a CPU: profiles have no other facts "
			  "about tasks");
		return EXIT_FAILED;
	}
	err = task_cpu_group(list, &nr);
	if (!err)
		task_report_cpu(&text, list, nr, options->rows);
	status = report_print(&text, err);
	free(list);
	return status;
}

static int run_profiles(const struct report_options *options)
{
	struct report_input input;
	int status = EXIT_FAILED;

	if (!report_input_read(&input, options->files, options->nr_files, options))
		status = print_profile(options, &input.profile);
	report_input_fini(&input);
	return status;
}

int report_tasks_run(const struct report_options *options)
{
	return options->timelines ? run_timelines(options) : run_profiles(options);
}
