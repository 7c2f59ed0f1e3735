/* SPDX-License-Identifier: Apache-2.0 */
/*
 * A table of Go that is made to cost as much as it can. Its first function is an ordinary one; the second
 * has a value for each of its DENSE bytes. EMPTY: then so many functions of no length. REPEATED: then a function in
 * whose code each instruction is a reason to go through its values, of which there is one for each byte.
 */
#ifndef DENSE
#define DENSE 40000
#endif
	.text
	.globl _start
	.balign 64
_start:	ret
	.balign 64, 0xcc
text:
first:	push	%rbp
	mov	%rsp, %rbp
	pop	%rbp
	ret
	.balign 64, 0xcc
dense:	.fill	DENSE, 1, 0x90
	.fill	64, 1, 0xcc
after:
#ifdef REPEATED
repeated:
	push	%rbp
	.rept	680
	mov	%rsp, %rbp
	.endr
	mov	%rax, %rsp
	ret
#else
last:	.fill	64, 1, 0x90
#endif
text_end:

	.section .gopclntab, "a", @progbits
	.balign 32
table:	.long	0xfffffff1
	.byte	0, 0, 1, 8
	.quad	(functions_end - functions) / 8, 1, text
	.quad	names - table, names - table, names - table, values - table, functions - table
functions:
	.long	first - text, first_f - functions
	.long	dense - text, dense_f - functions
#ifdef EMPTY
	.rept	EMPTY
	.long	after - text, dense_f - functions
	.endr
#endif
#ifdef REPEATED
	.long	repeated - text, repeated_f - functions
#else
	.long	last - text, first_f - functions
#endif
functions_end:
	.long	text_end - text

	.macro describe label, flags
\label\()_f:
	.long	0, name - names, 0, 0, \label\()_sp - values, 0, 0, 0, 0, 1
	.byte	0, \flags, 0, 0
	.endm
	describe first, 0
	describe dense, 0
	describe repeated, 2

names:	.byte	0
name:	.asciz	"runtime.costly"
values:	.byte	0
first_sp:
	.byte	2, 1, 16, 63, 0
dense_sp:
	.byte	18, 1
	.rept	DENSE / 2 - 1
	.byte	16, 1, 15, 1
	.endr
	.byte	0
repeated_sp:
	.byte	2, 1, 16, 1
	.rept	1100
	.byte	16, 1, 15, 1
	.endr
	.byte	0
