// SPDX-License-Identifier: Apache-2.0
/*
 * The three forms of the table from instruction to line. Each is a list of steps, by a length of code
 * and a number of lines:
 *
 * lnotab: pairs of bytes, code then signed lines. A step leads to the line of the code behind
 * it, so the last line has no end.
 *
 * Ranges (3.10): the same pairs, but a step leads to the line of its own code; lines of -128
 * mean that this code has none, and that the next step goes on from the line before.
 *
 * Locations (3.11): entries that begin with a byte 1CCCCLLL: L + 1 instructions (caches
 * included) of form C. The bytes behind it have no top bit; the form defines them: columns, and the
 * lines as a varint (six bits a byte, lowest first, 64 = another byte follows; the sign in the lowest
 * bit of the value).
 *
 * Sums are unsigned and wrap: no table of a compiler comes near that, and for others any answer will do.
 */
#include "python/lines.h"

#include <stdbool.h>

#include "bpfprof.h"

#define NO_LINES 0x80 /* -128 */

enum location_form {
	/* 0-9: on the same line, columns in one byte */
	FORM_ONE_LINE_FIRST = 10,
	FORM_ONE_LINE_LAST = 12,
	FORM_NO_COLUMNS = 13,
	FORM_LONG = 14,
	FORM_NONE = 15,
};

static uint32_t checked_line(uint64_t line)
{
	return line <= INT32_MAX ? (uint32_t)line : 0;
}

static uint64_t signed_byte(uint8_t byte)
{
	return (uint64_t)(int8_t)byte;
}

static uint32_t line_of_lnotab(const uint8_t *table, size_t len, uint64_t line, uint64_t wanted)
{
	uint64_t off = 0;

	for (size_t i = 0; i + 1 < len; i += 2) {
		off += table[i];
		if (off > wanted)
			break;
		line += signed_byte(table[i + 1]);
	}
	return checked_line(line);
}

static uint32_t line_of_ranges(const uint8_t *table, size_t len, uint64_t line, uint64_t wanted)
{
	uint64_t end = 0;

	for (size_t i = 0; i + 1 < len; i += 2) {
		bool none = table[i + 1] == NO_LINES;

		end += table[i];
		if (!none)
			line += signed_byte(table[i + 1]);
		if (end > wanted)
			return none ? 0 : checked_line(line);
	}
	return 0;
}

/* The varint of lines at pos; bits beyond 32 are left out. */
static uint64_t signed_varint(const uint8_t *table, size_t len, size_t pos)
{
	uint32_t value = 0, shift = 0;
	uint64_t half;
	uint8_t byte;

	do {
		if (pos >= len)
			break;
		byte = table[pos++];
		value |= (uint32_t)(byte & 63) << shift;
		shift += 6;
	} while (byte & 64 && shift < 32);
	half = value >> 1;
	return value & 1 ? -half : half;
}

static uint64_t lines_of_location(const uint8_t *table, size_t len, size_t pos, uint32_t form)
{
	if (form >= FORM_ONE_LINE_FIRST && form <= FORM_ONE_LINE_LAST)
		return form - FORM_ONE_LINE_FIRST;
	if (form == FORM_NO_COLUMNS || form == FORM_LONG)
		return signed_varint(table, len, pos + 1);
	return 0;
}

static uint32_t line_of_locations(const uint8_t *table, size_t len, uint64_t line, uint64_t wanted)
{
	uint64_t end = 0;
	size_t pos = 0;

	while (pos < len) {
		uint32_t form = table[pos] >> 3 & 15;

		end += (table[pos] & 7) + 1U;
		line += lines_of_location(table, len, pos, form);
		if (end > wanted)
			return form == FORM_NONE ? 0 : checked_line(line);
		do
			pos++;
		while (pos < len && !(table[pos] & 0x80));
	}
	return 0;
}

uint32_t python_line(uint32_t lines, const uint8_t *table, size_t len, uint32_t first_line,
		     uint32_t lasti)
{
	uint64_t line = (uint64_t)(int32_t)first_line;

	switch (lines) {
	case PYTHON_LINES_LNOTAB:
		return line_of_lnotab(table, len, line, 2ULL * lasti);
	case PYTHON_LINES_RANGES:
		return line_of_ranges(table, len, line, 2ULL * lasti);
	case PYTHON_LINES_LOCATIONS:
		return line_of_locations(table, len, line, lasti);
	default:
		return 0;
	}
}
