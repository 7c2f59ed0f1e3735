/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PROC_IMAGE_PROBLEM_H
#define BPFPROF_PROC_IMAGE_PROBLEM_H

/* The reasons why a file cannot be used, and their counters. */

#include "base/counters.h"

enum image_problem {
	IMAGE_FINE = 0,
	IMAGE_GONE, /* no path leads to it any more, and it cannot be opened by inode */
	IMAGE_UNREADABLE, /* open or read failed */
	IMAGE_BLOCKED, /* its file system did not answer in time */
	IMAGE_MALFORMED, /* a broken ELF file */
	IMAGE_NOT_ELF, /* not an ELF file, or one for another kind of machine */
	IMAGE_TOO_MANY, /* its tenant has its share of IMAGES_MAX_BYTES; counted with each mapping */
	IMAGE_NR_PROBLEMS,
};

/* The problem that an error of opening or reading means; err: -errno. */
enum image_problem image_problem_of(int err);
const char *image_problem_name(enum image_problem problem);
extern const struct counter
	image_counters[]; /* of images_problems(), in the order of the problems */

#endif
