// SPDX-License-Identifier: Apache-2.0
/*
 * python_step() over the memory of every Python of this machine, which says itself what its stacks
 * are.
 */
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <glob.h>
#include <limits.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "python/lines.h"
#include "python_chain.h"
#include "python_target.h"

#define MAX_PYTHONS 64
#define MAX_INTERPRETERS 8
#define MAX_THREADS 64
#define MAX_TABLE (1U << 20)
#define MIN_COMPARED 1000 /* frames of one run of python_stack.py */

TestSuite(python_walk, .timeout = 120);

static uint64_t bytes_u64(const uint8_t *bytes, uint32_t off)
{
	uint64_t value;

	memcpy(&value, bytes + off, sizeof(value));
	return value;
}

static uint32_t bytes_u32(const uint8_t *bytes, uint32_t off)
{
	uint32_t value;

	memcpy(&value, bytes + off, sizeof(value));
	return value;
}

struct shown_frame {
	char name[4096];
	char file[4096];
	uint32_t line;
};

static int frame_show(struct python_target *target, const struct python_chain_frame *frame,
		      struct shown_frame *ret)
{
	const struct bpfprof_python_layout *l = &target->image.layout;
	struct unwind_reader *reader = &target->reader;
	uint8_t code[BPFPROF_PYTHON_CODE_BYTES] = { 0 }, *table;
	uint32_t first_line;
	uint64_t table_va;
	__u64 len;

	if (reader->read(reader, frame->code, code, l->code_bytes))
		return -EFAULT;
	python_chain_string(reader, l,
			    bytes_u64(code, l->code_qualname ? l->code_qualname : l->code_name),
			    ret->name, sizeof(ret->name));
	python_chain_string(reader, l, bytes_u64(code, l->code_filename), ret->file,
			    sizeof(ret->file));
	first_line = bytes_u32(code, l->code_firstlineno);
	table_va = bytes_u64(code, l->code_linetable);
	if (unwind_read_u64(reader, table_va + l->bytes_size, &len) || len > MAX_TABLE)
		return -EFAULT;
	table = malloc(len + 1);
	if (!table || reader->read(reader, table_va + l->bytes_data, table, (uint32_t)len)) {
		free(table);
		return -EFAULT;
	}
	ret->line = frame->lasti == BPFPROF_LASTI_NONE
			    ? first_line
			    : python_line(l->lines, table, len, first_line, frame->lasti);
	free(table);
	return 0;
}

static void chain_compare(struct python_target *target, const struct python_told_thread *thread,
			  const struct python_chain *chain)
{
	struct shown_frame shown;

	for (uint32_t i = 0; i < chain->nr_frames; i++) {
		const struct python_told_frame *told = &thread->frames[i];

		cr_assert_lt(i, thread->nr, "more than the %zu frames there are", thread->nr);
		cr_assert_eq(frame_show(target, &chain->frames[i], &shown), 0, "frame %u", i);
		cr_assert(!strcmp(shown.name, told->name) && !strcmp(shown.file, told->file) &&
				  shown.line == told->line,
			  "frame %u: %s (%s:%u), not %s (%s:%u)", i, shown.name, shown.file,
			  shown.line, told->name, told->file, told->line);
	}
}

