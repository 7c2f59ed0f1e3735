// SPDX-License-Identifier: Apache-2.0
#include "daemon/remote_memory.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/random.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/background.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/time.h"
#include "daemon/daemon.h"

#define RESULT_BYTES (32U << 20) /* of a file of a child */
#define TABLE_BYTES (900U << 10)
#define TABLE_ROWS "2000" /* fit into TABLE_BYTES */
#define SAID_BYTES 512

static void child_close(struct remote_memory_child *child)
{
	int *const fds[] = { &child->html_fd, &child->table_fd, &child->said_fd };
	size_t i;

	for (i = 0; i < 3; i++) {
		if (*fds[i] >= 0)
			close(*fds[i]);
		*fds[i] = -1;
	}
}

static void memory_free(struct remote_memory *memory)
{
	size_t i;

	for (i = 0; i < REMOTE_MEMORY_QUESTIONS; i++)
		child_close(&memory->children[i]);
	if (memory->ready_fd >= 0)
		close(memory->ready_fd);
	memory->ready_fd = -1;
	memory->state = REMOTE_MEMORY_FREE;
}

/* In the child: executes this program anew. */
static void child_exec(const struct daemon *daemon, const struct remote_memory_child *child,
		       const struct remote_memory_request *request,
		       enum remote_memory_question question, int ready_fd)
{
	struct rlimit most = { .rlim_cur = RESULT_BYTES, .rlim_max = RESULT_BYTES };
	const char *host_root = daemon->options->capture.host_root;
	char pid[32], start[48], output[48], lease[48], ready[32], root[PATH_MAX + 16];
	const char *words[16] = { "bpfprof",
				  "memory",
				  pid,
				  output,
				  lease,
				  ready,
				  "--format=html",
				  "--rows=" TABLE_ROWS,
				  "--sample=64K", /* a recording is short: more stacks */
				  question == REMOTE_MEMORY_PEAK ? "--peak" : "--grown" };
	size_t nr = 10;
	sigset_t waiting;

	snprintf(pid, sizeof(pid), "--pid=%d", request->target.pid);
	snprintf(output, sizeof(output), "--output=/dev/fd/%d", child->html_fd);
	snprintf(lease, sizeof(lease), "--duration=%.3f", (double)request->lease_ns / 1e9);
	snprintf(ready, sizeof(ready), "--ready-fd=%d", ready_fd);
	snprintf(start, sizeof(start), "--pid-start=%" PRIu64, request->target.start_ticks);
	snprintf(root, sizeof(root), "--host-root=%s", host_root ? host_root : "");
	if (request->target.start_ticks)
		words[nr++] = start;
	if (!request->subprocesses)
		words[nr++] = "--no-subprocesses";
	if (request->allocations)
		words[nr++] = "--allocations";
	if (host_root)
		words[nr++] = root;
	remote_environment_clear();
	/* A detach that comes while the program starts waits until that reads its signals, even if they are ignored. */
	sigemptyset(&waiting);
	sigaddset(&waiting, SIGINT);
	sigprocmask(SIG_SETMASK, &waiting, NULL);
	setrlimit(RLIMIT_FSIZE, &most);
	if (fcntl(child->html_fd, F_SETFD, 0) || fcntl(ready_fd, F_SETFD, 0) ||
	    dup2(child->table_fd, STDOUT_FILENO) < 0 || dup2(child->said_fd, STDERR_FILENO) < 0)
		_exit(1);
	execv("/proc/self/exe", (char *const *)(uintptr_t)words);
	_exit(1);
}

static int child_start(struct daemon *daemon, struct remote_memory_child *child,
		       const struct remote_memory_request *request,
		       enum remote_memory_question question, int ready_fd)
{
	pid_t parent = getpid();

	child->html_fd = memfd_create("bpfprof-memory", MFD_CLOEXEC);
	child->table_fd = memfd_create("bpfprof-table", MFD_CLOEXEC);
	child->said_fd = memfd_create("bpfprof-messages", MFD_CLOEXEC);
	if (child->html_fd < 0 || child->table_fd < 0 || child->said_fd < 0)
		return -errno;
	background_pause(daemon->sampler.background);
	child->pid = fork();
	if (!child->pid) {
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		if (getppid() != parent)
			_exit(1);
		daemon_child_begin(daemon, child->html_fd);
		child_exec(daemon, child, request, question, ready_fd);
	}
	background_resume(daemon->sampler.background);
	if (child->pid > 0)
		return 0;
	child->pid = 0;
	return -errno;
}

