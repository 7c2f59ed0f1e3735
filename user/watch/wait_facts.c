// SPDX-License-Identifier: Apache-2.0
#include "watch/wait_facts.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/strtab.h"
#include "base/text.h"
#include "base/vec.h"
#include "kernel/environ.h"
#include "kernel/open_files.h"
#include "kernel/session.h"
#include "kernel/tasks.h"
#include "proc/caught_signals.h"
#include "proc/title.h"
#include "threads/thread_dump.h"
#include "threads/thread_reader.h"
#include "watch/place.h"
#include "watch/wait_call.h"

#define MAX_ENDS 4096 /* processes that hold the other end of one of them */
#define ADDRESS_BYTES 16

static struct wait_thread *thread_of(struct wait_facts *facts, uint32_t index)
{
	return &facts->graph.threads[index];
}

const struct process_dump *wait_facts_process(const struct wait_facts *facts, uint32_t thread)
{
	return &facts->dump->processes[facts->graph.threads[thread].process];
}

const struct thread_dump *wait_facts_thread(const struct wait_facts *facts, uint32_t thread)
{
	uint32_t process = facts->graph.threads[thread].process;

	return &facts->dump->processes[process].threads[thread - facts->firsts[process]];
}

const struct task_dump *wait_facts_task(const struct wait_facts *facts, uint32_t thread)
{
	const struct process_dump *process = wait_facts_process(facts, thread);
	uint32_t tid = wait_facts_thread(facts, thread)->kernel_tid;
	const struct task_dump *found = NULL, *task;
	size_t i;

	for (i = 0; i < process->nr_tasks; i++) {
		task = &process->tasks[i];
		if (task->kernel_tid != tid)
			continue;
		if (task->wait.kind && !text_begins(task->wait.kind, "task") &&
		    strcmp(task->wait.kind, "gather") != 0)
			return task;
		if (!found)
			found = task;
	}
	return found;
}

/* own: of the program itself, not of a library. */
static bool has_python_frame(const struct wait_facts *facts, const struct thread_dump *thread,
			     bool own)
{
	const struct thread_frame *frame;
	size_t i;

	for (i = 0; i < thread->nr_frames; i++) {
		frame = &thread->frames[i];
		if (frame->kind == THREAD_FRAME_PYTHON &&
		    !(own &&
		      place_is_of_system(strtab_get(facts->dump->strings, frame->file), true)))
			return true;
	}
	return false;
}

/* Does a frame of Python run the function? Names may be qualified. */
static bool runs_function(const struct wait_facts *facts, const struct process_dump *process,
			  const char *function)
{
	const struct thread_frame *frame;
	const char *name, *dot;
	size_t i, k;

	for (i = 0; i < process->nr_threads; i++)
		for (k = 0; k < process->threads[i].nr_frames; k++) {
			frame = &process->threads[i].frames[k];
			name = strtab_get(facts->dump->strings, frame->name);
			dot = strrchr(name, '.');
			if (frame->kind == THREAD_FRAME_PYTHON &&
			    !strcmp(dot ? dot + 1 : name, function))
				return true;
		}
	return false;
}

/*
 * Does the process take part in the job now? A Ray worker does while it runs a task. Its title names a method with its
 * class; a title without a method is that of an idle actor, or of a function that a frame then has.
 */
static bool is_member(const struct wait_facts *facts, const struct process_dump *process)
{
	const char *title = strtab_get(facts->dump->strings, process->ray_task);

	if (!*title)
		return true;
	title += strlen(TITLE_PREFIX);
	return strchr(title, '.') || runs_function(facts, process, title);
}

static uint32_t process_find(const struct wait_facts *facts, uint32_t kernel_pid)
{
	size_t i;

	for (i = 0; i < facts->dump->nr_processes; i++)
		if (facts->dump->processes[i].kernel_pid == kernel_pid)
			return (uint32_t)i;
	return WAIT_NOBODY;
}

/* The process may end the wait; the graph does not have it: WAIT_NOBODY. 0 or -ENOMEM. */
static int end_add(struct wait_facts *facts, struct want *want, uint32_t process)
{
	struct wait_thread *t = thread_of(facts, want->thread);
	int err = 0;

	if (process != WAIT_NOBODY) {
		if (want->nr_ends && want->ends[want->nr_ends - 1] == process)
			return 0;
		err = vec_grow(want->ends, want->nr_ends + 1, want->cap_ends, MAX_ENDS);
		if (!err)
			want->ends[want->nr_ends++] = process;
	}
	t->beyond |= process == WAIT_NOBODY || err == -E2BIG;
	return err == -E2BIG ? 0 : err;
}

