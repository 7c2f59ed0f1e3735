// SPDX-License-Identifier: Apache-2.0
#include "watch/wait_text.h"

#include <stdio.h>
#include <string.h>
#include <sys/syscall.h>

#include "base/buf.h"
#include "base/strtab.h"
#include "base/text.h"
#include "base/units.h"
#include "proc/title.h"
#include "ray/ray_role.h"
#include "threads/dump_view.h"
#include "threads/thread_dump.h"
#include "watch/place.h"
#include "watch/wait_facts.h"

#define MAX_OTHERS 4 /* stuck threads that a sentence names beside the first */
#define NAME_MAX_BYTES 256
#define LINES_MAX_BYTES (256U << 10)
#define SECOND_NS 1000000000ULL

static const char *const verdict_words[] = {
	[WAIT_VERDICT_ALIVE] = "Alive: ",
	[WAIT_VERDICT_SUSPECT] = "Suspect: ",
	[WAIT_VERDICT_STALLED] = "Stalled: ",
	[WAIT_VERDICT_BUSY] = "Busy: ",
};

const char *const wait_reasons[WAIT_NR_REASONS] = {
	[WAIT_REASON_BUSY] = "busy",
	[WAIT_REASON_SLEEP] = "sleep",
	[WAIT_REASON_STOPPED] = "stopped",
	[WAIT_REASON_DISK] = "disk",
	[WAIT_REASON_LOCK] = "lock",
	[WAIT_REASON_PROCESS] = "process",
	[WAIT_REASON_COLLECTIVE] = "collective",
	[WAIT_REASON_OTHER] = "other",
};
#define REASON "Reason: "

void wait_reason_line(struct buf *dst, const struct wait_facts *facts, uint32_t root)
{
	static const enum wait_reason reasons[] = {
		[WAIT_NONE] = WAIT_REASON_BUSY,
		[WAIT_OUTSIDE] = WAIT_REASON_OTHER,
		[WAIT_TIME] = WAIT_REASON_SLEEP,
		[WAIT_STOPPED] = WAIT_REASON_STOPPED,
		[WAIT_KERNEL] = WAIT_REASON_DISK,
		[WAIT_LOCK] = WAIT_REASON_LOCK,
		[WAIT_SHARED] = WAIT_REASON_LOCK,
		[WAIT_ENDS] = WAIT_REASON_PROCESS,
		[WAIT_COLLECTIVE] = WAIT_REASON_COLLECTIVE,
	};

	if (root != WAIT_NOBODY)
		buf_printf(dst, REASON "%s\n",
			   wait_reasons[reasons[facts->graph.threads[root].kind]]);
}

enum wait_reason wait_reason_of(const char *text)
{
	const char *at = strchr(text, '\n');
	size_t i, len;

	if (!at || !text_begins(++at, REASON))
		return WAIT_REASON_OTHER;
	at += strlen(REASON);
	len = strcspn(at, "\n");
	for (i = 0; i < WAIT_NR_REASONS; i++)
		if (strlen(wait_reasons[i]) == len && !strncmp(at, wait_reasons[i], len))
			return (enum wait_reason)i;
	return WAIT_REASON_OTHER;
}

enum wait_verdict wait_verdict_of(const char *text, const char **ret_sentence)
{
	size_t i;

	for (i = 0; i < sizeof(verdict_words) / sizeof(verdict_words[0]); i++) {
		if (!text_begins(text, verdict_words[i]))
			continue;
		*ret_sentence = text + strlen(verdict_words[i]);
		return (enum wait_verdict)i;
	}
	*ret_sentence = text;
	return WAIT_VERDICT_ALIVE;
}

