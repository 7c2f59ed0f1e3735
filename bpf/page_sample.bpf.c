// SPDX-License-Identifier: GPL-2.0-only
/*
 * Resident memory: the stacks that allocate pages, and which of these pages are still in use.
 *
 * At its allocation a page is only a candidate: page cache and copies of pages are allocated alike,
 * and the page has no owner yet. Whether it became anonymous memory shows the mapping of its folio,
 * which the iterator page_looks reads later. page_allocated() and page_freed() run for every page of
 * the machine, so they first do what needs no look-up: page_sample.h says why the hash decides.
 */
#include "send.bpf.h"
#include "page_sample.h"

char LICENSE[] SEC("license") = "GPL";

/* These bits have had the same places since Linux 4.14 (include/linux/gfp_types.h). */
#define GFP_MOVABLE 8U
#define GFP_ZERO 0x100U
/* Lowest bit of folio->mapping (include/linux/page-flags.h). */
#define MAPPING_ANON 1UL

/*
 * See page_sample.h. Preallocated: nothing can be allocated while the kernel allocates. Key: address of the
 * struct page. Writer: BPF; user space deletes pages that are no memory of watched processes.
 */
MAP(held_pages, HASH, BPFPROF_MAX_HELD, __u64, struct bpfprof_held_page, 0);

/*
 * The processes that existed when the recording began, by the anon_vmas of their mappings: the mapping of an
 * anonymous page leads there. Key: address of a struct anon_vma, value: pid. Writer: BPF.
 */
MAP(old_mappings, HASH, 16384, __u64, __u32, 0);

/* Bytes of memory that processes had before the recording, and freed since. Key: pid. Writer: BPF. */
MAP(old_freed, HASH, 4096, __u32, __u64, 0);

/* See page_sample.h. */
MMAPABLE_MAP(page_control, 1, struct bpfprof_page_control);

enum pageflags___head {
	PG_head___head,
};

struct page___mapped {
	atomic_t _mapcount;
} __attribute__((preserve_access_index));

struct folio___6_9 {
	atomic_t _large_mapcount;
} __attribute__((preserve_access_index));

static __always_inline struct bpfprof_page_control *control_get(void)
{
	__u32 zero = 0;

	return bpf_map_lookup_elem(&page_control, &zero);
}

static __always_inline void page_count(struct bpfprof_page_control *control, __u32 counter)
{
	__sync_fetch_and_add(&control->count[counter], 1);
}

static __always_inline const struct bpfprof_page_level *
level_get(const struct bpfprof_page_control *control, __u32 level)
{
	return &control->levels[level & (BPFPROF_PAGE_LEVELS - 1)];
}

/* Shows the verifier the bound. */
static __always_inline __u32 order_bound(__u32 order)
{
	return order & (BPFPROF_PAGE_ORDERS - 1);
}

/* Half as many new pages from now on; user space thins out those in the map. */
static __always_inline void level_raise(struct bpfprof_page_control *control)
{
	__u32 kept = control->kept;

	if (kept < BPFPROF_PAGE_LEVELS - 1)
		__sync_val_compare_and_swap(&control->level, kept, kept + 1);
}

/* Enters the page. False: it is not in the sample after all. */
static __always_inline bool page_enter(struct bpfprof_page_control *control, __u64 page,
				       const struct bpfprof_held_page *value)
{
	if (!bpf_map_update_elem(&held_pages, &page, value, BPF_NOEXIST)) {
		if (__sync_fetch_and_add(&control->nr_held, 1) >= BPFPROF_HELD_HIGH)
			level_raise(control);
		return true;
	}
	if (bpf_map_update_elem(&held_pages, &page, value, BPF_EXIST)) {
		page_count(control, PAGE_COUNT_FULL);
		return false;
	}
	page_count(control, PAGE_COUNT_REPLACED);
	return true;
}

