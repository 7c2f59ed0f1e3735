/* SPDX-License-Identifier: Apache-2.0 */
/*
 * What a Go linker writes, by hand: functions of the kinds that unwinding tells apart, and their function table.
 * GO: the version of the table, 2, 16, 18 or 20. NO_TEXT_START: as since Go 1.26, the table does not say where
 * the text begins. SECTION: where the table lies.
 */
#ifndef SECTION
#define SECTION ".gopclntab", "a"
#endif

#if GO < 18
#define POINTER .quad
#define ENTRY(label) label
#else
#define POINTER .long
#define ENTRY(label) label - text
#endif
#if GO == 2
#define TOP 0
#define SPWRITE 0
#define ASM 0
#else
#define TOP 1
#define SPWRITE 2
#define ASM 4
#endif

	/* A value from here on; in a table that follows the code. */
	.macro value to, until
	.if \to < last
	.uleb128 ((last - (\to)) << 1) - 1
	.else
	.uleb128 ((\to) - last) << 1
	.endif
	.set last, \to
	.uleb128 \until - at
	.set at, \until
	.endm

	.macro values name, start
\name:
	.set last, -1
	.set at, \start
	.endm

	.macro function label
	.balign 32, 0xcc
	.globl \label
\label:
	.endm

	.text
	.globl _start
	.balign 64
_start:	ret
	.balign 64, 0xcc
text:
	function leaf
	lea	1(%rax), %rax
	ret
leaf_end:
	function pushes /* since Go 1.21 */
	push	%rbp
pushes_1: mov	%rsp, %rbp
	sub	$32, %rsp
pushes_2: call	leaf
	add	$32, %rsp
pushes_3: pop	%rbp
pushes_4: ret
pushes_end:
	function stores /* before */
	sub	$40, %rsp
stores_1: mov	%rbp, 32(%rsp)
stores_2: lea	32(%rsp), %rbp
	call	leaf
	mov	32(%rsp), %rbp
	add	$40, %rsp
stores_3: ret
stores_end:
	function large
	push	%rbp
large_1: mov	%rsp, %rbp
	sub	$0x200000, %rsp
large_2: call	leaf
	add	$0x200000, %rsp
large_3: pop	%rbp
large_4: ret
large_end:
	function by_hand /* rbp saved by other code than a compiler's */
	pushfq
by_hand_1: sub	$64, %rsp
by_hand_2: mov	%rdi, (%rsp)
	mov	%rbp, 48(%rsp)
by_hand_3: xor	%ebp, %ebp
	call	leaf
	mov	48(%rsp), %rbp
	add	$64, %rsp
by_hand_4: popfq
by_hand_5: ret
by_hand_end:
	function spoils /* rbp in the way of anything */
	mov	%rdi, %rbp
spoils_1: ret
spoils_end:
	function systemstack
	mov	%rdi, %rax
systemstack_1: mov	56(%rdx), %rsp
systemstack_2: call	*%rax
	mov	56(%rdx), %rsp
systemstack_3: ret
systemstack_4: jmp	*%rdi
systemstack_end:
	function mcall
	push	%rbp
mcall_1: mov	%rsp, %rbp
	mov	56(%rsi), %rsp
mcall_2: mov	$0, %ebp
	push	%rax
mcall_3: call	*%r12
	ud2
	pop	%rbp
	ret
mcall_end:
	function gogo
	mov	(%rdi), %rbx
gogo_1:	mov	(%rbx), %rsp
gogo_2:	jmp	*%rbx
gogo_end:
	function nanotime
	push	%rbp
nanotime_1: mov	%rsp, %rbp
	sub	$16, %rsp
nanotime_2: mov	%rsp, %r12
	mov	56(%rdx), %rsp
nanotime_3: sub	$16, %rsp
	and	$-16, %rsp
	test	%rax, %rax
	je	nanotime_7
	call	*%rax
	mov	%r12, %rsp
nanotime_4: add	$16, %rsp
nanotime_5: pop	%rbp
nanotime_6: ret
nanotime_7: mov	$228, %eax
	syscall
	jmp	nanotime_3
nanotime_end:
	function asmcgocall
	push	%rbp
