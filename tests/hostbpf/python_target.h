/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_TESTS_PYTHON_TARGET_H
#define BPFPROF_TESTS_PYTHON_TARGET_H

/*
 * A Python that runs tests/hostbpf/python_stack.py: what it said about its stacks, and its memory, read
 * through /proc/PID/mem, which tests may.
 */

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "python/layout.h"
#include "unwind/reader.h"

struct python_reported_frame {
	char *name;
	char *file;
	uint32_t line;
};

struct python_reported_thread {
	uint64_t ident; /* pthread_self() */
	uint32_t interpreter; /* 0 = the oldest */
	uint32_t nr_calls; /* C calls of the eval loop, if it is 3.11 or later */
	size_t nr;
	struct python_reported_frame *frames; /* leaf first */
};

struct python_target {
	struct unwind_reader reader; /* of its memory; first member */
	pid_t pid;
	int memory, input;
	struct python_image image;
	uint64_t runtime; /* address of _PyRuntime */
	size_t nr_threads;
	struct python_reported_thread *threads;
	char *text; /* that names and files are part of */
};

#define PYTHON_MAX_INSTALLED 64

struct python_installed {
	char program[512];
	char home[512]; /* its PYTHONHOME, or empty */
};

/* Every Python from 3.8 on of this machine; the first is empty if there is none. */
struct python_installed *python_installed_find(size_t *ret_nr);

/*
 * Starts program with a script, waits until the script has said "ready" (target->text has it all) and sleeps,
 * and finds out what it is; errors as below.
 */
int python_target_run(struct python_target *target, const char *program, const char *home,
		      const char *script);
/*
 * Starts python_stack.py in program (home: its PYTHONHOME, or NULL), waits until all its threads do, and finds out
 * what it is. 0, -EACCES if its memory may not be read, or what went wrong; stop it in any case.
 */
int python_target_start(struct python_target *target, const char *program, const char *home);
void python_target_stop(struct python_target *target);
/* Tells its main thread to run, from then on, without end. */
int python_target_spin(struct python_target *target);

#endif
