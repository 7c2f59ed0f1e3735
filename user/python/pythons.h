/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PYTHON_PYTHONS_H
#define BPFPROF_PYTHON_PYTHONS_H

/*
 * Room python: finds CPython in a process and reads its threads, code objects and variables.
 *
 * Which files are CPython interpreters, and where in a process the interpreter's state is. Each
 * file is looked at once, when it is first mapped and open.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpfprof.h"
#include "python_place.h"

struct image;
struct process;
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
	uint64_t nr_full; /* interpreters that there was no room for */
	uint64_t nr_beyond; /* runtimes of a process beyond the first BPFPROF_MAX_RUNTIMES */
	uint64_t nr_unknown; /* interpreters of a version whose layout is not known */
	uint64_t
		nr_malformed; /* files that say they are an interpreter and contradict themselves */
};

/* Called once per new layout, which is number nr from then on: 0 or -errno. */
typedef int (*pythons_layout_fn)(void *arg, uint32_t nr,
				 const struct bpfprof_python_layout *layout);
/* Called once per file whose layout is not known; version as in layout.h. */
typedef void (*pythons_unknown_fn)(void *arg, const char *path, uint32_t version);

int pythons_new(struct pythons **ret, pythons_layout_fn layout, pythons_unknown_fn unknown,
		void *arg);
void pythons_free(struct pythons *pythons);

/* Looks at image, once; nothing happens if it is not open. 0, or the error of reading it. */
int pythons_scan(struct pythons *pythons, struct image *image);

/*
 * Fills in process->pythons: where the runtimes of its interpreters would be, by its mappings of
 * their code. An interpreter may be loaded and not run, or a piece of its file be mapped for
 * something else, so more of them are named than run; of more than BPFPROF_MAX_RUNTIMES those
 * stay that most of their code is mapped of. True if they differ from those that were there.
 */
bool pythons_find(struct pythons *pythons, struct process *process);

/* The version (as in layout.h) that image is an interpreter of, 0: it is none. */
uint32_t pythons_version(const struct pythons *pythons, uint32_t image);

/* Layout by number, NULL if there is none. */
const struct bpfprof_python_layout *pythons_layout(const struct pythons *pythons, uint32_t nr);
/* Is this file offset of the image in the eval loop, as far as symbols tell (layout.h)? */
bool pythons_is_eval(const struct pythons *pythons, uint32_t image, uint64_t off);
/* The same, where the file does not leave it open which of its functions are. */
bool pythons_is_surely_eval(const struct pythons *pythons, uint32_t image, uint64_t off);

/*
 * The ranges of an image whose calls of the eval loop hold the frame that they run (up to 3.10), as
 * file offsets; their number, 0: it is none.
 */
size_t pythons_holding_ranges(const struct pythons *pythons, uint32_t image,
			      const struct python_range **ret);

/* Where those calls hold it, which walks in user space find out. NULL: the image is none. */
struct python_place *pythons_place(const struct pythons *pythons, uint32_t image);

/* The image is no more (images_sweep()). */
void pythons_forget(struct pythons *pythons, uint32_t image);

const struct pythons_counts *pythons_counts(const struct pythons *pythons);

#endif
