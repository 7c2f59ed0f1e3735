// SPDX-License-Identifier: Apache-2.0
#include "unwind/cfi_expr.h"

#include <dwarf.h>
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "unwind/plt_expr.h"
#include "unwind/reader.h"
#include "unwind_native.h"

#define EXPR_MAX_STACK 64
#define EXPR_MAX_OPS 4096 /* DW_OP_bra can go backwards */

/* An integer literal of any form; false: op is something else, nothing was read. */
static bool expr_const(struct frame_cursor *cur, uint8_t op, uint64_t *ret)
{
	if (op >= DW_OP_lit0 && op <= DW_OP_lit31) {
		*ret = op - DW_OP_lit0;
		return true;
	}
	switch (op) {
	case DW_OP_const1u:
	case DW_OP_const2u:
	case DW_OP_const4u:
	case DW_OP_const8u:
		*ret = cursor_uint(cur, 1U << ((op - DW_OP_const1u) / 2));
		return true;
	case DW_OP_const1s:
	case DW_OP_const2s:
	case DW_OP_const4s:
	case DW_OP_const8s:
		*ret = (uint64_t)cursor_sint(cur, 1U << ((op - DW_OP_const1s) / 2));
		return true;
	case DW_OP_constu:
		*ret = cursor_uleb(cur);
		return true;
	case DW_OP_consts:
		*ret = (uint64_t)cursor_sleb(cur);
		return true;
	}
	return false;
}

/* DW_OP_bregN or bregx: register and offset. */
static bool expr_breg(struct frame_cursor *cur, uint8_t op, uint64_t *ret_reg, int64_t *ret_off)
{
	if (op >= DW_OP_breg0 && op <= DW_OP_breg31)
		*ret_reg = op - DW_OP_breg0;
	else if (op == DW_OP_bregx)
		*ret_reg = cursor_uleb(cur);
	else
		return false;
	*ret_off = cursor_sleb(cur);
	return true;
}

/* `bregN 0; lit8; mul; plus` after `breg7 off`: skips it. */
static bool expr_skip_index(struct frame_cursor *cur, uint64_t *ret_reg)
{
	struct frame_cursor at = *cur;
	uint64_t reg;
	int64_t off;

	if (!expr_breg(&at, cursor_u8(&at), &reg, &off) || off || cursor_u8(&at) != DW_OP_lit8 ||
	    cursor_u8(&at) != DW_OP_mul || cursor_u8(&at) != DW_OP_plus || at.error)
		return false;
	*cur = at;
	*ret_reg = reg;
	return true;
}

/* One addend at cur: plus_uconst, or a literal and then plus or minus. */
static bool expr_addend(struct frame_cursor *cur, uint8_t op, uint64_t *ret)
{
	if (op == DW_OP_plus_uconst) {
		*ret = cursor_uleb(cur);
		return true;
	}
	if (!expr_const(cur, op, ret))
		return false;
	op = cursor_u8(cur);
	if (op == DW_OP_minus)
		*ret = -*ret;
	return op == DW_OP_plus || op == DW_OP_minus;
}

int cfi_expr_classify(struct frame_cursor cur, struct cfi_expr_shape *ret)
{
	struct cfi_expr_shape shape = { .kind = EXPR_REG };
	int64_t *sum = &shape.off;
	bool indexed = false;
	uint64_t addend;
	uint8_t op;

	*ret = (struct cfi_expr_shape){ .kind = EXPR_OTHER };
	if (!expr_breg(&cur, cursor_u8(&cur), &shape.reg, &shape.off))
		return cur.error;
	if (shape.reg == UNWIND_SP && plt_expr_is(cur, &shape.second)) {
		shape.kind = EXPR_PLT;
		*ret = shape;
		return 0;
	}
	if (shape.reg == UNWIND_SP)
		indexed = expr_skip_index(&cur, &shape.reg);
	while (!cur.error && cur.off < cur.end) {
		op = cursor_u8(&cur);
		if (op == DW_OP_deref && shape.kind == EXPR_REG) {
			shape.kind = indexed ? EXPR_INDEX : EXPR_DEREF;
			sum = &shape.second;
		} else if (op == DW_OP_nop) {
			continue;
		} else if (!expr_addend(&cur, op, &addend)) {
			return cur.error;
		} else {
			*sum = (int64_t)((uint64_t)*sum + addend);
		}
	}
	if (!cur.error && !(indexed && shape.kind == EXPR_REG))
		*ret = shape;
	return cur.error;
}