enum wait_verdict wait_judge(struct wait_facts *facts, bool busy, uint32_t *ret_root)
{
	wait_graph_solve(&facts->graph);
	*ret_root = wait_graph_root(&facts->graph);
	if (*ret_root != WAIT_NOBODY)
		return WAIT_VERDICT_STALLED;
	facts->graph.doubt = true;
	wait_graph_solve(&facts->graph);
	*ret_root = wait_graph_root(&facts->graph);
	if (*ret_root != WAIT_NOBODY)
		return WAIT_VERDICT_SUSPECT;
	if (busy) {
		facts->graph.busy = true;
		wait_graph_solve(&facts->graph);
		*ret_root = wait_graph_root(&facts->graph);
		facts->graph.busy = false;
	}
	facts->graph.doubt = false;
	wait_graph_solve(&facts->graph); /* the waits are shown so */
	return *ret_root == WAIT_NOBODY ? WAIT_VERDICT_ALIVE : WAIT_VERDICT_BUSY;
}

static const char *string_of(const struct wait_facts *facts, uint32_t id)
{
	return strtab_get(facts->dump->strings, id);
}

/* The script of an interpreter, or else the program, without folders. */
static void program_name(char name[RAY_ROLE_TEXT_MAX], const char *cmdline)
{
	char argv[NAME_MAX_BYTES];
	size_t len = (size_t)snprintf(argv, sizeof(argv), "%s", cmdline), i;

	len = len < sizeof(argv) ? len + 1 : sizeof(argv);
	for (i = 0; i < len; i++)
		if (argv[i] == ' ')
			argv[i] = '\0';
	if (!text_begins(text_base_name(argv), "python") ||
	    ray_role_script(name, RAY_ROLE_TEXT_MAX, argv, len) || !strcmp(name, "-c"))
		snprintf(name, RAY_ROLE_TEXT_MAX, "%s", text_base_name(argv));
}

static void process_add(struct buf *dst, const struct wait_facts *facts, uint32_t process)
{
	const struct process_dump *p = &facts->dump->processes[process];
	const char *title = string_of(facts, p->ray_task);
	const char *rank = facts->ranks[process].rank;
	char name[RAY_ROLE_TEXT_MAX];

	if (*rank) {
		buf_add_str(dst, "rank ");
		text_add_part(dst, rank);
	} else if (*title) {
		text_add_part(dst, title + strlen(TITLE_PREFIX));
	} else {
		program_name(name, string_of(facts, p->cmdline));
		text_add_part(dst, name);
	}
	buf_printf(dst, " (pid %u)", p->pid);
}

/* The innermost line of Python of the program itself, else of any Python, else its own innermost function. */
static const struct thread_frame *place_of(const struct wait_facts *facts,
					   const struct thread_dump *thread)
{
	const struct thread_frame *python = NULL, *native = NULL, *frame;
	bool of_system;
	size_t i;

	for (i = 0; i < thread->nr_frames; i++) {
		frame = &thread->frames[i];
		if (frame->kind != THREAD_FRAME_PYTHON && frame->kind != THREAD_FRAME_NATIVE)
			continue;
		of_system = place_is_of_system(string_of(facts, frame->file),
					       frame->kind == THREAD_FRAME_PYTHON);
		if (frame->kind == THREAD_FRAME_PYTHON && !of_system)
			return frame;
		if (frame->kind == THREAD_FRAME_PYTHON && !python)
			python = frame;
		if (frame->kind == THREAD_FRAME_NATIVE && !native && !of_system)
			native = frame;
	}
	return python ? python : native;
}

/* The task of asyncio that the thread waits for; NULL: it waits for something else. */
static const struct task_dump *task_of(const struct wait_facts *facts, uint32_t thread)
{
	return facts->graph.threads[thread].kind == WAIT_LOCK &&
			       wait_facts_thread(facts, thread)->syscall != SYS_futex
		       ? wait_facts_task(facts, thread)
		       : NULL;
}

