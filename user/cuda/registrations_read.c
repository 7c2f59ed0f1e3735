// SPDX-License-Identifier: Apache-2.0
#include "cuda/registrations.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/map.h"
#include "base/sorted.h"
#include "base/time.h"
#include "base/vec.h"
#include "cuda/code_values.h"
#include "cuda/relocations.h"
#include "elf/image.h"

#define WRAPPER_MAGIC 0x466243b1U /* crt/host_runtime.h: __fatBinC_Wrapper_t */
#define WRAPPER_SECTION ".nvFatBinSegment"
#define MAX_INITS 65536
#define MAX_PROBED 48 /* instructions of a constructor before it refers to the wrapper */
#define MAX_INSTRUCTIONS (4U << 20)
#define MAX_CALLEES 32 /* functions called by a constructor that registers nothing itself */
#define MAX_SEEN 65536
#define MAX_WRAPPER_WORDS 65536
#define MAX_TARGETS 16 /* targets of branches in one function that are distinguished */
#define INSTRUCTIONS_PER_LOOK 256 /* instructions between two reads of the clock */
#define RELOCATIONS_PER_LOOK 64

enum stage {
	STAGE_BEGIN,
	/* Finds functions that run at the start, imports of the runtime, and addresses of wrappers. */
	STAGE_INITS,
	STAGE_CODE,
	STAGE_WORDS, /* reads the words that addresses of hosts are loaded from */
	STAGE_END,
};

/* A registration in the code. */
struct found {
	uint64_t host, name;
	bool is_word; /* host is the address of the word that it is loaded from */
};

struct word {
	uint64_t rva, value;
	bool is_filled, is_lost; /* filled by a relocation; with an address that is not known */
};

/* The scan of one function, from its begin to its end, in the order of addresses. */
struct scan {
	bool is_active, has_wrapper, is_callee;
	uint64_t rva;
	uint64_t last_target; /* the largest target of a branch; the function reaches it at least */
	uint64_t targets[MAX_TARGETS];
	uint32_t nr_targets;
	uint32_t nr_instructions, nr_found, nr_callees;
	uint64_t callees[MAX_CALLEES];
	struct code_state state;
};

struct registrations_reader {
	enum stage stage;
	struct relocations relocs;
	uint64_t wrappers_va, wrappers_bytes; /* where wrappers can lie */
	struct map wrapper_words; /* by rva */
	uint64_t next; /* relocation or constructor */
	uint64_t *inits;
	size_t nr_inits;
	struct scan scan;
	uint64_t callees[MAX_CALLEES];
	uint32_t nr_callees;
	struct map seen; /* callees */
	struct found *found;
	size_t nr_found, cap_found;
	struct word *words;
	size_t nr_words;
	struct registration_word functions[REGISTRATIONS_MAX_FUNCTIONS];
	size_t nr_functions;
	uint32_t nr_instructions, nr_bad;
	struct code_reader code;
};

int registrations_reader_new(struct registrations_reader **ret)
{
	struct registrations_reader *r = calloc(1, sizeof(*r));

	if (!r)
		return -ENOMEM;
	map_init(&r->seen, MAX_SEEN);
	map_init(&r->wrapper_words, MAX_WRAPPER_WORDS);
	*ret = r;
	return 0;
}

void registrations_reader_free(struct registrations_reader *r)
{
	if (!r)
		return;
	map_fini(&r->seen);
	map_fini(&r->wrapper_words);
	free(r->inits);
	free(r->found);
	free(r->words);
	free(r);
}

static uint64_t map_bytes(const struct map *map)
{
	return (uint64_t)map->cap * (sizeof(*map->keys) + sizeof(*map->values));
}

uint64_t registrations_reader_bytes(const struct registrations_reader *r)
{
	if (!r)
		return 0;
	return sizeof(*r) + (r->inits ? r->nr_inits * sizeof(*r->inits) : 0) +
	       r->cap_found * sizeof(*r->found) +
	       (r->words ? (r->nr_found + 1) * sizeof(*r->words) : 0) + map_bytes(&r->seen) +
	       map_bytes(&r->wrapper_words);
}

static bool is_late(uint64_t deadline_ns)
{
	return time_monotonic_ns() >= deadline_ns;
}

/* If there are section headers, one of them says whether the file registers anything. */
static bool may_register(struct registrations_reader *r, struct elf_image *img)
{
	const struct elf_section *section;
	size_t nr;

	elf_image_sections(img, &nr);
	section = elf_image_section(img, WRAPPER_SECTION);
	r->wrappers_va = section ? section->va : 0;
	r->wrappers_bytes = section ? section->bytes : UINT64_MAX;
	return !nr || section;
}

