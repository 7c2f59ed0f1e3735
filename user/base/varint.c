// SPDX-License-Identifier: Apache-2.0
#include "base/varint.h"

#include <errno.h>

#include "base/buf.h"

size_t varint_put(unsigned char dst[VARINT_BYTES], uint64_t value)
{
	size_t len = 0;

	while (value >= 0x80) {
		dst[len++] = (unsigned char)(value | 0x80);
		value >>= 7;
	}
	dst[len++] = (unsigned char)value;
	return len;
}

void varint_add(struct buf *dst, uint64_t value)
{
	unsigned char bytes[VARINT_BYTES];

	buf_add(dst, bytes, varint_put(bytes, value));
}

int varint_take(const uint8_t **at, const uint8_t *end, uint64_t *ret)
{
	uint64_t value = 0;
	unsigned int shift;
	uint8_t byte;

	if (*at == end)
		return 0;
	for (shift = 0; shift < 7 * VARINT_BYTES && *at < end; shift += 7) {
		byte = *(*at)++;
		if (shift < 64)
			value |= (uint64_t)(byte & 0x7f) << shift;
		if (byte < 0x80) {
			*ret = value;
			return 1;
		}
	}
	return -EBADMSG;
}
