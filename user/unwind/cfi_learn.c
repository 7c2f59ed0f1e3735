// SPDX-License-Identifier: Apache-2.0
/* Proves rules that come from instructions, and keeps them. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "unwind/cfi.h"
#include "unwind/cfi_state.h"
#include "unwind/code_look.h"
#include "unwind/reader.h"
#include "unwind_native.h"

#define MAX_LEARNED 8192 /* then all rules are forgotten, and learned again on demand */
#define LEARN_AT_ONCE 512
#define UNKNOWN_BLOCK 16 /* code without a rule is skipped in blocks of this size */
#define POINTER_REACH 4096 /* code this near is searched for pointers to the function of a place */
#define MAX_POINTERS 16
#define RUN_BYTES 512 /* of code without a branch that is learned at once */

/* Adds the parts of rule that no other rule covers yet. */
static void learned_add(struct cfi *cfi, const struct insn_rule *rule)
{
	uint64_t off = rule->off, end = rule->off + rule->len, limit;
	size_t i = cfi_learned_after(cfi, off);

	while (off < end) {
		if (i < cfi->nr_learned && cfi->learned[i].off <= off) {
			off = cfi->learned[i].off + cfi->learned[i].len;
			i++;
			continue;
		}
		limit = i < cfi->nr_learned && cfi->learned[i].off < end ? cfi->learned[i].off
									 : end;
		if (cfi->nr_learned == cfi->cap_learned)
			return;
		memmove(cfi->learned + i + 1, cfi->learned + i,
			(cfi->nr_learned++ - i) * sizeof(*cfi->learned));
		cfi->learned[i++] = (struct insn_rule){ .off = off,
							.len = (uint32_t)(limit - off),
							.row = rule->row };
		off = limit;
	}
}

/* Makes room for nr more rules, each perhaps in two parts. */
static int learned_grow(struct cfi *cfi, size_t nr)
{
	if (cfi->nr_learned + 2 * nr > MAX_LEARNED)
		cfi->nr_learned = 0;
	return vec_grow(cfi->learned, cfi->nr_learned + 2 * nr, cfi->cap_learned, VEC_BOUNDED);
}

/* Is off in the first instructions of the program, which nothing calls? */
static bool is_entry(struct cfi *cfi, uint64_t off)
{
	uint8_t code[CFI_ENTRY_BYTES];
	uint64_t entry;
	int len = cfi_entry_read(cfi, &entry, code);

	return len > 0 && off >= entry && off - entry < code_straight(code, (size_t)len);
}

/*
 * Is from in the code that signal handlers return to: at its beginning, or at or in its system call?
 * Then *rule is its row; else false.
 */
static bool signal_return_rule(struct cfi *cfi, uint64_t from, bool exact, struct insn_rule *rule)
{
	uint8_t code[CODE_LOOK_BYTES];
	size_t next, back = 0, bytes = 0;
	int len;

	for (next = 0; next <= CODE_SIGNAL_RETURN_BYTES && next <= from && !bytes; next++) {
		back = next;
		len = cfi_code_read(cfi, from - back, code, sizeof(code));
		bytes = len > 0 ? code_returns_from_signal(code, (size_t)len) : 0;
		if (back && back != bytes - SYSCALL_BYTES && (exact || back != bytes))
			bytes = 0;
	}
	if (!bytes)
		return false;
	rule->off = from - back;
	rule->len = (uint32_t)bytes;
	rule->row =
		unwind_row_make(0, ROW_SIGNAL, UNWIND_SP, UNWIND_SIGNAL_CONTEXT / 8, BP_SAME, 0, 0);
	if (!back && !exact) { /* walkers look up the byte before it */
		rule->off--;
		rule->len++;
	}
	return true;
}

