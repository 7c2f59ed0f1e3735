/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Hand-written code without tables that uses rbp and rbx as data, as the kernels of BLAS
 * libraries do: in leaves, and in the middle of a chain.
 */
	.text

	.macro	function name
	.globl	\name
	.type	\name, @function
\name:
	.endm
	.macro	end name
	.size	\name, . - \name
	.endm

/* A leaf: rbp and rbx are counters; rbp is never a frame. */
	function raw_leaf
	pushq	%rbp
	pushq	%rbx
	movq	%rdi, %rbp
	xorl	%ebx, %ebx
1:	leaq	(%rbx,%rbp,2), %rbx
	decq	%rbp
	jnz	1b
	movq	%rbx, %rax
	popq	%rbx
	popq	%rbp
	ret
	end	raw_leaf

/* In the middle: both hold data across a call. */
	function raw_middle
	subq	$40, %rsp
	movq	%rbp, 24(%rsp)
	movq	%rbx, 16(%rsp)
	movl	$2, %ebp
	movq	$-8, %rbx
1:	call	raw_callback
	addq	%rbp, %rbx
	decq	%rbp
	jnz	1b
	movl	$4000, %edi
	call	raw_leaf
	movq	16(%rsp), %rbx
	movq	24(%rsp), %rbp
	addq	$40, %rsp
	ret
	end	raw_middle

/* Rounds the stack down, keeps what it was in memory, and has no frame register at all. */
	function raw_aligned
	movq	%rsp, %r11
	pushq	%rbp
	subq	$264, %rsp
	andq	$-128, %rsp
	movq	%r11, 128(%rsp)
	xorl	%ebp, %ebp
	xorl	%r11d, %r11d
1:	movaps	%xmm0, (%rsp)
	incq	%rbp
	cmpq	$4000, %rbp
	jb	1b
	call	raw_callback
	movq	128(%rsp), %r11
	movq	-8(%r11), %rbp
	movq	%r11, %rsp
	ret
	end	raw_aligned

/* A big frame, full of return addresses of calls that are over, above and below what is used. */
	function raw_stale
	subq	$8200, %rsp
	movq	%rbx, 8192(%rsp)
	leaq	raw_callback(%rip), %rax
	addq	$4, %rax
	movl	$1024, %ecx
1:	movq	%rax, -8(%rsp,%rcx,8)
	decq	%rcx
	jnz	1b
	movq	%rsp, %rbx
	movl	$4000, %ecx
2:	addq	(%rbx), %rax
	decq	%rcx
	jnz	2b
	call	raw_callback
	movq	8192(%rsp), %rbx
	addq	$8200, %rsp
	ret
	end	raw_stale

/* A string instruction that is interrupted in its middle, rbp being a pointer to data. */
	function raw_rep
	pushq	%rbp
	leaq	raw_data(%rip), %rbp
	movq	%rbp, %rdi
	movl	$8192, %ecx
	xorl	%eax, %eax
	rep stosq
	popq	%rbp
	ret
	end	raw_rep

	.local	raw_data
	.comm	raw_data, 65536, 64
	.section .note.GNU-stack, "", @progbits
