/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_BASE_UNITS_H
#define BPFPROF_BASE_UNITS_H

/* Rounded numbers in a unit that keeps them short, for people. At most UNITS_TEXT - 1 characters. */

#include <stdint.h>

#define UNITS_TEXT 32

/* All of these return dst. */
const char *units_count(char dst[UNITS_TEXT], uint64_t count); /* "1234567", "12.3 M" */
const char *units_bytes(char dst[UNITS_TEXT], uint64_t bytes); /* "512 B", "1.2 GB" (10^9) */
const char *units_ns(char dst[UNITS_TEXT], uint64_t ns); /* "850 ns", "3.4 ms", "2 min 5 s" */

#endif