/* One that ends early does so where it must, and is right as far as it goes. */
static void chain_check(struct python_target *target, const struct python_told_thread *thread,
			const struct python_chain *chain)
{
	uint32_t nr_calls =
		target->image.layout.chain == PYTHON_CHAIN_OBJECTS ? 0 : thread->nr_calls;

	chain_compare(target, thread, chain);
	if (nr_calls > BPFPROF_MAX_PYTHON_ENTRIES) {
		cr_assert_eq(chain->stop, PYTHON_STOP_ENTRIES, "%d", chain->stop);
		cr_assert_eq(chain->nr_entries, BPFPROF_MAX_PYTHON_ENTRIES);
	} else if (thread->nr > BPFPROF_MAX_PYTHON_FRAMES) {
		cr_assert_eq(chain->stop, PYTHON_STOP_DEPTH, "%d", chain->stop);
		cr_assert_eq(chain->nr_frames, BPFPROF_MAX_PYTHON_FRAMES);
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

/* A thread state of the target. */
struct state {
	uint64_t va;
	uint64_t ident;
	uint64_t start;
	bool holds_gil;
	uint32_t interpreter; /* in the list: newest first, until it is numbered */
};

static uint64_t must_read(struct python_target *target, uint64_t va)
{
	__u64 value;

	cr_assert_eq(unwind_read_u64(&target->reader, va, &value), 0, "cannot read %lx", va);
	return value;
}

static void state_read(struct python_target *target, uint64_t va, struct state *ret,
		       uint64_t *ret_next)
{
	const struct bpfprof_python_layout *l = &target->image.layout;
	uint8_t bytes[BPFPROF_PYTHON_TSTATE_BYTES] = { 0 };

	cr_assert_eq(target->reader.read(&target->reader, va, bytes, l->tstate_bytes), 0);
	ret->va = va;
	ret->ident = bytes_u64(bytes, l->tstate_thread);
	ret->start = bytes_u64(bytes, l->tstate_frame);
	ret->holds_gil = l->runtime_current
				 ? must_read(target, target->runtime + l->runtime_current) == va
				 : bytes_u32(bytes, l->tstate_status) & l->status_mask;
	*ret_next = bytes_u64(bytes, l->tstate_next);
}

/* All thread states of all interpreters. */
static size_t states_read(struct python_target *target, struct state states[MAX_THREADS])
{
	const struct bpfprof_python_layout *l = &target->image.layout;
	uint64_t interpreter = must_read(target, target->runtime + l->runtime_interpreters), va;
	uint32_t nr_interpreters = 0;
	size_t nr = 0, i;

	for (; interpreter; nr_interpreters++) {
		cr_assert_lt(nr_interpreters, MAX_INTERPRETERS);
		va = must_read(target, interpreter + l->interpreter_threads);
		while (va) {
			cr_assert_lt(nr, MAX_THREADS);
			states[nr].interpreter = nr_interpreters;
			state_read(target, va, &states[nr++], &va);
		}
		interpreter = must_read(target, interpreter + l->interpreter_next);
	}
	for (i = 0; i < nr; i++)
		states[i].interpreter = nr_interpreters - 1 - states[i].interpreter;
	return nr;
}

static const struct python_told_thread *told_find(const struct python_target *target,
						  const struct state *state)
{
	for (size_t i = 0; i < target->nr_threads; i++)
		if (target->threads[i].ident == state->ident &&
		    target->threads[i].interpreter == state->interpreter)
			return &target->threads[i];
	return NULL;
}

/* Every frame of every thread. */
static void target_check(struct python_target *target, const char *program)
{
	size_t nr_states, nr_threads = 0, nr_frames = 0, nr_entries = 0;
	const struct python_told_thread *thread;
	struct state states[MAX_THREADS];
	static struct python_chain chain;

	nr_states = states_read(target, states);
	for (size_t i = 0; i < nr_states; i++) {
		thread = told_find(target, &states[i]);
		python_chain_walk(&chain, &target->image.layout, &target->reader, states[i].start);
		cr_assert(!states[i].holds_gil, "a thread that waits holds the GIL");
		if (!thread) {
			cr_assert_eq(chain.nr_frames, 0, "thread %lx of interpreter %u: unknown",
				     states[i].ident, states[i].interpreter);
			continue;
		}
		chain_check(target, thread, &chain);
		nr_frames += chain.nr_frames;
		nr_entries += chain.nr_entries;
		nr_threads++;
	}
	cr_assert_eq(nr_threads, target->nr_threads, "%zu threads of %zu found", nr_threads,
		     target->nr_threads);
	cr_assert_gt(nr_frames, MIN_COMPARED);
	fprintf(stderr, "%s (%x): %zu threads, %zu frames, %zu C calls compared\n", program,
		target->image.version, nr_threads, nr_frames, nr_entries);
}

static bool is_main(const struct python_target *target, const struct state *state)
{
	const struct python_told_thread *thread = told_find(target, state);

	return thread && thread->nr && !strcmp(thread->frames[0].name, "wait_and_tell");
}

/* The main thread, and no other one, gets the GIL. */
static void gil_check(struct python_target *target)
{
	struct timespec pause = { .tv_nsec = 2000000 };
	struct state states[MAX_THREADS];
	size_t nr, i, nr_held = 0;

	cr_assert_eq(python_target_spin(target), 0);
	for (int tries = 0; tries < 5000 && !nr_held; tries++) {
		nanosleep(&pause, NULL);
		nr = states_read(target, states);
		for (i = 0; i < nr; i++) {
			if (!states[i].holds_gil)
				continue;
			nr_held++;
			cr_assert(is_main(target, &states[i]), "another thread holds the GIL");
		}
	}
	cr_assert_eq(nr_held, 1, "nobody holds the GIL");
}

struct installed {
	char program[512];
	char home[512];
};

static void programs_add(struct installed *ret, size_t *nr, const char *pattern, bool is_unpacked)
{
	char path[PATH_MAX];
	glob_t found = { 0 };
	size_t i, k;
	char *bin;

	if (!glob(pattern, 0, NULL, &found)) {
		for (i = 0; i < found.gl_pathc && *nr < MAX_PYTHONS; i++) {
			bin = strrchr(found.gl_pathv[i], '/');
			/* pythonX.Y, not its python-config */
			if (!is_unpacked && bin[strcspn(bin, "-")])
				continue;
			/* 3.7 and before */
			if (!is_unpacked && strtoul(bin + sizeof("/python3.") - 1, NULL, 10) < 8)
				continue;
			if (!realpath(found.gl_pathv[i], path) || strlen(path) >= 512)
				continue;
			for (k = 0; k < *nr && strcmp(ret[k].program, path); k++)
				;
			if (k < *nr)
				continue;
			memcpy(ret[k].program, path, strlen(path) + 1);
			bin = strstr(path, "/bin/");
			if (is_unpacked && bin)
				memcpy(ret[k].home, path, (size_t)(bin - path));
			++*nr;
		}
	}
	globfree(&found);
}

ParameterizedTestParameters(python_walk, installed)
{
	static struct installed pythons[MAX_PYTHONS];
	const char *root = getenv("PYENV_ROOT"), *home = getenv("HOME");
	char pattern[PATH_MAX];
	size_t nr = 0;

	if (root || home) {
		snprintf(pattern, sizeof(pattern), "%s%s/versions/3.*/bin/python3.*",
			 root ? root : home, root ? "" : "/.pyenv");
		programs_add(pythons, &nr, pattern, false);
	}
	programs_add(pythons, &nr, "/usr/bin/python3.*", false);
	programs_add(pythons, &nr, "/usr/local/bin/python3.*", false);
	programs_add(pythons, &nr, "build/pythons/3.*/usr/bin/python3.*-*", true);
	return cr_make_param_array(struct installed, pythons, nr ? nr : 1);
}

ParameterizedTest(struct installed *python, python_walk, installed, .timeout = 120)
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
