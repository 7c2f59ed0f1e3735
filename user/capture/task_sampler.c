// SPDX-License-Identifier: Apache-2.0
#include "capture/task_sampler.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/log.h"
#include "base/process_map.h"
#include "base/time.h"
#include "capture/sampler.h"
#include "capture/task_sampler_wire.h"
#include "proc/processes.h"
#include "profile/aggregate.h"
#include "profile/stats.h"
#include "python/codes.h"
#include "python/pythons.h"

#define SCAN_NS (NS_PER_SECOND / 2) /* between two searches for processes that run Python */
#define MAX_SENT 32768 /* processes at a time */
#define TAKE_BYTES (64U << 10) /* in one read */
#define TAKE_NS                                                                                    \
	(NS_PER_SECOND / 200) /* for reads in one call: the ring of samples must not wait longer */
#define READY_MS 3000
#define END_MS 3000

struct sent {
	struct hash_node node;
	struct process_key key;
};

struct task_sampler {
	pid_t pid; /* of the child; 0: it has ended */
	int fd; /* -1: it is closed */
	struct buf in; /* records that are not whole yet */
	struct hash_table sent; /* processes that the child has */
	uint64_t since_ns; /* time counts from then on; 0: not yet */
	uint64_t scan_ns;
	bool stopped;
	uint64_t child_ended; /* before the end */
	uint64_t malformed;
	struct task_sampler_totals totals;
};

int task_sampler_new(struct task_sampler **ret, const char *host_root)
{
	struct task_sampler *tasks = calloc(1, sizeof(*tasks));
	int fds[2];

	if (!tasks)
		return -ENOMEM;
	if (socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, fds)) {
		free(tasks);
		return -errno;
	}
	tasks->pid = fork();
	if (!tasks->pid) {
		close(fds[0]);
		task_sampler_child(fds[1], host_root);
	}
	close(fds[1]);
	if (tasks->pid < 0) {
		close(fds[0]);
		free(tasks);
		return -EAGAIN;
	}
	tasks->fd = fds[0];
	buf_init(&tasks->in, 2 * TASK_RECORD_MAX);
	hash_table_init(&tasks->sent, MAX_SENT, struct sent, key);
	*ret = tasks;
	return 0;
}

static void child_end(struct task_sampler *tasks)
{
	if (tasks->fd >= 0)
		close(tasks->fd);
	tasks->fd = -1;
	if (tasks->pid) {
		kill(tasks->pid, SIGKILL);
		waitpid(tasks->pid, NULL, 0);
	}
	tasks->pid = 0;
}

void task_sampler_free(struct task_sampler *tasks)
{
	if (!tasks)
		return;
	child_end(tasks);
	buf_fini(&tasks->in);
	hash_table_clear(&tasks->sent);
	free(tasks);
}

/* Sends the child the processes that run Python and that it does not have yet. */
static void processes_send(struct sampler *sampler, struct task_sampler *tasks)
{
	const struct session *session = &sampler->reader.session;
	struct process *process;
	struct task_order order;
	void *sent;

	for (process = processes_first(sampler->reader.processes); process;
	     process = hash_table_next(process)) {
		sent = process_map_find(&tasks->sent, process->pid, process->start_ns);
		if (process->dead && sent)
			hash_table_remove(&tasks->sent, sent);
		if (sent || process->dead || !process->pythons || !process->pythons->nr ||
		    (session->options.filter && !session_is_target(session, (pid_t)process->pid)))
			continue;
		order = (struct task_order){
			.pid = session_own_pid(session, process->pid,
					       process->ns_context.agent_pid),
			.since_ns = process->known_ns > tasks->since_ns ? process->known_ns
									: tasks->since_ns,
		};
		if (!order.pid)
			continue;
		sent = process_map_add(&tasks->sent, process->pid, process->start_ns);
		if (sent && send(tasks->fd, &order, sizeof(order), MSG_DONTWAIT | MSG_NOSIGNAL) !=
				    sizeof(order)) {
			hash_table_remove(&tasks->sent, sent);
			sent = NULL;
		}
		if (!sent)
			return; /* the next scan tries again */
	}
}

static void stack_emit(struct sampler *sampler, const struct task_record_stack *stack,
		       const uint64_t *frames, size_t nr)
{
	struct bpfprof_task_state state = { .task = stack->thread };
	struct task_time time = {
		.wait = stack->wait, .parked = stack->parked, .count = stack->count, .ns = stack->ns
	};
	struct bpfprof_sample sample;
	struct aggregate_input input;
	struct event event = { .kind = EVENT_TASKS, .input = &input, .task_time = &time };

	memcpy(state.comm, stack->comm, sizeof(state.comm));
	memcpy(state.leader_comm, stack->leader_comm, sizeof(state.leader_comm));
	if (!sampler_thread_input(sampler, &state, &sample, &input))
		return;
	input.user = frames;
	input.nr_user = nr;
	input.stop = BPFPROF_STOP_COMPLETE;
	sample.nr_python = (uint16_t)nr;
	sampler_emit(sampler, &event);
}

