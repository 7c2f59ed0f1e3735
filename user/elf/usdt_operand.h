/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_ELF_USDT_OPERAND_H
#define BPFPROF_ELF_USDT_OPERAND_H

/*
 * The operand of an argument of a probe (elf/usdt.h), as the assembler of the CPU writes it. The folder
 * of the CPU knows its form.
 */

#include <stddef.h>

struct usdt_argument;

/* The length of the argument that text begins with; operands may have spaces. */
size_t usdt_operand_len(const char *text);

/*
 * Reads an operand of len characters, and fills in kind, reg and off. 0; -ENOTSUP: it is of another kind
 * (an index, the name of a variable).
 */
int usdt_operand_parse(const char *text, size_t len, struct usdt_argument *ret);

#endif
