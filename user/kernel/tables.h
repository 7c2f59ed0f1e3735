/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_KERNEL_TABLES_H
#define BPFPROF_KERNEL_TABLES_H

/*
 * The tables of the walker in the kernel, filled on demand: mappings of processes, and unwind rows
 * page by page. BPF only reads them. A slice that is replaced during a search must never yield a
 * rule: its header (asid, generation) is cleared before the slice is freed, BPF compares the header
 * before and after, and the space rests for a while (arena.h). A full row arena evicts the page
 * that samples have not used for the longest time.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpfprof.h"

struct process;
struct session;
struct tables;

struct tables_counts {
	uint64_t pages_built, pages_evicted, pages_full; /* full: no room even after evicting */
	uint64_t mappings_full; /* processes whose mappings found no room */
};

/* State of a process in the maps of the kernel: `tables` of struct process. */
struct process_tables {
	bool published;
	uint32_t asid;
	uint32_t slice; /* first entry in the map mappings */
	uint32_t python_slots[BPFPROF_MAX_RUNTIMES]; /* elements of the map pythons, 0: none */
	uint32_t python_id; /* names all code objects of the process, 0: it has none */
	uint32_t python_old_id; /* the id before the last sweep: frames under way may have it */
	uint32_t async_id; /* python_id for which its asyncio was published */
	uint32_t async_tries; /* searches for its asyncio */
	bool has_asyncio; /* its library is mapped */
	size_t async_mappings; /* number of mappings when this was looked up */
	uint64_t async_due_ns; /* the next of them; once it was published: when */
	uint64_t async_samples; /* of Python since the last of them */
	uint32_t liveness_round; /* of kernel/liveness.c that checked the process last */
};

int tables_new(struct tables **ret, struct session *session);
void tables_free(struct tables *tables);

/* Publishes the mappings of process to the kernel, or withdraws them. 0 or -errno. */
int tables_publish(struct tables *tables, struct process *process, uint64_t now_ns);
/* Marks the process as a Ray worker, whatever its name becomes. */
void tables_set_ray(struct tables *tables, const struct process *process);
void tables_retire(struct tables *tables, struct process *process, uint64_t now_ns);
/* Was a range of the process mapped again since it was published? */
int tables_is_void(const struct tables *tables, const struct process *process);
/* The next new mapping sends an event again. */
void tables_watch(struct tables *tables, const struct process *process);

/*
 * Rows of a resident page, valid until the next tables_ call that adds one; NULL if it is not
 * resident.
 */
const uint64_t *tables_page(struct tables *tables, uint32_t image, uint32_t page, uint64_t now_ns,
			    uint32_t *ret_nr);
/* Makes a page resident until expire_ns (0 = for good). 0, -ENOSPC, -errno. */
int tables_page_add(struct tables *tables, uint32_t image, uint32_t page, const uint64_t *rows,
		    uint32_t nr, uint64_t now_ns, uint64_t expire_ns);
/* A walk used the page: keeps it from being evicted. */
void tables_page_used(struct tables *tables, uint32_t image, uint32_t page, uint64_t now_ns);

const struct tables_counts *tables_counts(const struct tables *tables);

#endif
