// SPDX-License-Identifier: Apache-2.0
#include "kernel/anon_code.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>

#include "base/hash_table.h"
#include "base/time.h"
#include "kernel/memory.h"
#include "kernel/session.h"
#include "kernel/tables.h"
#include "proc/processes.h"
#include "unwind/insn_unwind.h"
#include "unwind/reader.h"
#include "bpfprof.h"
#include "unwind_native.h"
#include "bpfprof.skel.h"

/* Limits for both kinds together: a little less than the map code_blocks holds. */
#define MAX_BLOCKS 3000
#define MAX_PLACES 1000
#define MAX_BLOCKS_AT_ONCE 512
#define MAX_RULES 512
#define KEEP_NS (5 * NS_PER_SECOND)
#define KEEP_PLACE_NS (30 * NS_PER_SECOND) /* another stack of the process may prove another rule */
#define BLOCK_BYTES (1ULL << BPFPROF_CODE_BLOCK_SHIFT)
#define MAX_REACH (1ULL << 20) /* code further away belongs to another function */

struct block {
	struct hash_node node;
	struct bpfprof_code_block key;
	uint64_t row;
	uint64_t learned_ns;
};

/* Each kind has its own lifetime and its own limit. */
struct blocks {
	struct hash_table all;
	uint64_t keep_ns;
};

struct anon_code {
	struct session *session;
	struct deadline_runner *runner;
	struct blocks anon, places;
};

int anon_code_new(struct anon_code **ret, struct session *session, struct deadline_runner *runner)
{
	struct anon_code *code = calloc(1, sizeof(*code));

	if (!code)
		return -ENOMEM;
	code->session = session;
	code->runner = runner;
	code->anon.keep_ns = KEEP_NS;
	code->places.keep_ns = KEEP_PLACE_NS;
	hash_table_init(&code->anon.all, MAX_BLOCKS, struct block, key);
	hash_table_init(&code->places.all, MAX_PLACES, struct block, key);
	*ret = code;
	return 0;
}

static void block_remove(struct anon_code *code, struct blocks *in, struct block *block)
{
	session_map_delete(code->session->skel->maps.code_blocks, &block->key);
	hash_table_remove(&in->all, block);
}

void anon_code_free(struct anon_code *code)
{
	if (!code)
		return;
	hash_table_clear(&code->anon.all);
	hash_table_clear(&code->places.all);
	free(code);
}

static void blocks_expire(struct anon_code *code, struct blocks *blocks, uint64_t now_ns)
{
	struct block *block;

	hash_table_each(&blocks->all, block) {
		if (now_ns - block->learned_ns < blocks->keep_ns)
			break;
		block_remove(code, blocks, block);
	}
}

void anon_code_expire(struct anon_code *code, uint64_t now_ns)
{
	blocks_expire(code, &code->anon, now_ns);
	blocks_expire(code, &code->places, now_ns);
}

static uint64_t block_of(uint64_t va)
{
	return va >> BPFPROF_CODE_BLOCK_SHIFT;
}

static struct block *block_find(const struct blocks *in, uint32_t asid, uint64_t number)
{
	struct bpfprof_code_block key = { .block = number, .asid = asid };

	return hash_table_find(&in->all, &key);
}

uint64_t anon_code_row(struct anon_code *code, const struct process *process, uint64_t pc,
		       uint64_t now_ns)
{
	struct block *block;

	anon_code_expire(code, now_ns);
	if (!process->tables->published)
		return 0;
	block = block_find(&code->anon, process->tables->asid, block_of(pc));
	if (!block)
		block = block_find(&code->anon, process->tables->asid, pc | BPFPROF_CODE_BLOCK_PC);
	return block ? block->row : 0;
}

static void block_add(struct anon_code *code, struct blocks *in, uint32_t asid, uint64_t number,
		      uint64_t row, uint64_t now_ns)
{
	struct bpfprof_code_block key = { .block = number, .asid = asid };
	struct block *block = hash_table_find(&in->all, &key);

	if (block)
		block_remove(code, in, block);
	if (in->all.nr == in->all.max)
		block_remove(code, in, (void *)in->all.oldest);
	block = hash_table_add(&in->all, &key);
	if (!block)
		return;
	block->row = row;
	block->learned_ns = now_ns;
	session_map_set(code->session->skel->maps.code_blocks, &block->key, &row);
}

