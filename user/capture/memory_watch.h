/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CAPTURE_MEMORY_WATCH_H
#define BPFPROF_CAPTURE_MEMORY_WATCH_H

/* Keeps a command that samples within its memory: it frees what can be read again from files. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct sampler;
struct self_usage;

struct memory_watch {
	struct sampler *sampler; /* NULL: no limit */
	uint64_t max_bytes; /* of anonymous memory */
	uint64_t next_ns;
};

/* budget: bytes of all memory, BPF maps included; self: the present usage. Borrows the started sampler. */
void memory_watch_begin(struct memory_watch *watch, struct sampler *sampler, uint64_t budget,
			const struct self_usage *self);
/*
 * Must be called often. reserved: bytes that the caller will use without asking for more. False: the memory is
 * over the limit although all caches are empty, so the caller keeps no further stacks.
 */
bool memory_watch_poll(struct memory_watch *watch, size_t reserved, uint64_t now_ns);
/*
 * The caller is about to fork a writer, which may take spare bytes more than the budget. Frees what can be read again
 * if the memory would not suffice for both. No job may run.
 */
void memory_watch_fork(struct memory_watch *watch, uint64_t spare);

#endif