/* A text up to its NUL; NULL: there is no NUL. */
static const char *text_take(const char **at, const char *end)
{
	const char *text = *at, *nul = memchr(text, 0, (size_t)(end - text));

	if (nul)
		*at = nul + 1;
	return nul ? text : NULL;
}

static void stack_take(struct sampler *sampler, const char *at, size_t bytes)
{
	uint64_t frames[TASK_STACKS_MAX_FRAMES];
	struct task_record_stack stack;
	const char *end = at + bytes, *name, *file;
	uint32_t line, i;

	if (bytes < sizeof(stack))
		goto bad;
	memcpy(&stack, at, sizeof(stack));
	at += sizeof(stack);
	stack.wait[sizeof(stack.wait) - 1] = '\0';
	if (stack.nr_frames > TASK_STACKS_MAX_FRAMES)
		goto bad;
	for (i = stack.nr_frames; i--;) { /* a profile has the innermost first */
		if ((size_t)(end - at) < sizeof(line))
			goto bad;
		memcpy(&line, at, sizeof(line));
		at += sizeof(line);
		name = text_take(&at, end);
		file = name ? text_take(&at, end) : NULL;
		if (!file)
			goto bad;
		frames[i] = codes_frame_of(sampler->codes, name, file, line);
	}
	stack_emit(sampler, &stack, frames, stack.nr_frames);
	return;
bad:
	sampler->tasks->malformed++;
}

/* Takes the whole records. */
static void records_take(struct sampler *sampler, struct task_sampler *tasks)
{
	struct task_record record;
	size_t done = 0;
	char *at;

	while (tasks->in.len - done >= sizeof(record)) {
		at = tasks->in.data + done;
		memcpy(&record, at, sizeof(record));
		if (record.bytes < sizeof(record) || record.bytes > TASK_RECORD_MAX) {
			tasks->malformed++;
			child_end(tasks);
			return;
		}
		if (tasks->in.len - done < record.bytes)
			break;
		done += record.bytes;
		at += sizeof(record);
		record.bytes -= sizeof(record);
		if (record.kind == TASK_RECORD_STACK)
			stack_take(sampler, at, record.bytes);
		else if (record.bytes == sizeof(tasks->totals))
			memcpy(&tasks->totals, at, sizeof(tasks->totals));
	}
	memmove(tasks->in.data, tasks->in.data + done, tasks->in.len - done);
	tasks->in.len -= done;
}

/* Reads once without waiting. False: there is no more at the moment. */
static bool take(struct sampler *sampler, struct task_sampler *tasks)
{
	char data[TAKE_BYTES];
	ssize_t n = tasks->fd < 0 ? -1 : recv(tasks->fd, data, sizeof(data), MSG_DONTWAIT);

	if (n > 0) {
		buf_add(&tasks->in, data, (size_t)n);
		if (!buf_error(&tasks->in)) {
			records_take(sampler, tasks);
			return true;
		}
	}
	if (n >= 0 || (errno != EAGAIN && errno != EINTR))
		child_end(tasks);
	return false;
}

void task_sampler_ready(struct sampler *sampler)
{
	struct pollfd poll_fd = { .events = POLLIN };

	if (!sampler->tasks)
		return;
	poll_fd.fd = sampler->tasks->fd;
	poll(&poll_fd, 1, READY_MS);
}

void task_sampler_start(struct sampler *sampler)
{
	if (!sampler->tasks)
		return;
	sampler->tasks->since_ns = time_monotonic_ns();
	sampler->tasks->scan_ns = 0;
	task_sampler_run(sampler);
}

void task_sampler_run(struct sampler *sampler)
{
	struct task_sampler *tasks = sampler->tasks;
	uint64_t now_ns = time_monotonic_ns();

	if (!tasks || tasks->fd < 0 || !tasks->since_ns || tasks->stopped)
		return;
	while (time_monotonic_ns() < now_ns + TAKE_NS && take(sampler, tasks))
		;
	if (tasks->fd < 0) {
		tasks->child_ended++;
		log_warn("--async: tasks are not read any more, since the process that reads them "
			 "has ended");
	} else if (now_ns >= tasks->scan_ns) {
		processes_send(sampler, tasks);
		tasks->scan_ns = now_ns + SCAN_NS;
	}
}

void task_sampler_stop(struct sampler *sampler)
{
	struct task_sampler *tasks = sampler->tasks;

	if (!tasks || tasks->fd < 0 || tasks->stopped)
		return;
	shutdown(tasks->fd, SHUT_WR);
	tasks->stopped = true;
}

