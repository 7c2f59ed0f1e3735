/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_BASE_PRINT_H
#define BPFPROF_BASE_PRINT_H

/*
 * The one way of tables, reports and help texts to standard output and standard error (messages:
 * log.h). Names of targets are in such a text: a terminal must not obey them.
 */

#include <stddef.h>
#include <stdio.h>

/*
 * Writes lines of text, and flushes. Each byte of invalid UTF-8 or of a control character becomes '?',
 * but for newline and tab. 0 or -errno.
 */
int print_lines(FILE *out, const char *text, size_t len);

#endif
