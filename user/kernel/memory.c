// SPDX-License-Identifier: Apache-2.0
#include "kernel/memory.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/deadline.h"
#include "kernel/iterate.h"
#include "kernel/session.h"
#include "bpfprof.h"
#include "bpfprof.skel.h"

struct memory_job {
	int prog_fd;
	uint32_t pid;
	uint32_t len; /* result: bytes read */
	uint8_t data[BPFPROF_MEMORY_BYTES]; /* result */
};

static long memory_run(void *arg)
{
	struct memory_job *job = arg;
	__cleanup(close_fd) int fd = iterate_open(job->prog_fd, job->pid);
	uint32_t want = job->len;
	ssize_t n;

	if (fd < 0)
		return fd;
	for (job->len = 0; job->len < want; job->len += (uint32_t)n) {
		n = read(fd, job->data + job->len, want - job->len);
		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			n = 0;
		else if (n < 0)
			return -errno;
		else if (!n)
			return -EFAULT;
	}
	return 0;
}

int memory_slot_find(const uint64_t *hung, int nr, const struct deadline_runner *runner)
{
	int i;

	for (i = 0; i < nr; i++)
		if (!deadline_is_stuck(runner, hung[i]))
			return i;
	return -EBUSY;
}

bool memory_hangs(const struct session *session, const struct deadline_runner *runner)
{
	int i;

	for (i = 0; i < BPFPROF_MEMORY_SLOTS; i++)
		if (deadline_is_stuck(runner, session->hung_reads[i]))
			return true;
	return false;
}

/* Reads at most BPFPROF_MEMORY_BYTES, in one pass. */
static int read_pass(struct session *session, struct deadline_runner *runner,
		     struct memory_job *job, uint64_t va)
{
	int requests = bpf_map__fd(session->skel->maps.memory_requests);
	__cleanup(free_mem) struct bpfprof_memory_request *request = calloc(1, sizeof(*request));
	int at = memory_slot_find(session->hung_reads, BPFPROF_MEMORY_SLOTS, runner);
	uint32_t zero = 0, slot = (uint32_t)at;
	long err;

	if (!request)
		return -ENOMEM;
	if (at < 0)
		return at;
	request->va = va;
	request->len = job->len;
	if (bpf_map_update_elem(requests, &slot, request, BPF_ANY) ||
	    bpf_map_update_elem(bpf_map__fd(session->skel->maps.memory_slot), &zero, &slot,
				BPF_ANY))
		return -errno;
	err = deadline_run(runner, deadline_process(job->pid), memory_run, NULL, job, sizeof(*job),
			   MEMORY_DEADLINE_MS);
	if (err == -ETIMEDOUT)
		session->hung_reads[at] = deadline_last_stuck(runner);
	return (int)err;
}

int memory_read(struct session *session, struct deadline_runner *runner, uint32_t pid, uint64_t va,
		void *dst, size_t len)
{
	__cleanup(free_mem) struct memory_job *job = malloc(sizeof(*job));
	size_t done = 0;
	uint32_t part;
	int err;

	if (!job)
		return -ENOMEM;
	while (done < len) {
		part = len - done < BPFPROF_MEMORY_BYTES ? (uint32_t)(len - done)
							 : BPFPROF_MEMORY_BYTES;
		job->prog_fd = bpf_program__fd(session->skel->progs.task_memory);
		job->pid = pid;
		job->len = part;
		err = read_pass(session, runner, job, va + done);
		if (err)
			return err;
		memcpy((char *)dst + done, job->data, part);
		done += part;
	}
	return 0;
}
