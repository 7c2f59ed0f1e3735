/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_FORMATS_WIRE_H
#define BPFPROF_FORMATS_WIRE_H

/*
 * Reads Protobuf messages field by field. The bytes are not trusted.
 * Encoding: https://protobuf.dev/programming-guides/encoding/
 */

#include <stdbool.h>
#include <stdint.h>

struct wire_span {
	const uint8_t *at, *end;
};

struct wire_field {
	uint32_t number;
	bool has_bytes; /* else value */
	uint64_t value;
	struct wire_span bytes;
};

/* Reads the next field. 1, 0 at the end, -EBADMSG. */
int wire_next(struct wire_span *span, struct wire_field *ret);
/* Reads the next number of a packed field, from *span on, which starts as field->bytes. Same results. */
int wire_number(struct wire_span *span, uint64_t *ret);

#endif