/* May one more begin? 0 or -errno with a sentence added to why. */
static int begin_check(const struct remote_memory *all, const struct remote_memory_request *request,
		       struct buf *why)
{
	const struct remote_memory *one;
	size_t nr_running = 0;

	for (one = all; one < all + REMOTE_MEMORY_MAX; one++) {
		if (one->state != REMOTE_MEMORY_RUNNING)
			continue;
		nr_running++;
		if (strcmp(one->owner, request->owner))
			continue;
		buf_printf(why,
			   "pid %d: its memory is being recorded already; memray detach ends that",
			   one->pod_pid);
		return one->pid == request->target.pid ? -EEXIST : -EBUSY;
	}
	if (nr_running < REMOTE_MEMORY_MAX_RUNNING)
		return 0;
	buf_add_str(why, "the memory of two processes is being recorded on this node, which is the "
			 "most: come again later");
	return -EBUSY;
}

/* A place for a new one: a free one, or that of the owner's oldest result. NULL: none. */
static struct remote_memory *place_find(struct remote_memory *all, const char *owner)
{
	struct remote_memory *empty = NULL, *oldest = NULL, *one;
	size_t nr_own = 0;

	for (one = all; one < all + REMOTE_MEMORY_MAX; one++) {
		if (one->state == REMOTE_MEMORY_FREE) {
			empty = one;
		} else if (one->state == REMOTE_MEMORY_OVER && !strcmp(one->owner, owner)) {
			nr_own++;
			if (!oldest || one->until_ns < oldest->until_ns)
				oldest = one;
		}
	}
	return empty && nr_own < REMOTE_MEMORY_OF_ONE ? empty : oldest;
}

static int id_make(char id[REMOTE_MEMORY_ID])
{
	unsigned char bytes[(REMOTE_MEMORY_ID - 1) / 2];
	size_t i;

	if (getrandom(bytes, sizeof(bytes), GRND_NONBLOCK) != sizeof(bytes))
		return -EIO;
	for (i = 0; i < sizeof(bytes); i++)
		snprintf(id + 2 * i, 3, "%02x", bytes[i]);
	return 0;
}

int remote_memory_begin(struct remote_memory **ret, struct daemon *daemon,
			const struct remote_memory_request *request, struct buf *why)
{
	struct remote_memory *memory = place_find(daemon->memories, request->owner);
	enum remote_memory_question question;
	int ready[2], err = begin_check(daemon->memories, request, why);

	if (err)
		return err;
	if (!memory) {
		buf_add_str(why, "the agent keeps as many results of others as it can: come again "
				 "in ten minutes");
		return -EBUSY;
	}
	if (memory->state != REMOTE_MEMORY_FREE)
		memory_free(memory);
	for (question = 0; question < REMOTE_MEMORY_QUESTIONS; question++)
		memory->children[question] = (struct remote_memory_child){ .html_fd = -1,
									   .table_fd = -1,
									   .said_fd = -1 };
	err = id_make(memory->id);
	if (!err && pipe2(ready, O_CLOEXEC | O_NONBLOCK))
		err = -errno;
	if (err)
		return err;
	memory->ready_fd = ready[0];
	memory->nr_ready = 0;
	snprintf(memory->owner, sizeof(memory->owner), "%s", request->owner);
	memory->pid = request->target.pid;
	memory->pod_pid = request->pod_pid;
	memory->start_ticks = request->target.start_ticks;
	memory->until_ns = time_monotonic_ns() + request->lease_ns + 60 * NS_PER_SECOND;
	memory->state = REMOTE_MEMORY_RUNNING;
	for (question = 0; question < REMOTE_MEMORY_QUESTIONS && !err; question++)
		err = child_start(daemon, &memory->children[question], request, question, ready[1]);
	close(ready[1]);
	if (err) {
		remote_memory_end(memory, SIGKILL);
		return err;
	}
	*ret = memory;
	return 0;
}

struct remote_memory *remote_memory_find(struct daemon *daemon, pid_t pod_pid, uint64_t start_ticks,
					 const char *owner, bool of_others)
{
	struct remote_memory *one, *over = NULL, *other = NULL;

	for (one = daemon->memories; one < daemon->memories + REMOTE_MEMORY_MAX; one++) {
		bool own = !strcmp(one->owner, owner), runs = one->state == REMOTE_MEMORY_RUNNING;

		if (one->state == REMOTE_MEMORY_FREE || one->pod_pid != pod_pid ||
		    (start_ticks && one->start_ticks != start_ticks))
			continue;
		if (own && runs)
			return one;
		if (own && (!over || one->until_ns > over->until_ns))
			over = one;
		else if (!own && runs && of_others)
			other = one;
	}
	return over ? over : other;
}

