/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PYTHON_PYTHONS_H
#define BPFPROF_PYTHON_PYTHONS_H

/*
 * Room python: finds CPython in a process and reads its threads, code objects and variables.
 *
 * Finds the files that are CPython interpreters, and the place of the interpreter's state in a process.
 * Each file is examined once, when it is first mapped and open.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpfprof.h"
#include "python_place.h"

struct image;
struct process;
struct python_async_layout;
struct python_range;
struct pythons;
struct python_image;

#define PYTHONS_MAX_LAYOUTS 64 /* as many as the map layouts holds */

/* A CPython runtime that is mapped. Only memory shows whether it runs an interpreter. */
struct process_python {
	uint64_t runtime; /* address of _PyRuntime */
	uint32_t layout; /* of pythons_layout() */
	uint32_t image;
};

/* The runtimes of a process, loaded last first: `pythons` of struct process. */
struct process_pythons {
	struct process_python list[BPFPROF_MAX_RUNTIMES];
	uint32_t nr; /* 0: the process maps no CPython of a known version */
};

struct pythons_counts {
	uint64_t nr_full; /* interpreters without room */
	uint64_t nr_beyond; /* runtimes of a process beyond the first BPFPROF_MAX_RUNTIMES */
	uint64_t nr_unknown; /* interpreters of a version whose layout is not known */
	uint64_t nr_malformed; /* files that look like an interpreter and contradict themselves */
};

/* Called once for each new layout, which gets the number nr: 0 or -errno. */
typedef int (*pythons_layout_fn)(void *arg, uint32_t nr,
				 const struct bpfprof_python_layout *layout);
/* Called once for each file with an unknown layout; version as in layout.h. */
typedef void (*pythons_unknown_fn)(void *arg, const char *path, uint32_t version);

int pythons_new(struct pythons **ret, pythons_layout_fn layout, pythons_unknown_fn unknown,
		void *arg);
void pythons_free(struct pythons *pythons);

/* Examines image once, if it is open. 0, or the error of reading it. */
int pythons_scan(struct pythons *pythons, struct image *image);

/*
 * Fills in process->pythons: the possible places of the runtimes of its interpreters, by its mappings of
 * their code. An interpreter may be loaded without running, or a part of its file may be mapped for
 * another purpose, so there may be more places than runtimes. Of more than BPFPROF_MAX_RUNTIMES the ones
 * with the most mapped code stay. True if the places have changed.
 */
bool pythons_find(struct pythons *pythons, struct process *process);

/* The version (as in layout.h) of the interpreter that image is; 0: it is none. */
uint32_t pythons_version(const struct pythons *pythons, uint32_t image);

/* A layout by its number, or NULL. */
const struct bpfprof_python_layout *pythons_layout(const struct pythons *pythons, uint32_t nr);
/*
 * What the module _asyncio that the process maps says of its objects (3.14 and later): that of `image` if it
 * has the module inside, else that of a library. NULL: none.
 */
const struct python_async_layout *
pythons_async_layout(const struct pythons *pythons, const struct process *process, uint32_t image);
/* Is this file offset of the image in the eval loop (layout.h)? */
bool pythons_is_eval(const struct pythons *pythons, uint32_t image, uint64_t off);
/* The same, but false if the file does not show which functions are the eval loop. */
bool pythons_is_surely_eval(const struct pythons *pythons, uint32_t image, uint64_t off);

/*
 * The ranges of the eval loop, as file offsets, of an image whose calls of it hold the frame that they
 * run (up to 3.10). Their number; 0: the image is no such interpreter.
 */
size_t pythons_holding_ranges(const struct pythons *pythons, uint32_t image,
			      const struct python_range **ret);

/* The place where those calls hold the frame; walks in user space learn it. NULL: no interpreter. */
struct python_place *pythons_place(const struct pythons *pythons, uint32_t image);

/* The image was evicted (images_sweep()). */
void pythons_forget(struct pythons *pythons, uint32_t image);

const struct pythons_counts *pythons_counts(const struct pythons *pythons);

#endif