static int children_find(struct wait_facts *facts, struct want *want)
{
	const struct dump *dump = facts->dump;
	const struct process_dump *child;
	uint32_t parent = thread_of(facts, want->thread)->process;
	size_t i;
	int err = 0;

	for (i = 0; i < dump->nr_processes && !err; i++) {
		child = &dump->processes[i];
		if (child->kernel_parent == dump->processes[parent].kernel_pid &&
		    (want->call.end == WAIT_END_CHILDREN || child->pid == want->call.id ||
		     child->pod_pid == want->call.id))
			err = end_add(facts, want, (uint32_t)i);
	}
	return err;
}

static void thread_fill(struct wait_facts *facts, uint32_t index, const struct thread_dump *thread)
{
	struct wait_thread *t = thread_of(facts, index);
	const struct wait_call call = wait_call_of(thread);

	t->kind = call.kind;
	t->timed = call.timed;
	t->asleep_ns = thread->asleep_ns;
	t->helper = facts->dump->processes[t->process].python_version &&
		    !has_python_frame(facts, thread, false);
	/* A loop of asyncio runs the program's tasks, though its thread shows none of them while it waits. */
	t->of_library = !t->helper && index != facts->firsts[t->process] &&
			!has_python_frame(facts, thread, true) && !wait_facts_task(facts, index);
	if (t->kind != WAIT_ENDS)
		return;
	/* Of other programs an epoll is for what they have not said; a loop without tasks has nothing to do. */
	if (call.end == WAIT_END_EVENTS && !wait_facts_task(facts, index)) {
		t->kind = WAIT_OUTSIDE;
	} else if (facts->nr_wants == WAIT_MAX_WANTS) {
		t->kind = WAIT_OUTSIDE;
		facts->nr_over++;
	} else {
		facts->wants[facts->nr_wants++] = (struct want){ .thread = index, .call = call };
	}
}

/* Addresses of IPv4 that an IPv6 socket has are those of IPv4. Returns their length. */
static size_t address(const uint8_t **dst, const uint8_t *addr, bool v6)
{
	static const uint8_t mapped[12] = { [10] = 0xff, [11] = 0xff };

	if (v6 && !memcmp(addr, mapped, sizeof(mapped))) {
		*dst = addr + sizeof(mapped);
		return 4;
	}
	*dst = addr;
	return v6 ? ADDRESS_BYTES : 4;
}

static bool same_address(const uint8_t *a, bool a_v6, const uint8_t *b, bool b_v6)
{
	size_t len = address(&a, a, a_v6);

	return len == address(&b, b, b_v6) && !memcmp(a, b, len);
}

/* Is b the other end of a? */
static bool is_other_end(const struct want *want, const struct bpfprof_open_file *b)
{
	const struct bpfprof_open_file *a = &want->file;
	bool a_v6 = a->flags & BPFPROF_FILE_IPV6, b_v6 = b->flags & BPFPROF_FILE_IPV6;

	if (!want->found || a->kind != b->kind)
		return false;
	switch (a->kind) {
	case BPFPROF_FILE_PIPE:
		return a->id == b->id &&
		       b->flags & (want->call.end == WAIT_END_READS ? BPFPROF_FILE_WRITES
								    : BPFPROF_FILE_READS);
	case BPFPROF_FILE_UNIX:
		return a->peer && a->peer == b->id;
	case BPFPROF_FILE_INET:
		return a->peer_port && a->own_port == b->peer_port && a->peer_port == b->own_port &&
		       same_address(a->own_addr, a_v6, b->peer_addr, b_v6) &&
		       same_address(a->peer_addr, a_v6, b->own_addr, b_v6);
	default:
		return false;
	}
}

static bool is_file(const struct want *want)
{
	return want->call.end == WAIT_END_READS || want->call.end == WAIT_END_WRITES ||
	       want->call.end == WAIT_END_EVENTS;
}

static int own_file(void *arg, const struct bpfprof_open_file *file)
{
	struct wait_facts *facts = arg;
	struct want *want;
	size_t i;

	for (i = 0; i < facts->nr_wants; i++) {
		want = &facts->wants[i];
		if (!is_file(want) || want->call.id != file->fd ||
		    thread_of(facts, want->thread)->process != facts->reading)
			continue;
		if (want->call.end == WAIT_END_EVENTS) {
			if (file->kind != BPFPROF_FILE_EPOLL || !file->id)
				continue;
			want->call.end = WAIT_END_READS;
			want->call.id = (uint32_t)(file->id - 1);
			want->loop = facts->again = true;
			continue;
		}
		want->found = true;
		want->file = *file;
	}
	return 0;
}

