// SPDX-License-Identifier: Apache-2.0
#include "kernel/walk.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/time.h"
#include "bpfprof.h"
#include "elf/image.h"
#include "kernel/anon_code.h"
#include "kernel/image_copy.h"
#include "kernel/memory.h"
#include "kernel/python_maps.h"
#include "kernel/remapped.h"
#include "kernel/session.h"
#include "kernel/tables.h"
#include "kernel/vmas.h"
#include "proc/images.h"
#include "proc/origins.h"
#include "proc/processes.h"
#include "proc/title.h"
#include "proc/usage.h"
#include "python/layout.h"
#include "python/pythons.h"
#include "unwind/cfi.h"
#include "unwind/code_rules.h"
#include "unwind/reader.h"
#include "unwind_native.h"

/*
 * A process with very many mappings is read less often than its samples ask for: 2% of the
 * time may go into that. An ordinary one takes some 50 us and is read at once.
 */
#define REFRESH_DEAR_NS 1000000ULL
#define REFRESH_DEAR_FACTOR 50
#define READ_SHARE                                                                                 \
	10 /* of the time may go into reading mappings, saved up to a tenth of a second */
#define BUILD_SHARE 4 /* and into building pages, where they push each other out */
#define BUILD_SAVED_NS (2 * NS_PER_SECOND)
/*
 * Code that is learned costs a page built anew each time, whose old slice must rest: 5% of
 * the time at most, and no more than 5000 pieces at once and 500 a second from then on.
 */
#define LEARN_SHARE 20
#define LEARN_SAVED_NS (NS_PER_SECOND / 2)
#define LEARN_MIN_NS 100000ULL
#define PREFETCH_PAGES 3
#define UNREADABLE_NS (5 * NS_PER_SECOND)
#define UNPROVEN_NS (30 * NS_PER_SECOND) /* another stack may prove what this one did not */
#define STACK_PAGE_BYTES 4096
#define CALL_BYTES 8 /* of the longest call instruction */
#define SIGNAL_RETURN_BYTES 9 /* mov $15,%rax; syscall */
#define MAX_FRAME_SEARCH 16384 /* bytes of one frame that are searched for return addresses */
#define MAX_STARTS 16 /* calls on the stack that may have led to a place in code */

#define HELD_WORDS                                                                                 \
	512 /* of the C frame of a call of the eval loop; without optimization it has 200 */
#define HELD_AHEAD 256 /* frames that no call runs, between two calls */

int walker_init(struct walker *walker)
{
	walker->row_buffer = malloc(CFI_PAGE_MAX_ROWS * sizeof(*walker->row_buffer));
	if (!walker->row_buffer)
		return -ENOMEM;
	return anon_code_new(&walker->anon_code, walker->session, walker->runner);
}

void walker_fini(struct walker *walker)
{
	free(walker->row_buffer);
	walker->row_buffer = NULL;
	anon_code_free(walker->anon_code);
	walker->anon_code = NULL;
}

/* Mappings as the iterator brings them. */
struct collected {
	struct images *images;
	struct process_mapping *mappings;
	size_t nr, cap;
	struct bpfprof_task_id task;
	struct bpfprof_place place;
	struct bpfprof_origin origin;
	uint32_t own_pid; /* as we know it */
	uint64_t program_va; /* where what exec started begins, 0: not told */
	bool too_many;
};

static struct process_mapping mapping_of(struct images *images, uint32_t pid,
					 const struct bpfprof_vma *vma, const char *path)
{
	struct image *image = images_get(images, images_add(images, vma, path));
	struct process_mapping mapping = {
		.start = vma->start,
		.end = vma->end,
		.off = vma->flags & BPFPROF_VMA_VDSO ? 0 : vma->off,
		.image = image->id,
	};

	image->pid = pid;
	if (image_is_made_code(image))
		mapping.image = BPFPROF_IMAGE_NONE;
	return mapping;
}

static void collect(void *arg, const struct bpfprof_vma_record *record, const char *path)
{
	struct collected *c = arg;
	struct process_mapping *tmp;
	size_t cap;

	c->task = record->task;
	c->place = record->place;
	c->origin = record->origin;
	if (record->vma.flags & BPFPROF_VMA_DATA) /* left over from a pass that hung */
		return;
	if (c->nr >= PROCESS_MAX_MAPPINGS) {
		c->too_many = true;
		return;
	}
	if (c->nr == c->cap) {
		cap = c->cap ? c->cap * 2 : 64;
		tmp = realloc(c->mappings, cap * sizeof(*tmp));
		if (!tmp) {
			c->too_many = true;
			return;
		}
		c->mappings = tmp;
		c->cap = cap;
	}
	c->mappings[c->nr++] = mapping_of(c->images, c->own_pid, &record->vma, path);
	if (record->vma.flags & BPFPROF_VMA_PROGRAM)
		c->program_va = record->vma.start;
}

/* Builds the rows of a page and makes them resident; what cannot be had becomes a row that says so. */
static int page_build(struct walker *walker, struct image *image, uint32_t page, uint64_t now_ns)
{
	uint64_t unreadable = unwind_row_make(0, ROW_UNREADABLE, 0, 0, 0, 0, 0);
	uint64_t *rows = walker->row_buffer, expire_ns = 0;
	int nr = images_open_cfi(walker->images, image, now_ns), i;

	if (!nr) {
		nr = cfi_build_page(image->cfi, page, rows);
		if (nr < 0 && nr != -ENODATA)
			images_fail(walker->images, image, nr, now_ns);
	}
	if (nr == -ENODATA || (nr == -EIO && image->problem == IMAGE_NOT_ELF)) {
		nr = 0; /* code of another machine, or of no ELF file: frame pointers are all there is */
	} else if (nr < 0) {
		rows[0] = unreadable;
		nr = 1;
		expire_ns = now_ns + UNREADABLE_NS;
	}
	for (i = 0; i < nr && !expire_ns; i++)
		if (unwind_row_kind(rows[i]) == ROW_UNPROVEN)
			expire_ns = now_ns + UNPROVEN_NS;
	/* No room in the kernel's arena is no reason not to finish this walk. */
	tables_page_add(walker->tables, image->id, page, rows, (uint32_t)nr, now_ns, expire_ns);
	return nr;
}