SEC("?raw_tp/mm_page_alloc")
int BPF_PROG(page_allocated, struct page *page, unsigned int order, unsigned int gfp)
{
	struct bpfprof_page_control *control;
	struct bpfprof_held_page value = { 0 };
	struct task_struct *task;
	struct unwind_reader *r;
	__u64 key = (__u64)page;

	if (!(gfp & GFP_MOVABLE) || !key)
		return 0;
	control = control_get();
	if (!control || page_hash(control->seed, key) >=
				level_get(control, control->level)->threshold[order_bound(order)])
		return 0;
	task = bpf_get_current_task_btf();
	if (task->flags & PF_KTHREAD || !task->mm || (cfg.filter && !target_find(task->tgid)))
		return 0;
	r = scratch_take();
	if (!r) {
		page_count(control, PAGE_COUNT_BUSY);
		return 0;
	}
	sample_fill(r, task, 0, BPFPROF_SAMPLE_PAGE);
	value.ts_ns = r->rec.sample.rec.ts_ns;
	value.pid = task->tgid;
	value.order = order_bound(order);
	value.flags = order || gfp & GFP_ZERO ? 0 : BPFPROF_PAGE_COPY;
	if (page_enter(control, key, &value)) {
		page_count(control, PAGE_COUNT_SAMPLED);
		r->rec.sample.page = key;
		stack_walk(r, task);
		sample_send(r, task);
	}
	r->busy = 0;
	return 0;
}

static __always_inline __u64 mapping_of(__u64 page)
{
	struct address_space *mapping = NULL;

	BPF_CORE_READ_INTO(&mapping, (struct folio *)page, mapping);
	return (__u64)mapping;
}

/*
 * A page of the sample is freed that was not allocated since the recording began, or by an unwatched
 * process. The thread may free pages of other processes, since each CPU keeps some pages for a while, and the
 * kernel's threads free pages that they have copied elsewhere. So owner and thread must agree.
 */
static __always_inline void old_free(struct bpfprof_page_control *control, __u64 bytes, __u64 page)
{
	struct task_struct *task = bpf_get_current_task_btf();
	__u32 pid = task->tgid, *owner;
	__u64 mapping, *sum;

	if (task->flags & PF_KTHREAD || (cfg.filter && !target_find(pid)))
		return;
	mapping = mapping_of(page);
	if (!(mapping & MAPPING_ANON))
		return;
	mapping -= MAPPING_ANON;
	owner = bpf_map_lookup_elem(&old_mappings, &mapping);
	if (!owner || *owner != pid)
		return;
	sum = bpf_map_lookup_elem(&old_freed, &pid);
	if (sum)
		__sync_fetch_and_add(sum, bytes);
	else if (bpf_map_update_elem(&old_freed, &pid, &bytes, BPF_NOEXIST))
		page_count(control, PAGE_COUNT_OLD_FULL);
}

static __always_inline void page_moved_send(__u64 page)
{
	struct bpfprof_held_page *held = bpf_map_lookup_elem(&held_pages, &page);
	struct bpfprof_page_moved *e;

	if (!held)
		return;
	e = bpf_ringbuf_reserve(&ring, sizeof(*e), 0);
	if (!e) {
		count_add(BPFPROF_COUNT_EVENT_LOST, 1);
		return;
	}
	record_fill(&e->rec, BPFPROF_KIND_PAGE_MOVED, sizeof(*e));
	e->page = page;
	e->ts_ns = held->ts_ns;
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
}

SEC("?raw_tp/mm_page_free")
int BPF_PROG(page_freed, struct page *page, unsigned int order)
{
	struct bpfprof_page_control *control = control_get();
	const struct bpfprof_page_level *level;
	__u64 key = (__u64)page;
	__u32 hash;

	if (!control)
		return 0;
	order = order_bound(order);
	hash = page_hash(control->seed, key);
	if (hash >= level_get(control, control->kept)->threshold[order])
		return 0;
	if (bpf_get_current_task_btf()->flags & PF_KTHREAD)
		page_moved_send(key);
	if (!bpf_map_delete_elem(&held_pages, &key)) {
		__sync_fetch_and_sub(&control->nr_held, 1);
		page_count(control, PAGE_COUNT_FREED);
		return 0;
	}
	/* A page between both thresholds may also be a new one that was not entered. */
	level = level_get(control, control->level);
	if (hash < level->threshold[order])
		old_free(control, level->bytes[order], key);
	return 0;
}

