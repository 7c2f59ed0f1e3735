// SPDX-License-Identifier: Apache-2.0
/* What all of `bpfprof report` reads and prints with. */
#include "cmd/report_job.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/exit_status.h"
#include "base/log.h"
#include "base/text.h"

#define CHUNK_BYTES 65536

int report_load_fd(struct buf *dst, int fd)
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

void report_file_name(struct buf *dst, const char *path)
{
	text_add_typed(dst, strcmp(path, "-") ? path : "standard input");
}

int report_open(const char *path)
{
	int fd = strcmp(path, "-") ? open(path, O_RDONLY | O_CLOEXEC | O_NOCTTY)
				   : fcntl(STDIN_FILENO, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);

	return fd < 0 ? -errno : fd;
}

int report_load(struct buf *dst, const char *path)
{
	__cleanup(close_fd) int fd = report_open(path);

	return fd < 0 ? fd : report_load_fd(dst, fd);
}

int report_print(const struct buf *text, int err)
{
	if (!err)
		err = buf_error(text);
	if (err) {
		log_error("%s", err == -E2BIG ? "too much to show, --rows takes less of it"
					      : strerror(-err));
		return EXIT_FAILED;
	}
	if (fwrite(text->data, 1, text->len, stdout) == text->len && !fflush(stdout))
		return EXIT_DONE;
	log_error("standard output: %s", strerror(errno));
	return EXIT_FAILED;
}