/* Small programs are made resident at once: their few pages cost less than their first misses. */
static void prefetch(struct walker *walker, struct image *image, const struct process_mapping *m,
		     uint64_t now_ns)
{
	uint32_t page = (uint32_t)(m->off >> BPFPROF_PAGE_SHIFT), nr;
	uint32_t last = (uint32_t)((m->off + (m->end - m->start) - 1) >> BPFPROF_PAGE_SHIFT);

	if (last - page >= PREFETCH_PAGES)
		return;
	for (; page <= last; page++)
		if (image->state == IMAGE_OPEN &&
		    !tables_page(walker->tables, image->id, page, now_ns, &nr))
			page_build(walker, image, page, now_ns);
}

/* True: it was tried in vain now, and memory may have it. */
static bool image_try(struct walker *walker, struct image *image, uint64_t now_ns)
{
	bool due = image->state == IMAGE_UNOPENED ||
		   (image->state == IMAGE_FAILED && now_ns >= image->retry_ns);

	if (due)
		images_open(walker->images, image, now_ns);
	return due && image_copy_wanted(image);
}

/* Is it a Python? If so, and it is new, the kernel is told where it has its eval loop. */
static int python_look(struct walker *walker, struct image *image)
{
	const struct python_range *ranges;
	size_t nr = pythons_holding_ranges(walker->pythons, image->id, &ranges);
	int err = nr ? 0 : pythons_look(walker->pythons, image);

	if (nr || err)
		return err;
	nr = pythons_holding_ranges(walker->pythons, image->id, &ranges);
	if (nr && python_maps_evals(walker->python_maps, image->id, ranges, nr))
		walker->pythons_too_many++;
	return 0;
}

/* Files are opened when they are first mapped: they may be gone when they are needed. */
static void open_images(struct walker *walker, const struct process *process,
			struct process_mapping *mappings, size_t nr, uint64_t now_ns)
{
	struct image *image;
	uint64_t cost_ns;
	bool wanted = false;
	size_t i;

	for (i = 0; i < nr; i++) {
		image = images_get(walker->images, (uint32_t)mappings[i].image);
		if (!image || image->id == BPFPROF_IMAGE_NONE)
			continue;
		image->used_ns = now_ns;
		wanted |= image_try(walker, image, now_ns);
	}
	if (wanted) {
		image_copies_take(walker->images, walker->session, walker->runner, process, now_ns,
				  &cost_ns);
		budget_spend(&walker->reading, cost_ns);
	}
	for (i = 0; i < nr; i++) {
		image = images_get(walker->images, (uint32_t)mappings[i].image);
		if (image && image_is_made_code(image))
			mappings[i].image = BPFPROF_IMAGE_NONE;
	}
}

static void look_at_images(struct walker *walker, struct process *process, uint64_t now_ns)
{
	struct image *image;
	size_t i;
	int err;

	process->images_failed = false;
	for (i = 0; i < process->nr_mappings; i++) {
		image = images_get(walker->images, (uint32_t)process->mappings[i].image);
		if (!image || image->id == BPFPROF_IMAGE_NONE)
			continue;
		err = python_look(walker, image);
		if (err)
			images_fail(walker->images, image, err, now_ns);
		process->images_failed |= image->state == IMAGE_FAILED;
		prefetch(walker, image, &process->mappings[i], now_ns);
	}
}

int walker_publish(struct walker *walker, struct process *process, uint64_t now_ns)
{
	if ((process->nr_pythons || process->python_slots[0]) &&
	    python_maps_set(walker->python_maps, process, now_ns) == -ENOSPC)
		walker->pythons_too_many++;
	return tables_publish(walker->tables, process, now_ns);
}

static uint32_t own_pid(const struct walker *walker, const struct process *process)
{
	return session_own_pid(walker->session, process->pid, process->place.agent_pid);
}

/*
 * Workers are known by the name of their main thread, which some libraries change while a task
 * runs (PyTorch: pt_main_thread): the title shows what such a one is.
 */
static void title_look(struct walker *walker, struct process *process)
{
	uint32_t pid = own_pid(walker, process);
	char cmdline[TITLE_MAX + 9]; /* and whether there is more */

	if (!process->title && pid &&
	    !proc_cmdline_read(walker->runner, cmdline, sizeof(cmdline), (pid_t)pid))
		process_title_set(process, cmdline, strlen(cmdline));
}

static bool is_loader(const struct image *image)
{
	const char *base = strrchr(image->path, '/');

	return base && (!strncmp(base, "/ld-", 4) || !strncmp(base, "/ld.so", 6));
}

/*
 * The file of the program. `ld.so PROGRAM` starts the loader, which maps the program before all libraries:
 * at its own address if that is low, or else next below itself, as mmap goes downwards.
 */
static uint32_t program_find(const struct walker *walker, const struct process *process,
			     const struct process_mapping *found)
{
	const struct process_mapping *first = process->mappings, *at;
	const struct image *image =
		found ? images_get(walker->images, (uint32_t)found->image) : NULL;

	if (!image || image->id < BPFPROF_IMAGE_FIRST_FILE)
		return 0;
	if (!is_loader(image))
		return image->id;
	if (first->end <= UINT32_MAX && first->image >= BPFPROF_IMAGE_FIRST_FILE)
		return (uint32_t)first->image;
	for (at = found; at-- > first;)
		if (at->image >= BPFPROF_IMAGE_FIRST_FILE && at->image != image->id)
			return (uint32_t)at->image;
	return image->id;
}

static void root_take(void *arg, const struct bpfprof_vma_record *record, const char *path)
{
	char **root = arg;

	if (!*root && path[0] == '/')
		*root = strdup(path);
	(void)record;
}