/* The rule of code that a few bytes identify. */
static bool rule_at_sight(struct cfi *cfi, uint64_t off, uint64_t from, bool exact,
			  struct insn_rule *rule)
{
	if (!is_entry(cfi, off))
		return signal_return_rule(cfi, from, exact, rule);
	rule->off = off;
	rule->len = 1;
	rule->row = unwind_row_make(0, ROW_END, 0, 0, 0, 0, 0);
	return true;
}

static uint64_t row_unproven(struct cfi *cfi, uint64_t from, bool exact)
{
	uint8_t code[CODE_LOOK_BYTES];
	int len = cfi_code_read(cfi, from, code, sizeof(code));

	return unwind_row_make(0, ROW_UNPROVEN, 0, 0, 0, 0,
			       !exact && len > 0 && code_halts(code, (size_t)len) ? UNWIND_HALTS
										  : 0);
}

/* One place in code that no table covers. */
struct lesson {
	struct cfi *cfi;
	uint64_t from; /* an instruction, or a return address */
	bool exact; /* from is an instruction */
	const struct cfi_trial *trial;
	struct insn_rule *rules; /* LEARN_AT_ONCE of them */
	int at; /* the rule of the place */
	uint64_t function; /* the start that was tried; UINT64_MAX: none */
	bool unread;
	bool refused; /* the stack contradicts a rule that comes from the code only */
	bool only_here; /* the rule depends on this stack and must not be used for other processes */
};

/* Finds rules in one way. Their number, 0 if the place has none, -errno. */
static int rules_find(struct lesson *l, enum code_way way, const uint64_t *function)
{
	int nr = cfi_insn_rules(l->cfi, way, l->from, !l->exact, function, l->rules, LEARN_AT_ONCE);
	uint64_t off = way == CODE_FROM_START ? l->from - !l->exact : l->from;

	l->function = function ? *function : UINT64_MAX;
	if (nr < 0)
		return nr == -ENODATA ? 0 : nr;
	for (l->at = 0; l->at < nr; l->at++)
		if (off >= l->rules[l->at].off && off - l->rules[l->at].off < l->rules[l->at].len)
			return nr;
	return 0;
}

/* The same, and tries the rule of the place on the process. */
static int rules_try(struct lesson *l, enum code_way way, const uint64_t *function,
		     enum cfi_verdict *ret)
{
	int nr = rules_find(l, way, function);

	*ret = CFI_REFUSED;
	if (nr > 0)
		*ret = l->trial->check(l->trial->arg, l->rules[l->at].row,
				       way == CODE_FRAME_POINTER);
	l->unread |= *ret == CFI_UNREAD;
	return nr;
}

/* From the targets of calls whose return addresses are on the stack. */
static int rules_by_callers(struct lesson *l)
{
	enum cfi_verdict verdict;
	bool found = false;
	uint64_t function;
	int nr = 0;

	/* next_start() is called to its end: else check() goes on refusing rules. */
	while (!l->trial->next_start(l->trial->arg, &function)) {
		if (nr < 0 || found)
			continue;
		nr = rules_try(l, CODE_FROM_START, &function, &verdict);
		found = verdict == CFI_PROVEN;
	}
	return nr < 0 || found ? nr : 0;
}

/* The pointers nearest before an address, in descending order. */
struct pointers {
	uint64_t va[MAX_POINTERS];
	size_t nr;
};

static void pointer_add(struct pointers *p, uint64_t va)
{
	size_t i, at;

	for (at = 0; at < p->nr && p->va[at] > va; at++)
		;
	if (at == MAX_POINTERS || (at < p->nr && p->va[at] == va))
		return;
	p->nr += p->nr < MAX_POINTERS;
	for (i = p->nr - 1; i > at; i--)
		p->va[i] = p->va[i - 1];
	p->va[at] = va;
}

/* The addresses up to rva that code around it loads. Decoding gets into step from any start. */
static int pointers_find(struct lesson *l, const struct elf_segment *seg, uint64_t rva,
			 struct pointers *ret)
{
	uint64_t low = rva - seg->va > POINTER_REACH ? rva - POINTER_REACH : seg->va, va;
	uint8_t *code = malloc(2 * POINTER_REACH);
	size_t pos = 0;
	int len;