static int begin(struct registrations_reader *r, struct elf_image *img)
{
	uint64_t off;
	int err;

	if (!may_register(r, img)) {
		r->stage = STAGE_END;
		return 0;
	}
	err = relocations_init(&r->relocs, img);
	if (err)
		return err;
	r->nr_inits = r->relocs.init_bytes / sizeof(*r->inits);
	if (!r->nr_inits) {
		r->stage = STAGE_END;
		return 0;
	}
	if (r->nr_inits > MAX_INITS)
		return -E2BIG;
	if (elf_image_rva_to_off(img, r->relocs.init_va, &off))
		return -EBADMSG;
	r->inits = malloc(r->nr_inits * sizeof(*r->inits));
	if (!r->inits)
		return -ENOMEM;
	r->stage = STAGE_INITS;
	return elf_image_read(img, off, r->inits, r->nr_inits * sizeof(*r->inits));
}

static enum registered_function function_by_name(const char *name)
{
	static const struct {
		const char *name;
		enum registered_function function;
	} names[] = {
		{ "cudaLaunchKernel", RUNTIME_LAUNCH },
		{ "cudaLaunchKernel_ptsz", RUNTIME_LAUNCH },
		{ "__cudaLaunchKernel", RUNTIME_LAUNCH },
		{ "__cudaLaunchKernel_ptsz", RUNTIME_LAUNCH },
		{ "cudaLaunchCooperativeKernel", RUNTIME_LAUNCH },
		{ "cudaLaunchCooperativeKernel_ptsz", RUNTIME_LAUNCH },
		{ "cudaLaunchKernelExC", RUNTIME_LAUNCH_EX },
		{ "cudaLaunchKernelExC_ptsz", RUNTIME_LAUNCH_EX },
		{ "__cudaGetKernel", RUNTIME_GET_KERNEL },
	};
	size_t i;

	for (i = 0; i < sizeof(names) / sizeof(names[0]); i++)
		if (!strcmp(name, names[i].name))
			return names[i].function;
	return RUNTIME_NONE;
}

static int note_function(struct registrations_reader *r, struct elf_image *img,
			 const struct relocation *reloc)
{
	char name[RELOCATIONS_NAME_BYTES];
	enum registered_function function;
	int err = relocations_symbol_name(&r->relocs, img, reloc->symbol, name);

	if (err)
		return err == -ENOENT ? 0 : err;
	function = function_by_name(name);
	if (function != RUNTIME_NONE && r->nr_functions < REGISTRATIONS_MAX_FUNCTIONS)
		r->functions[r->nr_functions++] =
			(struct registration_word){ .rva = reloc->rva, .what = function };
	return 0;
}

static bool has_magic(struct elf_image *img, uint64_t rva)
{
	uint32_t magic;

	return !elf_image_read_rva(img, rva, &magic, sizeof(magic)) && magic == WRAPPER_MAGIC;
}

/* The value that a relocation puts into its word. False: it is known at run time only. */
static bool reloc_value(struct registrations_reader *r, struct elf_image *img,
			const struct relocation *reloc, uint64_t *ret)
{
	*ret = reloc->value;
	return reloc->is_known ||
	       (reloc->symbol && !relocations_symbol(&r->relocs, img, reloc->symbol, ret));
}

/*
 * In a shared library that is linked with -rdc=true the symbols of wrappers are not local, and
 * constructors load their addresses.
 */
static int note_wrapper(struct registrations_reader *r, struct elf_image *img,
			const struct relocation *reloc)
{
	uint64_t value;
	int err;

	if (!reloc_value(r, img, reloc, &value) || value - r->wrappers_va >= r->wrappers_bytes ||
	    !has_magic(img, value))
		return 0;
	err = map_set(&r->wrapper_words, reloc->rva, 0);
	return err == -ENOSPC ? -E2BIG : err;
}

static int note_init(struct registrations_reader *r, struct elf_image *img,
		     const struct relocation *reloc)
{
	uint64_t off = reloc->rva - r->relocs.init_va, *init;
	int err;

	if (reloc->symbol && note_function(r, img, reloc))
		return -EBADMSG;
	err = note_wrapper(r, img, reloc);
	if (err)
		return err;
	if (reloc->rva < r->relocs.init_va || off / sizeof(*r->inits) >= r->nr_inits ||
	    off % sizeof(*r->inits))
		return 0;
	init = &r->inits[off / sizeof(*r->inits)];
	if (!reloc_value(r, img, reloc, init))
		*init = 0;
	return 0;
}

