// SPDX-License-Identifier: Apache-2.0
#include "base/json.h"

#include <inttypes.h>
#include <math.h>
#include <string.h>

#include "base/buf.h"
#include "base/text.h"

void json_item(struct buf *dst)
{
	if (dst->len && !strchr("{[:", dst->data[dst->len - 1]))
		buf_add_char(dst, ',');
}

void json_key(struct buf *dst, const char *name)
{
	json_item(dst);
	buf_add_char(dst, '"');
	buf_add_str(dst, name);
	buf_add_str(dst, "\":");
}

void json_key_open(struct buf *dst, const char *name, char bracket)
{
	json_key(dst, name);
	buf_add_char(dst, bracket);
}

void json_key_text(struct buf *dst, const char *name, const char *text)
{
	json_key(dst, name);
	text_add_json(dst, text);
}

void json_key_number(struct buf *dst, const char *name, uint64_t value)
{
	json_key(dst, name);
	buf_printf(dst, "%" PRIu64, value);
}

void json_key_bool(struct buf *dst, const char *name, bool value)
{
	json_key(dst, name);
	buf_add_str(dst, value ? "true" : "false");
}

/* JavaScript's numbers have 53 bits, but addresses have more. */
void json_key_hex(struct buf *dst, const char *name, uint64_t value)
{
	json_key(dst, name);
	buf_printf(dst, "\"0x%" PRIx64 "\"", value);
}

void json_key_seconds(struct buf *dst, const char *name, double value)
{
	json_key(dst, name);
	buf_printf(dst, "%.3f", isfinite(value) ? value : 0);
}

void json_key_three(struct buf *dst, const char *name, const uint32_t values[3])
{
	json_key(dst, name);
	buf_printf(dst, "[%" PRIu32 ",%" PRIu32 ",%" PRIu32 "]", values[0], values[1], values[2]);
}
