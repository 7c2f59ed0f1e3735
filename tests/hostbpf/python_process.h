/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_TESTS_PYTHON_PROCESS_H
#define BPFPROF_TESTS_PYTHON_PROCESS_H

/*
 * A made heap (python_objects.h) with an interpreter, its threads and modules,
 * and frames with variables.
 */

#include <stddef.h>
#include <stdint.h>

#include "python/thread_names.h"
#include "python_objects.h"

#define FOR_EACH_VERSION(nr)                                                                       \
	for (uint32_t nr = 0; nr < MADE_NR_VERSIONS && (made_init(&made, nr), 1); nr++)

extern struct made_objects made;
const char *repr_in(uint64_t va, size_t max);
const char *repr(uint64_t va);
uint64_t list_of(uint64_t one, uint64_t two);

#define NR_WILD 15
extern const uint64_t wild[NR_WILD];
uint64_t thread_make(const char *name);

struct state_of {
	uint64_t interpreter, first;
};

#define INTERPRETER_BYTES 65536

/* An interpreter whose modules are given, with one thread. */
struct state_of interpreter_make(uint64_t modules);
uint64_t modules_make(uint64_t active);
size_t names_read(struct python_thread_names *names);
/* Names that are found when _active is this. */
size_t nr_names(uint64_t active);

#define VARIABLES 6

struct made_frame {
	uint64_t code, frame, names, kinds;
};

/* def f(a, b, *, c): with a cell d and a free variable e; local x */
struct made_frame frame_make(const uint64_t values[VARIABLES]);
uint64_t cell_make(uint64_t value);
/* "NAME=VALUE/FLAGS ..." */
const char *locals_text(const struct made_frame *frame);

#endif
