/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_ELF_USDT_H
#define BPFPROF_ELF_USDT_H

/*
 * Probes that programs have in them by sys/sdt.h, from the notes of .note.stapsdt: each a place in
 * the code, a nop, and text that says where its arguments are there. A probe with a semaphore is
 * skipped unless that number in the program's data is not 0; the kernel counts it up for who gives
 * its place in the file along with the probe's. Any file may be asked about: everything is bounded.
 * Reference: SystemTap's wiki, UserSpaceProbeImplementation; the operands are GNU as's for x86-64.
 */

#include <stddef.h>
#include <stdint.h>

#define USDT_NOTES_BYTES (1U << 20) /* of all notes of one file */

struct elf_image;

struct usdt_probe {
	uint64_t off; /* in the file, of executable code */
	uint64_t semaphore_off; /* of two bytes of writable data, or 0: it has none */
	char name[32];
	char arguments[224];
};

/*
 * The probes of one provider, in the file's order; at most cap, the rest is left out, as is what
 * has a longer name or text, or lies where it cannot. 0; -ENODATA: no notes, or none of it;
 * -EBADMSG malformed, -E2BIG, -ENOMEM, errors of reading. ret_nr is untouched on failure.
 */
int usdt_find(struct elf_image *img, const char *provider, struct usdt_probe *probes, size_t cap,
	      size_t *ret_nr);

enum usdt_kind {
	USDT_REGISTER,
	USDT_MEMORY, /* at off from what is in the register */
	USDT_CONSTANT, /* off itself, as the compiler knew it: extended from its bytes by its sign */
};

struct usdt_argument {
	enum usdt_kind kind;
	uint8_t bytes; /* 1, 2, 4 or 8 */
	uint8_t reg; /* as instructions number it: rax rcx rdx rbx rsp rbp rsi rdi, r8 and so on */
	int64_t off; /* of memory: 32 bits */
};

/*
 * The argument of that number, from 1 on, of the text of a probe. 0; -ENOENT: there is none;
 * -ENOTSUP: it is not one of the above (an index, the name of a variable). ret is untouched on failure.
 */
int usdt_argument(const char *arguments, unsigned int nr, struct usdt_argument *ret);

#endif
