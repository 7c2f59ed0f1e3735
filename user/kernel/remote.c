// SPDX-License-Identifier: Apache-2.0
#include "kernel/remote.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/hash_table.h"
#include "base/time.h"
#include "kernel/iterate.h"
#include "kernel/session.h"
#include "bpfprof.h"
#include "bpfprof.skel.h"

#define PAGE_BYTES BPFPROF_READ_BYTES
/*
 * A missing page is read with its neighbours, which are probably used soon. A large heap takes many passes;
 * a pass costs as much as 32 pages.
 */
#define AHEAD_BYTES (8 * PAGE_BYTES)
#define MANY_PASSES 32
#define AHEAD_MANY_BYTES (32 * PAGE_BYTES)
#define MAX_WANTED 4096
#define NR_RECENT 64 /* a power of two */
#define DEATH_MS 100 /* the child has this time to die, so that its slot can be used again */
#define NOT_DONE 1
#define CHECK_MS 50 /* interval of checks of a pass that takes too long */

/* An order to the child: one pass. */
struct remote_order {
	uint32_t tid;
	uint32_t slot;
};

struct remote_child {
	int prog_fd, slot_fd;
	pid_t pid; /* 0: none at the moment */
	int fd; /* the parent's end of the socket */
	uint32_t slot; /* the slot that the child uses */
	/*
	 * Rest of the time for which passes may exceed their timeout while the child is ready to
	 * run.
	 */
	unsigned int ready_ms;
	pid_t hung[BPFPROF_READ_SLOTS]; /* the child that hangs in the slot, or 0 */
	struct bpfprof_task_read *reads; /* shared with the kernel and the child */
};

enum page_state { PAGE_MISSING, PAGE_READ, PAGE_UNREADABLE, PAGE_HUNG };

struct remote_page {
	struct hash_node node;
	uint64_t va;
	enum page_state state;
	bool wanted;
	bool used; /* something was read from it */
	uint8_t *data;
};

struct remote {
	struct unwind_reader reader; /* first */
	struct remote_child *child;
	uint32_t tid;
	struct hash_table pages;
	uint64_t deadline_ns; /* UINT64_MAX: none */
	uint64_t ahead; /* in bytes; 0: not set */
	struct remote_page
		*recent[NR_RECENT]; /* pages that were read from, by address; spare a search */
	struct remote_page *wanted[MAX_WANTED];
	size_t nr_wanted;
	bool defer, missed;
	struct remote_counts counts;
};

/* Functions of the child. */

static int pass_run(struct remote_child *child, const struct remote_order *order, int link_fd)
{
	uint32_t zero = 0;
	__cleanup(close_fd) int fd = -1;
	char byte;
	ssize_t n;

	if (bpf_map_update_elem(child->slot_fd, &zero, &order->slot, BPF_ANY))
		return -errno;
	fd = bpf_iter_create(link_fd);
	if (fd < 0)
		return fd;
	do {
		n = read(fd, &byte, 1); /* nothing is written, but read() runs the program */
	} while (n < 0 && (errno == EINTR || errno == EAGAIN));
	return n < 0 ? -errno : 0;
}

static void child_main(struct remote_child *child, int fd)
{
	struct remote_order order;
	int link_fd = -1, result;
	uint32_t tid = 0;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (recv(fd, &order, sizeof(order), 0) == sizeof(order)) {
		if (order.tid != tid && link_fd >= 0) {
			close(link_fd);
			link_fd = -1;
		}
		if (link_fd < 0)
			link_fd = iterate_link(child->prog_fd, order.tid);
		tid = order.tid;
		result = link_fd < 0 ? link_fd : pass_run(child, &order, link_fd);
		if (send(fd, &result, sizeof(result), MSG_NOSIGNAL) != sizeof(result))
			break;
	}
	_exit(0);
}

/* Functions of the parent. */

int remote_slot_find(pid_t *hung, int nr)
{
	int i, found = -EBUSY;

	for (i = nr; i--;) {
		if (hung[i] && waitpid(hung[i], NULL, WNOHANG))
			hung[i] = 0;
		if (!hung[i])
			found = i;
	}
	return found;
}

