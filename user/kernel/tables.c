// SPDX-License-Identifier: Apache-2.0
#include "kernel/tables.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/hash_table.h"
#include "kernel/arena.h"
#include "kernel/session.h"
#include "proc/processes.h"
#include "bpfprof.skel.h"

#define MIN_ROWS 64
#define MIN_MAPPINGS 8
#define PAGE_SIZE_SHIFT 12

struct page {
	struct hash_node node;
	struct bpfprof_page_key key;
	struct bpfprof_page value;
	uint64_t used_ns;
	uint64_t expire_ns;
};

struct tables {
	struct session *session;
	struct arena *rows, *mappings;
	struct hash_table pages; /* least recently used first */
	uint64_t next_generation;
	uint32_t next_asid;
	struct tables_counts counts;
};

int tables_new(struct tables **ret, struct session *session)
{
	struct tables *tables = calloc(1, sizeof(*tables));
	uint32_t max_pages = bpf_map__max_entries(session->skel->maps.pages);
	int err;

	if (!tables)
		return -ENOMEM;
	tables->session = session;
	hash_table_init(&tables->pages, max_pages - max_pages / 32, struct page, key);
	tables->next_generation = 1;
	tables->next_asid = 1;
	err = arena_new(&tables->rows, session->nr_rows, MIN_ROWS);
	if (!err)
		err = arena_new(&tables->mappings, session->nr_mappings, MIN_MAPPINGS);
	if (err) {
		tables_free(tables);
		return err;
	}
	*ret = tables;
	return 0;
}

void tables_free(struct tables *tables)
{
	if (!tables)
		return;
	hash_table_clear(&tables->pages);
	arena_free(tables->rows);
	arena_free(tables->mappings);
	free(tables);
}

const struct tables_counts *tables_counts(const struct tables *tables)
{
	return &tables->counts;
}

/* Mappings. */

static void slice_clear(struct tables *tables, uint32_t slice, uint64_t now_ns)
{
	__atomic_store_n(&tables->session->mappings[slice].image, 0, __ATOMIC_SEQ_CST);
	arena_give(tables->mappings, slice, now_ns);
}

static void mapping_store(struct bpfprof_mapping *dst, const struct process_mapping *src)
{
	uint64_t pages = (src->end - src->start) >> PAGE_SIZE_SHIFT;

	dst->start = src->start;
	dst->off = src->off;
	dst->nr_pages = pages > UINT32_MAX ? UINT32_MAX : (uint32_t)pages;
	dst->image = (uint32_t)src->image;
}

int tables_publish(struct tables *tables, struct process *process, uint64_t now_ns)
{
	uint32_t old = process->tables->slice, nr = (uint32_t)process->nr_mappings, i;
	bool had_one = process->tables->published;
	struct bpfprof_mapping *slice;
	struct bpfprof_proc value;
	int64_t first;
	int err;

	first = arena_take(tables->mappings, nr + 1, now_ns);
	if (first < 0) {
		/*
		 * The published mappings are out of date, so they are withdrawn: a miss is better.
		 */
		tables_retire(tables, process, now_ns);
		tables->counts.mappings_full++;
		return (int)first;
	}
	if (!tables->next_asid)
		tables->next_asid = 1;
	value = (struct bpfprof_proc){
		.start_ns = process->start_ns,
		.exec_id = process->exec_id,
		.asid = tables->next_asid++,
		.first = (uint32_t)first,
		.nr = nr,
		.python = process->tables->python_slots[0],
		.flags = process->title ? BPFPROF_PROC_RAY : 0,
	};
	slice = tables->session->mappings + first;
	slice[0].start = 0;
	slice[0].off = 0;
	slice[0].nr_pages = 0;
	for (i = 0; i < nr; i++)
		mapping_store(&slice[i + 1], &process->mappings[i]);
	__atomic_store_n(&slice[0].image, value.asid, __ATOMIC_SEQ_CST);
	err = session_map_set(tables->session->skel->maps.procs, &process->pid, &value);
	if (err) {
		slice_clear(tables, (uint32_t)first, now_ns);
		tables_retire(tables, process, now_ns);
		tables->counts.mappings_full++;
		return err;
	}
	process->tables->published = true;
	process->tables->asid = value.asid;
	process->tables->slice = (uint32_t)first;
	if (had_one)
		slice_clear(tables, old, now_ns);
	return 0;
}

void tables_set_ray(struct tables *tables, const struct process *process)
{
	int fd = bpf_map__fd(tables->session->skel->maps.procs);
	struct bpfprof_proc value;

	if (!process->tables->published || bpf_map_lookup_elem(fd, &process->pid, &value))
		return;
	value.flags |= BPFPROF_PROC_RAY;
	if (bpf_map_update_elem(fd, &process->pid, &value, BPF_EXIST))
		return; /* the next sample with a title sets it by name */
}

