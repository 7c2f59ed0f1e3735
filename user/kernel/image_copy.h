/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_KERNEL_IMAGE_COPY_H
#define BPFPROF_KERNEL_IMAGE_COPY_H

/*
 * Files without a path for us (memfd, a mount of the container, a file system that refuses us):
 * their mapped parts are copied from the memory of a process. That suffices to walk and to name
 * exported functions: headers, unwind tables, .dynsym; .symtab is not mapped. At most
 * IMAGE_COPY_MAX_BYTES of each file, code last, and IMAGES_MAX_COPY_BYTES of all.
 */

#include <stdbool.h>
#include <stdint.h>

struct deadline_runner;
struct image;
struct images;
struct process;
struct session;

/* Could the file not be opened, and has it no copy yet? */
bool image_copy_wanted(const struct image *image);

/* Copies the wanted files of process. *ret_cost_ns: CPU time of reading its mappings. */
void image_copies_take(struct images *images, struct session *session,
		       struct deadline_runner *runner, const struct process *process,
		       uint64_t now_ns, uint64_t *ret_cost_ns);

#endif
