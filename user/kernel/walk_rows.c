// SPDX-License-Identifier: Apache-2.0
#include "kernel/walk_rows.h"

#include <errno.h>

#include "base/background.h"
#include "base/refusals.h"
#include "base/sorted.h"
#include "base/time.h"
#include "kernel/image_copy.h"
#include "kernel/tables.h"
#include "kernel/walk.h"
#include "proc/images.h"
#include "proc/processes.h"
#include "unwind/cfi.h"
#include "unwind/reader.h"
#include "bpfprof.h"
#include "unwind_native.h"

/* 1/BUILD_SHARE of the time may go into building pages, if they evict each other. */
#define BUILD_SHARE 4
#define BUILD_SAVED_NS (2 * NS_PER_SECOND)
/*
 * A step by the rules of a real file takes 1 to 10 us: the limit allows at least 25000 a second,
 * and 100000 at once.
 */
#define STEP_SHARE 4
#define STEP_SAVED_NS NS_PER_SECOND
#define PREFETCH_PAGES 3
#define UNREADABLE_NS (5 * NS_PER_SECOND)
#define UNPROVEN_NS (30 * NS_PER_SECOND) /* another stack may prove the rule */

/* Opens the image, if need be from the memory of a process: a stack goes through it. */
static int cfi_open(struct walker *walker, struct image *image, uint64_t now_ns)
{
	int err = images_open_cfi(walker->images, image, now_ns);

	if (err == -EIO && image_copy_wanted(image, now_ns)) {
		image_copy_open(&walker->copies, image, now_ns);
		err = images_open_cfi(walker->images, image, now_ns);
	}
	image_copy_names(image);
	return err;
}

int rows_build(struct walker *walker, struct image *image, uint32_t page, uint64_t now_ns)
{
	uint64_t unreadable = unwind_row_make(0, ROW_UNREADABLE, 0, 0, 0, 0, 0);
	uint64_t *rows = walker->row_buffer, expire_ns = 0;
	int nr = cfi_open(walker, image, now_ns), i;

	if (!nr) {
		nr = cfi_build_page(image->cfi, page, rows);
		if (nr < 0 && nr != -ENODATA)
			images_fail(walker->images, image, nr, now_ns);
	}
	if (nr == -ENODATA || (nr == -EIO && image->problem == IMAGE_NOT_ELF)) {
		nr = 0; /* code of another machine, or no ELF file: only frame pointers remain */
	} else if (nr < 0) {
		rows[0] = unreadable;
		nr = 1;
		expire_ns = image->retry_ns > now_ns ? image->retry_ns : now_ns + UNREADABLE_NS;
	}
	for (i = 0; i < nr && !expire_ns; i++)
		if (unwind_row_kind(rows[i]) == ROW_UNPROVEN)
			expire_ns = now_ns + UNPROVEN_NS;
	/* The walk goes on if the kernel's arena is full. */
	tables_page_add(walker->tables, image->id, page, rows, (uint32_t)nr, now_ns, expire_ns);
	return nr;
}

void rows_prefetch(struct walker *walker, struct image *image, const struct process_mapping *m,
		   uint64_t now_ns)
{
	uint32_t page = (uint32_t)(m->off >> BPFPROF_PAGE_SHIFT), nr;
	uint32_t last = (uint32_t)((m->off + (m->end - m->start) - 1) >> BPFPROF_PAGE_SHIFT);

	/* A dump has no kernel that needs rows, and builds those of the stacks that it walks. */
	if (last - page >= PREFETCH_PAGES || !walker->python_maps)
		return;
	for (; page <= last; page++)
		if (image->state == IMAGE_OPEN &&
		    !tables_page(walker->tables, image->id, page, now_ns, &nr))
			rows_build(walker, image, page, now_ns);
}

uint64_t rows_find(const uint64_t *rows, uint32_t nr, uint32_t low, bool exact)
{
	size_t lo = sorted_count(nr, i, unwind_row_low(rows[i]) <= low);
	uint64_t row;

	if (!lo)
		return unwind_row_make(0, ROW_NONE, 0, 0, 0, 0, UNWIND_LOOKED_AT);
	row = rows[lo - 1];
	if (!exact && lo < nr && unwind_row_starts_stack(row, low, unwind_row_low(rows[lo])))
		return unwind_row_make(0, ROW_END, 0, 0, 0, 0, 0);
	return row;
}

uint64_t rows_look_up(struct walker *walker, struct image *image, uint64_t off, bool exact,
		      uint64_t now_ns)
{
	uint32_t page = (uint32_t)(off >> BPFPROF_PAGE_SHIFT), nr = 0;
	uint64_t start_ns;
	const uint64_t *rows = tables_page(walker->tables, image->id, page, now_ns, &nr);

	if (!rows) {
		if (!budget_allows(budget_of(&walker->building, background_tenant()), BUILD_SHARE,
				   BUILD_SAVED_NS, time_monotonic_ns())) {
			refusals_count(walker->refusals, background_tenant(), REFUSAL_WALK);
			return 0;
		}
		start_ns = time_thread_cpu_ns();
		if (image->cfi)
			cfi_forget_unproven(image->cfi, page);
		nr = (uint32_t)rows_build(walker, image, page, now_ns);
		budget_spend(budget_of(&walker->building, background_tenant()),
			     time_thread_cpu_ns() - start_ns);
		rows = walker->row_buffer;
	}
	return rows_find(rows, nr, off & 0xffff, exact);
}

bool rules_allowed(struct walker *walker)
{
	bool allowed = budget_allows(budget_of(&walker->stepping, background_tenant()), STEP_SHARE,
				     STEP_SAVED_NS, time_monotonic_ns());

	if (!allowed)
		refusals_count(walker->refusals, background_tenant(), REFUSAL_WALK);
	return allowed;
}

uint32_t rules_step(struct walker *walker, struct image *image, uint64_t off,
		    struct unwind_state *state, struct unwind_reader *reader, uint64_t now_ns)
{
	uint32_t stop = BPFPROF_STOP_MISS_FILE;
	uint64_t start_ns;

	if (!rules_allowed(walker))
		return BPFPROF_STOP_MISS_RATE;
	start_ns = time_thread_cpu_ns();
	if (!images_open_cfi(walker->images, image, now_ns))
		stop = (uint32_t)cfi_step(image->cfi, off, state, reader);
	budget_spend(budget_of(&walker->stepping, background_tenant()),
		     time_thread_cpu_ns() - start_ns);
	return stop;
}
