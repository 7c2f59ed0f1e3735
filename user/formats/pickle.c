// SPDX-License-Identifier: Apache-2.0
#include "formats/pickle.h"

#include "base/text.h"

#define TEXT_ROOM (2 * TEXT_MAX)

/* The opcodes, by their names in pickletools. */
enum opcode {
	OP_MARK = '(',
	OP_STOP = '.',
	OP_BININT = 'J',
	OP_BININT1 = 'K',
	OP_BININT2 = 'M',
	OP_BINUNICODE = 'X',
	OP_EMPTY_LIST = ']',
	OP_APPEND = 'a',
	OP_BINGET = 'h',
	OP_LONG_BINGET = 'j',
	OP_BINPUT = 'q',
	OP_LONG_BINPUT = 'r',
	OP_SETITEMS = 'u',
	OP_EMPTY_DICT = '}',
	OP_PROTO = 0x80,
	OP_TUPLE2 = 0x86,
	OP_NEWTRUE = 0x88,
	OP_NEWFALSE = 0x89,
	OP_LONG1 = 0x8a,
};

static void op_write(struct pickle *pickle, enum opcode op)
{
	putc((int)op, pickle->out);
}

/* The lowest `bytes` bytes, little endian. */
static void bytes_write(struct pickle *pickle, uint64_t value, int bytes)
{
	for (; bytes; bytes--, value >>= 8)
		putc((int)(value & 0xff), pickle->out);
}

void pickle_begin(struct pickle *pickle, FILE *out)
{
	*pickle = (struct pickle){ .out = out, .text = { .max = TEXT_ROOM } };
	op_write(pickle, OP_PROTO);
	bytes_write(pickle, 2, 1);
}

int pickle_end(struct pickle *pickle)
{
	int err = buf_error(&pickle->text);

	op_write(pickle, OP_STOP);
	buf_fini(&pickle->text);
	return err;
}

void pickle_dict_open(struct pickle *pickle)
{
	op_write(pickle, OP_EMPTY_DICT);
	op_write(pickle, OP_MARK);
}

void pickle_dict_close(struct pickle *pickle)
{
	op_write(pickle, OP_SETITEMS);
}

void pickle_list_open(struct pickle *pickle)
{
	op_write(pickle, OP_EMPTY_LIST);
}

void pickle_list_add(struct pickle *pickle)
{
	op_write(pickle, OP_APPEND);
}

void pickle_number(struct pickle *pickle, uint64_t value)
{
	int bytes = 1;

	if (value <= UINT8_MAX) {
		op_write(pickle, OP_BININT1);
		bytes_write(pickle, value, 1);
	} else if (value <= UINT16_MAX) {
		op_write(pickle, OP_BININT2);
		bytes_write(pickle, value, 2);
	} else if (value <= INT32_MAX) {
		op_write(pickle, OP_BININT);
		bytes_write(pickle, value, 4);
	} else {
		/* Two's complement: the highest bit is the sign, so 64 bits may take 9 bytes. */
		while (bytes < 9 && value >> (8 * bytes - 1))
			bytes++;
		op_write(pickle, OP_LONG1);
		bytes_write(pickle, (uint64_t)bytes, 1);
		bytes_write(pickle, value, bytes);
	}
}

void pickle_bool(struct pickle *pickle, bool value)
{
	op_write(pickle, value ? OP_NEWTRUE : OP_NEWFALSE);
}

void pickle_pair(struct pickle *pickle, uint64_t first, uint64_t second)
{
	pickle_number(pickle, first);
	pickle_number(pickle, second);
	op_write(pickle, OP_TUPLE2);
}

void pickle_text(struct pickle *pickle, const char *text)
{
	struct buf *safe = &pickle->text;

	if (!buf_error(safe))
		buf_reset(safe);
	text_add(safe, text);
	op_write(pickle, OP_BINUNICODE);
	bytes_write(pickle, safe->len, 4);
	if (safe->len)
		fwrite(safe->data, 1, safe->len, pickle->out);
}

uint32_t pickle_keep(struct pickle *pickle)
{
	uint32_t nr = pickle->nr_kept++;

	op_write(pickle, nr <= UINT8_MAX ? OP_BINPUT : OP_LONG_BINPUT);
	bytes_write(pickle, nr, nr <= UINT8_MAX ? 1 : 4);
	return nr + 1;
}

void pickle_recall(struct pickle *pickle, uint32_t nr)
{
	nr--;
	op_write(pickle, nr <= UINT8_MAX ? OP_BINGET : OP_LONG_BINGET);
	bytes_write(pickle, nr, nr <= UINT8_MAX ? 1 : 4);
}
