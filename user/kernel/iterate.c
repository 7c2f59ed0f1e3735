// SPDX-License-Identifier: Apache-2.0
#include "kernel/iterate.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

#define READ_RECORDS 64

static int link_make(int prog_fd, union bpf_iter_link_info info)
{
	LIBBPF_OPTS(bpf_link_create_opts, options, .iter_info = &info,
		    .iter_info_len = sizeof(info));

	return bpf_link_create(prog_fd, 0, BPF_TRACE_ITER, &options);
}

int iterate_link(int prog_fd, uint32_t tid)
{
	return link_make(prog_fd, (union bpf_iter_link_info){ .task.tid = tid });
}

int iterate_link_process(int prog_fd, uint32_t pid)
{
	return link_make(prog_fd, (union bpf_iter_link_info){ .task.pid = pid });
}

int iterate_link_map(int prog_fd, int map_fd)
{
	return link_make(prog_fd, (union bpf_iter_link_info){ .map.map_fd = (uint32_t)map_fd });
}

int iterate_open(int prog_fd, uint32_t tid)
{
	__cleanup(close_fd) int link_fd = iterate_link(prog_fd, tid);

	return link_fd < 0 ? link_fd : bpf_iter_create(link_fd);
}

int iterate_read(int fd, void *dst, size_t len)
{
	size_t done = 0;
	ssize_t n;

	while (done < len) {
		n = read(fd, (char *)dst + done, len - done);
		if (n < 0 && errno != EINTR && errno != EAGAIN)
			return -errno;
		if (!n)
			return -ESRCH;
		done += n > 0 ? (size_t)n : 0;
	}
	return 0;
}

/* A read may return several records, and may end within a record. */
int iterate_each(int prog_fd, uint32_t pid, size_t bytes,
		 int (*each)(void *arg, const void *record), void *arg)
{
	__cleanup(free_mem) char *records = calloc(READ_RECORDS, bytes);
	__cleanup(close_fd) int link_fd = iterate_link_process(prog_fd, pid);
	__cleanup(close_fd) int fd = -1;
	size_t len = 0, i, nr, nr_reported = 0;
	ssize_t n;
	int err = 0;

	if (link_fd < 0)
		return link_fd;
	fd = bpf_iter_create(link_fd);
	if (fd < 0 || !records)
		return fd < 0 ? fd : -ENOMEM;
	while (!err) {
		n = read(fd, records + len, READ_RECORDS * bytes - len);
		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (n < 0)
			return -errno;
		if (!n)
			return nr_reported ? 0 : -ESRCH;
		len += (size_t)n;
		nr = len / bytes;
		for (i = 0; i < nr && !err; i++)
			err = each(arg, records + i * bytes);
		nr_reported += nr;
		len -= nr * bytes;
		memmove(records, records + nr * bytes, len);
	}
	return err;
}
