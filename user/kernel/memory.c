// SPDX-License-Identifier: Apache-2.0
#include "kernel/memory.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/deadline.h"
#include "base/time.h"
#include "kernel/iterate.h"
#include "kernel/session.h"
#include "bpfprof.h"
#include "bpfprof.skel.h"

struct memory_job {
	int prog_fd, requests_fd, slot_fd;
	uint32_t pid, slot, nr;
	uint64_t end_ns; /* no further pass begins: the caller may have given up */
	struct {
		uint64_t va;
		uint32_t len;
		int err; /* result */
	} pieces[MEMORY_MAX_PIECES];
	uint8_t data[]; /* result: of all pieces */
};

/* One pass of the iterator reads one piece. */
static int pass_run(const struct memory_job *job, int link_fd,
		    const struct bpfprof_memory_request *request, uint8_t *dst)
{
	__cleanup(close_fd) int fd = -1;
	uint32_t zero = 0, done;
	ssize_t n;

	if (bpf_map_update_elem(job->requests_fd, &job->slot, request, BPF_ANY) ||
	    bpf_map_update_elem(job->slot_fd, &zero, &job->slot, BPF_ANY))
		return -errno;
	fd = bpf_iter_create(link_fd);
	if (fd < 0)
		return fd;
	for (done = 0; done < request->len; done += (uint32_t)n) {
		n = read(fd, dst + done, request->len - done);
		if (n < 0 && (errno == EINTR || errno == EAGAIN))
			n = 0;
		else if (n < 0)
			return -errno;
		else if (!n)
			return -EFAULT;
	}
	return 0;
}

static long memory_run(void *arg)
{
	struct memory_job *job = arg;
	__cleanup(free_mem) struct bpfprof_memory_request *request = calloc(1, sizeof(*request));
	__cleanup(close_fd) int link_fd = request ? iterate_link(job->prog_fd, job->pid) : -ENOMEM;
	uint8_t *dst = job->data;
	uint32_t i;

	if (link_fd < 0)
		return link_fd;
	for (i = 0; i < job->nr; i++) {
		if (i && time_monotonic_ns() >= job->end_ns)
			return -EAGAIN;
		request->va = job->pieces[i].va;
		request->len = job->pieces[i].len;
		job->pieces[i].err = pass_run(job, link_fd, request, dst);
		dst += request->len;
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

int memory_read_pieces(struct session *session, struct deadline_runner *runner, uint32_t pid,
		       struct memory_piece *pieces, size_t nr)
{
	int at = memory_slot_find(session->hung_reads, BPFPROF_MEMORY_SLOTS, runner);
	__cleanup(free_mem) struct memory_job *job = NULL;
	size_t bytes = sizeof(*job), i;
	const uint8_t *src;
	long err;

	if (at < 0)
		return at;
	for (i = 0; i < nr; i++)
		bytes += pieces[i].len;
	job = calloc(1, bytes);
	if (!job)
		return -ENOMEM;
	job->prog_fd = bpf_program__fd(session->skel->progs.task_memory);
	job->requests_fd = bpf_map__fd(session->skel->maps.memory_requests);
	job->slot_fd = bpf_map__fd(session->skel->maps.memory_slot);
	job->pid = pid;
	job->slot = (uint32_t)at;
	job->nr = (uint32_t)nr;
	job->end_ns = time_monotonic_ns() + MEMORY_DEADLINE_MS * 1000000ULL;
	for (i = 0; i < nr; i++) {
		job->pieces[i].va = pieces[i].va;
		job->pieces[i].len = pieces[i].len;
		job->pieces[i].err = -EAGAIN;
	}
	err = deadline_run(runner, deadline_process(pid), memory_run, NULL, job, bytes,
			   MEMORY_DEADLINE_MS);
	if (err == -ETIMEDOUT)
		session->hung_reads[at] = deadline_last_stuck(runner);
	if (err)
		return (int)err;
	for (i = 0, src = job->data; i < nr; src += pieces[i++].len) {
		pieces[i].err = job->pieces[i].err;
		if (!pieces[i].err)
			memcpy(pieces[i].dst, src, pieces[i].len);
	}
	return 0;
}

int memory_read(struct session *session, struct deadline_runner *runner, uint32_t pid, uint64_t va,
		void *dst, size_t len)
{
	struct memory_piece pieces[MEMORY_MAX_PIECES];
	size_t done = 0, nr, i;
	int err = 0;

	while (done < len && !err) {
		for (nr = 0; nr < MEMORY_MAX_PIECES && done < len; nr++) {
			pieces[nr] = (struct memory_piece){
				.va = va + done,
				.dst = (char *)dst + done,
				.len = len - done < BPFPROF_MEMORY_BYTES ? (uint32_t)(len - done)
									 : BPFPROF_MEMORY_BYTES,
			};
			done += pieces[nr].len;
		}
		err = memory_read_pieces(session, runner, pid, pieces, nr);
		for (i = 0; i < nr && !err; i++)
			err = pieces[i].err;
	}
	return err;
}
