// SPDX-License-Identifier: Apache-2.0
#include "kernel/iterate.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <unistd.h>

#include "base/cleanup.h"

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