/* Keeps in mind where its files lie: asked for when its code is given names, maybe after its end. */
static void origin_take(struct walker *walker, const struct process *process,
			const struct collected *c)
{
	__cleanup(free_mem) char *root = NULL;
	struct origin origin = { .pid = c->own_pid,
				 .pod_pid = c->place.pod_pid,
				 .start_ns = c->task.start_ns,
				 .exec_id = c->task.exec_id,
				 .mnt_ns = c->place.mnt_ns,
				 .told = c->origin };
	uint64_t cost_ns;

	origin.since_ns = c->task.start_ns;
	/* What was written before it called exec is of another program. */
	if (process->known_ns)
		origin.since_ns = origin_boot_ns(process->known_ns);

	if (c->origin.flags & BPFPROF_ORIGIN_OUR_MOUNTS && !origin_is_here(&origin)) {
		vmas_read(walker->session, walker->runner, c->own_pid, VMAS_ROOT, root_take, &root,
			  &cost_ns);
		budget_spend(&walker->reading, cost_ns);
	}
	origin.root = root;
	origins_set(images_origins(walker->images), &origin);
}

/* What was read of process is put in force. 0 or -errno. */
static int mappings_take(struct walker *walker, struct process *process, struct collected *c,
			 bool was_void, uint64_t now_ns)
{
	struct remapped_job remapped = { .session = walker->session,
					 .runner = walker->runner,
					 .images = walker->images,
					 .process = process,
					 .pid = c->own_pid,
					 .now_ns = now_ns };
	bool was_python = process->nr_pythons, pythons_differ = false, differ;
	const struct process_mapping *executed;

	open_images(walker, process, c->mappings, c->nr, now_ns);
	remapped_find(&remapped, &c->mappings, &c->nr);
	budget_spend(&walker->reading, remapped.cost_ns);
	differ = process_mappings_set(process, c->mappings, c->nr);
	process_place_set(process, &c->place);
	executed = c->program_va ? process_mapping_find(process, c->program_va) : NULL;
	process->executable = executed ? (uint32_t)executed->image : 0;
	process->program = program_find(walker, process, executed);
	origin_take(walker, process, c);
	if (differ || process->images_failed) {
		look_at_images(walker, process, now_ns);
		pythons_differ = pythons_find(walker->pythons, process);
	}
	if (process->nr_pythons && !was_python)
		title_look(walker, process);
	return differ || was_void || pythons_differ ? walker_publish(walker, process, now_ns) : 0;
}

void walker_forked(struct walker *walker, const struct process *parent, const struct process *child)
{
	struct origin ids = { .pid = own_pid(walker, child),
			      .pod_pid = child->place.pod_pid,
			      .start_ns = child->start_ns,
			      .since_ns = child->start_ns,
			      .exec_id = child->exec_id };

	origins_fork(images_origins(walker->images), own_pid(walker, parent), &ids);
}

static int mappings_read(struct walker *walker, uint32_t pid, struct collected *c,
			 uint64_t *ret_cost_ns)
{
	int err;

	*ret_cost_ns = 0;
	if (!pid)
		return -ESRCH;
	c->own_pid = pid;
	walker->vma_reads++;
	err = vmas_read(walker->session, walker->runner, pid, VMAS_EXECUTABLE, collect, c,
			ret_cost_ns);
	if (err == -ETIMEDOUT)
		walker->vma_timeouts++;
	if (c->too_many || err == -E2BIG)
		walker->vmas_too_many++;
	return err == -E2BIG ? 1 : err;
}

int walker_refresh(struct walker *walker, struct process *process, uint64_t now_ns)
{
	struct collected c = { .images = walker->images };
	bool was_void = tables_is_void(walker->tables, process);
	uint64_t start_ns = time_monotonic_ns();
	int err;

	process->reread_ns = 0;
	if (!budget_allows(&walker->reading, READ_SHARE, NS_PER_SECOND / READ_SHARE, start_ns)) {
		walker->vma_deferred++;
		return -EAGAIN;
	}
	process->read_ns = start_ns;
	tables_watch(walker->tables, process);
	err = mappings_read(walker, own_pid(walker, process), &c, &process->read_cost_ns);
	budget_spend(&walker->reading, process->read_cost_ns);
	/* The number may belong to another process by now. */
	if (err > 0 && c.task.start_ns == process->start_ns && c.task.exec_id == process->exec_id)
		err = mappings_take(walker, process, &c, was_void, now_ns);
	else if (err >= 0)
		err = -ESRCH;
	if (err == -ESRCH) /* half way through exec: the next sample may ask again */
		process->read_ns = 0;
	free(c.mappings);
	return err;
}

int walker_learn(struct walker *walker, uint32_t pid, uint64_t now_ns,
		 struct bpfprof_task_id *ret_task)
{
	struct collected c = { .images = walker->images };
	struct process *process;
	uint64_t cost_ns;
	int err = mappings_read(walker, pid, &c, &cost_ns);

	if (err > 0) {
		if (ret_task)
			*ret_task = c.task;
		process = processes_get(walker->processes, &c.task);
		if (process)
			process_place_set(process, &c.place);
		err = process && !process->mappings_known
			      ? mappings_take(walker, process, &c, true, now_ns)
			      : 0;
	}
	free(c.mappings);
	return err;
}

/* The reader over the copy of the stack. */
struct copy_reader {
	struct unwind_reader reader; /* first */
	uint64_t va, holes;
	uint32_t len;
	bool beyond; /* something that the copy does not hold was asked for */
	const uint8_t *data;
};

/* Is anything of [va, va + len) in a page that was not there? */
static bool in_hole(const struct copy_reader *copy, uint64_t va, uint32_t len)
{
	uint64_t first = va / STACK_PAGE_BYTES - copy->va / STACK_PAGE_BYTES;
	uint64_t last = (va + len - 1) / STACK_PAGE_BYTES - copy->va / STACK_PAGE_BYTES;

	for (; copy->holes && len && first <= last && first < BPFPROF_STACK_PAGES; first++)
		if (copy->holes >> first & 1)
			return true;
	return false;
}

