// SPDX-License-Identifier: Apache-2.0
#include "kernel/vmas.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/deadline.h"
#include "base/time.h"
#include "base/vec.h"
#include "kernel/iterate.h"
#include "kernel/session.h"
#include "bpfprof.skel.h"

#define READ_BYTES (64 * 1024)

struct vmas_job {
	int prog_fd;
	uint32_t pid;
	char *data; /* result */
	size_t len;
	bool cut;
	uint64_t cost_ns;
};

static int read_all(struct vmas_job *job, int fd)
{
	size_t cap = 0;
	ssize_t n;

	for (;;) {
		if (vec_grow(job->data, job->len + READ_BYTES, cap, VEC_BOUNDED))
			return -ENOMEM;
		n = read(fd, job->data + job->len, READ_BYTES);
		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			continue;
		if (n < 0)
			return -errno;
		if (!n)
			return 0;
		job->len += (size_t)n;
		if (job->len > VMAS_MAX_BYTES) {
			job->cut = true;
			return 0;
		}
	}
}

static long vmas_run(void *arg)
{
	struct vmas_job *job = arg;
	__cleanup(close_fd) int iter_fd = -1;
	uint64_t start_ns = time_thread_cpu_ns();
	int err;

	iter_fd = iterate_open(job->prog_fd, job->pid);
	if (iter_fd < 0)
		return iter_fd;
	err = read_all(job, iter_fd);
	job->cost_ns = time_thread_cpu_ns() - start_ns;
	return err;
}

static void vmas_abandon(void *arg)
{
	struct vmas_job *job = arg;

	free(job->data);
}

int vmas_read(struct session *session, struct deadline_runner *runner, uint32_t pid,
	      enum vmas_which which, vma_fn fn, void *arg, uint64_t *ret_cost_ns)
{
	struct vmas_job job = { .prog_fd = bpf_program__fd(session->skel->progs.task_vmas),
				.pid = pid };
	struct bpfprof_vma_record record;
	size_t at = 0, path_len;
	const char *path;
	uint32_t zero = 0, asked = which;
	long err;
	int nr = 0;

	if (bpf_map_update_elem(bpf_map__fd(session->skel->maps.vma_all_parts), &zero, &asked,
				BPF_ANY))
		return -errno;
	err = deadline_run(runner, deadline_process(pid), vmas_run, vmas_abandon, &job, sizeof(job),
			   VMAS_DEADLINE_MS);
	*ret_cost_ns = err == -ETIMEDOUT ? VMAS_DEADLINE_MS * 1000000ULL : job.cost_ns;
	if (err == -ETIMEDOUT || err == -EBUSY)
		return (int)err;
	while (!err && job.len - at >= sizeof(record)) {
		memcpy(&record, job.data + at, sizeof(record));
		at += sizeof(record);
		path_len = (record.vma.path_len + 7) & ~(size_t)7;
		if (path_len > job.len - at)
			break;
		path = path_len ? job.data + at : "";
		if (path_len)
			job.data[at + path_len - 1] = 0;
		at += path_len;
		fn(arg, &record, path);
		nr++;
	}
	free(job.data);
	if (err)
		return (int)err;
	return job.cut ? -E2BIG : nr ? nr : -ESRCH;
}
