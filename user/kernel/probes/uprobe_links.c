// SPDX-License-Identifier: Apache-2.0
#include "kernel/probes/uprobe_links.h"

#include <assert.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/magic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/deadline.h"
#include "base/log.h"
#include "base/time.h"
#include "kernel/probes/locked_memory.h"
#include "kernel/probes/uprobe_multi.h"
#include "kernel/probes/uprobe_perf.h"
#include "kernel/session.h"
#include "bpfprof.skel.h"

#define DEADLINE_MS 5000
#define PERF_DEADLINE_MS 30000 /* each place is a perf event of its own */
/* After a lock was found held, no probe is tried for so long: the caller waits two seconds for each try. */
#define LOCKED_NS (5 * NS_PER_SECOND)
#define SELF_FD_BYTES 32

/* A request to a thread. The thread owns it if the caller stops waiting. */
struct link_job {
	int file_fd, locked_memory_fd;
	bool by_perf;
	struct uprobe_multi probes;
	uint64_t offsets[UPROBE_LINKS_MAX], cookies[UPROBE_LINKS_MAX], semaphores[UPROBE_LINKS_MAX];
	int fds[UPROBE_LINKS_MAX]; /* result */
	size_t nr_fds;
	int64_t locked_pid; /* result */
};

static long link_run(void *arg)
{
	struct link_job *job = arg;
	struct uprobe_multi probes = job->probes;
	char path[SELF_FD_BYTES];
	struct statfs fs;
	int err;

	if (fstatfs(job->file_fd, &fs))
		return -EIO;
	if ((unsigned long)fs.f_type == FUSE_SUPER_MAGIC)
		return -ENOTSUP;
	job->locked_pid = locked_memory_find(job->locked_memory_fd);
	if (job->locked_pid)
		return job->locked_pid > 0 ? -EDEADLK : (long)job->locked_pid;
	snprintf(path, sizeof(path), "/proc/self/fd/%d", job->file_fd);
	probes.path = path;
	probes.offsets = job->offsets;
	probes.cookies = job->cookies;
	probes.semaphores = probes.semaphores ? job->semaphores : NULL;
	if (job->by_perf) {
		err = uprobe_perf_attach(&probes, job->fds);
		job->nr_fds = err ? 0 : probes.nr;
	} else {
		err = job->fds[0] = uprobe_multi_attach(&probes);
		job->nr_fds = err >= 0;
	}
	return err == -ETIMEDOUT ? -EIO : err < 0 ? err : 0;
}

static void link_close(void *arg)
{
	struct link_job *job = arg;

	while (job->nr_fds)
		close(job->fds[--job->nr_fds]);
	close(job->file_fd);
}

int uprobe_links_make(struct session *session, struct deadline_runner *runner,
		      const struct uprobe_multi *probes, int file_fd, bool by_perf, int *fds)
{
	__cleanup(free_mem) struct link_job *job = calloc(1, sizeof(*job));
	size_t bytes = probes->nr * sizeof(uint64_t);
	long err;

	if (time_monotonic_ns() < session->locked_until_ns)
		return -EDEADLK;
	if (!job)
		return -ENOMEM;
	assert(probes->nr <= UPROBE_LINKS_MAX);
	job->probes = *probes;
	job->by_perf = by_perf;
	job->locked_memory_fd = bpf_program__fd(session->skel->progs.locked_memory);
	memcpy(job->offsets, probes->offsets, bytes);
	memcpy(job->cookies, probes->cookies, bytes);
	if (probes->semaphores)
		memcpy(job->semaphores, probes->semaphores, bytes);
	job->file_fd = fcntl(file_fd, F_DUPFD_CLOEXEC, 0);
	if (job->file_fd < 0)
		return -errno;
	err = deadline_run(runner, DEADLINE_NODE, link_run, link_close, job, sizeof(*job),
			   by_perf ? PERF_DEADLINE_MS : DEADLINE_MS);
	if (err != -ETIMEDOUT)
		close(job->file_fd);
	if (err == -EDEADLK) {
		session->locked_pid = (uint32_t)job->locked_pid;
		session->locked_until_ns = time_monotonic_ns() + LOCKED_NS;
		log_debug("no probes now: the lock of the memory of pid %u is held",
			  session->locked_pid);
	}
	if (err)
		return (int)err;
	memcpy(fds, job->fds, job->nr_fds * sizeof(*fds));
	return (int)job->nr_fds;
}
