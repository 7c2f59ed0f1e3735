/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_BASE_VARINT_H
#define BPFPROF_BASE_VARINT_H

/* Numbers in base 128, least significant digits first, as Protobuf has them. */

#include <stddef.h>
#include <stdint.h>

#define VARINT_BYTES 10

struct buf;

/* Returns the number of bytes. */
size_t varint_put(unsigned char dst[VARINT_BYTES], uint64_t value);
void varint_add(struct buf *dst, uint64_t value);
/* Takes a number from *at, which moves; the bytes are not trusted. 1, 0 at the end, -EBADMSG. */
int varint_take(const uint8_t **at, const uint8_t *end, uint64_t *ret);

#endif