/* Code in the memory of a process. */
struct code_memory {
	struct anon_code *code;
	uint32_t pid;
};

static int code_memory_read(void *arg, uint64_t off, void *dst, size_t len)
{
	struct code_memory *memory = arg;

	return memory_read(memory->code->session, memory->code->runner, memory->pid, off, dst, len);
}

/*
 * Adds the blocks that lie completely inside the rule; at most *left, because one process must not
 * use all blocks.
 */
static void rule_publish(struct anon_code *code, uint32_t asid, const struct insn_rule *rule,
			 uint32_t *left, uint64_t now_ns)
{
	uint64_t va = (rule->off + BLOCK_BYTES - 1) & ~(BLOCK_BYTES - 1);

	for (; va + BLOCK_BYTES <= rule->off + rule->len && *left; va += BLOCK_BYTES, --*left)
		block_add(code, &code->anon, asid, block_of(va), rule->row, now_ns);
}

static uint64_t learn(struct anon_code *code, const struct process *process,
		      const struct process_mapping *mapping, uint64_t pc, struct insn_rule *rules,
		      cfi_check_fn check, void *arg, uint64_t now_ns)
{
	struct code_memory memory = { .code = code,
				      .pid = session_own_pid(code->session, process->pid,
							     process->ns_context.agent_pid) };
	struct code_area area = { .read = code_memory_read,
				  .arg = &memory,
				  .start = mapping->start,
				  .end = mapping->end };
	uint32_t left = MAX_BLOCKS_AT_ONCE;
	enum cfi_verdict verdict;
	int nr, i, at;

	if (pc - area.start > MAX_REACH)
		area.start = pc - MAX_REACH;
	if (area.end - pc > MAX_REACH)
		area.end = pc + MAX_REACH;
	nr = insn_unwind_find(&area, pc, rules, MAX_RULES);
	for (at = 0; at < nr; at++)
		if (pc >= rules[at].off && pc - rules[at].off < rules[at].len)
			break;
	if (nr < 0 || at == nr)
		return 0;
	verdict = check(arg, rules[at].row, false);
	if (verdict != CFI_PROVEN && verdict != CFI_POSSIBLE)
		return 0;
	for (i = 0; i < nr && process->tables->published; i++)
		rule_publish(code, process->tables->asid, &rules[i], &left, now_ns);
	return rules[at].row;
}

/* Adds code in a block with several rules. */
static void pc_add(struct anon_code *code, const struct process *process, uint64_t lookup_pc,
		   uint64_t row, uint64_t now_ns)
{
	if (process->tables->published &&
	    !block_find(&code->anon, process->tables->asid, block_of(lookup_pc)))
		block_add(code, &code->anon, process->tables->asid,
			  lookup_pc | BPFPROF_CODE_BLOCK_PC, row, now_ns);
}

uint64_t anon_code_learn(struct anon_code *code, const struct process *process,
			 const struct process_mapping *mapping, uint64_t pc, uint64_t lookup_pc,
			 cfi_check_fn check, void *arg, uint64_t now_ns)
{
	struct insn_rule *rules = malloc(MAX_RULES * sizeof(*rules));
	uint64_t row = 0;

	if (rules && pc >= mapping->start && pc < mapping->end)
		row = learn(code, process, mapping, pc, rules, check, arg, now_ns);
	free(rules);
	if (row)
		pc_add(code, process, lookup_pc, row, now_ns);
	return row;
}

uint64_t anon_code_none(struct anon_code *code, const struct process *process, uint64_t lookup_pc,
			uint64_t now_ns)
{
	uint64_t row = unwind_row_make(0, ROW_NONE, 0, 0, 0, 0, UNWIND_LOOKED_AT | UNWIND_NO_RULE);

	pc_add(code, process, lookup_pc, row, now_ns);
	return row;
}

uint64_t anon_code_place(struct anon_code *code, const struct process *process, uint64_t frame,
			 uint64_t now_ns)
{
	struct block *block;

	blocks_expire(code, &code->places, now_ns);
	block = process->tables->published ? block_find(&code->places, process->tables->asid, frame)
					   : NULL;
	return block ? block->row : 0;
}

void anon_code_place_add(struct anon_code *code, const struct process *process, uint64_t frame,
			 uint64_t row, uint64_t now_ns)
{
	if (process->tables->published)
		block_add(code, &code->places, process->tables->asid, frame, row, now_ns);
}