static struct word *word_find(struct registrations_reader *r, uint64_t rva)
{
	return bsearch(&rva, r->words, r->nr_words, sizeof(*r->words), sorted_by_u64);
}

static int note_word(struct registrations_reader *r, struct elf_image *img,
		     const struct relocation *reloc)
{
	struct word *word = word_find(r, reloc->rva);
	uint64_t value;

	if (!word)
		return 0;
	if (!reloc_value(r, img, reloc, &value))
		word->is_lost = true;
	if (word->is_filled && word->value != value)
		word->is_lost = true;
	word->is_filled = true;
	word->value = value;
	return 0;
}

/* Passes all relocations to note(). 0 when done. */
static int pass_relocations(struct registrations_reader *r, struct elf_image *img,
			    uint64_t deadline_ns,
			    int (*note)(struct registrations_reader *r, struct elf_image *img,
					const struct relocation *reloc))
{
	struct relocation relocs[RELOCATIONS_PER_LOOK];
	int nr, i, err;

	do {
		nr = relocations_get(&r->relocs, img, r->next, relocs, RELOCATIONS_PER_LOOK);
		if (nr <= 0)
			return nr;
		for (i = 0; i < nr; i++) {
			err = note(r, img, &relocs[i]);
			if (err)
				return err;
		}
		r->next += (uint64_t)nr;
	} while (!is_late(deadline_ns));
	return -ETIME;
}

