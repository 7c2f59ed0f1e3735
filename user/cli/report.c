// SPDX-License-Identifier: Apache-2.0
/* bpfprof report: what stored files say together. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "cli/command.h"
#include "cli/flags.h"
#include "cli/report_options.h"
#include "output/nccl_report.h"
#include "profile/gpu_read.h"

#define CHUNK_BYTES 65536
#define TEXT_BYTES ((size_t)256 << 20)
#define NAME_BYTES 1024

/* All of it. 0, -E2BIG, -ENOMEM, or what reading says. */
static int read_all(int fd, struct buf *dst)
{
	char chunk[CHUNK_BYTES];
	ssize_t got;

	do {
		got = read(fd, chunk, sizeof(chunk));
		if (got > 0)
			buf_add(dst, chunk, (size_t)got);
	} while ((got > 0 && !buf_error(dst)) || (got < 0 && errno == EINTR));
	return got < 0 ? -errno : buf_error(dst);
}

static int read_file(struct gpu_read *to, const char *path)
{
	bool is_input = !strcmp(path, "-");
	__cleanup(close_fd) int opened = -1;
	__cleanup(buf_fini) struct buf text;
	int err;

	buf_init(&text, GPU_READ_FILE_BYTES);
	if (!is_input) {
		opened = open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY);
		if (opened < 0)
			return -errno;
	}
	err = read_all(is_input ? STDIN_FILENO : opened, &text);
	if (err)
		return err;
	return gpu_read_add(to, is_input ? "standard input" : path, text.len ? text.data : "",
			    text.len);
}

static void say(const char *path, int err)
{
	__cleanup(buf_fini) struct buf name;

	buf_init(&name, NAME_BYTES);
	buf_add_typed(&name, strcmp(path, "-") ? path : "standard input");
	if (err == -EBADMSG)
		log_error("%s: not what bpfprof gpu --once --json writes", name.data);
	else if (err == -E2BIG)
		log_error("%s: larger than can be read, 64 MiB", name.data);
	else
		log_error("%s: %s", name.data, strerror(-err));
}

static int print_report(const struct gpu_read *read, const struct report_options *options)
{
	const struct nccl_report_options how = { .rows = options->rows };
	__cleanup(buf_fini) struct buf text;
	int err;

	buf_init(&text, TEXT_BYTES);
	err = nccl_report(&text, read, &how);
	if (!err)
		err = buf_error(&text);
	if (err) {
		log_error("%s", err == -E2BIG ? "too much to show, --rows takes less of it"
					      : strerror(-err));
		return EXIT_FAILED;
	}
	if (fwrite(text.data, 1, text.len, stdout) == text.len && !fflush(stdout))
		return EXIT_DONE;
	log_error("standard output: %s", strerror(errno));
	return EXIT_FAILED;
}

int report_run(const struct report_options *options)
{
	struct gpu_read read;
	int err, status;
	size_t i;

	err = gpu_read_init(&read);
	if (err) {
		log_error("%s", strerror(-err));
		return EXIT_FAILED;
	}
	for (i = 0; i < options->nr_files && !err; i++) {
		err = read_file(&read, options->files[i]);
		if (err)
			say(options->files[i], err);
	}
	status = err ? EXIT_FAILED : print_report(&read, options);
	gpu_read_fini(&read);
	return status;
}