static void place_add(struct buf *dst, const struct wait_facts *facts, uint32_t i)
{
	const struct task_dump *task = task_of(facts, i);
	const struct thread_frame *frame =
		place_of(facts, task ? &task->stack : wait_facts_thread(facts, i));
	char room[DUMP_FRAME_BYTES];

	if (!frame)
		return;
	dump_frame_text(facts->dump, frame, room);
	buf_add_str(dst, " in ");
	text_add_part(dst, room);
}

/* The reason for the wait in words. */
static void reason_add(struct buf *dst, const struct wait_facts *facts, uint32_t i)
{
	const struct wait_thread *t = &facts->graph.threads[i];
	const struct thread_dump *thread = wait_facts_thread(facts, i);
	static const char *const words[] = {
		[WAIT_NONE] = "nothing",
		[WAIT_OUTSIDE] = "an event from outside",
		[WAIT_TIME] = "time to pass",
		[WAIT_STOPPED] = "SIGCONT (it is stopped)",
		[WAIT_KERNEL] = "a disk, a file server or memory",
		[WAIT_LOCK] = "a lock or condition",
		[WAIT_SHARED] = "a lock or condition",
		[WAIT_ENDS] = "another process",
		[WAIT_COLLECTIVE] = "a collective of NCCL",
	};
	const char *known = string_of(facts, thread->waits_for);
	char bytes[UNITS_TEXT];

	if (t->kind == WAIT_COLLECTIVE && thread->gpu_call) {
		text_add_part(dst, string_of(facts, thread->gpu_call));
		if (thread->gpu_arguments && thread->gpu_arguments->info.bytes)
			buf_printf(dst, " of %s",
				   units_bytes(bytes, thread->gpu_arguments->info.bytes));
		return;
	}
	if (task_of(facts, i))
		known = "tasks of asyncio";
	text_add_part(dst, *known ? known : words[t->kind]);
}

static bool is_of_sentence(const struct wait_facts *facts, uint32_t i)
{
	const struct wait_graph *graph = &facts->graph;
	const struct wait_thread *t = &graph->threads[i];

	return !t->live && graph->processes[t->process].member && !t->helper &&
	       !(graph->is_job && t->of_library) && t->kind != WAIT_STOPPED;
}

static void other_add(struct buf *dst, const struct wait_facts *facts, uint32_t root, uint32_t i)
{
	const struct wait_thread *t = &facts->graph.threads[i];
	const struct thread_dump *thread = wait_facts_thread(facts, i);

	if (t->process == facts->graph.threads[root].process) {
		buf_add_str(dst, "thread \"");
		text_add_part(dst, string_of(facts, thread->name));
		buf_add_char(dst, '"');
	} else {
		process_add(dst, facts, t->process);
	}
	buf_add_str(dst, " is");
	place_add(dst, facts, i);
	if (t->kind == WAIT_TIME) {
		buf_add_str(dst, " and sleeps");
		return;
	}
	buf_add_str(dst, " and waits for ");
	reason_add(dst, facts, i);
}

/* The other stuck threads: one of each other process, then those of the same process. */
static void others_add(struct buf *dst, const struct wait_facts *facts, uint32_t root)
{
	const struct wait_graph *graph = &facts->graph;
	uint32_t own = graph->threads[root].process, last, i, nr = 0;
	int of_own;

	for (of_own = 0; of_own < 2; of_own++) {
		last = WAIT_NOBODY;
		for (i = 0; i < graph->nr_threads; i++) {
			if (i == root || !is_of_sentence(facts, i) ||
			    (graph->threads[i].process == own) != of_own ||
			    (!of_own && graph->threads[i].process == last))
				continue;
			last = graph->threads[i].process;
			if (++nr > MAX_OTHERS)
				continue;
			buf_add_str(dst, nr > 1 ? ", " : "; ");
			other_add(dst, facts, root, i);
		}
	}
	if (nr > MAX_OTHERS)
		buf_printf(dst, ", and %u more threads wait", nr - MAX_OTHERS);
	if (!nr && graph->threads[root].kind > WAIT_KERNEL)
		buf_add_str(dst, "; no other thread can end this wait");
}

