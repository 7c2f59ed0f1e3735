/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_ELF_USDT_NUMBER_H
#define BPFPROF_ELF_USDT_NUMBER_H

/* Numbers in the arguments of a probe, for the parsers of all CPUs (elf/usdt_operand.h). */

#include <stdbool.h>
#include <stdint.h>

/* Takes an integer, 0 if there is none. False: it is more than max. */
bool usdt_number_take(const char **at, uint64_t max, int64_t *ret);

#endif
