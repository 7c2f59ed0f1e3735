/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_THREADS_FRAME_NAMES_H
#define BPFPROF_THREADS_FRAME_NAMES_H

/*
 * Gives the frames of a dump that have none their names, the same that `record` gives them.
 */

#include <stdbool.h>
#include <stdint.h>

struct codes;
struct deadline_runner;
struct dump;
struct images;
struct profile_location;
struct stats_reasons;
struct strtab;
struct thread_frame;

struct dump_names_options {
	bool kernel; /* kernel frames are named too: reading their symbols takes its time */
	bool sampled; /* frames of threads that were sampled; else those of all the others */
	struct codes *codes; /* what Python frames of samples refer to; NULL: there are none */
	struct deadline_runner *runner;
	uint64_t now_ns;
	uint64_t deadline_ns; /* as in symbolize.h */
};

/* 0 or -ENOMEM. *kernel_hidden: kernel addresses cannot be seen. files: problems on the way. */
int dump_names(struct dump *dump, struct images *images, const struct dump_names_options *options,
	       struct stats_reasons *files, int *kernel_hidden);

#endif