static int copy_read(struct unwind_reader *reader, __u64 va, void *dst, __u32 len)
{
	struct copy_reader *copy = (struct copy_reader *)reader;
	uint64_t off = va - copy->va;

	if (off >= copy->len || len > copy->len - off || in_hole(copy, va, len)) {
		copy->beyond = true;
		return -EFAULT;
	}
	memcpy(dst, copy->data + off, len);
	return 0;
}

/* A stack as it was before return probes changed it. */
struct returns_reader {
	struct unwind_reader reader; /* first */
	struct unwind_reader *stack;
	const struct bpfprof_return *returns;
	uint32_t nr;
};

static uint64_t return_restore(const struct bpfprof_return *returns, uint32_t nr, uint64_t va,
			       uint64_t ra)
{
	uint32_t i;

	for (i = 0; i < nr && i < BPFPROF_MAX_RETURNS; i++)
		if (returns[i].va == va && !(ra & (STACK_PAGE_BYTES - 1)))
			return returns[i].to;
	return ra;
}

static int returns_read(struct unwind_reader *reader, __u64 va, void *dst, __u32 len)
{
	struct returns_reader *over = (struct returns_reader *)reader;
	int err = over->stack->read(over->stack, va, dst, len);
	uint64_t value;

	if (err || len != sizeof(value))
		return err;
	memcpy(&value, dst, sizeof(value));
	value = return_restore(over->returns, over->nr, va, value);
	memcpy(dst, &value, sizeof(value));
	return 0;
}

static uint64_t row_in(const uint64_t *rows, uint32_t nr, uint32_t low, bool exact)
{
	uint32_t lo = 0, hi = nr, mid;
	uint64_t row;

	while (lo < hi) {
		mid = lo + (hi - lo) / 2;
		if (unwind_row_low(rows[mid]) <= low)
			lo = mid + 1;
		else
			hi = mid;
	}
	if (!lo)
		return unwind_row_make(0, ROW_NONE, 0, 0, 0, 0, UNWIND_LOOKED_AT);
	row = rows[lo - 1];
	if (!exact && lo < nr && unwind_row_starts_stack(row, low, unwind_row_low(rows[lo])))
		return unwind_row_make(0, ROW_END, 0, 0, 0, 0, 0);
	return row;
}

/* The row, or 0 if it would have to be built and there is no time for that. */
static uint64_t row_look_up(struct walker *walker, struct image *image, uint64_t off, bool exact,
			    uint64_t now_ns)
{
	uint32_t page = (uint32_t)(off >> BPFPROF_PAGE_SHIFT), nr = 0;
	uint64_t start_ns;
	const uint64_t *rows = tables_page(walker->tables, image->id, page, now_ns, &nr);

	if (!rows) {
		if (!budget_allows(&walker->building, BUILD_SHARE, BUILD_SAVED_NS,
				   time_monotonic_ns()))
			return 0;
		start_ns = time_thread_cpu_ns();
		if (image->cfi)
			cfi_forget_unproven(image->cfi, page);
		nr = (uint32_t)page_build(walker, image, page, now_ns);
		budget_spend(&walker->building, time_thread_cpu_ns() - start_ns);
		rows = walker->row_buffer;
	}
	return row_in(rows, nr, off & 0xffff, exact);
}

/* What a rule that was read out of code is tried on. */
struct trial {
	struct walker *walker;
	const struct process *process;
	const struct unwind_state *state;
	struct unwind_reader *reader;
	uint64_t now_ns;
	bool unread; /* a rule could not be tried, for what there is of the stack */
	bool all_mapped; /* all code that the process had mapped then is known */
	const struct process_mapping *mapping; /* of the place */
	uint64_t
		search_va; /* how far the stack above was searched for return addresses; 0: not yet */
	uint64_t return_va; /* where the one lies that a rule must lead to; 0: any will do */
	uint32_t nr_starts;
};

/* Bytes of code that process has mapped in m: 0 or -errno. */
static int code_at(const struct trial *trial, const struct process_mapping *m, uint64_t va,
		   uint8_t *code, size_t len)
{
	struct walker *walker = trial->walker;
	struct image *image = images_get(walker->images, (uint32_t)m->image);

	if (va < m->start || va >= m->end || len > m->end - va)
		return -EFAULT;
	if (m->image == BPFPROF_IMAGE_NONE)
		return memory_read(walker->session, walker->runner, own_pid(walker, trial->process),
				   va, code, len);
	if (!image || images_open(walker->images, image, trial->now_ns))
		return -EIO;
	return elf_image_read(image->elf, va - m->start + m->off, code, len);
}

/* Is there a call in front of va, which lies behind code of m? */
static enum cfi_verdict is_after_call(const struct trial *trial, const struct process_mapping *m,
				      uint64_t va)
{
	uint8_t code[CALL_BYTES];

	if (code_at(trial, m, va - sizeof(code), code, sizeof(code)))
		return CFI_POSSIBLE;
	return code_ends_in_call(code, sizeof(code)) ? CFI_PROVEN : CFI_REFUSED;
}

/* What signal handlers return to, in a C library without tables. */
static bool is_signal_return(const struct trial *trial, uint64_t va)
{
	const struct process_mapping *m = process_mapping_find(trial->process, va);
	uint8_t code[SIGNAL_RETURN_BYTES];

	return m && m->image != BPFPROF_IMAGE_NONE && !code_at(trial, m, va, code, sizeof(code)) &&
	       code_returns_from_signal(code, sizeof(code));
}

/* Does a thread come back to va: is it behind a call, or a known trampoline? */
static enum cfi_verdict returns_to(const struct trial *trial, uint64_t va)
{
	const struct process_mapping *m = process_mapping_find(trial->process, va - 1);
	enum cfi_verdict verdict = m ? is_after_call(trial, m, va) : CFI_REFUSED;
	struct image *image;
	uint64_t row;