static int other_file(void *arg, const struct bpfprof_open_file *file)
{
	struct wait_facts *facts = arg;
	size_t i;
	int err = 0;

	for (i = 0; i < facts->nr_wants && !err; i++)
		if (is_other_end(&facts->wants[i], file))
			err = end_add(facts, &facts->wants[i], process_find(facts, file->task.pid));
	return err;
}

/* Only waits whose ends are known are for others; the rest is for something outside. */
static void want_finish(struct wait_facts *facts, struct want *want)
{
	struct wait_thread *t = thread_of(facts, want->thread);

	if (want->found && want->file.kind == BPFPROF_FILE_STORED)
		t->kind = WAIT_KERNEL;
	else if (is_file(want) && (!want->found || want->file.flags & BPFPROF_FILE_LISTENS))
		t->kind = WAIT_OUTSIDE;
	t->beyond |= !want->nr_ends;
	/* A loop wakes itself for another thread of its process. */
	if (want->loop && want->nr_ends == 1 && want->ends[0] == t->process) {
		t->kind = WAIT_LOCK;
		return;
	}
	t->ends = want->ends;
	t->nr_ends = want->nr_ends;
}

static int files_read(struct wait_facts *facts, struct session *session)
{
	uint32_t last = WAIT_NOBODY;
	size_t i;
	int err = 0;

	for (i = 0; i < facts->nr_wants && !err; i++) {
		facts->reading = thread_of(facts, facts->wants[i].thread)->process;
		if (!is_file(&facts->wants[i]) || facts->reading == last)
			continue;
		last = facts->reading;
		facts->again = false;
		err = open_files_each(session, facts->dump->processes[last].pid, own_file, facts);
		if (facts->again && !err)
			err = open_files_each(session, facts->dump->processes[last].pid, own_file,
					      facts);
	}
	return err || last == WAIT_NOBODY ? err : open_files_each(session, 0, other_file, facts);
}

static int ends_read(struct wait_facts *facts, struct session *session)
{
	size_t i;
	int err = files_read(facts, session);

	for (i = 0; i < facts->nr_wants && !err; i++)
		if (!is_file(&facts->wants[i]))
			err = children_find(facts, &facts->wants[i]);
	for (i = 0; i < facts->nr_wants && !err; i++)
		want_finish(facts, &facts->wants[i]);
	return err;
}

/* A process without a readable environment has no rank. */
static void ranks_read(struct wait_facts *facts, struct thread_reader *reader)
{
	const struct process_dump *process;
	size_t i;

	for (i = 0; i < facts->dump->nr_processes; i++) {
		process = &facts->dump->processes[i];
		if (!process->kernel_thread)
			environ_read(&reader->session, reader->runner, process->pid,
				     &(struct bpfprof_task_id){ .start_ns = process->start_ns,
								.exec_id = process->exec_id },
				     &facts->ranks[i]);
	}
}

/* The number of ranks of the job that the dump has: children with the rank of another process count once. */
static uint64_t ranks_count(const struct wait_facts *facts)
{
	uint64_t nr = 0;
	size_t i, k;

	for (i = 0; i < facts->dump->nr_processes; i++) {
		for (k = 0; k < i && strcmp(facts->ranks[k].rank, facts->ranks[i].rank) != 0; k++)
			;
		nr += facts->ranks[i].rank[0] && k == i;
	}
	return nr;
}

static void job_find(struct wait_facts *facts)
{
	unsigned long world = 0, size;
	size_t i;

	for (i = 0; i < facts->dump->nr_processes; i++) {
		facts->graph.is_job |= facts->dump->processes[i].ray_task != 0;
		facts->graph.ranked |= facts->ranks[i].rank[0] != '\0';
		size = strtoul(facts->ranks[i].world_size, NULL, 10);
		world = size > world ? size : world;
	}
	/* The launcher of ranks has none: it only waits for them. */
	for (i = 0; i < facts->dump->nr_processes; i++)
		facts->graph.processes[i].member =
			is_member(facts, &facts->dump->processes[i]) &&
			(!facts->graph.ranked || facts->ranks[i].rank[0]);
	facts->graph.is_job |= facts->graph.ranked;
	facts->elsewhere = facts->graph.ranked && world > ranks_count(facts);
}

