// SPDX-License-Identifier: Apache-2.0
/* fuzz: max_len=4096 */
#include "python/codes.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

#define HEADER 16
#define NR_IDS 4
#define ANY_FIELDS 0x80 /* of the first byte */

static uint64_t frame_make(uint64_t id, uint32_t lasti)
{
	return (uint64_t)BPFPROF_FRAME_PYTHON << BPFPROF_FRAME_SHIFT |
	       (id << BPFPROF_LASTI_BITS & BPFPROF_FRAME_MASK) | (lasti & BPFPROF_LASTI_MASK);
}

/*
 * A record that is as long as it says: 16 bytes of header, then data. Without ANY_FIELDS the fields go together,
 * or nothing would ever be complete.
 */
static size_t piece_put(struct codes *codes, const uint8_t *data, size_t size)
{
	size_t head = offsetof(struct bpfprof_python_code, data), len = data[1] * 2U, bytes;
	struct bpfprof_python_code whole = { .rec.kind = BPFPROF_KIND_PYTHON_CODE }, *piece;
	uint16_t total, off;

	memcpy(&total, data + 2, 2);
	memcpy(&off, data + 4, 2);
	len = len < size - HEADER ? len : size - HEADER;
	bytes = head + len;
	whole.code_id = BPFPROF_CODE_ID_RAW | data[6] % NR_IDS;
	whole.part = data[0] & 7;
	whole.char_bytes = 1U << data[7] % 3;
	whole.first_line = data[8];
	whole.len = (uint32_t)len;
	whole.off = off;
	whole.total = off + (uint32_t)len + (total & 0x1ff);
	if (data[0] & ANY_FIELDS) {
		memcpy(&whole.total, data + 2, 4);
		memcpy(&whole.off, data + 6, 4);
		memcpy(&whole.len, data + 10, 4);
		memcpy(&whole.char_bytes, data + 12, 4);
		bytes = data[1] * 2U;
		if (bytes > head + size - HEADER)
			bytes = head + size - HEADER;
	}
	piece = malloc(bytes ? bytes : 1);
	if (!piece)
		abort();
	memcpy(piece, &whole, bytes < head ? bytes : head);
	if (bytes > head)
		memcpy(piece->data, data + HEADER, bytes - head);
	codes_piece(codes, piece, bytes, data[9] % (PYTHON_LINES_LOCATIONS + 2));
	free(piece);
	return HEADER + (bytes > head ? bytes - head : 0);
}

/* Both forms of a frame mean the same. */
static void frame_check(struct codes *codes, uint64_t frame)
{
	struct code_info raw, own;
	uint64_t made = codes_frame(codes, frame, 0);
	int err = codes_describe(codes, frame, &raw);

	if (err && err != -ENOENT)
		abort();
	if (err && made != frame)
		abort();
	if (err)
		return;
	if (!raw.name || !raw.file || raw.line > BPFPROF_LASTI_MASK)
		abort();
	if (made == frame)
		return;
	if (made >> BPFPROF_FRAME_SHIFT != BPFPROF_FRAME_PYTHON ||
	    (made & BPFPROF_FRAME_MASK) >> BPFPROF_LASTI_BITS >= codes_counts(codes)->nr_kept)
		abort();
	if (codes_describe(codes, made, &own) || own.name != raw.name || own.file != raw.file ||
	    own.line != raw.line || own.first_line != raw.first_line)
		abort();
}

/* Pieces of a few code objects, and between them frames of these and of others. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	const struct codes_counts *counts;
	struct codes *codes;
	uint32_t lasti;
	size_t used;

	if (size < 2 || codes_new(&codes, data[0] ? 1U << 20 : data[1] * 16U))
		return 0;
	data += 2;
	size -= 2;
	for (; size >= HEADER; data += used, size -= used) {
		used = piece_put(codes, data, size);
		memcpy(&lasti, data + 12, 4);
		frame_check(codes, frame_make(BPFPROF_CODE_ID_RAW | data[6] % NR_IDS, lasti >> 8));
		frame_check(codes,
			    frame_make(BPFPROF_CODE_ID_RAW | data[6] % NR_IDS, BPFPROF_LASTI_NONE));
		frame_check(codes, frame_make(data[11], lasti));
		frame_check(codes, frame_make(~0ULL, lasti));
	}
	counts = codes_counts(codes);
	if (counts->nr_kept > counts->nr_objects)
		abort();
	codes_free(codes);
	return 0;
}
