// SPDX-License-Identifier: Apache-2.0
#include "kernel/walk_code.h"

#include <errno.h>

#include "base/background.h"
#include "base/refusals.h"
#include "base/time.h"
#include "elf/image.h"
#include "kernel/anon_code.h"
#include "kernel/memory.h"
#include "kernel/walk.h"
#include "kernel/walk_mappings.h"
#include "kernel/walk_rows.h"
#include "proc/images.h"
#include "proc/processes.h"
#include "unwind/cfi.h"
#include "unwind/code_look.h"
#include "unwind/reader.h"
#include "bpfprof.h"
#include "unwind_native.h"

/*
 * Each piece of code that is learned causes a new build of its page, and the old slice must rest.
 * Limits: 5% of the time, and 5000 pieces at once and 500 a second from then on.
 */
#define LEARN_SHARE 20
#define LEARN_SAVED_NS (NS_PER_SECOND / 2)
#define LEARN_MIN_NS 100000ULL
#define MAX_FRAME_SEARCH 16384 /* bytes of one frame to search for return addresses */
#define MAX_STARTS 16 /* calls on the stack that may have led to a place in code */

/*
 * If the memory of the process does not arrive in time, nothing more is read for this piece of
 * code.
 */
static int memory_at(struct code_trial *trial, uint64_t va, uint8_t *code, size_t len)
{
	struct walker *walker = trial->walker;
	int err = trial->hangs ? -EBUSY
			       : memory_read(walker->session, walker->runner,
					     walker_own_pid(walker, trial->process), va, code, len);

	trial->hangs |= err == -ETIMEDOUT || err == -EBUSY;
	trial->unread |= trial->hangs;
	return err;
}

/* Reads code that the process has mapped in m: 0 or -errno. */
static int code_at(struct code_trial *trial, const struct process_mapping *m, uint64_t va,
		   uint8_t *code, size_t len)
{
	struct walker *walker = trial->walker;
	struct image *image = images_get(walker->images, (uint32_t)m->image);

	if (va < m->start || va >= m->end || len > m->end - va)
		return -EFAULT;
	if (m->image == BPFPROF_IMAGE_NONE)
		return memory_at(trial, va, code, len);
	if (!image || images_open(walker->images, image, trial->now_ns))
		return -EIO;
	return elf_image_read(image->elf, va - m->start + m->off, code, len);
}

/* Does a call in m end at va? */
static enum cfi_verdict is_after_call(struct code_trial *trial, const struct process_mapping *m,
				      uint64_t va)
{
	uint8_t code[CODE_CALL_BYTES];

	if (code_at(trial, m, va - sizeof(code), code, sizeof(code)))
		return trial->hangs ? CFI_UNREAD : CFI_POSSIBLE;
	return code_ends_in_call(code, sizeof(code)) ? CFI_PROVEN : CFI_REFUSED;
}

/* Is va the code to which signal handlers return, in a C library without tables? */
static bool is_signal_return(struct code_trial *trial, uint64_t va)
{
	const struct process_mapping *m = process_mapping_find(trial->process, va);
	uint8_t code[CODE_SIGNAL_RETURN_BYTES];

	return m && m->image != BPFPROF_IMAGE_NONE && !code_at(trial, m, va, code, sizeof(code)) &&
	       code_returns_from_signal(code, sizeof(code));
}

/* Is va a return address: right behind a call, or a known trampoline? */
static enum cfi_verdict returns_to(struct code_trial *trial, uint64_t va)
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
	row = image ? rows_look_up(trial->walker, image, va - 1 - m->start + m->off, false,
				   trial->now_ns)
		    : 0;
	return unwind_row_kind(row) == ROW_SIGNAL || unwind_row_kind(row) == ROW_END ? CFI_PROVEN
										     : CFI_REFUSED;
}

/*
 * Finds the first word of the stack in [va, end) that may be a return address, and its mapping: 0,
 * -ENODATA: none, -EFAULT: some word is unreadable.
 */