struct expr_machine {
	struct frame_cursor cur;
	uint64_t start;
	const struct cfi_expr_env *env;
	uint32_t nr;
	uint64_t stack[EXPR_MAX_STACK];
};

static int expr_push(struct expr_machine *m, uint64_t value)
{
	if (m->nr == EXPR_MAX_STACK)
		return BPFPROF_STOP_BAD_CFI;
	m->stack[m->nr++] = value;
	return 0;
}

static int expr_push_reg(struct expr_machine *m, uint64_t reg, int64_t off)
{
	if (reg >= BPFPROF_NR_REGS)
		return BPFPROF_STOP_BAD_CFI;
	if (!(m->env->state->valid & 1U << reg))
		return BPFPROF_STOP_REG_LOST;
	return expr_push(m, m->env->state->regs[reg] + (uint64_t)off);
}

static int expr_pick(struct expr_machine *m, uint32_t depth)
{
	return depth < m->nr ? expr_push(m, m->stack[m->nr - 1 - depth]) : BPFPROF_STOP_BAD_CFI;
}

/* The top goes below the count - 1 entries under it. */
static int expr_rotate(struct expr_machine *m, uint32_t count)
{
	uint64_t top;

	if (m->nr < count)
		return BPFPROF_STOP_BAD_CFI;
	top = m->stack[m->nr - 1];
	memmove(&m->stack[m->nr - count + 1], &m->stack[m->nr - count],
		(count - 1) * sizeof(m->stack[0]));
	m->stack[m->nr - count] = top;
	return 0;
}

static int expr_deref(struct expr_machine *m, uint32_t len)
{
	uint64_t value = 0;

	if (!m->nr || !len || len > sizeof(value))
		return BPFPROF_STOP_BAD_CFI;
	if (unwind_read(m->env->reader, m->stack[m->nr - 1], &value, len))
		return BPFPROF_STOP_READ_FAULT;
	m->stack[m->nr - 1] = value; /* little-endian: the low bytes */
	return 0;
}

static int expr_jump(struct expr_machine *m, bool always)
{
	int64_t delta = cursor_sint(&m->cur, 2);
	uint64_t target = m->cur.off + (uint64_t)delta;

	if (m->cur.error)
		return BPFPROF_STOP_BAD_CFI;
	if (!always) {
		if (!m->nr)
			return BPFPROF_STOP_BAD_CFI;
		if (!m->stack[--m->nr])
			return 0;
	}
	if (target < m->start || target > m->cur.end)
		return BPFPROF_STOP_BAD_CFI;
	m->cur.off = target;
	return 0;
}

static int expr_unary(struct expr_machine *m, uint8_t op)
{
	uint64_t *top;

	if (!m->nr)
		return BPFPROF_STOP_BAD_CFI;
	top = &m->stack[m->nr - 1];
	switch (op) {
	case DW_OP_drop:
		m->nr--;
		break;
	case DW_OP_abs:
		*top = (int64_t)*top < 0 ? -*top : *top;
		break;
	case DW_OP_neg:
		*top = -*top;
		break;
	case DW_OP_not:
		*top = ~*top;
		break;
	case DW_OP_plus_uconst:
		*top += cursor_uleb(&m->cur);
		break;
	}
	return 0;
}

static uint64_t expr_shift(uint64_t value, uint64_t count, uint8_t op)
{
	if (op == DW_OP_shra)
		return (uint64_t)((int64_t)value >> (count < 63 ? count : 63));
	if (count > 63)
		return 0;
	return op == DW_OP_shl ? value << count : value >> count;
}

