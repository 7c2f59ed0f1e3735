/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_BASE_CLEAN_TEXT_H
#define BPFPROF_BASE_CLEAN_TEXT_H

/*
 * Names that others chose, made fit for labels and terminals: valid UTF-8 without
 * control characters, at most cap - 1 bytes.
 */

#include <stddef.h>

/*
 * The first len bytes of src, up to a NUL, into dst. Each byte of a control character or of what is
 * no UTF-8 becomes '?'; what is too long is cut between characters.
 */
void clean_text(char *dst, size_t cap, const char *src, size_t len);

#endif
