// SPDX-License-Identifier: Apache-2.0
/*
 * Compares the reads of user/python in the heap of every Python of this machine with the program's
 * own report: names of threads, values of variables, the holder of the GIL.
 */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "python/chain.h"
#include "python/code_read.h"
#include "python/heap.h"
#include "python/locals.h"
#include "python/objects.h"
#include "python/thread_names.h"
#include "python/tstates.h"
#include "python_target.h"

#define SCRIPT "tests/hostbpf/python_heap.py"
#define MAX_FIELDS 5
#define MIN_LOCALS 150
#define MIN_NAMES 16

TestSuite(python_heap, .timeout = 120);

struct looked {
	struct python_target *target;
	struct python_heap heap;
	struct python_tstates tstates;
	struct python_thread_names names;
	struct python_code_cache *codes;
	/* The frame that the following lines are about. */
	struct python_locals locals;
	bool *met;
	size_t nr_names, nr_frames, nr_locals;
};

static void fields_split(char *line, char *fields[MAX_FIELDS])
{
	size_t nr = 0;

	fields[nr++] = line;
	while (nr < MAX_FIELDS && (line = strchr(line, '\t'))) {
		*line++ = '\0';
		fields[nr++] = line;
	}
	while (nr < MAX_FIELDS)
		fields[nr++] = NULL;
}

static const struct python_tstate *tstate_of(const struct looked *l, uint64_t ident,
					     uint64_t interpreter)
{
	const struct python_tstate *at = NULL;

	while ((at = python_tstates_find(&l->tstates, ident, at)))
		if (at->interpreter == interpreter)
			return at;
	return NULL;
}

/* name INTERPRETER IDENT NATIVE NAME */
static void name_check(struct looked *l, char *fields[MAX_FIELDS])
{
	const struct python_tstate *tstate;
	uint64_t ident = strtoull(fields[2], NULL, 10), native = strtoull(fields[3], NULL, 10);
	uint64_t interpreter;
	char reported[2048], *newline;
	const char *name;

	interpreter = strtoull(fields[1], NULL, 10);
	cr_assert_lt(interpreter, l->tstates.nr_interpreters);
	name = python_thread_names_find(
		&l->names, l->tstates.interpreters[l->tstates.nr_interpreters - 1 - interpreter],
		ident);
	cr_assert(name, "thread %s has no name, not %s", fields[2], fields[4]);
	snprintf(reported, sizeof(reported), "%s", fields[4]);
	newline = strstr(reported, "\\n");
	if (newline) {
		*newline = '\n';
		memmove(newline + 1, newline + 2, strlen(newline + 2) + 1);
	}
	cr_assert_str_eq(name, reported);
	/* In another interpreter threading knows the main thread of the process, which is not there. */
	tstate = tstate_of(l, ident, interpreter);
	cr_assert(tstate || interpreter, "thread %s", fields[2]);
	if (native && l->heap.layout->version >= 0x30b)
		cr_assert_eq(tstate->native_tid, native, "%u", tstate->native_tid);
	l->nr_names++;
}

/* The program has reported all variables that were read in the frame before. */
static void frame_end(struct looked *l)
{
	for (size_t i = 0; i < l->locals.nr; i++)
		cr_assert(l->met[i], "%s = %s", l->locals.locals[i].name, l->locals.locals[i].repr);
	python_locals_fini(&l->locals);
	free(l->met);
	l->met = NULL;
}

/* frame IDENT NR FUNCTION LINE */
static void frame_begin(struct looked *l, char *fields[MAX_FIELDS])
{
	const struct python_tstate *tstate = tstate_of(l, strtoull(fields[1], NULL, 10), 0);
	static struct python_chain chain;
	const struct python_chain_frame *frame;
	const struct python_code *code;
	size_t nr = strtoull(fields[2], NULL, 10);

	frame_end(l);
	cr_assert(tstate, "thread %s", fields[1]);
	python_chain_walk(&chain, l->heap.layout, l->heap.reader, tstate->frame_start);
	cr_assert_eq(chain.stop, PYTHON_STOP_COMPLETE, "%d", chain.stop);
	cr_assert_lt(nr, chain.nr_frames);
	frame = &chain.frames[nr];
	code = python_code_cache_get(l->codes, frame->code, NULL);
	cr_assert(code);
	cr_assert_str_eq(code->name, fields[3]);
	cr_assert(strstr(code->file, "python_heap.py") || strstr(code->file, "threading") ||
			  !strcmp(code->file, "<string>"),
		  "%s", code->file);
	cr_assert_eq(python_code_line(code, frame->lasti), strtoul(fields[4], NULL, 10), "%s: %u",
		     code->name, python_code_line(code, frame->lasti));
	cr_assert_eq(python_locals_read(&l->locals, &l->heap, frame->code, frame->frame_va,
					PYTHON_REPR_CHARS),
		     0);
	l->met = calloc(l->locals.nr + 1, sizeof(*l->met));
	l->nr_frames++;
}

