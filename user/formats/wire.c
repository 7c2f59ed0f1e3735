// SPDX-License-Identifier: Apache-2.0
#include "formats/wire.h"

#include <errno.h>
#include <stddef.h>

#include "base/varint.h"

enum { WIRE_VARINT = 0, WIRE_FIXED64 = 1, WIRE_BYTES = 2, WIRE_FIXED32 = 5 };

int wire_number(struct wire_span *span, uint64_t *ret)
{
	return varint_take(&span->at, span->end, ret);
}

static int take_bytes(struct wire_span *span, uint64_t len, struct wire_field *ret)
{
	if (len > (size_t)(span->end - span->at))
		return -EBADMSG;
	ret->bytes = (struct wire_span){ span->at, span->at + len };
	span->at += len;
	return 1;
}

int wire_next(struct wire_span *span, struct wire_field *ret)
{
	uint64_t key, len;
	int got = wire_number(span, &key);

	if (got <= 0)
		return got;
	if (key >> 3 == 0 || key >> 3 > UINT32_MAX)
		return -EBADMSG;
	*ret = (struct wire_field){ .number = (uint32_t)(key >> 3) };
	switch (key & 7) {
	case WIRE_VARINT:
		return wire_number(span, &ret->value) == 1 ? 1 : -EBADMSG;
	case WIRE_BYTES:
		ret->has_bytes = true;
		return wire_number(span, &len) == 1 ? take_bytes(span, len, ret) : -EBADMSG;
	case WIRE_FIXED64: /* profile.proto has none */
		ret->number = 0;
		return take_bytes(span, 8, ret);
	case WIRE_FIXED32:
		ret->number = 0;
		return take_bytes(span, 4, ret);
	default:
		return -EBADMSG;
	}
}