/* Might a kernel's name begin there? */
static bool has_name(struct elf_image *img, uint64_t rva)
{
	char c;

	return !elf_image_read_rva(img, rva, &c, 1) &&
	       ((c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '_');
}

static int found_add(struct registrations_reader *r, struct found found)
{
	int err = vec_grow(r->found, r->nr_found + 1, r->cap_found, REGISTRATIONS_MAX);

	if (!err)
		r->found[r->nr_found++] = found;
	return err;
}

static void callee_add(struct scan *scan, uint64_t rva)
{
	if (scan->nr_callees < MAX_CALLEES)
		scan->callees[scan->nr_callees++] = rva;
}

/*
 * Adds the functions that are called, and those that are passed to be called: with -rdc=true the
 * function that registers is passed to one that calls it after all files of a program have come.
 */
static void callees_add(struct registrations_reader *r, const struct code_target *target)
{
	const struct code_value *value;
	uint32_t i;

	if (target->kind == CODE_TARGET_CODE)
		callee_add(&r->scan, target->n);
	for (i = 0; i < CODE_NR_ARGUMENTS; i++) {
		value = code_state_argument(&r->scan.state, i);
		if (value->kind == CODE_NUMBER && value->n && code_reader_has(&r->code, value->n))
			callee_add(&r->scan, value->n);
	}
}

/* Does the call register a kernel? Its other arguments are on the stack. */
static int scan_call(struct registrations_reader *r, struct elf_image *img,
		     const struct code_target *target)
{
	const struct code_state *state = &r->scan.state;
	const struct code_value *host = code_state_argument(state, 1);
	const struct code_value *name = code_state_argument(state, 2);
	const struct code_value *limit = code_state_argument(state, 4);

	if (name->kind != CODE_NUMBER || !code_value_equal(name, code_state_argument(state, 3)) ||
	    limit->kind != CODE_NUMBER || (uint32_t)limit->n != UINT32_MAX ||
	    !code_value_is(code_state_argument(state, 5), 0)) {
		callees_add(r, target);
		return 0;
	}
	r->scan.nr_found++;
	if (!has_name(img, name->n) ||
	    (host->kind != CODE_LOADED &&
	     !(host->kind == CODE_NUMBER && code_reader_has(&r->code, host->n)))) {
		r->nr_bad++;
		return 0;
	}
	return found_add(r, (struct found){ .host = host->n,
					    .name = name->n,
					    .is_word = host->kind == CODE_LOADED });
}

/* Has an instruction just put a wrapper's address into a register? */
static bool meets_wrapper(struct registrations_reader *r, struct elf_image *img,
			  const struct code_instruction *in)
{
	const struct code_value *value = code_state_put(&r->scan.state, in);
	uint32_t nothing;

	if (!value)
		return false;
	if (value->kind == CODE_LOADED)
		return map_find(&r->wrapper_words, value->n, &nothing);
	return value->kind == CODE_NUMBER && has_magic(img, value->n);
}

static void scan_begin(struct scan *scan, uint64_t rva, bool is_callee)
{
	*scan = (struct scan){ .is_active = true, .is_callee = is_callee, .rva = rva };
	code_state_begin(&scan->state);
}

/*
 * The functions that a constructor with a wrapper calls are scanned once, if it registers
 * nothing itself.
 */
static void scan_end(struct registrations_reader *r)
{
	uint32_t i, seen;

	r->scan.is_active = false;
	if (r->scan.is_callee || !r->scan.has_wrapper || r->scan.nr_found)
		return;
	for (i = 0; i < r->scan.nr_callees; i++)
		if (!map_find(&r->seen, r->scan.callees[i], &seen) &&
		    !map_set(&r->seen, r->scan.callees[i], 0))
			r->callees[r->nr_callees++] = r->scan.callees[i];
}

static void scan_branch(struct scan *scan, const struct code_target *target)
{
	if (target->kind == CODE_TARGET_CODE) {
		if (target->n > scan->last_target)
			scan->last_target = target->n;
		if (scan->nr_targets < MAX_TARGETS)
			scan->targets[scan->nr_targets++] = target->n;
	}
	code_state_init(&scan->state);
}

/* Does a branch lead to the present instruction? */
static bool is_met(const struct scan *scan)
{
	uint32_t i;

	for (i = 0; i < scan->nr_targets; i++)
		if (scan->targets[i] == scan->rva)
			return true;
	return scan->nr_targets == MAX_TARGETS && scan->rva <= scan->last_target;
}

/* Scans one instruction. 1: it was the last one of the function. */
static int scan_step(struct registrations_reader *r, struct elf_image *img)
{
	struct scan *scan = &r->scan;
	struct code_instruction in;
	struct code_target target;
	int err;

	err = code_reader_get(&r->code, scan->rva, &in);
	if (err)
		return err == -ENOENT ? 1 : err;
	if (++r->nr_instructions > MAX_INSTRUCTIONS)
		return -E2BIG;
	if (!scan->is_callee && !scan->has_wrapper && ++scan->nr_instructions > MAX_PROBED)
		return 1;
	if (is_met(scan))
		code_state_init(&scan->state);
	scan->rva += in.insn.bytes;
	target = code_target(&scan->state, &in);
	switch (in.insn.kind) {
	case INSTRUCTION_CALL:
		err = scan_call(r, img, &target);
		break;
	case INSTRUCTION_BRANCH:
		scan_branch(scan, &target);
		return 0;
	case INSTRUCTION_JUMP:
		callees_add(r, &target);
		/* fall through */
	case INSTRUCTION_RETURN:
		code_state_init(&scan->state);
		return scan->last_target < scan->rva;
	default:
		break;
	}
	code_state_execute(&scan->state, &in);
	if (!scan->is_callee && !scan->has_wrapper)
		scan->has_wrapper = meets_wrapper(r, img, &in);
	return err;
}

/* Begins to scan the next function; false: there is none. */
static bool scan_next(struct registrations_reader *r)
{
	if (r->nr_callees) {
		scan_begin(&r->scan, r->callees[--r->nr_callees], true);
		return true;
	}
	if (r->next == r->nr_inits)
		return false;
	scan_begin(&r->scan, r->inits[r->next++], false);
	return true;
}

static int pass_code(struct registrations_reader *r, struct elf_image *img, uint64_t deadline_ns)
{
	uint32_t i;
	int done;

	for (i = 1;; i++) {
		if (i % INSTRUCTIONS_PER_LOOK == 0 && is_late(deadline_ns))
			return -ETIME;
		if (!r->scan.is_active && !scan_next(r))
			return 0;
		done = scan_step(r, img);
		if (done < 0)
			return done;
		if (done)
			scan_end(r);
	}
}

/* The words that hosts are loaded from, each once. */
static int words_collect(struct registrations_reader *r)
{
	size_t i, nr = 0;

	r->words = calloc(r->nr_found + 1, sizeof(*r->words));
	if (!r->words)
		return -ENOMEM;
	for (i = 0; i < r->nr_found; i++)
		if (r->found[i].is_word)
			r->words[nr++].rva = r->found[i].host;
	qsort(r->words, nr, sizeof(*r->words), sorted_by_u64);
	for (i = 0; i < nr; i++)
		if (!r->nr_words || r->words[r->nr_words - 1].rva != r->words[i].rva)
			r->words[r->nr_words++] = r->words[i];
	return 0;
}

/* Reads words without a relocation: the program is not moved, or has packed ones. */
static void words_read(struct registrations_reader *r, struct elf_image *img)
{
	struct word *word;

	for (word = r->words; word < r->words + r->nr_words; word++)
		if (!word->is_filled &&
		    elf_image_read_rva(img, word->rva, &word->value, sizeof(word->value)))
			word->is_lost = true;
}

/* Replaces the addresses of words by those of hosts, and drops registrations without one. */
static void found_resolve(struct registrations_reader *r)
{
	const struct word *word;
	size_t i, nr = 0;

	for (i = 0; i < r->nr_found; i++) {
		struct found found = r->found[i];

		if (found.is_word) {
			word = word_find(r, found.host);
			if (!word || word->is_lost || !code_reader_has(&r->code, word->value)) {
				r->nr_bad++;
				continue;
			}
			found.host = word->value;
		}
		r->found[nr++] = found;
	}
	r->nr_found = nr;
}

static int compare_found(const void *a, const void *b)
{
	const struct found *x = a, *y = b;

	if (x->host != y->host)
		return x->host < y->host ? -1 : 1;
	return x->name < y->name ? -1 : x->name > y->name;
}

static bool names_equal(struct elf_image *img, uint64_t a, uint64_t b)
{
	uint64_t i, off_a, off_b;
	char x, y;

	if (a == b)
		return true;
	if (elf_image_rva_to_off(img, a, &off_a) || elf_image_rva_to_off(img, b, &off_b))
		return false;
	for (i = 0; i < REGISTRATIONS_MAX_NAME; i++) {
		if (elf_image_read(img, off_a + i, &x, 1) ||
		    elf_image_read(img, off_b + i, &y, 1) || x != y)
			return false;
		if (!x)
			return true;
	}
	return false;
}

static int kernels_make(struct registrations_reader *r, struct elf_image *img,
			struct registrations *ret)
{
	struct registration *last = NULL;
	size_t i;

	if (r->nr_found)
		qsort(r->found, r->nr_found, sizeof(*r->found), compare_found);
	ret->kernels = malloc((r->nr_found + 1) * sizeof(*ret->kernels));
	if (!ret->kernels)
		return -ENOMEM;
	for (i = 0; i < r->nr_found; i++) {
		if (last && last->host == r->found[i].host) {
			if (last->name && !names_equal(img, last->name, r->found[i].name))
				last->name = 0;
			continue;
		}
		last = &ret->kernels[ret->nr++];
		*last = (struct registration){ .host = r->found[i].host, .name = r->found[i].name };
	}
	return 0;
}

static int words_make(struct registrations_reader *r, struct registrations *ret)
{
	size_t i, kernel;

	ret->words = malloc((r->nr_words + 1) * sizeof(*ret->words));
	if (!ret->words)
		return -ENOMEM;
	for (i = 0; i < r->nr_words; i++) {
		kernel =
			r->words[i].is_lost ? SIZE_MAX : registrations_find(ret, r->words[i].value);
		if (kernel != SIZE_MAX)
			ret->words[ret->nr_words++] =
				(struct registration_word){ .rva = r->words[i].rva,
							    .what = (uint32_t)kernel };
	}
	return 0;
}

static int finish(struct registrations_reader *r, struct elf_image *img, struct registrations *ret)
{
	struct registrations made = { .nr_functions = r->nr_functions };
	int err;

	memcpy(made.functions, r->functions, sizeof(made.functions));
	if (r->words) {
		words_read(r, img);
		found_resolve(r);
	}
	made.nr_bad = r->nr_bad;
	err = kernels_make(r, img, &made);
	if (!err)
		err = words_make(r, &made);
	if (err)
		registrations_fini(&made);
	else
		*ret = made;
	return err;
}

int registrations_read(struct registrations_reader *r, struct elf_image *img, uint64_t deadline_ns,
		       struct registrations *ret)
{
	int err = code_reader_init(&r->code, img);

	if (!err && r->stage == STAGE_BEGIN)
		err = begin(r, img);
	if (!err && r->stage == STAGE_INITS) {
		err = pass_relocations(r, img, deadline_ns, note_init);
		if (err)
			return err;
		r->next = 0;
		r->stage = STAGE_CODE;
	}
	if (!err && r->stage == STAGE_CODE) {
		err = pass_code(r, img, deadline_ns);
		if (!err)
			err = words_collect(r);
		if (err)
			return err;
		r->next = 0;
		r->stage = STAGE_WORDS;
	}
	if (!err && r->stage == STAGE_WORDS) {
		if (r->nr_words)
			err = pass_relocations(r, img, deadline_ns, note_word);
		if (err)
			return err;
		r->stage = STAGE_END;
	}
	return err ? err : finish(r, img, ret);
}