static int child_start(struct remote_child *child)
{
	int fds[2], slot;
	pid_t pid;

	if (child->pid)
		return 0;
	slot = remote_slot_find(child->hung, BPFPROF_READ_SLOTS);
	if (slot < 0)
		return slot;
	if (socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, fds))
		return -errno;
	pid = fork();
	if (!pid) {
		close(fds[0]);
		child_main(child, fds[1]);
	}
	close(fds[1]);
	if (pid < 0) {
		close(fds[0]);
		return -EAGAIN;
	}
	child->pid = pid;
	child->fd = fds[0];
	child->slot = (uint32_t)slot;
	return 0;
}

/* Kills the child. A child that does not die in time keeps its slot until it dies. */
static void child_kill(struct remote_child *child)
{
	uint64_t end_ns = time_monotonic_ns() + DEATH_MS * 1000000ULL;
	bool ended = false;

	if (!child->pid)
		return;
	kill(child->pid, SIGKILL);
	close(child->fd);
	while (!ended && time_monotonic_ns() < end_ns) {
		ended = waitpid(child->pid, NULL, WNOHANG) != 0;
		if (!ended)
			usleep(1000);
	}
	if (!ended)
		child->hung[child->slot] = child->pid;
	child->pid = 0;
}

int remote_child_new(struct remote_child **ret, struct session *session)
{
	struct remote_child *child = calloc(1, sizeof(*child));
	size_t bytes = BPFPROF_READ_SLOTS * sizeof(*child->reads);
	int err;

	if (!child)
		return -ENOMEM;
	child->prog_fd = bpf_program__fd(session->skel->progs.task_pages);
	child->slot_fd = bpf_map__fd(session->skel->maps.task_read_slot);
	child->reads = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
			    bpf_map__fd(session->skel->maps.task_reads), 0);
	if (child->reads == MAP_FAILED) {
		err = -errno;
		free(child);
		return err;
	}
	err = child_start(child);
	if (err) {
		remote_child_free(child);
		return err;
	}
	*ret = child;
	return 0;
}

void remote_child_free(struct remote_child *child)
{
	if (!child)
		return;
	child_kill(child);
	munmap(child->reads, BPFPROF_READ_SLOTS * sizeof(*child->reads));
	free(child);
}

void remote_child_patience(struct remote_child *child, unsigned int ready_ms)
{
	child->ready_ms = ready_ms;
}

uint64_t remote_child_cpu_ns(const struct remote_child *child)
{
	clockid_t clock;

	return child->pid && !clock_getcpuclockid(child->pid, &clock) ? time_of_clock_ns(clock) : 0;
}

/* The timeout of a pass is over. Returns how much longer the parent waits; 0: no longer. */
static int patience_ms(struct remote_child *child, struct deadline_wait *ret_wait)
{
	unsigned int ms = child->ready_ms < CHECK_MS ? child->ready_ms : CHECK_MS;

	*ret_wait = deadline_wait_of(child->pid);
	if (!ret_wait->ready)
		return 0;
	child->ready_ms -= ms;
	return (int)ms;
}

/*
 * Runs one pass over the list in the child's slot. 0, -ETIMEDOUT (*ret_wait: the state of the
 * child), -errno.
 */
static int child_pass(struct remote_child *child, uint32_t tid, int timeout_ms,
		      struct deadline_wait *ret_wait)
{
	struct remote_order order = { .tid = tid, .slot = child->slot };
	struct pollfd poll_fd = { .fd = child->fd, .events = POLLIN };
	int result, n;

	if (send(child->fd, &order, sizeof(order), MSG_NOSIGNAL) != sizeof(order))
		return -EPIPE;
	do {
		n = poll(&poll_fd, 1, timeout_ms);
		if (!n)
			timeout_ms = patience_ms(child, ret_wait);
	} while ((n < 0 && errno == EINTR) || (!n && timeout_ms));
	if (n <= 0)
		return -ETIMEDOUT;
	if (recv(child->fd, &result, sizeof(result), 0) != sizeof(result))
		return -EPIPE;
	return result;
}

static void page_take(struct remote *remote, struct remote_page *page,
		      const struct bpfprof_task_read *req, uint32_t i)
{
	if (!req->result[i])
		page->data = malloc(PAGE_BYTES);
	if (page->data)
		memcpy(page->data, req->data[i], PAGE_BYTES);
	page->state = page->data ? PAGE_READ : PAGE_UNREADABLE;
	remote->counts.nr_pages += page->data != NULL;
	remote->counts.nr_unreadable += !page->data;
}