void task_sampler_end(struct sampler *sampler)
{
	struct task_sampler *tasks = sampler->tasks;
	uint64_t now_ns = time_monotonic_ns(), end_ns = now_ns + END_MS * 1000000ULL;
	struct pollfd poll_fd;

	if (!tasks || tasks->fd < 0)
		return;
	while (tasks->fd >= 0 && now_ns < end_ns) {
		poll_fd = (struct pollfd){ .fd = tasks->fd, .events = POLLIN };
		poll(&poll_fd, 1, time_poll_ms(now_ns, end_ns, END_MS));
		do
			now_ns = time_monotonic_ns();
		while (now_ns < end_ns && take(sampler, tasks));
	}
	tasks->child_ended += tasks->fd >= 0;
	child_end(tasks);
}

/* The values that the rows read. */
struct task_sampler_values {
	struct task_sampler_totals totals;
	uint64_t child_ended, malformed, late_ms;
};

#define AT(field) offsetof(struct task_sampler_values, field)

/* A row with .zero is reported even if it is 0. */
const struct counter task_sampler_counters[] = {
	{ COUNTER_WAITS, "task_snapshots", AT(totals.read.snapshots),
	  .help = "`--async`: times that the tasks of a process were read", .zero = 1 },
	{ COUNTER_WAITS, "task_period_us", AT(totals.period_us),
	  .help = "mean time between two such reads of a process", .zero = 1 },
	{ COUNTER_WAITS, "task_longest_period_us", AT(totals.longest_period_us),
	  .help = "the longest such time", .zero = 1 },
	{ COUNTER_WAITS, "tasks_seen", AT(totals.read.tasks),
	  .help = "tasks in all these reads together", .zero = 1 },
	{ COUNTER_WAITS, "task_reader_cpu_us", AT(totals.cpu_us),
	  .help = "CPU time of the process that reads tasks", .zero = 1 },
	{ COUNTER_WAITS, "task_reader_memory_kb", AT(totals.memory_kb),
	  .help = "memory of that process", .zero = 1 },
	{ COUNTER_WAITS, "task_snapshots_put_off", AT(totals.late),
	  .help = "reads of tasks that came later, as they took too much CPU time" },
	{ COUNTER_WAITS, "tasks_moved", AT(totals.read.moved),
	  .help = "tasks that changed their stack while it was read: their time is under "
		  "`[moved]`" },
	{ COUNTER_WAITS, "tasks_unread", AT(totals.read.unread),
	  .help = "tasks whose memory could not be read, or made no sense: `[unread]`" },
	{ COUNTER_WAITS, "tasks_over", AT(totals.read.over),
	  .help = "tasks that were not read: too many, or no time" },
	{ COUNTER_WAITS, "task_stacks_cut", AT(totals.read.cut),
	  .help = "stacks of tasks that were cut short, or have no place of their own" },
	{ COUNTER_WAITS, "task_lists_torn", AT(totals.read.torn),
	  .help = "reads whose list of tasks changed meanwhile: some tasks are missing" },
	{ COUNTER_WAITS, "tasks_undescribed", AT(totals.read.undescribed),
	  .help = "reads of a Python that does not describe its tasks" },
	{ COUNTER_WAITS, "task_reads_failed", AT(totals.read.failed),
	  .help = "processes that could not be read at a moment" },
	{ COUNTER_WAITS, "task_processes_refused", AT(totals.refused),
	  .help = "processes beyond the 256 whose tasks are read" },
	{ COUNTER_WAITS, "task_time_lost_ms", AT(late_ms),
	  .help = "time without a read of tasks for longer than 30 s; it counts for no task" },
	{ COUNTER_WAITS, "task_records_malformed", AT(malformed),
	  .help = "impossible records of the process that reads tasks; this is a bug, please "
		  "report it" },
	{ COUNTER_WAITS, "task_reader_ended", AT(child_ended),
	  .help = "the process that reads tasks ended early, or was not ready in time at the end" },
	{ 0 },
};

double task_sampler_cpu_seconds(const struct task_sampler *tasks)
{
	return tasks ? (double)tasks->totals.cpu_us / 1e6 : 0;
}

uint64_t task_sampler_bytes(const struct task_sampler *tasks)
{
	return tasks ? tasks->totals.memory_kb << 10 : 0;
}

void task_sampler_stats(const struct task_sampler *tasks, struct stats_reasons *waits)
{
	const struct counter *row;
	struct task_sampler_values values;
	uint64_t count;

	if (!tasks)
		return;
	values = (struct task_sampler_values){ tasks->totals, tasks->child_ended, tasks->malformed,
					       tasks->totals.read.late_ns / 1000000 };
	for (row = task_sampler_counters; row->group; row++) {
		count = stats_row_count(row, &values);
		if (count || row->zero)
			stats_add(waits, row->name, count);
	}
}