/* local FLAGS ADDRESS NAME VALUE */
static void local_check(struct looked *l, char *fields[MAX_FIELDS])
{
	const struct python_local *local = NULL;
	size_t i;

	for (i = 0; i < l->locals.nr; i++)
		if (!strcmp(l->locals.locals[i].name, fields[3]) && !l->met[i]) {
			local = &l->locals.locals[i];
			break;
		}
	cr_assert(local, "no variable %s = %s", fields[3], fields[4]);
	l->met[i] = true;
	cr_assert_str_eq(local->repr, fields[4], "%s:\n%s, not\n%s", fields[3], local->repr,
			 fields[4]);
	cr_assert_eq(local->va, strtoull(fields[2], NULL, 10), "%s", fields[3]);
	cr_assert_eq(local->flags, strtoul(fields[1], NULL, 10), "%s: %u", fields[3], local->flags);
	l->nr_locals++;
}

static void target_check(struct looked *l)
{
	char *line = l->target->text, *end, *fields[MAX_FIELDS];

	for (; (end = strchr(line, '\n')); line = end + 1) {
		*end = '\0';
		fields_split(line, fields);
		if (!strcmp(fields[0], "name"))
			name_check(l, fields);
		else if (!strcmp(fields[0], "frame"))
			frame_begin(l, fields);
		else if (!strcmp(fields[0], "local"))
			local_check(l, fields);
		else
			cr_assert_str_eq(fields[0], "ready");
	}
	frame_end(l);
	cr_assert_geq(l->nr_names, MIN_NAMES);
	cr_assert_eq(l->names.nr, l->nr_names, "%zu names", l->names.nr);
	cr_assert_geq(l->nr_locals, MIN_LOCALS);
	cr_assert_eq(l->heap.counts.nr_cyclic + l->heap.counts.nr_cut + l->heap.counts.nr_bad, 0);
	cr_assert_eq(l->heap.counts.nr_unreadable, 0, "%lu", l->heap.counts.nr_unreadable);
}

/* The main thread sleeps, and has it. */
static void gil_check(struct looked *l)
{
	struct timespec pause = { .tv_nsec = 2000000 };
	const struct python_tstate *holder = NULL;
	struct python_tstates tstates;
	const char *name;

	cr_assert_null(python_tstates_gil_holder(&l->tstates), "somebody who waits holds the GIL");
	cr_assert_eq(python_target_spin(l->target), 0);
	for (int tries = 0; tries < 2000 && !holder; tries++) {
		nanosleep(&pause, NULL);
		cr_assert_eq(python_tstates_read(&tstates, &l->heap), 0);
		holder = python_tstates_gil_holder(&tstates);
		if (!holder)
			python_tstates_fini(&tstates);
	}
	cr_assert(holder, "nobody holds the GIL");
	name = python_thread_names_find(&l->names, holder->interpreter_va, holder->thread_id);
	cr_assert_str_eq(name, "MainThread");
	python_tstates_fini(&tstates);
}

static void look(struct python_target *target, const char *program)
{
	struct looked l = { .target = target };

	cr_assert_eq(
		python_heap_init(&l.heap, &target->reader, &target->image.layout, target->runtime),
		0);
	cr_assert_eq(python_tstates_read(&l.tstates, &l.heap), 0);
	cr_assert(l.tstates.complete);
	cr_assert_eq(python_thread_names_read(&l.names, &l.heap, &l.tstates), 0);
	cr_assert_eq(python_code_cache_new(&l.codes, &l.heap), 0);
	target_check(&l);
	if (l.tstates.gil_known)
		gil_check(&l);
	fprintf(stderr, "%s (%x): %zu names, %zu frames, %zu variables compared\n", program,
		target->image.version, l.nr_names, l.nr_frames, l.nr_locals);
	python_code_cache_free(l.codes);
	python_thread_names_fini(&l.names);
	python_tstates_fini(&l.tstates);
}

ParameterizedTestParameters(python_heap, installed)
{
	size_t nr;
	struct python_installed *pythons = python_installed_find(&nr);

	return cr_make_param_array(struct python_installed, pythons, nr ? nr : 1);
}

ParameterizedTest(struct python_installed *python, python_heap, installed, .timeout = 120)
{
	struct python_target target;
	int err;

	if (!python->program[0] || access(SCRIPT, R_OK)) {
		fprintf(stderr, "skip python_heap: %s\n",
			python->program[0] ? "not run from the root of the source tree"
					   : "no Python here");
		return;
	}
	err = python_target_run(&target, python->program, python->home[0] ? python->home : NULL,
				SCRIPT);
	if (err == -EACCES)
		fprintf(stderr, "skip %s: may not read its memory\n", python->program);
	else if (err == -ENOTSUP)
		fprintf(stderr, "skip %s: layout of version %x not known\n", python->program,
			target.image.version);
	if (!err)
		look(&target, python->program);
	python_target_stop(&target);
	cr_assert(!err || err == -EACCES || err == -ENOTSUP, "%s: %s", python->program,
		  strerror(-err));
}
