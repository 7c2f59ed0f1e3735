/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_KERNEL_WALK_CODE_H
#define BPFPROF_KERNEL_WALK_CODE_H

/*
 * Code without unwind tables: its rules are read out of it (unwind/x86_64/insn_unwind.h) and proven by the stack of
 * the process that stands in it.
 */

#include <stdbool.h>
#include <stdint.h>

struct image;
struct process;
struct process_mapping;
struct unwind_reader;
struct unwind_state;
struct walker;

/* What a rule that was read out of code is tried on. */
struct code_trial {
	struct walker *walker;
	const struct process *process;
	const struct unwind_state *state;
	struct unwind_reader *reader;
	uint64_t now_ns;
	bool unread; /* a rule could not be tried, for what there is of the stack */
	bool hangs; /* the process's memory did not come in time */
	bool all_mapped; /* all code that the process had mapped then is known */
	const struct process_mapping *mapping; /* of the place */
	uint64_t
		search_va; /* how far the stack above was searched for return addresses; 0: not yet */
	uint64_t return_va; /* where the one lies that a rule must lead to; 0: any will do */
	uint32_t nr_starts;
};

/*
 * The row of a file's code, which is learned for all processes, or for this one alone (cfi_learn()); 0 if
 * there is no time for that, or not enough of the stack (trial->unread).
 */
uint64_t code_row_learn(struct walker *walker, struct image *image, uint64_t off, bool exact,
			struct code_trial *trial, uint64_t now_ns);
/* The row of code in no file: it keeps frame pointers, or has to be read; 0 as above. */
uint64_t code_row_anon(struct walker *walker, const struct process *process,
		       const struct process_mapping *mapping, struct code_trial *trial,
		       uint64_t now_ns);

#endif
