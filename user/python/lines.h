/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PYTHON_LINES_H
#define BPFPROF_PYTHON_LINES_H

/*
 * The line of an instruction of a code object, as by PyCode_Addr2Line(): from co_lnotab up to 3.9
 * (Objects/lnotab_notes.txt), the ranges of 3.10, the location table of 3.11+ (Objects/locations.md;
 * Objects/lnotab_notes.txt of 3.10). The target controls the table: any bytes give some answer, in one
 * pass over it.
 */

#include <stddef.h>
#include <stdint.h>

/*
 * lines: enum bpfprof_python_lines. lasti: index of the instruction (of 2 bytes).
 * The line; 0 if the instruction has none or the table does not reach it.
 */
uint32_t python_line(uint32_t lines, const uint8_t *table, size_t len, uint32_t first_line,
		     uint32_t lasti);

#endif