	if (verdict != CFI_REFUSED || !m || m->image == BPFPROF_IMAGE_NONE)
		return verdict;
	if (is_signal_return(trial, va))
		return CFI_PROVEN;
	image = images_get(trial->walker->images, (uint32_t)m->image);
	row = image ? row_look_up(trial->walker, image, va - 1 - m->start + m->off, false,
				  trial->now_ns)
		    : 0;
	return unwind_row_kind(row) == ROW_SIGNAL || unwind_row_kind(row) == ROW_END ? CFI_PROVEN
										     : CFI_REFUSED;
}

/*
 * The first word of the stack in [va, end) that may be a return address, and the mapping that it leads
 * into: 0, -ENODATA if there is none, -EFAULT if not all can be read.
 */
static int return_search(const struct trial *trial, uint64_t va, uint64_t end, uint64_t *ret_va,
			 const struct process_mapping **ret_mapping, __u64 *ret_word)
{
	const struct process_mapping *m;
	__u64 word;

	for (; va < end; va += sizeof(word)) {
		if (unwind_read_u64(trial->reader, va, &word))
			return -EFAULT;
		m = process_mapping_find(trial->process, word - 1);
		/* Code of no file is not read for this: that would take too long. */
		if (!m || (m->image != BPFPROF_IMAGE_NONE &&
			   is_after_call(trial, m, word) == CFI_REFUSED))
			continue;
		*ret_va = va;
		*ret_mapping = m;
		*ret_word = word;
		return 0;
	}
	return -ENODATA;
}

/* A frame that was passed over would have left its return address between the two. */
static bool nothing_returns_between(const struct trial *trial, uint64_t low, uint64_t high)
{
	const struct process_mapping *m;
	uint64_t va;
	__u64 word;

	return trial->all_mapped && high - low <= MAX_FRAME_SEARCH &&
	       return_search(trial, low, high, &va, &m, &word) == -ENODATA;
}

/* The next place in the same file that a call goes to whose return address is on the stack. */
static int next_start(void *arg, uint64_t *ret_off)
{
	struct trial *trial = arg;
	uint64_t sp = trial->state->regs[UNWIND_RSP], va, to;
	const struct process_mapping *m;
	uint8_t code[CALL_BYTES];
	__u64 word;

	if (!trial->search_va)
		trial->search_va = sp;
	while (trial->mapping && trial->nr_starts < MAX_STARTS &&
	       !return_search(trial, trial->search_va, sp + MAX_FRAME_SEARCH, &va, &m, &word)) {
		trial->search_va = va + sizeof(word);
		if (m->image != trial->mapping->image ||
		    code_at(trial, m, word - sizeof(code), code, sizeof(code)) ||
		    code_leads_to(code, sizeof(code), word - m->start + m->off, &to))
			continue;
		trial->nr_starts++;
		trial->return_va = va;
		*ret_off = to;
		return 0;
	}
	trial->return_va = 0;
	return -ENODATA;
}

/*
 * If the first return address above is one of the program's first instructions, which nothing called,
 * it is the one of this frame: there is no other one further up.
 */
static uint64_t outermost(void *arg)
{
	struct trial *trial = arg;
	uint64_t sp = trial->state->regs[UNWIND_RSP], va, row;
	const struct process_mapping *m;
	struct image *image;
	__u64 word;

	if (!trial->all_mapped || return_search(trial, sp, sp + MAX_FRAME_SEARCH, &va, &m, &word))
		return 0;
	image = images_get(trial->walker->images, (uint32_t)m->image);
	if (m->image == BPFPROF_IMAGE_NONE || !image)
		return 0;
	row = row_look_up(trial->walker, image, word - 1 - m->start + m->off, false, trial->now_ns);
	if (unwind_row_kind(row) != ROW_END)
		return 0;
	return unwind_row_make(0, ROW_CFA, UNWIND_RSP, (int32_t)((va + 8 - sp) / 8), BP_LOST, 0, 1);
}

/* Where does the rule lead? One on a register that is lost cannot be tried. */
static enum cfi_verdict leads_to_code(void *arg, uint64_t row, bool frame_pointer)
{
	struct trial *trial = arg;
	struct unwind_state state = *trial->state;
	enum cfi_verdict verdict;
	int stop = unwind_step(&state, row, trial->reader);

	trial->unread |= stop == BPFPROF_STOP_READ_FAULT;
	if (stop == BPFPROF_STOP_READ_FAULT)
		return CFI_UNREAD;
	if (stop == BPFPROF_STOP_REG_LOST)
		return CFI_POSSIBLE;
	if (stop) /* a return address of 0 is any word of 0 */
		return CFI_REFUSED;
	if (trial->return_va && state.regs[UNWIND_RSP] != trial->return_va + 8)
		return CFI_REFUSED;
	verdict = returns_to(trial, state.regs[UNWIND_RIP]);
	if (frame_pointer && verdict == CFI_PROVEN &&
	    !nothing_returns_between(trial, trial->state->regs[UNWIND_RSP],
				     trial->state->regs[UNWIND_RBP]))
		return CFI_REFUSED;
	return verdict;
}

/* Is what the frame pointer leads to no mere guess: it goes on, or ends as the ABI says? */
static bool frame_pointer_serves(const struct trial *trial, uint64_t row)
{
	struct unwind_state state = *trial->state;
	int stop = unwind_step(&state, row, trial->reader);

	if (stop)
		return stop == BPFPROF_STOP_COMPLETE && !unwind_end_guessed(trial->state, stop);
	return process_mapping_find(trial->process, unwind_lookup_pc(&state));
}

static int page_learn(struct walker *walker, struct image *image, uint64_t off, bool exact,
		      struct trial *trial, uint64_t now_ns)
{
	struct cfi_trial on = { .check = leads_to_code,
				.next_start = next_start,
				.outermost = outermost,
				.arg = trial };
	int err = images_open_cfi(walker->images, image, now_ns);

	if (err)
		return err;
	err = cfi_learn(image->cfi, off, exact, &on);
	if (err && err != -ENOMEM && err != -EAGAIN)
		images_fail(walker->images, image, err, now_ns);
	return err ? err : page_build(walker, image, (uint32_t)(off >> BPFPROF_PAGE_SHIFT), now_ns);
}

