/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_TESTS_MADE_PROFILE_H
#define BPFPROF_TESTS_MADE_PROFILE_H

/* Profiles made by hand, for the tests of the writers. Out of memory aborts. */

#include "profile/profile.h"

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>

/* 99 Hz, 10 s, host "node-1", 2024-01-31 12:00:00 UTC. */
struct profile *made_new(void);
void made_free(struct profile *profile);
uint32_t made_process(struct profile *profile, uint32_t pid, const char *comm, const char *cmdline);
/* In a pod, of Ray's unless ray_cluster is NULL. To be set as the process's container. */
uint32_t made_container(struct profile *profile, const char *id, const char *namespace,
			const char *pod, const char *name, const char *ray_cluster);
uint32_t made_mapping(struct profile *profile, const char *path, const char *build_id,
		      uint64_t start, uint64_t limit);
/* Indexes of locations. */
uint32_t made_python(struct profile *profile, const char *name, const char *file,
		     const char *short_file, uint32_t line, uint32_t start_line);
uint32_t made_native(struct profile *profile, const char *name, uint32_t mapping, uint64_t address);
uint32_t made_unknown(struct profile *profile, const char *name, uint32_t mapping,
		      uint64_t address);
uint32_t made_kernel(struct profile *profile, const char *name, uint64_t address);
uint32_t made_marker(struct profile *profile, const char *name);
uint32_t made_call(struct profile *profile, const char *name);
/* Leaf first. */
uint32_t made_stack(struct profile *profile, const uint32_t *locations, uint32_t nr);
/* value_ns is count * 10 ms. */
struct profile_sample *made_sample(struct profile *profile, uint32_t process, uint32_t stack,
				   uint64_t count);
/* A sample of one stack in one go. */
#define made_add(profile, process, count, ...)                                                     \
	made_sample(profile, process,                                                              \
		    made_stack(profile, (const uint32_t[]){ __VA_ARGS__ },                         \
			       sizeof((const uint32_t[]){ __VA_ARGS__ }) / sizeof(uint32_t)),      \
		    count)

/* Makes the sample that was made last one of a call; the first sample must be one, too. */
void made_call_sample(struct profile *profile, const struct profile_call *call,
		      const uint64_t values[PROFILE_NR_CALL_VALUES]);
/* Kernels and collectives under native, Python and no stacks, of processes with and without a rank. */
struct profile *made_calls(void);

/* The profile that the golden tests share: kernel, native, unknown, Python and marker frames. */
struct profile *made_golden(void);

/* Runs a writer and returns its output; the caller frees it. *ret_len may be NULL. */
struct output_options;
char *made_text(int (*write)(FILE *out, const struct profile *profile,
			     const struct output_options *options),
		const struct profile *profile, const struct output_options *options,
		size_t *ret_len);

/* Runs a shell command on input, gives what it printed to both streams; free(). */
char *made_run(const char *command, const void *input, size_t len, int *ret_status);

/* Reads a whole file; NULL if that fails. The caller frees it. */
char *made_read(const char *path, size_t *ret_len);

#endif
