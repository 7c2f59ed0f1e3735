/* SPDX-License-Identifier: Apache-2.0 */
/*
 * 64 functions, each in 64 KiB of its own, each with another frame size and
 * some 200 changes of its CFA, so that many pages of unwind rows are hot at once.
 */
	.altmacro

	.macro	page n
	.balign	65536
	.globl	page_\n
	.type	page_\n, @function
page_\n:
	.cfi_startproc
	subq	$(8 + 16 * \n), %rsp
	.cfi_adjust_cfa_offset 8 + 16 * \n
	.rept	100
	pushq	%rdi
	.cfi_adjust_cfa_offset 8
	popq	%rdi
	.cfi_adjust_cfa_offset -8
	.endr
	call	page_spin
	addq	$(8 + 16 * \n), %rsp
	.cfi_adjust_cfa_offset -(8 + 16 * \n)
	ret
	.cfi_endproc
	.size	page_\n, . - page_\n
	.endm

	.macro	entry n
	.quad	page_\n
	.endm

	.text
	.set	i, 0
	.rept	64
	page	%i
	.set	i, i + 1
	.endr

	.section .data.rel.ro, "aw", @progbits
	.globl	page_table
page_table:
	.set	i, 0
	.rept	64
	entry	%i
	.set	i, i + 1
	.endr

	.section .note.GNU-stack, "", @progbits