static bool learning_allowed(struct walker *walker, uint64_t now_ns)
{
	bool allowed = budget_allows(&walker->learning, LEARN_SHARE, LEARN_SAVED_NS, now_ns);

	walker->code_deferred += !allowed;
	return allowed;
}

static void learning_done(struct walker *walker, uint64_t spent_ns, uint64_t row)
{
	if (!row || unwind_row_kind(row) == ROW_NONE || unwind_row_kind(row) == ROW_UNPROVEN)
		walker->code_unexplained++;
	else
		walker->code_learned++;
	budget_spend(&walker->learning, spent_ns > LEARN_MIN_NS ? spent_ns : LEARN_MIN_NS);
}

/* The row of code without tables, read out of the code; 0 if there is no time for that. */
static uint64_t row_learn(struct walker *walker, struct image *image, uint64_t off, bool exact,
			  struct trial *trial, uint64_t now_ns)
{
	uint64_t start_ns, row = 0;
	int nr;

	if (!learning_allowed(walker, time_monotonic_ns()))
		return 0;
	start_ns = time_thread_cpu_ns();
	nr = page_learn(walker, image, off, exact, trial, now_ns);
	if (nr > 0)
		row = row_in(walker->row_buffer, (uint32_t)nr, off & 0xffff, exact);
	if (nr == -EAGAIN)
		row = 0;
	else if (nr <= 0 || unwind_row_unexplored(row))
		row = unwind_row_make(0, ROW_UNPROVEN, 0, 0, 0, 0, 0);
	learning_done(walker, time_thread_cpu_ns() - start_ns, row);
	return row;
}

/*
 * The row of code in no file: it keeps frame pointers, or has to be read; 0 if there is no time, or not enough
 * of the stack.
 */
static uint64_t anon_row(struct walker *walker, const struct process *process,
			 const struct process_mapping *mapping, struct trial *trial,
			 uint64_t now_ns)
{
	uint64_t none = unwind_row_make(0, ROW_NONE, 0, 0, 0, 0, UNWIND_LOOKED_AT), start_ns;
	uint64_t pc = trial->state->regs[UNWIND_RIP], lookup_pc = unwind_lookup_pc(trial->state);
	uint64_t row = anon_code_row(walker->anon_code, process, lookup_pc, now_ns);

	if (row)
		return row;
	if (frame_pointer_serves(trial, none))
		return none;
	start_ns = time_monotonic_ns(); /* reading its memory may hang, and keeps us then */
	if (!learning_allowed(walker, start_ns))
		return 0;
	row = anon_code_learn(walker->anon_code, process, mapping, pc, lookup_pc, leads_to_code,
			      trial, now_ns);
	if (!row && !trial->unread)
		row = anon_code_none(walker->anon_code, process, lookup_pc, now_ns);
	learning_done(walker, time_monotonic_ns() - start_ns, row);
	return row;
}

static bool has_rule(uint64_t row)
{
	return unwind_row_kind(row) == ROW_CFA || unwind_row_kind(row) == ROW_PLT ||
	       unwind_row_kind(row) == ROW_DEREF || unwind_row_kind(row) == ROW_SIGNAL;
}

/* May the mappings be read again for this sample: is it newer than they are, and not too dear? */
static bool may_refresh(const struct process *process, uint64_t sample_ns, uint64_t now_ns)
{
	if (process->dead || sample_ns <= process->read_ns)
		return false;
	return process->read_cost_ns < REFRESH_DEAR_NS ||
	       now_ns - process->read_ns >= process->read_cost_ns * REFRESH_DEAR_FACTOR;
}

/* The mapping of pc; the process is asked again if it is not known. */
static const struct process_mapping *mapping_need(struct walker *walker, struct process *process,
						  uint64_t pc, uint64_t sample_ns, uint64_t now_ns)
{
	const struct process_mapping *m = process_mapping_find(process, pc);

	if (m || !may_refresh(process, sample_ns, now_ns))
		return m;
	walker_refresh(walker, process, now_ns);
	return process_mapping_find(process, pc);
}

/* One frame: 0 = go on. all_registers: walk by the complete rules, not by rows. */
static uint32_t walk_one(struct walker *walker, struct process *process, struct unwind_state *state,
			 struct unwind_reader *reader, bool all_registers, uint64_t sample_ns,
			 uint64_t *ret_frame, uint64_t now_ns)
{
	struct trial trial = { .walker = walker,
			       .process = process,
			       .state = state,
			       .reader = reader,
			       .now_ns = now_ns };
	uint64_t pc = unwind_lookup_pc(state), off, row;
	const struct process_mapping *m = mapping_need(walker, process, pc, sample_ns, now_ns);
	struct image *image;

	*ret_frame = 0;
	if (!m)
		return process->dead || !process->mappings_known ? BPFPROF_STOP_MISS_GONE
								 : BPFPROF_STOP_BAD_FRAME;
	if (m->image == BPFPROF_IMAGE_NONE) {
		*ret_frame = (uint64_t)BPFPROF_FRAME_NATIVE_VA << BPFPROF_FRAME_SHIFT |
			     (pc & BPFPROF_FRAME_MASK);
		row = anon_row(walker, process, m, &trial, now_ns);
		return row ? (uint32_t)unwind_step(state, row, reader) : BPFPROF_STOP_MISS_RATE;
	}
	trial.mapping = m;
	off = pc - m->start + m->off;
	*ret_frame = (uint64_t)BPFPROF_FRAME_NATIVE << BPFPROF_FRAME_SHIFT |
		     m->image << BPFPROF_OFF_BITS | (off & BPFPROF_OFF_MASK);
	image = images_get(walker->images, (uint32_t)m->image);
	row = row_look_up(walker, image, off, state->exact, now_ns);
	if (unwind_row_unexplored(row)) {
		if (may_refresh(process, sample_ns, now_ns))
			walker_refresh(walker, process, now_ns);
		trial.mapping = process_mapping_find(process, pc);
		trial.all_mapped = process->read_ns >= sample_ns;
		row = row_learn(walker, image, off, state->exact, &trial, now_ns);
	}
	if (!row)
		return trial.unread ? BPFPROF_STOP_READ_FAULT : BPFPROF_STOP_MISS_RATE;
	/* A table rule that rows cannot say, or one of a walk that must not lose any register. */
	*ret_frame += unwind_signal_entry(state, row, off);
	if (unwind_row_kind(row) != ROW_RARE && !(all_registers && has_rule(row)))
		return (uint32_t)unwind_step(state, row, reader);
	if (images_open_cfi(walker->images, image, now_ns))
		return BPFPROF_STOP_MISS_FILE;
	return (uint32_t)cfi_step(image->cfi, off, state, reader);
}