/* How long one pass may take now; 0: there is no time left. */
static int pass_timeout_ms(const struct remote *remote, uint64_t now_ns)
{
	uint64_t left_ms;

	if (now_ns >= remote->deadline_ns)
		return 0;
	left_ms = (remote->deadline_ns - now_ns) / (NS_PER_SECOND / 1000) + 1;
	return left_ms < REMOTE_DEADLINE_MS ? (int)left_ms : REMOTE_DEADLINE_MS;
}

/*
 * Reads pages[0..nr), as many as one pass takes. Returns the number of settled pages; after an
 * error all are settled.
 */
static size_t pages_read(struct remote *remote, struct remote_page **pages, size_t nr)
{
	struct remote_child *child = remote->child;
	uint64_t start_ns = time_monotonic_ns();
	struct bpfprof_task_read *req;
	int timeout_ms = pass_timeout_ms(remote, start_ns);
	bool may = timeout_ms && remote->counts.nr_hung < REMOTE_MAX_HUNG;
	int err = may ? child_start(child) : -EBUSY;
	size_t i, done = 0;

	if (nr > BPFPROF_READ_PAGES)
		nr = BPFPROF_READ_PAGES;
	if (err) {
		remote->counts.nr_refused += nr;
		for (i = 0; i < nr; i++)
			pages[i]->state = PAGE_UNREADABLE;
		return nr;
	}
	req = &child->reads[child->slot];
	req->nr = (uint32_t)nr;
	for (i = 0; i < nr; i++) {
		req->va[i] = pages[i]->va;
		req->result[i] = NOT_DONE;
	}
	err = child_pass(child, remote->tid, timeout_ms, &remote->counts.hung);
	for (done = 0; done < nr && req->result[done] != NOT_DONE; done++)
		page_take(remote, pages[done], req, (uint32_t)done);
	if (err == -ETIMEDOUT || err == -EPIPE) {
		child_kill(child);
		remote->counts.nr_hung++;
		if (done < nr)
			pages[done++]->state = PAGE_HUNG;
	} else {
		/* The process has ended: the program did not run. */
		for (; done < nr; done++)
			pages[done]->state = PAGE_UNREADABLE;
	}
	remote->counts.nr_passes++;
	remote->counts.read_ns += time_monotonic_ns() - start_ns;
	return done;
}

void remote_fetch(struct remote *remote)
{
	size_t at = 0, i;

	while (at < remote->nr_wanted)
		at += pages_read(remote, remote->wanted + at, remote->nr_wanted - at);
	for (i = 0; i < remote->nr_wanted; i++)
		remote->wanted[i]->wanted = false;
	remote->nr_wanted = 0;
}

static struct remote_page *page_get(struct remote *remote, uint64_t va)
{
	struct remote_page *page = hash_table_find(&remote->pages, &va);

	if (page)
		return page;
	remote->counts.nr_refused += remote->pages.nr >= remote->pages.max;
	return hash_table_add(&remote->pages, &va);
}

void remote_want(struct remote *remote, uint64_t va, uint64_t len)
{
	uint64_t at = va & ~(uint64_t)(PAGE_BYTES - 1);
	struct remote_page *page;

	/* The range lies in the user's half of the address space, and does not wrap around. */
	if (va >> 56 || len >> 32 || !len)
		return;
	for (; at < va + len; at += PAGE_BYTES) {
		page = page_get(remote, at);
		if (!page || page->state != PAGE_MISSING || page->wanted)
			continue;
		if (remote->nr_wanted == MAX_WANTED)
			remote_fetch(remote);
		page->wanted = true;
		remote->wanted[remote->nr_wanted++] = page;
	}
}

static struct remote_page *page_need(struct remote *remote, uint64_t va)
{
	struct remote_page *page = hash_table_find(&remote->pages, &va);
	uint64_t ahead = remote->counts.nr_passes < MANY_PASSES ? AHEAD_BYTES : AHEAD_MANY_BYTES;

	if (page && page->state != PAGE_MISSING)
		return page;
	if (remote->ahead)
		ahead = remote->ahead;
	if (remote->defer) {
		remote->missed = true;
		remote_want(remote, va, PAGE_BYTES);
		return NULL;
	}
	/* The missing page comes first: a neighbour that fails or hangs then does no harm to it. */
	remote_want(remote, va, PAGE_BYTES);
	remote_want(remote, va & ~(ahead - 1), ahead);
	remote_fetch(remote);
	return hash_table_find(&remote->pages, &va);
}

/* A page that was read; NULL: it cannot be read. */
static struct remote_page *page_recent(struct remote *remote, uint64_t va)
{
	struct remote_page **recent = &remote->recent[va / PAGE_BYTES % NR_RECENT], *page = *recent;

	if (page && page->va == va)
		return page;
	page = page_need(remote, va);
	if (!page || page->state != PAGE_READ)
		return NULL;
	*recent = page;
	return page;
}

static int remote_read(struct unwind_reader *reader, __u64 va, void *dst, __u32 len)
{
	struct remote *remote = (struct remote *)reader;
	struct remote_page *page;
	uint32_t within, part, done;

	if (va >> 56)
		return -EFAULT;
	for (done = 0; done < len; done += part) {
		within = (va + done) & (PAGE_BYTES - 1);
		part = PAGE_BYTES - within < len - done ? PAGE_BYTES - within : len - done;
		page = page_recent(remote, va + done - within);
		if (!page)
			return -EFAULT;
		memcpy((char *)dst + done, page->data + within, part);
		page->used = true;
	}
	return 0;
}

static void remote_want_next(struct unwind_reader *reader, __u64 va, __u64 len)
{
	remote_want((struct remote *)reader, va, len);
}

int remote_new(struct remote **ret, struct remote_child *child, uint32_t tid)
{
	struct remote *remote = calloc(1, sizeof(*remote));

	if (!remote)
		return -ENOMEM;
	remote->reader.read = remote_read;
	remote->reader.want = remote_want_next;
	remote->child = child;
	remote->tid = tid;
	hash_table_init(&remote->pages, 0, struct remote_page, va);
	remote_limit(remote, 0, REMOTE_MAX_PAGES);
	*ret = remote;
	return 0;
}

void remote_limit(struct remote *remote, uint64_t deadline_ns, size_t max_pages)
{
	remote->deadline_ns = deadline_ns ? deadline_ns : UINT64_MAX;
	remote->pages.max = max_pages;
}

void remote_ahead(struct remote *remote, unsigned int pages)
{
	remote->ahead = pages * PAGE_BYTES;
}

bool remote_defer(struct remote *remote, bool defer)
{
	bool missed = remote->missed;

	remote->defer = defer;
	remote->missed = false;
	return missed;
}

static void pages_drop(struct remote *remote, bool hung)
{
	struct remote_page *page;

	remote->nr_wanted = 0;
	memset(remote->recent, 0, sizeof(remote->recent));
	hash_table_each(&remote->pages, page) {
		page->wanted = false;
		if (page->state == PAGE_HUNG && !hung)
			continue;
		free(page->data);
		hash_table_remove(&remote->pages, page);
	}
}

void remote_forget(struct remote *remote)
{
	pages_drop(remote, false);
}

void remote_again(struct remote *remote)
{
	struct remote_page *page;

	remote->nr_wanted = 0;
	memset(remote->recent, 0, sizeof(remote->recent));
	hash_table_each(&remote->pages, page) {
		page->wanted = false;
		if (page->state == PAGE_HUNG)
			continue;
		free(page->data);
		page->data = NULL;
		page->state = PAGE_MISSING;
		if (page->used)
			remote_want(remote, page->va, PAGE_BYTES);
		page->used = false;
	}
	remote_fetch(remote);
}

void remote_free(struct remote *remote)
{
	if (!remote)
		return;
	pages_drop(remote, true);
	free(remote);
}

size_t remote_used(const struct remote *remote, uint64_t *vas, size_t max)
{
	const struct remote_page *page;
	size_t nr = 0;

	hash_table_each(&remote->pages, page) {
		if (!page->used)
			continue;
		if (nr < max)
			vas[nr] = page->va;
		nr++;
	}
	return nr;
}

struct unwind_reader *remote_reader(struct remote *remote)
{
	return &remote->reader;
}

const struct remote_counts *remote_counts(const struct remote *remote)
{
	return &remote->counts;
}