static int return_search(struct code_trial *trial, uint64_t va, uint64_t end, uint64_t *ret_va,
			 const struct process_mapping **ret_mapping, __u64 *ret_word)
{
	const struct process_mapping *m;
	__u64 word;

	for (; va < end; va += sizeof(word)) {
		if (unwind_read_u64(trial->reader, va, &word))
			return -EFAULT;
		m = process_mapping_find(trial->process, word - 1);
		/* A search through code in no file would take too long. */
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

/* Does no return address lie between the two? A skipped frame would have left one. */
static bool nothing_returns_between(struct code_trial *trial, uint64_t low, uint64_t high)
{
	const struct process_mapping *m;
	uint64_t va;
	__u64 word;

	return trial->all_mapped && high - low <= MAX_FRAME_SEARCH &&
	       return_search(trial, low, high, &va, &m, &word) == -ENODATA;
}

/*
 * Finds the next address in the same file that a call has called, if the return address of that
 * call is on the stack.
 */
static int next_start(void *arg, uint64_t *ret_off)
{
	struct code_trial *trial = arg;
	uint64_t sp = trial->state->regs[UNWIND_SP], va, to;
	const struct process_mapping *m;
	uint8_t code[CODE_CALL_BYTES];
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
 * The first return address above may lie in the first instructions of the program, which nothing
 * called. Then it is the return address of this frame, because no other one is further up.
 */
static uint64_t outermost(void *arg)
{
	struct code_trial *trial = arg;
	uint64_t sp = trial->state->regs[UNWIND_SP], va, row;
	const struct process_mapping *m;
	struct image *image;
	__u64 word;

	if (!trial->all_mapped || return_search(trial, sp, sp + MAX_FRAME_SEARCH, &va, &m, &word))
		return 0;
	image = images_get(trial->walker->images, (uint32_t)m->image);
	if (m->image == BPFPROF_IMAGE_NONE || !image)
		return 0;
	row = rows_look_up(trial->walker, image, word - 1 - m->start + m->off, false,
			   trial->now_ns);
	if (unwind_row_kind(row) != ROW_END)
		return 0;
	return unwind_row_make(0, ROW_CFA, UNWIND_SP, (int32_t)((va + 8 - sp) / 8), BP_LOST, 0, 1);
}

/* Tries the rule: does it lead to code? A rule on a lost register cannot be tried. */
static enum cfi_verdict leads_to_code(void *arg, uint64_t row, bool frame_pointer)
{
	struct code_trial *trial = arg;
	struct unwind_state state = *trial->state;
	enum cfi_verdict verdict;
	int stop = unwind_step(&state, row, trial->reader);

	trial->unread |= stop == BPFPROF_STOP_READ_FAULT;
	if (stop == BPFPROF_STOP_READ_FAULT)
		return CFI_UNREAD;
	if (stop == BPFPROF_STOP_REG_LOST)
		return CFI_POSSIBLE;
	if (stop) /* any 0 on the stack looks like a return address of 0 */
		return CFI_REFUSED;
	if (trial->return_va && state.regs[UNWIND_SP] != trial->return_va + 8)
		return CFI_REFUSED;
	verdict = returns_to(trial, state.regs[UNWIND_PC]);
	if (frame_pointer && verdict == CFI_PROVEN &&
	    !nothing_returns_between(trial, trial->state->regs[UNWIND_SP],
				     trial->state->regs[UNWIND_FP]))
		return CFI_REFUSED;
	return verdict;
}

/* Is the frame pointer proven: does the chain go on, or end as the ABI says? */
static bool frame_pointer_serves(const struct code_trial *trial, uint64_t row)
{
	struct unwind_state state = *trial->state;
	int stop = unwind_step(&state, row, trial->reader);

	if (stop)
		return stop == BPFPROF_STOP_COMPLETE && !unwind_end_guessed(trial->state, stop);
	return process_mapping_find(trial->process, unwind_lookup_pc(&state));
}

/*
 * Finds the row for this process alone, or rows of the page in walker->row_buffer: returns their
 * number, or -errno.
 */
static int page_learn(struct walker *walker, struct image *image, uint64_t off, bool exact,
		      struct code_trial *trial, uint64_t *ret_here, uint64_t now_ns)
{
	struct cfi_trial on = { .check = leads_to_code,
				.next_start = next_start,
				.outermost = outermost,
				.arg = trial };
	int err = images_open_cfi(walker->images, image, now_ns);

	if (err)
		return err;
	images_hold(image); /* the trial opens other images */
	err = cfi_learn(image->cfi, off, exact, &on, ret_here);
	images_release(walker->images, image, now_ns);
	if (err && err != -ENOMEM && err != -EAGAIN)
		images_fail(walker->images, image, err, now_ns);
	if (err || *ret_here)
		return err;
	return rows_build(walker, image, (uint32_t)(off >> BPFPROF_PAGE_SHIFT), now_ns);
}

static bool learning_allowed(struct walker *walker, uint64_t now_ns)
{
	bool allowed = budget_allows(budget_of(&walker->learning, background_tenant()), LEARN_SHARE,
				     LEARN_SAVED_NS, now_ns);

	walker->code_deferred += !allowed;
	if (!allowed)
		refusals_count(walker->refusals, background_tenant(), REFUSAL_CODE);
	return allowed;
}

static void learning_done(struct walker *walker, uint64_t spent_ns, uint64_t row)
{
	if (!row || unwind_row_kind(row) == ROW_NONE || unwind_row_kind(row) == ROW_UNPROVEN)
		walker->code_unexplained++;
	else
		walker->code_learned++;
	budget_spend(budget_of(&walker->learning, background_tenant()),
		     spent_ns > LEARN_MIN_NS ? spent_ns : LEARN_MIN_NS);
}

uint64_t code_row_learn(struct walker *walker, struct image *image, uint64_t off, bool exact,
			struct code_trial *trial, uint64_t now_ns)
{
	uint64_t frame = (uint64_t)BPFPROF_FRAME_NATIVE << BPFPROF_FRAME_SHIFT |
			 (uint64_t)image->id << BPFPROF_OFF_BITS | (off & BPFPROF_OFF_MASK);
	uint64_t row = anon_code_place(walker->anon_code, trial->process, frame, now_ns), start_ns;
	uint64_t here = 0;
	int nr;

	if (row)
		return row;
	if (!learning_allowed(walker, time_monotonic_ns()))
		return 0;
	start_ns = time_monotonic_ns(); /* reading the memory of the process may hang */
	nr = page_learn(walker, image, off, exact, trial, &here, now_ns);
	row = here;
	if (here)
		anon_code_place_add(walker->anon_code, trial->process, frame, here, now_ns);
	else if (nr > 0)
		row = rows_find(walker->row_buffer, (uint32_t)nr, off & 0xffff, exact);
	if (nr == -EAGAIN)
		row = 0;
	else if ((nr <= 0 && !here) || unwind_row_unexplored(row))
		row = unwind_row_make(0, ROW_UNPROVEN, 0, 0, 0, 0, 0);
	learning_done(walker, time_monotonic_ns() - start_ns, row);
	return row;
}

uint64_t code_row_anon(struct walker *walker, const struct process *process,
		       const struct process_mapping *mapping, struct code_trial *trial,
		       uint64_t now_ns)
{
	uint64_t none = unwind_row_make(0, ROW_NONE, 0, 0, 0, 0, UNWIND_LOOKED_AT), start_ns;
	uint64_t pc = trial->state->regs[UNWIND_PC], lookup_pc = unwind_lookup_pc(trial->state);
	uint64_t row = anon_code_row(walker->anon_code, process, lookup_pc, now_ns);

	if (row)
		return row;
	if (frame_pointer_serves(trial, none))
		return none;
	start_ns = time_monotonic_ns();
	if (!learning_allowed(walker, start_ns))
		return 0;
	row = anon_code_learn(walker->anon_code, process, mapping, pc, lookup_pc, leads_to_code,
			      trial, now_ns);
	if (!row && !trial->unread)
		row = anon_code_none(walker->anon_code, process, lookup_pc, now_ns);
	learning_done(walker, time_monotonic_ns() - start_ns, row);
	return row;
}
