// SPDX-License-Identifier: Apache-2.0
#include "base/file_read.h"

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/background.h"
#include "base/cleanup.h"

ssize_t file_read_at(int fd, void *dst, size_t len, uint64_t off)
{
	size_t done = 0;
	ssize_t n;
	int err;

	while (done < len) {
		background_wait_begin();
		n = pread(fd, (char *)dst + done, len - done, (off_t)(off + done));
		err = errno;
		background_wait_end();
		if (n < 0 && err == EINTR)
			continue;
		if (n < 0)
			return -err;
		if (!n)
			break;
		done += (size_t)n;
	}
	return (ssize_t)done;
}

ssize_t file_read_text(char *dst, size_t cap, const char *path)
{
	__cleanup(close_fd) int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOFOLLOW);
	ssize_t n = fd < 0 ? -errno : read(fd, dst, cap - 1);

	if (fd >= 0 && n < 0)
		n = -errno;
	dst[n > 0 ? n : 0] = '\0';
	return n;
}
