// SPDX-License-Identifier: Apache-2.0
#include "unwind/plt_expr.h"

#include <dwarf.h>

/* The threshold is that of lazy or IBT entries. */
bool plt_expr_is(struct frame_cursor cur, int64_t *ret_threshold)
{
	uint8_t op;

	if (cur.end - cur.off != 9 || cursor_u8(&cur) != DW_OP_breg16 || cursor_u8(&cur) != 0 ||
	    cursor_u8(&cur) != DW_OP_lit15 || cursor_u8(&cur) != DW_OP_and)
		return false;
	op = cursor_u8(&cur);
	if (op < DW_OP_lit0 || op > DW_OP_lit31)
		return false;
	*ret_threshold = op - DW_OP_lit0;
	return cursor_u8(&cur) == DW_OP_ge && cursor_u8(&cur) == DW_OP_lit3 &&
	       cursor_u8(&cur) == DW_OP_shl && cursor_u8(&cur) == DW_OP_plus && !cur.error;
}
