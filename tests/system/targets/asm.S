/* SPDX-License-Identifier: Apache-2.0 */
/* Hand-written code with correct tables, of the kinds found in crypto and codec libraries. */
	.text

/* Pushes and pops in the middle of its body. */
	.globl	asm_push
	.type	asm_push, @function
asm_push:
	.cfi_startproc
	pushq	%rbx
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %rbx, 0
	movq	%rdi, %rbx
1:	pushq	%r12
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %r12, 0
	pushq	%rbx
	.cfi_adjust_cfa_offset 8
	nop
	nop
	popq	%rcx
	.cfi_adjust_cfa_offset -8
	popq	%r12
	.cfi_adjust_cfa_offset -8
	.cfi_restore %r12
	decq	%rbx
	jnz	1b
	popq	%rbx
	.cfi_adjust_cfa_offset -8
	.cfi_restore %rbx
	ret
	.cfi_endproc
	.size	asm_push, . - asm_push

/* A leaf whose frame hangs on rax. */
	.globl	asm_rax
	.type	asm_rax, @function
asm_rax:
	.cfi_startproc
	movq	%rsp, %rax
	.cfi_def_cfa_register %rax
	pushq	%rbx
	.cfi_offset %rbx, -16
	pushq	%rbp
	.cfi_offset %rbp, -24
	subq	$216, %rsp
	andq	$-64, %rsp
	xorl	%ebp, %ebp
1:	incq	%rbp
	cmpq	%rdi, %rbp
	jb	1b
	movq	-8(%rax), %rbx
	.cfi_restore %rbx
	movq	-16(%rax), %rbp
	.cfi_restore %rbp
	movq	%rax, %rsp
	.cfi_def_cfa_register %rsp
	ret
	.cfi_endproc
	.size	asm_rax, . - asm_rax

/* The caller's rsp is saved at 152(%rsp) and the CFA read from there; rbp is a plain register. */
	.globl	asm_deref
	.type	asm_deref, @function
asm_deref:
	.cfi_startproc
	movq	%rsp, %rax
	.cfi_def_cfa_register %rax
	pushq	%rbx
	.cfi_offset %rbx, -16
	pushq	%rbp
	.cfi_offset %rbp, -24
	subq	$256, %rsp
	andq	$-64, %rsp
	movq	%rax, 152(%rsp)
	/* DW_CFA_def_cfa_expression: breg7 (rsp) 152, deref, plus_uconst 8 */
	.cfi_escape 0x0f, 0x06, 0x77, 0x98, 0x01, 0x06, 0x23, 0x08
	movl	$0x5a5a, %ebp
	call	asm_callback
	movq	152(%rsp), %rax
	.cfi_def_cfa %rax, 8
	movq	-16(%rax), %rbp
	.cfi_restore %rbp
	movq	-8(%rax), %rbx
	.cfi_restore %rbx
	movq	%rax, %rsp
	.cfi_def_cfa_register %rsp
	ret
	.cfi_endproc
	.size	asm_deref, . - asm_deref

/* The frame hangs on r12 across a call: the callee's rules must bring r12 back. */
	.globl	asm_r12
	.type	asm_r12, @function
asm_r12:
	.cfi_startproc
	pushq	%r12
	.cfi_adjust_cfa_offset 8
	.cfi_rel_offset %r12, 0
	movq	%rsp, %r12
	.cfi_def_cfa_register %r12
	subq	$72, %rsp
	andq	$-32, %rsp
	call	asm_callback
	movq	%r12, %rsp
	.cfi_def_cfa_register %rsp
	popq	%r12
	.cfi_adjust_cfa_offset -8
	.cfi_restore %r12
	ret
	.cfi_endproc
	.size	asm_r12, . - asm_r12

/* rbp is saved and used as a counter; the frame hangs on rsp. */
	.globl	asm_rbp
	.type	asm_rbp, @function
asm_rbp:
	.cfi_startproc
	subq	$24, %rsp
	.cfi_adjust_cfa_offset 24
	movq	%rbp, 8(%rsp)
	.cfi_rel_offset %rbp, 8
	movl	$3, %ebp
1:	call	asm_callback
	decq	%rbp
	jnz	1b
	movq	8(%rsp), %rbp
	.cfi_restore %rbp
	addq	$24, %rsp
	.cfi_adjust_cfa_offset -24
	ret
	.cfi_endproc
	.size	asm_rbp, . - asm_rbp

	.section .note.GNU-stack, "", @progbits