	ret->nr = 0;
	if (!code)
		return -ENOMEM;
	len = cfi_code_read(l->cfi, low - seg->va + seg->off, code, 2 * POINTER_REACH);
	while (len > 0 && pos < (size_t)len) {
		if (code_address_next(code, (size_t)len, low, &pos, &va))
			pos++; /* not an instruction */
		else if (va <= rva && rva - va < POINTER_REACH && va >= seg->va)
			pointer_add(ret, va);
	}
	free(code);
	return len < 0 ? len : 0;
}

/*
 * From the pointers that code around the place loads. A function that is only called through a pointer
 * (of a thread, a callback, musl's libc_start_main_stage2()) is mostly near the code that takes its
 * address.
 */
static int rules_by_pointers(struct lesson *l)
{
	const struct elf_segment *seg = cfi_segment_of(l->cfi, l->from - !l->exact);
	enum cfi_verdict verdict;
	struct pointers pointers;
	uint64_t rva, function;
	size_t i;
	int nr;

	if (!seg)
		return 0;
	rva = l->from - !l->exact - seg->off + seg->va;
	nr = pointers_find(l, seg, rva, &pointers);
	for (i = 0; !nr && i < pointers.nr; i++) {
		function = pointers.va[i] - seg->va + seg->off;
		nr = rules_try(l, CODE_FROM_START, &function, &verdict);
		nr = nr > 0 && verdict != CFI_PROVEN ? 0 : nr;
	}
	return nr;
}

/*
 * By the ways that need no stack: the number of rules if a way is proven, 0, or -errno. *ret_possible is
 * the first way whose rules cannot be refuted, CODE_GUESSES if there is none.
 */
static int rules_by_code(struct lesson *l, enum code_way *ret_possible)
{
	static const enum code_way from_symbols[] = { CODE_FROM_START, CODE_TO_RETURN };
	static const enum code_way from_looks[] = { CODE_TO_RETURN, CODE_FROM_START };
	const enum code_way *ways = from_symbols;
	enum cfi_verdict verdict;
	int i, nr;

	/* The nearest symbol may belong to another function. */
	if (!cfi_starts_complete(l->cfi, l->from - !l->exact))
		ways = from_looks;
	*ret_possible = CODE_GUESSES;
	for (i = 0; i < 2; i++) {
		nr = rules_try(l, ways[i], NULL, &verdict);
		if (nr < 0 || verdict == CFI_PROVEN)
			return nr;
		l->refused |= nr > 0 && verdict == CFI_REFUSED;
		if (verdict == CFI_POSSIBLE && *ret_possible == CODE_GUESSES)
			*ret_possible = ways[i];
	}
	return 0;
}

/*
 * By the ways that a stack has to prove. A frame pointer is accepted only if the code shows nothing
 * else: a stack that contradicts its code proves nothing by leading somewhere.
 */
static int rules_by_stack(struct lesson *l)
{
	enum cfi_verdict verdict;
	int nr = rules_by_callers(l);

	if (!nr)
		nr = rules_by_pointers(l);
	if (nr)
		return nr;
	nr = rules_try(l, CODE_TO_NEAR_RETURN, NULL, &verdict);
	if (nr < 0 || verdict == CFI_PROVEN || l->refused)
		return nr < 0 || verdict == CFI_PROVEN ? nr : 0;
	nr = rules_try(l, CODE_FRAME_POINTER, NULL, &verdict);
	return nr < 0 || verdict == CFI_PROVEN ? nr : 0;
}

/*
 * The rules of the first way that is proven, else of the first one that cannot be refuted and is not a
 * guess. Their number, 0 if there are none, -EAGAIN or -errno.
 */
