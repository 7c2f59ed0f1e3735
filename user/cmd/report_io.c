// SPDX-License-Identifier: Apache-2.0
/* Input and output of all forms of `bpfprof report`. */
#include "cmd/report_job.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/exit_status.h"
#include "base/log.h"
#include "base/print.h"
#include "base/text.h"
#include "base/vec.h"

#define CHUNK_BYTES 65536
#define NAME_BYTES 1024

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

/*
 * Was the file read before? `*.pb.gz` also matches a link to the newest file. A pipe is never a
 * duplicate: it may give new data each time.
 */
bool report_is_seen(struct report_seen *seen, int fd, const char *path)
{
	__cleanup(buf_fini) struct buf name = { .max = NAME_BYTES }, other = { .max = NAME_BYTES };
	struct report_place *place;
	struct stat st;
	size_t i;

	if (fstat(fd, &st) || !S_ISREG(st.st_mode))
		return false;
	for (i = 0; i < seen->nr; i++) {
		place = &seen->places[i];
		if (place->dev != st.st_dev || place->ino != st.st_ino)
			continue;
		report_file_name(&name, path);
		report_file_name(&other, place->path);
		log_warn("%s: the same file as %s, which is taken once", name.data, other.data);
		return true;
	}
	if (!vec_grow(seen->places, seen->nr + 1, seen->cap, VEC_BOUNDED))
		seen->places[seen->nr++] = (struct report_place){ st.st_dev, st.st_ino, path };
	return false;
}

void report_seen_fini(struct report_seen *seen)
{
	free(seen->places);
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
	err = print_lines(stdout, text->data, text->len);
	if (!err || err == -EPIPE) /* a reader such as `head` has read enough */
		return EXIT_DONE;
	log_error("standard output: %s", strerror(-err));
	return EXIT_FAILED;
}
