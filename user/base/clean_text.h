/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_BASE_CLEAN_TEXT_H
#define BPFPROF_BASE_CLEAN_TEXT_H

/*
 * Makes untrusted names fit for labels and terminals: valid UTF-8 without control characters, at
 * most cap - 1 bytes.
 */

#include <stddef.h>

/*
 * Copies the first len bytes of src, up to a NUL, to dst. Each byte of a control character or of
 * invalid UTF-8 becomes '?'. A text that is too long is cut between characters.
 */
void clean_text(char *dst, size_t cap, const char *src, size_t len);

#endif
