// SPDX-License-Identifier: Apache-2.0
#include "kernel/iterate.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>

#include "base/cleanup.h"

int iterate_open(int prog_fd, uint32_t tid)
{
	union bpf_iter_link_info info = { .task.tid = tid };
	LIBBPF_OPTS(bpf_link_create_opts, options, .iter_info = &info,
		    .iter_info_len = sizeof(info));
	__cleanup(close_fd) int link_fd = bpf_link_create(prog_fd, 0, BPF_TRACE_ITER, &options);

	return link_fd < 0 ? link_fd : bpf_iter_create(link_fd);
}
