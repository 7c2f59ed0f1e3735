// SPDX-License-Identifier: Apache-2.0
#include "kernel/environ.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/deadline.h"
#include "kernel/iterate.h"
#include "kernel/memory.h"
#include "kernel/session.h"
#include "proc/ranks.h"
#include "bpfprof.h"
#include "bpfprof.skel.h"

/* Record of the iterator. */
struct piece {
	struct bpfprof_environ head;
	char data[BPFPROF_MEMORY_BYTES];
};

struct environ_job {
	int prog_fd;
	uint32_t pid;
	uint64_t off;
	struct bpfprof_environ head; /* result */
	size_t done; /* result: bytes of the piece that are finished */
	struct ranks_reader reader; /* continues from piece to piece */
};

static long piece_read(int fd, struct piece *piece)
{
	size_t len = 0;
	ssize_t n;

	do {
		n = read(fd, (char *)piece + len, sizeof(*piece) - len);
		if (n < 0 && errno != EINTR && errno != EAGAIN)
			return -errno;
		len += n > 0 ? (size_t)n : 0;
	} while (n && len < sizeof(*piece));
	if (len < sizeof(piece->head)) /* the program did not run */
		return -ESRCH;
	return piece->head.len <= len - sizeof(piece->head) ? 0 : -EFAULT;
}

static long piece_take(struct environ_job *job, int fd, struct piece *piece)
{
	long err = piece_read(fd, piece);

	if (err)
		return err;
	job->head = piece->head;
	if (!job->head.len && job->head.total > job->off)
		return -EFAULT;
	job->done = ranks_take(&job->reader, piece->data, job->head.len,
			       job->off + job->head.len >= job->head.total);
	return 0;
}

/*
 * Runs in a thread of the deadline runner. It wipes secrets before it returns, also after the
 * caller has stopped waiting.
 */
static long job_run(void *arg)
{
	struct environ_job *job = arg;
	__cleanup(close_fd) int fd = iterate_open(job->prog_fd, job->pid);
	__cleanup(free_mem) struct piece *piece = malloc(sizeof(*piece));
	long err;

	if (fd < 0)
		return fd;
	if (!piece)
		return -ENOMEM;
	err = piece_take(job, fd, piece);
	explicit_bzero(piece, sizeof(*piece));
	return err;
}

/* Reads one piece. Wipes the kernel's buffer, unless the read still hangs. */
static long next_piece(struct session *session, struct deadline_runner *runner,
		       struct environ_job *job)
{
	__cleanup(free_mem) struct bpfprof_memory_request *request = calloc(1, sizeof(*request));
	int requests = bpf_map__fd(session->skel->maps.memory_requests);
	int slot_fd = bpf_map__fd(session->skel->maps.memory_slot);
	int at = memory_slot_find(session->hung_environs, BPFPROF_ENVIRON_SLOTS, runner);
	uint32_t zero = 0, slot = BPFPROF_MEMORY_SLOTS + (uint32_t)at;
	long err;

	if (!request)
		return -ENOMEM;
	if (at < 0)
		return at;
	request->va = job->off;
	if (bpf_map_update_elem(requests, &slot, request, BPF_ANY) ||
	    bpf_map_update_elem(slot_fd, &zero, &slot, BPF_ANY))
		return -errno;
	err = deadline_run(runner, deadline_process(job->pid), job_run, NULL, job, sizeof(*job),
			   MEMORY_DEADLINE_MS);
	if (err == -ETIMEDOUT)
		session->hung_environs[at] = deadline_last_stuck(runner);
	else if (bpf_map_update_elem(requests, &slot, request, BPF_ANY))
		return -errno;
	return err;
}

int environ_read(struct session *session, struct deadline_runner *runner, uint32_t pid,
		 const struct bpfprof_task_id *task, struct ranks *ret)
{
	struct environ_job job = { .prog_fd = bpf_program__fd(session->skel->progs.task_environ),
				   .pid = pid };
	long err;

	do {
		err = next_piece(session, runner, &job);
		if (!err && (job.head.task.start_ns != task->start_ns ||
			     job.head.task.exec_id != task->exec_id))
			err = -ESRCH;
		if (err)
			return (int)err;
		job.off += job.done;
	} while (job.off < job.head.total && job.off < ENVIRON_MAX_BYTES);
	*ret = job.reader.ranks;
	return job.off < job.head.total ? -E2BIG : 0;
}
