// SPDX-License-Identifier: Apache-2.0
/*
 * python_step() over the memory of every Python of this machine, which says itself what its stacks
 * are.
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

#include "python/code_read.h"
#include "python/heap.h"
#include "python/tstates.h"
#include "python_chain.h"
#include "python_target.h"

#define MIN_COMPARED 1000 /* frames of one run of python_stack.py */

TestSuite(python_walk, .timeout = 120);

static void chain_compare(struct python_target *target, const struct python_reported_thread *thread,
			  const struct python_chain *chain)
{
	static struct python_heap heap;
	struct python_code code;

	cr_assert_eq(
		python_heap_init(&heap, &target->reader, &target->image.layout, target->runtime),
		0);
	for (uint32_t i = 0; i < chain->nr_frames; i++) {
		const struct python_reported_frame *reported = &thread->frames[i];
		uint32_t line;

		cr_assert_lt(i, thread->nr, "more than the %zu frames there are", thread->nr);
		cr_assert_eq(python_code_read(&code, &heap, chain->frames[i].code), 0, "frame %u",
			     i);
		line = python_code_line(&code, chain->frames[i].lasti);
		cr_assert(!strcmp(code.name, reported->name) &&
				  !strcmp(code.file, reported->file) && line == reported->line,
			  "frame %u: %s (%s:%u), not %s (%s:%u)", i, code.name, code.file, line,
			  reported->name, reported->file, reported->line);
		python_code_fini(&code);
	}
}

/* A chain that ends early must end at a valid place, and its frames are right. */
static void chain_check(struct python_target *target, const struct python_reported_thread *thread,
			const struct python_chain *chain)
{
	/* Up to 3.10 each frame has a call of its own. */
	uint32_t nr_calls = target->image.layout.chain == PYTHON_CHAIN_OBJECTS
				    ? (uint32_t)thread->nr
				    : thread->nr_calls;

	chain_compare(target, thread, chain);
	if (thread->nr > PYTHON_CHAIN_MAX_FRAMES) {
		cr_assert_eq(chain->stop, PYTHON_STOP_DEPTH, "%d", chain->stop);
		cr_assert_eq(chain->nr_frames, PYTHON_CHAIN_MAX_FRAMES);
	} else {
		cr_assert_eq(chain->stop, PYTHON_STOP_COMPLETE, "%d", chain->stop);
		cr_assert_eq(chain->nr_frames, thread->nr, "%u frames of %zu", chain->nr_frames,
			     thread->nr);
		cr_assert_eq(chain->nr_entries, nr_calls, "%u C calls, not %u", chain->nr_entries,
			     nr_calls);
		if (nr_calls)
			cr_assert_eq(chain->entries[nr_calls - 1].nr, chain->nr_frames);
	}
}

/* All thread states of all interpreters. */
static void states_read(struct python_target *target, struct python_tstates *ret)
{
	static struct python_heap heap;

	cr_assert_eq(
		python_heap_init(&heap, &target->reader, &target->image.layout, target->runtime),
		0);
	cr_assert_eq(python_tstates_read(ret, &heap), 0);
}

static const struct python_reported_thread *reported_find(const struct python_target *target,
							  const struct python_tstate *state)
{
	for (size_t i = 0; i < target->nr_threads; i++)
		if (target->threads[i].ident == state->thread_id &&
		    target->threads[i].interpreter == state->interpreter)
			return &target->threads[i];
	return NULL;
}

/* Every frame of every thread. */
static void target_check(struct python_target *target, const char *program)
{
	size_t nr_threads = 0, nr_frames = 0, nr_entries = 0;
	const struct python_reported_thread *thread;
	struct python_tstates tstates;
	static struct python_chain chain;

	states_read(target, &tstates);
	for (size_t i = 0; i < tstates.nr; i++) {
		const struct python_tstate *state = &tstates.states[i];

		thread = reported_find(target, state);
		python_chain_walk(&chain, &target->image.layout, &target->reader,
				  state->frame_start);
		cr_assert(!state->holds_gil, "a thread that waits holds the GIL");
		if (!thread) {
			cr_assert_eq(chain.nr_frames, 0, "thread %lx of interpreter %u: unknown",
				     state->thread_id, state->interpreter);
			continue;
		}
		chain_check(target, thread, &chain);
		nr_frames += chain.nr_frames;
		nr_entries += chain.nr_entries;
		nr_threads++;
	}
	python_tstates_fini(&tstates);
	cr_assert_eq(nr_threads, target->nr_threads, "%zu threads of %zu found", nr_threads,
		     target->nr_threads);
	cr_assert_gt(nr_frames, MIN_COMPARED);
	fprintf(stderr, "%s (%x): %zu threads, %zu frames, %zu C calls compared\n", program,
		target->image.version, nr_threads, nr_frames, nr_entries);
}

static bool is_main(const struct python_target *target, const struct python_tstate *state)
{
	const struct python_reported_thread *thread = reported_find(target, state);

	return thread && thread->nr && !strcmp(thread->frames[0].name, "wait_and_tell");
}

/* The main thread, and no other one, gets the GIL. */
static void gil_check(struct python_target *target)
{
	struct timespec pause = { .tv_nsec = 2000000 };
	struct python_tstates tstates;
	size_t i, nr_held = 0;

	if (target->image.layout.free_threaded)
		return;
	cr_assert_eq(python_target_spin(target), 0);
	for (int tries = 0; tries < 5000 && !nr_held; tries++) {
		nanosleep(&pause, NULL);
		states_read(target, &tstates);
		for (i = 0; i < tstates.nr; i++) {
			if (!tstates.states[i].holds_gil)
				continue;
			nr_held++;
			cr_assert(is_main(target, &tstates.states[i]),
				  "another thread holds the GIL");
		}
		python_tstates_fini(&tstates);
	}
	cr_assert_eq(nr_held, 1, "nobody holds the GIL");
}

ParameterizedTestParameters(python_walk, installed)
{
	size_t nr;
	struct python_installed *pythons = python_installed_find(&nr);

	return cr_make_param_array(struct python_installed, pythons, nr ? nr : 1);
}

ParameterizedTest(struct python_installed *python, python_walk, installed, .timeout = 120)
{
	struct python_target target;
	int err;

	if (!python->program[0] || access("tests/hostbpf/python_stack.py", R_OK)) {
		fprintf(stderr, "skip python_walk: %s\n",
			python->program[0] ? "not run from the root of the source tree"
					   : "no Python here");
		return;
	}
	err = python_target_start(&target, python->program, python->home[0] ? python->home : NULL);
	if (err == -EACCES)
		fprintf(stderr, "skip %s: may not read its memory\n", python->program);
	else if (err == -ENOTSUP)
		fprintf(stderr, "skip %s: layout of version %x not known\n", python->program,
			target.image.version);
	if (!err) {
		target_check(&target, python->program);
		gil_check(&target);
	}
	python_target_stop(&target);
	cr_assert(!err || err == -EACCES || err == -ENOTSUP, "%s: %s", python->program,
		  strerror(-err));
}
