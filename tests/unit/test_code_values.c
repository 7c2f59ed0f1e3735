// SPDX-License-Identifier: Apache-2.0
#include "cuda/code_values.h"

#include <criterion/criterion.h>

#include "cuda/code_state.h"

TestSuite(code_values, .timeout = 120);

#define RVA 0x1000
#define RUN(state, code) run(state, code, sizeof(code) - 1)

static struct code_instruction run(struct code_state *state, const char *code, size_t len)
{
	struct code_instruction in = { .rva = RVA };

	cr_assert(instruction_decode((const uint8_t *)code, len, &in.insn));
	code_state_execute(state, &in);
	return in;
}

Test(code_values, depth)
{
	struct code_state state;

	code_state_init(&state);
	cr_assert_eq(code_state_depth(&state), CODE_UNKNOWN_DEPTH);
	code_state_begin(&state);
	cr_assert_eq(code_state_depth(&state), 0);
	RUN(&state, "\x53"); /* push %rbx */
	cr_assert_eq(code_state_depth(&state), 8);
	code_state_set_depth(&state, 40);
	cr_assert_eq(code_state_depth(&state), 40);
	RUN(&state, "\x48\x83\xec\x20"); /* sub $32,%rsp */
	cr_assert_eq(code_state_depth(&state), 72);
	RUN(&state, "\x48\x83\xe4\xf0"); /* and $-16,%rsp */
	cr_assert_eq(code_state_depth(&state), CODE_UNKNOWN_DEPTH);
	code_state_set_depth(&state, 8);
	code_state_set_depth(&state, CODE_UNKNOWN_DEPTH);
	cr_assert_eq(code_state_depth(&state), CODE_UNKNOWN_DEPTH);
}

/* The value that a move or an address has put into a register. */
Test(code_values, put)
{
	const struct code_value *value;
	struct code_instruction in;
	struct code_state state;

	code_state_begin(&state);
	in = RUN(&state, "\x48\x8d\x3d\x10\0\0\0"); /* lea 0x10(%rip),%rdi */
	value = code_state_put(&state, &in);
	cr_assert(value && code_value_is(value, RVA + 7 + 0x10));
	cr_assert_eq(value, code_state_argument(&state, 0));
	in = RUN(&state, "\x48\x8b\x35\x10\0\0\0"); /* mov 0x10(%rip),%rsi */
	value = code_state_put(&state, &in);
	cr_assert(value && value->kind == CODE_LOADED && value->n == RVA + 7 + 0x10);
	in = RUN(&state, "\x48\x89\x34\x24"); /* mov %rsi,(%rsp) */
	cr_assert_null(code_state_put(&state, &in));
	cr_assert_eq(code_state_load(&state, state.regs[4]).kind, CODE_LOADED);
	in = RUN(&state, "\x31\xc0"); /* xor %eax,%eax */
	cr_assert_null(code_state_put(&state, &in));
}

Test(code_values, frames)
{
	struct code_state state;
	struct code_instruction in;

	code_state_begin(&state);
	in = RUN(&state, "\xf3\x0f\x1e\xfa"); /* endbr64 */
	cr_assert(code_is_frame(&in));
	in = RUN(&state, "\x55"); /* push %rbp */
	cr_assert(code_is_frame(&in));
	in = RUN(&state, "\x48\x89\xe5"); /* mov %rsp,%rbp */
	cr_assert(code_is_frame(&in));
	in = RUN(&state, "\x5d"); /* pop %rbp */
	cr_assert(code_is_frame(&in));
	in = RUN(&state, "\x48\x89\xe7"); /* mov %rsp,%rdi */
	cr_assert_not(code_is_frame(&in));
}