asmcgocall_1: mov	%rsp, %rbp
	mov	%rsp, %rdx
	test	%rdi, %rdi
	je	asmcgocall_7
	mov	56(%rsi), %rsp
asmcgocall_2: sub	$16, %rsp
	and	$-16, %rsp
	mov	%rdi, 8(%rsp)
	mov	8(%rdi), %rdi
	sub	%rdx, %rdi
	mov	%rdi, (%rsp)
asmcgocall_3: call	leaf
	mov	8(%rsp), %rdi
	mov	8(%rdi), %rsi
	sub	(%rsp), %rsi
	mov	%rsi, %rsp
asmcgocall_5: pop	%rbp
asmcgocall_6: ret
asmcgocall_7: sub	$16, %rsp
	and	$-16, %rsp
asmcgocall_8: movq	$0, 8(%rsp)
	mov	%rdx, (%rsp)
asmcgocall_9: call	leaf
	mov	(%rsp), %rsi
	mov	%rsi, %rsp
asmcgocall_10: pop	%rbp
asmcgocall_11: ret
asmcgocall_end:
	function goexit
	nop
	call	leaf
	nop
goexit_end:
	function sigtramp
	sub	$24, %rsp
sigtramp_1: call	leaf
	add	$24, %rsp
sigtramp_2: ret
sigtramp_end:
	function sigreturn
	mov	$15, %rax
	syscall
	int3
sigreturn_end:
	function foreign
	push	%rbx
	pop	%rbx
	ret
foreign_end:
	.balign 32, 0xcc
text_end:

	.section SECTION, @progbits
	.balign 32
table:
#if GO == 2
	.long	0xfffffffb
#elif GO == 16
	.long	0xfffffffa
#elif GO == 18
	.long	0xfffffff0
#else
	.long	0xfffffff1
#endif
	.byte	0, 0, 1, 8
	.quad	(functions_end - functions) / (2 * (functions_pointer - functions))
#if GO > 2
	.quad	2
#if GO >= 18
#ifdef NO_TEXT_START
	.quad	0
#else
	.quad	text
#endif
#endif
	.quad	names - table, units - table, files - table, pcs - table, functions - table
	.balign 32
#define NAMES names
#define VALUES pcs
#define FUNCTIONS functions
#else
#define NAMES table
#define VALUES table
#define FUNCTIONS table
#endif

	.macro entry label
	POINTER	ENTRY(\label)
	POINTER	\label\()_f - FUNCTIONS
	.endm

functions:
	POINTER	ENTRY(leaf)
functions_pointer:
	POINTER	leaf_f - FUNCTIONS
	.irp	label, pushes, stores, large, by_hand, spoils, systemstack, mcall, gogo, nanotime, asmcgocall, goexit, sigtramp, sigreturn, foreign
	entry	\label
	.endr
functions_end:
	POINTER	ENTRY(text_end)
#if GO == 2
	.long	files - table
#endif

	.macro describe label, flags, line, sp
	.balign 8
\label\()_f:
	POINTER	ENTRY(\label)
	.long	\label\()_name - NAMES, 0, 0
	.if \sp
	.long	\label\()_sp - VALUES
	.else
	.long	0
	.endif
	.long	\label\()_file - VALUES, \label\()_line - VALUES, 0
#if GO > 2
	.long	0
#endif
#if GO == 20
	.long	\line
#endif
	.byte	0, \flags, 0, 0
	.endm

	describe leaf, 0, 10, 1
	describe pushes, 0, 20, 1
	describe stores, 0, 30, 1
	describe large, 0, 40, 1
	describe by_hand, ASM, 50, 1
	describe spoils, ASM, 60, 1
	describe systemstack, ASM | SPWRITE, 70, 1
	describe mcall, ASM | SPWRITE, 80, 1
	describe gogo, ASM | SPWRITE, 90, 1
	describe nanotime, ASM | SPWRITE, 100, 1
	describe asmcgocall, ASM | SPWRITE, 110, 1
	describe goexit, ASM | TOP, 120, 1
	describe sigtramp, ASM | TOP, 130, 1
	describe sigreturn, ASM, 140, 1
	describe foreign, 0, 150, 0