/* Makes sure that the mapping of pc is known, if there is any way to know it. */
static struct process *process_prepare(struct walker *walker, const struct walker_miss *miss,
				       uint64_t pc, uint64_t now_ns)
{
	struct process *process = processes_get(walker->processes, &miss->sample->task);
	struct process_mapping found;
	bool void_now;

	if (!process)
		return NULL;
	void_now = !process->mappings_known || tables_is_void(walker->tables, process) ||
		   miss->sample->stop == BPFPROF_STOP_NO_PROCESS;
	if (void_now && may_refresh(process, miss->sample->rec.ts_ns, now_ns))
		walker_refresh(walker, process, now_ns);
	else
		mapping_need(walker, process, pc, miss->sample->rec.ts_ns, now_ns);
	if (miss->sample->flags & BPFPROF_SAMPLE_VMA && !process_mapping_find(process, pc)) {
		found = mapping_of(walker->images, own_pid(walker, process), &miss->at->leaf_vma,
				   NULL);
		process_mapping_add(process, &found);
	}
	return process;
}

/* Does the image switch between C stacks: greenlet's module, under the names of all its versions? */
static bool is_switching(struct walker *walker, uint32_t id)
{
	const struct image *image = images_get(walker->images, id);
	const char *name = image && image->path ? strrchr(image->path, '/') : NULL;

	if (!name)
		return false;
	name += name[1] == '_' ? 2 : 1;
	return !strncmp(name, "greenlet.", 9);
}

enum python_native walker_frame_kind(void *arg, uint64_t frame)
{
	struct walker *walker = arg;
	uint32_t image = (uint32_t)((frame & BPFPROF_FRAME_MASK) >> BPFPROF_OFF_BITS);
	uint64_t off = frame & BPFPROF_OFF_MASK;

	if (frame >> BPFPROF_FRAME_SHIFT != BPFPROF_FRAME_NATIVE)
		return PYTHON_NATIVE_OTHER;
	if (!pythons_is_eval(walker->pythons, image, off))
		return is_switching(walker, image) ? PYTHON_NATIVE_SWITCH : PYTHON_NATIVE_OTHER;
	return pythons_is_surely_eval(walker->pythons, image, off) ? PYTHON_NATIVE_EVAL
								   : PYTHON_NATIVE_PERHAPS;
}

/*
 * What tells which Python frames the calls of the eval loop run: as in bpf/walk.bpf.h, and for those
 * up to 3.10 in bpf/python_proof.bpf.h.
 */
struct marking {
	const struct walker *walker;
	const struct walker_stack *stack;
	uint32_t next, nr; /* entries */
	struct unwind_state before; /* in the frame that is stepped over */
	/* Of the innermost call, while it is the last one that was taken for one that runs a frame. */
	size_t place; /* where the calls of this stack hold their frames; 0: not known */
	uint64_t inner_frame;
	uint32_t inner_at;
	bool inner_last;
};

static uint64_t mark_make(const struct marking *m, uint32_t entry)
{
	const struct bpfprof_python_entry *entries = m->stack->entries;
	uint32_t before = m->next ? entries[m->next - 1].nr : 0;

	return (uint64_t)BPFPROF_FRAME_EVAL << BPFPROF_FRAME_SHIFT |
	       ((entries[entry].nr - before) & 0xffff);
}

/* What a call holds in registers that outlive calls, and in the words of its C frame. */
struct held {
	__u64 words[HELD_WORDS];
	size_t nr;
};

static void held_read(const struct marking *m, uint64_t cfa, struct held *held)
{
	static const uint32_t saved[] = { UNWIND_RBX, UNWIND_RBP, 12, 13, 14, 15 };
	uint64_t sp = m->before.regs[UNWIND_RSP], at;
	size_t i;

	held->nr = 0;
	for (i = 0; i < sizeof(saved) / sizeof(*saved); i++)
		held->words[held->nr++] =
			m->before.valid >> saved[i] & 1 ? m->before.regs[saved[i]] : 0;
	for (at = cfa - 16; held->nr < HELD_WORDS && at >= sp && at < cfa; at -= 8)
		if (unwind_read_u64(m->stack->reader, at, &held->words[held->nr++]))
			held->words[held->nr - 1] = 0;
}

/*
 * Index + 1 of the word that is va; 0: none. All calls of a stack hold their frames in the same place: elsewhere
 * in a C frame lies what was left there before, which may be a frame of the chain, too.
 */
static size_t held_find(const struct held *held, size_t place, uint64_t va)
{
	size_t i;

	if (place)
		return place <= held->nr && held->words[place - 1] == va ? place : 0;
	for (i = 0; i < held->nr; i++)
		if (held->words[i] == va)
			return i + 1;
	return 0;
}

static bool is_holding(const struct marking *m, uint64_t frame)
{
	uint32_t image = (uint32_t)((frame & BPFPROF_FRAME_MASK) >> BPFPROF_OFF_BITS);
	const struct python_range *ranges;

	return frame >> BPFPROF_FRAME_SHIFT == BPFPROF_FRAME_NATIVE &&
	       pythons_holding_ranges(m->walker->pythons, image, &ranges) &&
	       pythons_is_eval(m->walker->pythons, image, frame & BPFPROF_OFF_MASK);
}

/* A call of an eval loop up to 3.10. */
static uint64_t holding_mark(struct marking *m, uint64_t cfa, uint64_t frame, uint64_t *frames,
			     uint32_t at)
{
	const struct bpfprof_python_entry *entries = m->stack->entries;
	uint32_t entry = m->next,
		 last = m->nr - m->next > HELD_AHEAD ? m->next + HELD_AHEAD : m->nr;
	struct held held;
	size_t place;
	uint64_t mark;

	held_read(m, cfa, &held);
	place = m->inner_last ? held_find(&held, 0, entries[m->next - 1].va) : 0;
	if (place) {
		m->place = place;
		mark = frames[m->inner_at];
		frames[m->inner_at] = m->inner_frame;
		m->inner_last = false;
		return mark;
	}
	m->inner_last = false;
	while (entry < last && !(place = held_find(&held, m->place, entries[entry].va)))
		entry++;
	if (entry == last)
		return frame;
	m->place = place;
	m->inner_last = !m->next;
	m->inner_at = at;
	m->inner_frame = frame;
	frame = mark_make(m, entry);
	m->next = entry + 1;
	return frame;
}

/* The frame stepped over reaches up to cfa: is it a C call of the eval loop? frames[at] is its place. */
static uint64_t eval_mark(struct marking *m, uint64_t cfa, uint64_t frame, uint64_t *frames,
			  uint32_t at)
{
	uint64_t sp = m->before.regs[UNWIND_RSP];

	if (m->next >= m->nr)
		return frame;
	if (is_holding(m, frame))
		return holding_mark(m, cfa, frame, frames, at);
	if (cfa < sp || m->stack->entries[m->next].va - sp >= cfa - sp)
		return frame;
	frame = mark_make(m, m->next);
	m->next++;
	return frame;
}

/* From the registers to the end. Returns the new number of frames. */
static uint32_t walk(struct walker *walker, struct process *process,
		     const struct walker_stack *stack, bool all_registers, uint64_t *frames,
		     uint32_t nr, uint32_t cap, uint32_t *stop, uint64_t now_ns)
{
	struct unwind_state state = { .valid = stack->regs_valid, .exact = stack->pc_exact };
	struct marking marking = {
		.walker = walker, .stack = stack, .next = stack->next_entry, .nr = stack->nr_entries
	};
	uint32_t why = 0;
	uint64_t frame;

	memcpy(state.regs, stack->regs, sizeof(state.regs));
	while (!why) {
		if (nr >= cap) {
			why = BPFPROF_STOP_DEPTH;
			break;
		}
		if (marking.next < marking.nr)
			unwind_settle(&state, stack->reader);
		marking.before = state;
		why = walk_one(walker, process, &state, stack->reader, all_registers, stack->ts_ns,
			       &frame, now_ns);
		if (frame && !why)
			frame = eval_mark(&marking, state.regs[UNWIND_RSP], frame, frames, nr);
		if (frame && stack->sps)
			stack->sps[nr] = marking.before.regs[UNWIND_RSP];
		if (frame)
			frames[nr++] = frame;
	}
	if (stack->sps)
		stack->sps[nr] = state.regs[UNWIND_RSP];
	*stop = why;
	return nr;
}

uint32_t walker_walk(struct walker *walker, struct process *process,
		     const struct walker_stack *stack, uint64_t *frames, uint32_t nr, uint32_t cap,
		     uint32_t *stop, uint64_t now_ns)
{
	bool lost = *stop == BPFPROF_STOP_REG_LOST;
	struct returns_reader over = { .reader.read = returns_read,
				       .stack = stack->reader,
				       .returns = stack->returns,
				       .nr = stack->nr_returns };
	struct walker_stack restored = *stack;
	uint32_t total;

	if (stack->nr_returns)
		restored.reader = &over.reader;
	total = walk(walker, process, &restored, lost, frames, nr, cap, stop, now_ns);
	/* Rows are quicker but lose registers: where one was missing, follow all of them. */
	if (*stop == BPFPROF_STOP_REG_LOST && !lost)
		total = walk(walker, process, &restored, true, frames, nr, cap, stop, now_ns);
	return total;
}

uint32_t walker_finish(struct walker *walker, const struct walker_miss *miss, uint64_t *frames,
		       uint32_t nr, uint32_t cap, uint32_t *stop, uint64_t now_ns)
{
	__u64 regs[BPFPROF_NR_REGS];
	uint64_t pc;
	struct process *process;
	struct copy_reader copy = { .reader.read = copy_read,
				    .va = miss->at->stack_va,
				    .holes = miss->at->stack_holes,
				    .len = miss->at->stack_len,
				    .data = miss->stack };
	struct walker_stack stack = { .regs = regs,
				      .regs_valid = miss->at->regs_valid,
				      .pc_exact = miss->at->pc_exact,
				      .reader = &copy.reader,
				      .entries = miss->entries,
				      .nr_entries = miss->at->nr_entries,
				      .next_entry = miss->at->next_entry,
				      .returns = miss->at->returns,
				      .nr_returns = miss->at->nr_returns,
				      .ts_ns = miss->sample->rec.ts_ns };

	memcpy(regs, miss->at->regs, sizeof(regs));
	if (!miss->at->pc_exact)
		regs[UNWIND_RIP] = return_restore(stack.returns, stack.nr_returns,
						  regs[UNWIND_RSP] - 8, regs[UNWIND_RIP]);
	pc = regs[UNWIND_RIP] - !miss->at->pc_exact;
	process = process_prepare(walker, miss, pc, now_ns);
	if (!process) {
		*stop = BPFPROF_STOP_MISS_GONE;
		return nr;
	}
	/* A worker in the kernel (io_uring, vhost): only its process was to be known. */
	if (!miss->at->regs[UNWIND_RIP] && !miss->at->regs[UNWIND_RSP]) {
		*stop = BPFPROF_STOP_NO_USER;
		return nr;
	}
	*stop = miss->sample->stop;
	nr = walker_walk(walker, process, &stack, frames, nr, cap, stop, now_ns);
	if (*stop == BPFPROF_STOP_READ_FAULT && copy.beyond && copy.len)
		*stop = BPFPROF_STOP_MISS_WINDOW;
	return nr;
}