/* a: the entry below the top, b: the top. Sets *bad for an unknown op and for a division by 0. */
static uint64_t expr_binary_value(uint8_t op, uint64_t a, uint64_t b, bool *bad)
{
	int64_t sa = (int64_t)a, sb = (int64_t)b;

	switch (op) {
	case DW_OP_and:
		return a & b;
	case DW_OP_or:
		return a | b;
	case DW_OP_xor:
		return a ^ b;
	case DW_OP_plus:
		return a + b;
	case DW_OP_minus:
		return a - b;
	case DW_OP_mul:
		return a * b;
	case DW_OP_div: /* signed; INT64_MIN / -1 overflows */
		*bad = !b;
		return !b ? 0 : sb == -1 ? -a : (uint64_t)(sa / sb);
	case DW_OP_mod: /* unsigned */
		*bad = !b;
		return b ? a % b : 0;
	case DW_OP_shl:
	case DW_OP_shr:
	case DW_OP_shra:
		return expr_shift(a, b, op);
	case DW_OP_eq:
		return a == b;
	case DW_OP_ne:
		return a != b;
	case DW_OP_ge:
		return sa >= sb;
	case DW_OP_gt:
		return sa > sb;
	case DW_OP_le:
		return sa <= sb;
	case DW_OP_lt:
		return sa < sb;
	}
	*bad = true;
	return 0;
}

static int expr_binary(struct expr_machine *m, uint8_t op)
{
	uint64_t value;
	bool bad = false;

	if (m->nr < 2)
		return BPFPROF_STOP_BAD_CFI;
	value = expr_binary_value(op, m->stack[m->nr - 2], m->stack[m->nr - 1], &bad);
	if (bad)
		return BPFPROF_STOP_BAD_CFI;
	m->nr--;
	m->stack[m->nr - 1] = value;
	return 0;
}

static int expr_op(struct expr_machine *m)
{
	uint8_t op = cursor_u8(&m->cur);
	uint64_t value;
	int64_t off;

	if (expr_const(&m->cur, op, &value))
		return expr_push(m, value);
	if (expr_breg(&m->cur, op, &value, &off))
		return expr_push_reg(m, value, off);
	switch (op) {
	case DW_OP_nop:
		return 0;
	case DW_OP_addr:
		return expr_push(m, cursor_uint(&m->cur, 8) + m->env->bias);
	case DW_OP_deref:
		return expr_deref(m, 8);
	case DW_OP_deref_size:
		return expr_deref(m, cursor_u8(&m->cur));
	case DW_OP_dup:
		return expr_pick(m, 0);
	case DW_OP_over:
		return expr_pick(m, 1);
	case DW_OP_pick:
		return expr_pick(m, cursor_u8(&m->cur));
	case DW_OP_swap:
		return expr_rotate(m, 2);
	case DW_OP_rot:
		return expr_rotate(m, 3);
	case DW_OP_skip:
		return expr_jump(m, true);
	case DW_OP_bra:
		return expr_jump(m, false);
	case DW_OP_drop:
	case DW_OP_abs:
	case DW_OP_neg:
	case DW_OP_not:
	case DW_OP_plus_uconst:
		return expr_unary(m, op);
	}
	return expr_binary(m, op);
}

int cfi_expr_eval(struct frame_cursor cur, const struct cfi_expr_env *env, const uint64_t *initial,
		  uint64_t *ret)
{
	struct expr_machine m = { .cur = cur, .start = cur.off, .env = env };
	int stop;

	if (initial)
		expr_push(&m, *initial);
	for (uint32_t i = 0; m.cur.off < m.cur.end; i++) {
		if (i == EXPR_MAX_OPS)
			return BPFPROF_STOP_BAD_CFI;
		stop = expr_op(&m);
		if (m.cur.error)
			return BPFPROF_STOP_BAD_CFI;
		if (stop)
			return stop;
	}
	if (!m.nr)
		return BPFPROF_STOP_BAD_CFI;
	*ret = m.stack[m.nr - 1];
	return 0;
}