static int graph_begin(struct wait_facts *facts)
{
	const struct dump *dump = facts->dump;
	struct wait_graph *graph = &facts->graph;
	size_t i, k;

	facts->ranks = calloc(dump->nr_processes + 1, sizeof(*facts->ranks));
	facts->firsts = calloc(dump->nr_processes + 1, sizeof(*facts->firsts));
	graph->processes = calloc(dump->nr_processes + 1, sizeof(*graph->processes));
	if (!facts->ranks || !facts->firsts || !graph->processes)
		return -ENOMEM;
	graph->nr_processes = dump->nr_processes;
	for (i = 0; i < dump->nr_processes; i++) {
		facts->firsts[i] = graph->nr_threads;
		graph->nr_threads += dump->processes[i].nr_threads;
	}
	graph->threads = calloc(graph->nr_threads + 1, sizeof(*graph->threads));
	if (!graph->threads)
		return -ENOMEM;
	for (i = 0; i < dump->nr_processes; i++)
		for (k = 0; k < dump->processes[i].nr_threads; k++)
			graph->threads[facts->firsts[i] + k].process = (uint32_t)i;
	return 0;
}

/* Other nodes have ranks that may run. */
static void elsewhere_set(struct wait_facts *facts)
{
	struct wait_thread *t;
	size_t i;

	for (i = 0; i < facts->graph.nr_threads; i++) {
		t = &facts->graph.threads[i];
		t->beyond |=
			facts->elsewhere && (t->kind == WAIT_LOCK || t->kind == WAIT_COLLECTIVE);
	}
}

static int exec_visit(void *arg, const struct bpfprof_task_state *state)
{
	*(uint64_t *)arg = state->task.exec_id;
	return 1;
}

/* Has the process a parent beyond the dump, of which it is a copy? Then they may share memory. */
static bool has_twin(const struct wait_facts *facts, struct session *session, uint32_t process)
{
	const struct process_dump *p = &facts->dump->processes[process];
	uint64_t exec_id = p->exec_id;
	uint32_t parent;

	if (process_find(facts, p->kernel_parent) != WAIT_NOBODY)
		return false;
	parent = session_own_pid(session, p->kernel_parent, 0);
	if (parent)
		tasks_each(session, parent, exec_visit, &exec_id);
	return exec_id == p->exec_id;
}

/* May a thread wait for the handler of a signal? Then it waits alone, on a lock or a pipe of its own process. */
static bool may_wait_for_signal(const struct wait_facts *facts, uint32_t process)
{
	const struct wait_thread *first = &facts->graph.threads[facts->firsts[process]], *t;
	size_t nr = facts->dump->processes[process].nr_threads, i;

	for (i = 0; i < nr; i++) {
		t = &first[i];
		if (i && !t->helper &&
		    (t->kind == WAIT_LOCK || t->kind == WAIT_SHARED || t->kind == WAIT_ENDS))
			return false;
	}
	return nr &&
	       (first->kind == WAIT_LOCK || first->kind == WAIT_SHARED ||
		(first->kind == WAIT_ENDS && first->nr_ends == 1 && first->ends[0] == process));
}

static void handlers_read(struct wait_facts *facts)
{
	uint32_t i;

	for (i = 0; i < facts->dump->nr_processes; i++)
		if (may_wait_for_signal(facts, i))
			thread_of(facts, (uint32_t)facts->firsts[i])->handled =
				caught_signals_have_request((pid_t)facts->dump->processes[i].pid);
}

static void shared_set(struct wait_facts *facts, struct session *session)
{
	struct wait_thread *t;
	uint32_t last = WAIT_NOBODY;
	bool twin = false;
	size_t i;

	for (i = 0; i < facts->graph.nr_threads; i++) {
		t = &facts->graph.threads[i];
		if (t->kind != WAIT_SHARED)
			continue;
		if (t->process != last)
			twin = has_twin(facts, session, t->process);
		last = t->process;
		t->beyond |= twin;
	}
}

int wait_facts_read(struct wait_facts *facts, struct thread_reader *reader, const struct dump *dump,
		    uint64_t sleep_ns)
{
	size_t i;
	int err;

	*facts = (struct wait_facts){ .dump = dump, .graph.sleep_ns = sleep_ns };
	err = graph_begin(facts);
	if (err)
		return err;
	ranks_read(facts, reader);
	job_find(facts);
	for (i = 0; i < facts->graph.nr_threads; i++)
		thread_fill(facts, (uint32_t)i, wait_facts_thread(facts, (uint32_t)i));
	err = ends_read(facts, &reader->session);
	elsewhere_set(facts);
	shared_set(facts, &reader->session);
	handlers_read(facts);
	return err;
}

void wait_facts_fini(struct wait_facts *facts)
{
	size_t i;

	for (i = 0; i < facts->nr_wants; i++)
		free(facts->wants[i].ends);
	free(facts->graph.threads);
	free(facts->graph.processes);
	free(facts->ranks);
	free(facts->firsts);
}