names:
	.byte	0
leaf_name: .asciz "main.leaf"
pushes_name: .asciz "main.(*T).pushes"
stores_name: .asciz "main.Stores[...]"
large_name: .asciz "main.main.func1"
by_hand_name: .asciz "crosscall2"
spoils_name: .asciz "main.spoils"
systemstack_name: .asciz "runtime.systemstack"
mcall_name: .asciz "runtime.mcall"
gogo_name: .asciz "runtime.gogo"
nanotime_name: .asciz "runtime.nanotime1"
asmcgocall_name: .asciz "runtime.asmcgocall"
goexit_name: .asciz "runtime.goexit"
sigtramp_name: .asciz "runtime.sigtramp"
sigreturn_name: .asciz "runtime.sigreturn"
foreign_name: .asciz "foreign"

	.balign 4
units:
#if GO == 2
files:	.long	0, main_file - table, other_file - table
#define FIRST_FILE 1
#else
	.long	main_file - files, other_file - files, 0xffffffff
files:
#define FIRST_FILE 0
#endif
main_file: .asciz "/src/main.go"
other_file: .asciz "/src/other.go"

pcs:
	.byte	0
	values	leaf_sp, leaf
	value	0, leaf_end
	.byte	0
	values	pushes_sp, pushes
	value	0, pushes_1
	value	8, pushes_2
	value	40, pushes_3
	value	8, pushes_4
	value	0, pushes_end
	.byte	0
	values	stores_sp, stores
	value	0, stores_1
	value	40, stores_3
	value	0, stores_end
	.byte	0
	values	large_sp, large
	value	0, large_1
	value	8, large_2
	value	0x200008, large_3
	value	8, large_4
	value	0, large_end
	.byte	0
	values	by_hand_sp, by_hand
	value	0, by_hand_1
	value	8, by_hand_2
	value	72, by_hand_4
	value	8, by_hand_5
	value	0, by_hand_end
	.byte	0
	values	spoils_sp, spoils
	value	0, spoils_end
	.byte	0
	values	systemstack_sp, systemstack
	value	0, systemstack_end
	.byte	0
	values	mcall_sp, mcall
	value	0, mcall_1
	value	8, mcall_end
	.byte	0
	values	gogo_sp, gogo
	value	0, gogo_end
	.byte	0
	values	nanotime_sp, nanotime
	value	0, nanotime_1
	value	8, nanotime_2
	value	24, nanotime_5
	value	8, nanotime_6
	value	0, nanotime_7
	value	24, nanotime_end
	.byte	0
	values	asmcgocall_sp, asmcgocall
	value	0, asmcgocall_1
	value	8, asmcgocall_6
	value	0, asmcgocall_7
	value	8, asmcgocall_11
	value	0, asmcgocall_end
	.byte	0
	values	goexit_sp, goexit
	value	0, goexit_end
	.byte	0
	values	sigtramp_sp, sigtramp
	value	0, sigtramp_1
	value	24, sigtramp_2
	value	0, sigtramp_end
	.byte	0
	values	sigreturn_sp, sigreturn
	value	0, sigreturn_end
	.byte	0

	.macro lines label, line
	values	\label\()_file, \label
	value	FIRST_FILE, \label\()_end
	.byte	0
	values	\label\()_line, \label
	value	\line, \label\()_end
	.byte	0
	.endm
	lines	leaf, 10
	values	pushes_file, pushes
	value	FIRST_FILE, pushes_2
	value	FIRST_FILE + 1, pushes_3 /* another function's code */
	value	FIRST_FILE, pushes_end
	.byte	0
	values	pushes_line, pushes
	value	20, pushes_1
	value	21, pushes_2
	value	700, pushes_3
	value	22, pushes_end
	.byte	0
	lines	stores, 30
	lines	large, 40
	lines	by_hand, 50
	lines	spoils, 60
	lines	systemstack, 70
	lines	mcall, 80
	lines	gogo, 90
	lines	nanotime, 100
	lines	asmcgocall, 110
	lines	goexit, 120
	lines	sigtramp, 130
	lines	sigreturn, 140
	lines	foreign, 150
table_end:
