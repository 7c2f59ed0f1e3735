/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_BASE_JSON_H
#define BPFPROF_BASE_JSON_H

/*
 * Writes JSON piece by piece: each piece puts a comma in front of itself, unless it is the first in
 * its object or array. Names of keys are constants and are not escaped; texts are (base/text.h).
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;

void json_item(struct buf *dst); /* the comma alone */
void json_key(struct buf *dst, const char *name);
void json_key_open(struct buf *dst, const char *name, char bracket);
void json_key_text(struct buf *dst, const char *name, const char *text);
void json_key_number(struct buf *dst, const char *name, uint64_t value);
void json_key_bool(struct buf *dst, const char *name, bool value);
void json_key_hex(struct buf *dst, const char *name, uint64_t value); /* "0x1f" */
void json_key_seconds(struct buf *dst, const char *name, double value); /* 1.234 */
void json_key_three(struct buf *dst, const char *name, const uint32_t values[3]); /* [1,2,3] */

#endif