void tables_retire(struct tables *tables, struct process *process, uint64_t now_ns)
{
	if (!process->tables->published)
		return;
	session_map_delete(tables->session->skel->maps.procs, &process->pid);
	slice_clear(tables, process->tables->slice, now_ns);
	process->tables->published = false;
	process->tables->asid = 0;
}

int tables_is_void(const struct tables *tables, const struct process *process)
{
	return !process->tables->published ||
	       __atomic_load_n(&tables->session->mappings[process->tables->slice].start,
			       __ATOMIC_SEQ_CST);
}

void tables_watch(struct tables *tables, const struct process *process)
{
	if (process->tables->published)
		__atomic_store_n(&tables->session->mappings[process->tables->slice].off, 0,
				 __ATOMIC_SEQ_CST);
}

/* Pages of rows. */

static void page_remove(struct tables *tables, struct page *page, uint64_t now_ns)
{
	session_map_delete(tables->session->skel->maps.pages, &page->key);
	if (page->value.nr) {
		__atomic_store_n(&tables->session->rows[page->value.first], 0, __ATOMIC_SEQ_CST);
		arena_give(tables->rows, page->value.first, now_ns);
	}
	hash_table_remove(&tables->pages, page);
}

static struct page *page_find(struct tables *tables, uint32_t image, uint32_t page_nr)
{
	struct bpfprof_page_key key = { .image = image, .page = page_nr };

	return hash_table_find(&tables->pages, &key);
}

static void page_touch(struct tables *tables, struct page *page, uint64_t now_ns)
{
	if (page->used_ns == now_ns)
		return;
	page->used_ns = now_ns;
	hash_table_touch(&tables->pages, page);
}

const uint64_t *tables_page(struct tables *tables, uint32_t image, uint32_t page_nr,
			    uint64_t now_ns, uint32_t *ret_nr)
{
	static const uint64_t no_rows;
	struct page *page = page_find(tables, image, page_nr);

	if (!page)
		return NULL;
	if (page->expire_ns && now_ns >= page->expire_ns) {
		page_remove(tables, page, now_ns);
		return NULL;
	}
	page_touch(tables, page, now_ns);
	*ret_nr = page->value.nr;
	return page->value.nr ? tables->session->rows + page->value.first + 1 : &no_rows;
}

void tables_page_used(struct tables *tables, uint32_t image, uint32_t page_nr, uint64_t now_ns)
{
	struct page *page = page_find(tables, image, page_nr);

	if (page && page->expire_ns && now_ns >= page->expire_ns)
		page_remove(tables, page, now_ns); /* the next walk misses and builds it again */
	else if (page)
		page_touch(tables, page, now_ns);
}

static int64_t rows_take(struct tables *tables, uint32_t nr, uint64_t now_ns)
{
	uint32_t evicted = 0, wanted = nr;
	int64_t first = arena_take(tables->rows, nr, now_ns);
	struct page *oldest;

	/*
	 * An evicted slice rests before its reuse. So evict as many as requested; a later sample
	 * brings the page into the kernel.
	 */
	while (first < 0 && tables->pages.nr && evicted < wanted) {
		oldest = (void *)tables->pages.oldest;
		evicted += oldest->value.nr;
		tables->counts.pages_evicted++;
		page_remove(tables, oldest, now_ns);
		first = arena_take(tables->rows, nr, now_ns);
	}
	return first;
}

int tables_page_add(struct tables *tables, uint32_t image, uint32_t page_nr, const uint64_t *rows,
		    uint32_t nr, uint64_t now_ns, uint64_t expire_ns)
{
	struct bpfprof_page_key key = { .image = image, .page = page_nr };
	struct page *page = hash_table_find(&tables->pages, &key);
	int64_t first = 0;
	uint64_t *slice;
	uint32_t i;

	if (page)
		page_remove(tables, page, now_ns);
	while (tables->pages.nr && tables->pages.nr >= tables->pages.max) {
		tables->counts.pages_evicted++;
		page_remove(tables, (void *)tables->pages.oldest, now_ns);
	}
	if (nr) {
		first = rows_take(tables, nr + 1, now_ns);
		if (first < 0) {
			tables->counts.pages_full++;
			return (int)first;
		}
	}
	page = hash_table_add(&tables->pages, &key);
	if (!page) {
		if (nr)
			arena_give(tables->rows, (uint32_t)first, now_ns);
		return -ENOMEM;
	}
	page->value = (struct bpfprof_page){ .first = (uint32_t)first,
					     .nr = nr,
					     .generation = tables->next_generation++ };
	page->used_ns = now_ns;
	page->expire_ns = expire_ns;
	if (nr) {
		slice = tables->session->rows + first;
		for (i = 0; i < nr; i++)
			__atomic_store_n(&slice[i + 1], rows[i], __ATOMIC_RELAXED);
		__atomic_store_n(&slice[0], page->value.generation, __ATOMIC_SEQ_CST);
	}
	tables->counts.pages_built++;
	if (session_map_set(tables->session->skel->maps.pages, &page->key, &page->value)) {
		page_remove(tables, page, now_ns);
		return -ENOSPC;
	}
	return 0;
}
