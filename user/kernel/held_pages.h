/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_KERNEL_HELD_PAGES_H
#define BPFPROF_KERNEL_HELD_PAGES_H

/*
 * The sample of pages that watched processes have allocated and not freed: bpf/page_sample.h says how
 * pages are chosen. The stacks of their allocations come with the stream. The kernel keeps at most
 * BPFPROF_MAX_HELD of them; before that many are held, the bytes per sample double and half of the pages
 * is dropped, so what is left is a fair sample.
 */

#include <stdbool.h>
#include <stdint.h>

#include "page_sample.h"

struct deadline_runner;
struct held_pages;
struct session;

/* A page that was allocated since the start, at the time of the look. */
struct held_page {
	uint64_t page, ts_ns; /* of its sample: `page` and the record's time */
	uint32_t pid;
	bool anon; /* anonymous memory; false: it has no use (yet) */
	bool copy; /* not a first touch */
	uint64_t bytes; /* that it stands for */
	uint64_t pages; /* large pages are one */
};

typedef void (*held_page_fn)(void *arg, const struct held_page *page);

/* The levels for so many bytes per sample at the first of them. */
void page_levels_fill(struct bpfprof_page_control *control, uint64_t sample_bytes);
/* The session must have the option `pages`. 0 or -errno. */
int held_pages_new(struct held_pages **ret, struct session *session, uint64_t sample_bytes);
void held_pages_free(struct held_pages *held); /* NULL is fine; detaches */
/* Pages are sampled from here on. 0; -ENOENT: the kernel lacks a tracepoint; or -errno. */
int held_pages_start(struct held_pages *held);
/* Has BPF gone a level up, so that a look is due at once? */
bool held_pages_are_many(const struct held_pages *held);
/* Pages of the sample that are held now, and some more before the next look. */
uint64_t held_pages_nr(const struct held_pages *held);
/* Drops pages over the level, and page cache and shared memory; reports all that are left. 0 or -errno. */
int held_pages_look(struct held_pages *held, held_page_fn fn, void *arg);
/* The page is not wanted, by its key. */
void held_pages_drop(struct held_pages *held, uint64_t page);
/* Frees of the memory that this process has now are seen from here on. 0 or -errno. */
int held_pages_old(struct held_pages *held, struct deadline_runner *runner, uint32_t pid);
/* Bytes of memory from before the start that the process has freed. `forget`: its pid may be reused. */
uint64_t held_pages_old_freed(const struct held_pages *held, uint32_t pid);
void held_pages_forget(struct held_pages *held, uint32_t pid);
/* A page of 4 KiB stands for so many bytes now. */
uint64_t held_pages_sample_bytes(const struct held_pages *held);
uint64_t held_pages_count(const struct held_pages *held, enum bpfprof_page_counter counter);

#endif
