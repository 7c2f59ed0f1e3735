/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_KERNEL_ANON_CODE_H
#define BPFPROF_KERNEL_ANON_CODE_H

/*
 * Unwind rules of code in no file: code that oneDNN and others make at run time uses the register of
 * the frame pointer freely. Where the frame pointer fails, this module reads the code from the process
 * and follows it (unwind/insn_unwind.h). Blocks with one rule go into the kernel's map code_blocks
 * for some seconds, because such code may change. Rules of code in files are there, too, if they hold for
 * one process alone (cfi_learn()).
 */

#include <stdint.h>

#include "unwind/cfi.h"

struct anon_code;
struct deadline_runner;
struct process;
struct process_mapping;
struct session;

int anon_code_new(struct anon_code **ret, struct session *session, struct deadline_runner *runner);
void anon_code_free(struct anon_code *code);

/* The known row of pc, or 0. */
uint64_t anon_code_row(struct anon_code *code, const struct process *process, uint64_t pc,
		       uint64_t now_ns);
/*
 * Makes a row from the code in mapping; lookup_pc is pc, or the byte before it if pc is a return
 * address. check as for cfi_learn(). 0 if there is no rule.
 */
uint64_t anon_code_learn(struct anon_code *code, const struct process *process,
			 const struct process_mapping *mapping, uint64_t pc, uint64_t lookup_pc,
			 cfi_check_fn check, void *arg, uint64_t now_ns);
/* Records that pc has no rule; returns the row for that. */
uint64_t anon_code_none(struct anon_code *code, const struct process *process, uint64_t lookup_pc,
			uint64_t now_ns);
/*
 * The row of a place in a file for this process alone, 0 if none is known; and the function that
 * adds one. The place is its frame of kind BPFPROF_FRAME_NATIVE. These rows live longer, because
 * files do not change.
 */
uint64_t anon_code_place(struct anon_code *code, const struct process *process, uint64_t frame,
			 uint64_t now_ns);
void anon_code_place_add(struct anon_code *code, const struct process *process, uint64_t frame,
			 uint64_t row, uint64_t now_ns);
/* Evicts old rules. */
void anon_code_expire(struct anon_code *code, uint64_t now_ns);

#endif