static __always_inline void old_mapping_add(struct anon_vma *anon_vma, __u32 pid)
{
	struct bpfprof_page_control *control = control_get();
	__u64 key = (__u64)anon_vma;

	if (control && key && bpf_map_update_elem(&old_mappings, &key, &pid, BPF_ANY))
		page_count(control, PAGE_COUNT_OLD_FULL);
}

/* Fills the map old_mappings; writes nothing. */
SEC("?iter/task_vma")
int old_mappings_read(struct bpf_iter__task_vma *ctx)
{
	struct vm_area_struct *vma = ctx->vma;
	struct task_struct *task = ctx->task;
	struct anon_vma *anon_vma;

	if (!vma || !task)
		return 0;
	anon_vma = vma->anon_vma;
	old_mapping_add(anon_vma, task->tgid);
	if (anon_vma) /* pages that it had from its ancestor at a fork */
		old_mapping_add(BPF_CORE_READ(anon_vma, root), task->tgid);
	return 0;
}

/* Is it mapped, or does the swap cache have it alone? Counts begin at -1. Before 6.9 that of large folios is not known. */
static __always_inline bool is_mapped(__u64 page, __u32 order)
{
	int count = 0;

	if (!order)
		BPF_CORE_READ_INTO(&count, (struct page___mapped *)page, _mapcount.counter);
	else if (bpf_core_field_exists(struct folio___6_9, _large_mapcount))
		BPF_CORE_READ_INTO(&count, (struct folio___6_9 *)page, _large_mapcount.counter);
	return count >= 0;
}

struct split {
	__u64 page, mapping;
	__u32 nr;
};

static long split_count(__u32 i, struct split *split)
{
	__u64 page = split->page + i * bpf_core_type_size(struct page);

	split->nr += mapping_of(page) == split->mapping && is_mapped(page, 0);
	return 0;
}

/* Is this still the first page of a large folio? */
static __always_inline bool is_head(__u64 page)
{
	__u64 flags = 0;

	/* The flags come first: a number, or since 6.18 a struct of one. */
	bpf_probe_read_kernel(&flags, sizeof(flags), (void *)page);
	return flags >> bpf_core_enum_value(enum pageflags___head, PG_head___head) & 1;
}

/* What the page is used for. Writes down the mapping that it has when it is first found in use. */
static __always_inline __u32 use_of(__u64 page, struct bpfprof_held_page *held)
{
	__u64 mapping = mapping_of(page);

	if (!held->mapping)
		held->mapping = mapping;
	if (!held->mapping)
		return PAGE_USE_NONE;
	if (mapping != held->mapping) /* a freed page has none */
		return PAGE_USE_OTHER;
	if (!(mapping & MAPPING_ANON))
		return PAGE_USE_FILE;
	return is_mapped(page, held->order) ? PAGE_USE_ANON : PAGE_USE_NONE;
}

/* Writes a struct bpfprof_page_look for each page of the map held_pages. */
SEC("?iter/bpf_map_elem")
int page_looks(struct bpf_iter__bpf_map_elem *ctx)
{
	struct bpfprof_held_page *held = ctx->value;
	struct bpfprof_page_look look = { 0 };
	struct split split = { 0 };
	__u64 *key = ctx->key;

	if (!key || !held)
		return 0;
	look.page = *key;
	look.ts_ns = held->ts_ns;
	look.pid = held->pid;
	look.order = held->order;
	look.flags = held->flags;
	look.use = use_of(look.page, held);
	if (look.order && !is_head(look.page)) { /* it was split: its pages are freed one by one */
		split.page = look.page;
		split.mapping = held->mapping;
		if (split.mapping)
			bpf_loop(1U << look.order, split_count, &split, 0);
		/* No branch may depend on the number, or the verifier checks a path for each. */
		look.flags |= BPFPROF_PAGE_SPLIT;
		look.nr_left = split.nr;
	}
	bpf_seq_write(ctx->meta->seq, &look, sizeof(look));
	return 0;
}
