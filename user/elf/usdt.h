/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_ELF_USDT_H
#define BPFPROF_ELF_USDT_H

/*
 * Probes that programs define by sys/sdt.h, from the notes of .note.stapsdt. A probe is a nop in the
 * code and a text with the places of its arguments there. A program skips a probe with a semaphore while
 * that number in its data is 0; the kernel increments it for a caller that passes the place of the
 * semaphore along with the probe's. The file is untrusted: everything is bounded.
 * Reference: SystemTap's wiki, UserSpaceProbeImplementation; elf/usdt_operand.h for the operands.
 */

#include <stddef.h>
#include <stdint.h>

#define USDT_NOTES_BYTES (1U << 20) /* of all notes of one file */

struct elf_image;

struct usdt_probe {
	uint64_t off; /* in the file, of executable code */
	uint64_t semaphore_off; /* of two bytes of writable data; 0: there is none */
	char name[32];
	char arguments[224];
};

/*
 * The first cap probes of one provider, in the file's order. Probes with a longer name or text, or at an
 * impossible place, are left out. 0; -ENODATA: there is no note of the provider; -EBADMSG malformed,
 * -E2BIG, -ENOMEM, errors of reading. ret_nr is untouched on failure.
 */
int usdt_find(struct elf_image *img, const char *provider, struct usdt_probe *probes, size_t cap,
	      size_t *ret_nr);

enum usdt_kind {
	USDT_REGISTER,
	USDT_MEMORY, /* at (value of the register) + off */
	USDT_CONSTANT, /* off itself, extended to 64 bits by its sign */
};

struct usdt_argument {
	enum usdt_kind kind;
	uint8_t bytes; /* 1, 2, 4 or 8 */
	uint8_t reg; /* number in instructions (regs_by_number() in bpf/) */
	int64_t off; /* of memory: 32 bits */
};

/*
 * Argument number nr, from 1 on, of the text of a probe. 0; -ENOENT: there is none; -ENOTSUP: it is of
 * another kind (an index, the name of a variable). ret is untouched on failure.
 */
int usdt_argument(const char *arguments, unsigned int nr, struct usdt_argument *ret);

#endif
