// SPDX-License-Identifier: Apache-2.0
/* The child process of task_sampler.h: reads tasks again and again. */
#include "capture/task_sampler_wire.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/budget.h"
#include "base/buf.h"
#include "base/hash_seed.h"
#include "base/strtab.h"
#include "base/time.h"
#include "capture/reader_open.h"
#include "capture/task_sampler.h"
#include "kernel/remote.h"
#include "proc/self.h"
#include "threads/thread_reader.h"

#define PERIOD_NS (NS_PER_SECOND / 10)
#define NO_LOOP_NS NS_PER_SECOND /* between two looks at a process that runs no loop */
#define FLUSH_NS (NS_PER_SECOND / 2)
#define SAVED_NS (NS_PER_SECOND / 25) /* of CPU time that can be used at once */
#define MAX_GAP_NS (30 * NS_PER_SECOND) /* that counts for the tasks of one snapshot */
#define LAST_NS NS_PER_SECOND /* for the last reads of all processes */
#define RETRY_MS 10 /* while there is no CPU time left */
#define MAX_WATCHES 256

struct watch {
	struct task_watch of;
	uint64_t due_ns;
	uint64_t period_ns; /* mean; longer where a read takes long */
	bool is_late; /* it was due, and there was no CPU time */
};

struct child {
	int fd;
	struct thread_reader reader;
	struct task_stacks stacks;
	struct watch watches[MAX_WATCHES];
	size_t nr;
	struct budget budget;
	struct task_sampler_totals totals;
	uint64_t period_sum_ns, nr_periods;
	uint64_t flush_ns, random;
	struct buf out;
	bool ended; /* no order comes any more */
};

static uint64_t cpu_ns(const struct child *c)
{
	return time_of_clock_ns(CLOCK_PROCESS_CPUTIME_ID) +
	       (c->reader.child ? remote_child_cpu_ns(c->reader.child) : 0);
}

/* Irregular moments: a program that does something at regular ones is then not always seen in the same state. */
static uint64_t jitter(struct child *c, uint64_t period_ns)
{
	c->random ^= c->random << 13;
	c->random ^= c->random >> 7;
	c->random ^= c->random << 17;
	return period_ns / 2 + c->random % period_ns;
}

static void orders_take(struct child *c)
{
	struct task_order order;
	struct watch *watch;
	ssize_t n;

	while ((n = recv(c->fd, &order, sizeof(order), MSG_DONTWAIT)) == sizeof(order)) {
		if (c->nr == MAX_WATCHES) {
			c->totals.refused++;
			continue;
		}
		watch = &c->watches[c->nr++];
		*watch = (struct watch){
			.of = { .pid = order.pid, .last_ns = order.since_ns },
			.period_ns = PERIOD_NS,
		};
		watch->due_ns = time_monotonic_ns() + jitter(c, PERIOD_NS) / 2;
	}
	c->ended |= !n || (n < 0 && errno != EAGAIN && errno != EINTR);
}

static void send_all(const struct child *c, const char *data, size_t len)
{
	ssize_t n;

	for (; len; data += n, len -= (size_t)n) {
		n = send(c->fd, data, len, MSG_NOSIGNAL);
		if (n < 0 && errno == EINTR)
			n = 0;
		if (n < 0)
			_exit(0);
	}
}

static void record_send(struct child *c, enum task_record_kind kind, const void *head, size_t bytes,
			const struct buf *rest)
{
	struct task_record record = { .kind = kind };

	record.bytes = (uint32_t)(sizeof(record) + bytes + (rest ? rest->len : 0));
	send_all(c, (const char *)&record, sizeof(record));
	send_all(c, head, bytes);
	if (rest)
		send_all(c, rest->data, rest->len);
}

static void stack_send(struct child *c, const struct task_stack *stack)
{
	const struct strtab *strings = c->stacks.strings;
	struct task_record_stack head = {
		.thread = stack->thread,
		.count = stack->count,
		.ns = (uint64_t)(stack->ns + 0.5),
		.parked = stack->parked,
	};
	const char *text;

	memcpy(head.comm, stack->comm, sizeof(head.comm));
	memcpy(head.leader_comm, stack->leader_comm, sizeof(head.leader_comm));
	strncpy(head.wait, stack->wait, sizeof(head.wait) - 1);
	buf_reset(&c->out);
	for (size_t i = 0; i < stack->nr_frames; i++) {
		const size_t before = c->out.len;

		buf_add(&c->out, &stack->frames[i].line, sizeof(stack->frames[i].line));
		text = strtab_get(strings, stack->frames[i].name);
		buf_add(&c->out, text, strlen(text) + 1);
		text = strtab_get(strings, stack->frames[i].file);
		buf_add(&c->out, text, strlen(text) + 1);
		if (buf_error(&c->out)) {
			c->out.len = before;
			c->stacks.counts.cut++;
			break;
		}
		head.nr_frames++;
	}
	record_send(c, TASK_RECORD_STACK, &head, sizeof(head), &c->out);
}

static void totals_send(struct child *c)
{
	uint64_t kb = self_anonymous_bytes() >> 10;

	c->totals.read = c->stacks.counts;
	c->totals.cpu_us = cpu_ns(c) / 1000;
	c->totals.period_us = c->nr_periods ? c->period_sum_ns / c->nr_periods / 1000 : 0;
	if (c->totals.memory_kb < kb)
		c->totals.memory_kb = kb;
	record_send(c, TASK_RECORD_TOTALS, &c->totals, sizeof(c->totals), NULL);
}

static void flush(struct child *c, uint64_t now_ns)
{
	const struct task_stack *stack;

	hash_table_each(&c->stacks.table, stack)
		if (stack->count)
			stack_send(c, stack);
	totals_send(c);
	if (task_stacks_clear(&c->stacks))
		_exit(1);
	c->flush_ns = now_ns + FLUSH_NS;
}

static void watch_drop(struct child *c, struct watch *watch)
{
	task_watch_fini(&watch->of);
	*watch = c->watches[--c->nr];
}

static void watch_read(struct child *c, struct watch *watch)
{
	uint64_t before_ns = cpu_ns(c), last_ns = watch->of.last_ns, cost_ns, gap_ns, period_ns;
	int err = task_stacks_read(&c->stacks, &c->reader, &watch->of, MAX_GAP_NS);
	uint64_t now_ns = time_monotonic_ns();

	if (err == -ESRCH || err == -ENODATA) {
		watch_drop(c, watch);
		return;
	}
	c->stacks.counts.failed += err != 0;
	cost_ns = cpu_ns(c);
	cost_ns = cost_ns > before_ns ? cost_ns - before_ns : 0;
	budget_spend(&c->budget, cost_ns);
	period_ns = cost_ns * TASK_SAMPLER_CPU_SHARE;
	if (period_ns < PERIOD_NS)
		period_ns = PERIOD_NS;
	if (!watch->of.has_loop && period_ns < NO_LOOP_NS)
		period_ns = NO_LOOP_NS;
	watch->period_ns = period_ns;
	watch->is_late = false;
	watch->due_ns = now_ns + jitter(c, period_ns);
	if (err || !watch->of.has_loop)
		return;
	gap_ns = watch->of.last_ns - last_ns;
	c->period_sum_ns += gap_ns;
	c->nr_periods++;
	if (gap_ns / 1000 > c->totals.longest_period_us)
		c->totals.longest_period_us = gap_ns / 1000;
}

static struct watch *next_due(struct child *c)
{
	struct watch *next = NULL;

	for (size_t i = 0; i < c->nr; i++)
		if (!next || c->watches[i].due_ns < next->due_ns)
			next = &c->watches[i];
	return next;
}

/* Reads what is due. Milliseconds until the next call is due. */
static int run(struct child *c)
{
	uint64_t now_ns = time_monotonic_ns();
	struct watch *next = next_due(c);

	if (now_ns >= c->flush_ns)
		flush(c, now_ns);
	if (!next || next->due_ns > now_ns)
		return time_poll_ms(now_ns,
				    next && next->due_ns < c->flush_ns ? next->due_ns : c->flush_ns,
				    (int)(FLUSH_NS / 1000000));
	if (budget_allows(&c->budget, TASK_SAMPLER_CPU_SHARE, SAVED_NS, now_ns)) {
		watch_read(c, next);
		return 0;
	}
	c->totals.late += !next->is_late;
	next->is_late = true;
	return RETRY_MS;
}

/* The time since the last snapshots counts, too. */
static void last_read(struct child *c)
{
	uint64_t end_ns = time_monotonic_ns() + LAST_NS;
	size_t nr;

	for (size_t i = 0; i < c->nr && time_monotonic_ns() < end_ns;) {
		nr = c->nr;
		watch_read(c, &c->watches[i]);
		i += c->nr == nr;
	}
}

void task_sampler_child(int fd, const char *host_root)
{
	struct pollfd poll_fd = { .fd = fd, .events = POLLIN };
	struct child *c = calloc(1, sizeof(*c));

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (!c || reader_open(&c->reader, NULL, host_root) || task_stacks_init(&c->stacks))
		_exit(1);
	c->fd = fd;
	c->random = hash_seed() | 1;
	c->out.max = TASK_RECORD_MAX / 2;
	flush(c, time_monotonic_ns()); /* shows that it is ready */
	while (!c->ended) {
		poll(&poll_fd, 1, run(c));
		orders_take(c);
	}
	last_read(c);
	flush(c, time_monotonic_ns());
	thread_reader_close(&c->reader);
	_exit(0);
}
