/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_KERNEL_IMAGE_COPY_H
#define BPFPROF_KERNEL_IMAGE_COPY_H

/*
 * Files without a path for us (memfd, a mount of the container, the node's files where bpfprof has a
 * root folder of its own): their mapped parts are read from the memory of a process. That suffices to
 * walk and to name exported functions: headers, unwind tables, .dynsym; .symtab is not mapped. Blocks
 * are read when something asks for them, and kept: at most IMAGE_COPY_MAX_BYTES of each file and
 * IMAGES_MAX_COPY_BYTES of all. Each read proves first that the process still has the same file there. A
 * fifth of the time may go into reading.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/budget.h"

struct deadline_runner;
struct image;
struct images;
struct processes;
struct refusals;
struct session;

/* All borrowed. Must live as long as images; processes may be freed once the session is closed. */
struct image_copies {
	struct images *images;
	struct processes *processes;
	struct session *session; /* zeros once it is closed: no further block can be read */
	struct deadline_runner *runner;
	struct refusals *refusals; /* or NULL */
	struct tenant_budgets budgets;
	pid_t pid; /* of bpfprof: a child that writes an interval reads nothing */
};

/* Could the file not be opened, and has it no copy yet? */
bool image_copy_wanted(const struct image *image, uint64_t now_ns);

/*
 * Opens the image from the memory of a process that has mapped it. Whatever the result, it is not wanted again for some
 * seconds.
 */
void image_copy_open(struct image_copies *copies, struct image *image, uint64_t now_ns);

/*
 * Reads the names of the functions that the image exports, for the time after its process has exited.
 * No effect on an image that is not read from memory.
 */
void image_copy_names(struct image *image);

#endif
