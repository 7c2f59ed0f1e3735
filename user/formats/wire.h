/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_FORMATS_WIRE_H
#define BPFPROF_FORMATS_WIRE_H

/*
 * Protobuf messages, field by field, out of untrusted bytes.
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

/* The next field. 1, 0 at the end, -EBADMSG. */
int wire_next(struct wire_span *span, struct wire_field *ret);
/* Of a repeated number, packed or not: starts with *span at field->bytes or empty. The same results. */
int wire_number(struct wire_span *span, uint64_t *ret);

#endif