static int rules_choose(struct lesson *l)
{
	enum code_way possible;
	int nr = rules_by_code(l, &possible);

	l->only_here = l->refused;
	if (nr)
		return nr;
	nr = rules_by_stack(l);
	l->only_here |= nr > 0;
	if (nr)
		return nr;
	if (possible != CODE_GUESSES)
		return rules_find(l, possible, NULL);
	return l->unread ? -EAGAIN : 0;
}

/*
 * If the ends of functions are not known, the way may have gone on into the next function behind a call
 * that does not return. Keeps the rules that surely belong to the function of the place.
 */
static int rules_clip(struct lesson *l, uint64_t off, int nr)
{
	uint64_t low = l->function != UINT64_MAX ? l->function : off, high;
	struct insn_rule *from = l->rules, *to = l->rules, *end = from + nr;
	uint8_t code[RUN_BYTES];
	int len = cfi_code_read(l->cfi, off, code, sizeof(code));

	/* Without exact, off is the last byte of the call before the return address. */
	high = l->exact && len > 0 ? off + code_run(code, (size_t)len) : off + 1;
	for (; from < end; from++) {
		uint64_t first = from->off > low ? from->off : low;
		uint64_t last = from->off + from->len < high ? from->off + from->len : high;

		if (first < last)
			*to++ = (struct insn_rule){ .off = first,
						    .row = from->row,
						    .len = (uint32_t)(last - first) };
	}
	return (int)(to - l->rules);
}

static int rules_keep(struct lesson *l, int nr)
{
	int err = learned_grow(l->cfi, (size_t)nr), i;

	for (i = 0; !err && i < nr; i++)
		learned_add(l->cfi, &l->rules[i]);
	return err;
}

static int learn(struct lesson *l, uint64_t off, uint64_t *ret_here)
{
	uint64_t row = 0;
	int nr;

	if (rule_at_sight(l->cfi, off, l->from, l->exact, &l->rules[0]))
		return rules_keep(l, 1);
	nr = rules_choose(l);
	if (nr < 0)
		return nr;
	if (!nr) {
		row = l->trial->outermost(l->trial->arg);
		l->only_here |= row != 0;
	}
	if (l->only_here) {
		*ret_here = nr	  ? l->rules[l->at].row
			    : row ? row
				  : row_unproven(l->cfi, l->from, l->exact);
		return 0;
	}
	if (!nr) {
		l->rules[0] = (struct insn_rule){
			.off = off,
			.len = UNKNOWN_BLOCK - (off & (UNKNOWN_BLOCK - 1)),
			.row = row_unproven(l->cfi, l->from, l->exact),
		};
		return rules_keep(l, 1);
	}
	if (!l->exact && l->rules[l->at].off == l->from) {
		l->rules[l->at].off--;
		l->rules[l->at].len++;
	}
	if (!l->cfi->starts.complete)
		nr = rules_clip(l, off, nr);
	return rules_keep(l, nr);
}

int cfi_learn(struct cfi *cfi, uint64_t off, bool exact, const struct cfi_trial *trial,
	      uint64_t *ret_here)
{
	struct lesson l = {
		.cfi = cfi, .from = exact ? off : off + 1, .exact = exact, .trial = trial
	};
	int err;

	*ret_here = 0;
	l.rules = malloc(LEARN_AT_ONCE * sizeof(*l.rules));
	if (!l.rules)
		return -ENOMEM;
	err = learn(&l, off, ret_here);
	free(l.rules);
	return err;
}

void cfi_forget_unproven(struct cfi *cfi, uint32_t page)
{
	size_t kept = 0;

	for (size_t i = 0; i < cfi->nr_learned; i++) {
		const struct insn_rule *rule = &cfi->learned[i];

		if (rule->off >> BPFPROF_PAGE_SHIFT != page ||
		    unwind_row_kind(rule->row) != ROW_UNPROVEN)
			cfi->learned[kept++] = *rule;
	}
	cfi->nr_learned = kept;
}