void wait_sentence(struct buf *dst, const struct wait_facts *facts, enum wait_verdict verdict,
		   uint32_t root)
{
	const struct wait_thread *t = root == WAIT_NOBODY ? NULL : &facts->graph.threads[root];
	const struct thread_dump *thread = t ? wait_facts_thread(facts, root) : NULL;
	char duration[UNITS_TEXT];

	buf_add_str(dst, verdict_words[verdict]);
	if (!t) {
		buf_add_str(dst, "each thread runs, or something can end its wait");
		return;
	}
	process_add(dst, facts, t->process);
	if (verdict == WAIT_VERDICT_BUSY) {
		buf_add_str(dst, " is busy");
		place_add(dst, facts, root);
		buf_add_str(dst, "; nothing else of the process can go on");
		return;
	}
	if (t->kind == WAIT_STOPPED) {
		buf_add_str(dst, thread->state == 't' ? " is stopped by a debugger"
						      : " is stopped by a signal");
		place_add(dst, facts, root);
	} else if (t->kind == WAIT_TIME) {
		buf_printf(dst, " has slept %s", units_ns(duration, t->asleep_ns));
		place_add(dst, facts, root);
	} else {
		if (t->asleep_ns >= SECOND_NS)
			buf_printf(dst, " has waited %s for ", units_ns(duration, t->asleep_ns));
		else
			buf_add_str(dst, " waits for ");
		reason_add(dst, facts, root);
		place_add(dst, facts, root);
	}
	others_add(dst, facts, root);
	if (verdict == WAIT_VERDICT_SUSPECT && t->kind == WAIT_KERNEL)
		buf_add_str(dst, "; it may still be answered");
	else if (verdict == WAIT_VERDICT_SUSPECT)
		buf_add_str(
			dst,
			t->handled ? "; only the handler of a signal ends this"
			: facts->graph.is_job
				? "; only a time limit, a sleep or a thread of a library ends this"
				: "; only a time limit ends this");
}

static void line_add(struct buf *dst, const struct wait_facts *facts, uint32_t i)
{
	const struct wait_thread *t = &facts->graph.threads[i];
	const struct thread_dump *thread = wait_facts_thread(facts, i);
	size_t k;

	buf_add_str(dst, "    ");
	process_add(dst, facts, t->process);
	buf_add_str(dst, ", thread \"");
	text_add_part(dst, string_of(facts, thread->name));
	buf_add_char(dst, '"');
	place_add(dst, facts, i);
	buf_add_str(dst, ": ");
	reason_add(dst, facts, i);
	for (k = 0; k < t->nr_ends; k++)
		buf_printf(dst, "%s%u", k ? ", " : ", of pid ",
			   facts->dump->processes[t->ends[k]].pid);
	if (!t->live && t->kind > WAIT_TIME)
		buf_add_str(dst, ": nothing can end this wait");
	else if (t->by != WAIT_NOBODY) {
		buf_add_str(dst, ": ");
		process_add(dst, facts, facts->graph.threads[t->by].process);
		buf_add_str(dst, " can go on");
	}
	buf_add_char(dst, '\n');
}

void wait_lines(struct buf *dst, const struct wait_facts *facts)
{
	const struct wait_thread *t;
	uint32_t i;

	buf_add_str(dst, "Waits:\n");
	if (facts->nr_over)
		buf_printf(dst,
			   "    %zu waits beyond %u for files and children were not looked up: "
			   "they count as live\n",
			   facts->nr_over, WAIT_MAX_WANTS);
	for (i = 0; i < facts->graph.nr_threads && dst->len < LINES_MAX_BYTES; i++) {
		t = &facts->graph.threads[i];
		if (!t->helper && !(facts->graph.is_job && t->of_library) && t->kind != WAIT_NONE &&
		    (!t->live || t->kind > WAIT_KERNEL))
			line_add(dst, facts, i);
	}
}