struct remote_memory *remote_memory_by_id(struct daemon *daemon, const char *id)
{
	struct remote_memory *one;

	for (one = daemon->memories; one < daemon->memories + REMOTE_MEMORY_MAX; one++)
		if (one->state != REMOTE_MEMORY_FREE && !strcmp(one->id, id))
			return one;
	return NULL;
}

void remote_memory_end(struct remote_memory *memory, int signal)
{
	size_t i;

	for (i = 0; i < REMOTE_MEMORY_QUESTIONS; i++)
		if (memory->children[i].pid)
			kill(memory->children[i].pid, signal);
}

bool remote_memory_is_ready(struct remote_memory *memory)
{
	char bytes[REMOTE_MEMORY_QUESTIONS];
	ssize_t nr = read(memory->ready_fd, bytes, sizeof(bytes));

	memory->nr_ready += nr > 0 ? (size_t)nr : 0;
	return memory->nr_ready == REMOTE_MEMORY_QUESTIONS;
}

void remote_memory_said(const struct remote_memory *memory, struct buf *dst)
{
	const struct remote_memory_child *child = memory->children;
	char text[SAID_BYTES];
	ssize_t len;

	for (; child < memory->children + REMOTE_MEMORY_QUESTIONS; child++) {
		if (child->pid || !child->status)
			continue;
		len = pread(child->said_fd, text, sizeof(text) - 1, 0);
		text[len > 0 ? len : 0] = 0;
		text[strcspn(text, "\n")] = 0;
		buf_add_str(dst, *text ? text : "the recording failed");
		return;
	}
}

static void children_reap(struct remote_memory *memory, uint64_t now_ns)
{
	struct remote_memory_child *child = memory->children;
	bool all = true;

	for (; child < memory->children + REMOTE_MEMORY_QUESTIONS; child++) {
		if (child->pid && waitpid(child->pid, &child->status, WNOHANG) == child->pid)
			child->pid = 0;
		if (child->pid && now_ns >= memory->until_ns)
			kill(child->pid, SIGKILL);
		all &= !child->pid;
	}
	if (!all)
		return;
	memory->state = REMOTE_MEMORY_OVER;
	memory->until_ns = now_ns + REMOTE_MEMORY_KEEP_SECONDS * NS_PER_SECOND;
}

void remote_memory_run(struct daemon *daemon, uint64_t now_ns)
{
	struct remote_memory *one;

	for (one = daemon->memories; one < daemon->memories + REMOTE_MEMORY_MAX; one++) {
		if (one->state == REMOTE_MEMORY_RUNNING)
			children_reap(one, now_ns);
		else if (one->state == REMOTE_MEMORY_OVER && now_ns >= one->until_ns)
			memory_free(one);
	}
}

int remote_memory_html(const struct remote_memory *memory, enum remote_memory_question question)
{
	char path[48];
	int fd;

	/* Opened anew, it has an offset of its own. */
	snprintf(path, sizeof(path), "/proc/self/fd/%d", memory->children[question].html_fd);
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd < 0 ? -errno : fd;
}

static void table_page(struct buf *dst, const char *text)
{
	buf_add_str(dst, "<!DOCTYPE html>\n<html><head><meta charset=\"utf-8\">"
			 "<title>bpfprof memory</title><style>body{font:13px ui-monospace,Menlo,"
			 "Consolas,monospace;margin:1em}</style></head><body><pre>\n");
	for (; *text; text++) {
		if (*text == '<')
			buf_add_str(dst, "&lt;");
		else if (*text == '&')
			buf_add_str(dst, "&amp;");
		else
			buf_add_char(dst, *text);
	}
	buf_add_str(dst, "</pre></body></html>\n");
}

int remote_memory_table(const struct remote_memory *memory, enum remote_memory_question question)
{
	__cleanup(buf_fini) struct buf page = { .max = 8 * TABLE_BYTES };
	__cleanup(free_mem) char *text = malloc(TABLE_BYTES);
	ssize_t len;
	int fd;

	if (!text)
		return -ENOMEM;
	len = pread(memory->children[question].table_fd, text, TABLE_BYTES - 1, 0);
	text[len > 0 ? len : 0] = 0;
	table_page(&page, text);
	if (buf_error(&page))
		return buf_error(&page);
	fd = memfd_create("bpfprof-page", MFD_CLOEXEC);
	if (fd < 0)
		return -errno;
	if (write(fd, page.data, page.len) == (ssize_t)page.len && !lseek(fd, 0, SEEK_SET))
		return fd;
	close(fd);
	return -EIO;
}
