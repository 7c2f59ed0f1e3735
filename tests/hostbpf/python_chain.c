// SPDX-License-Identifier: Apache-2.0
#include "python_chain.h"

#include <string.h>

#include "python/text.h"

#define STRING_HEADER_BYTES 40
#define STRING_HEADER_FT_BYTES 56

/* The same in all of them. */
#define STATES                                                                                     \
	.runtime_interpreters = 32, .interpreter_next = 8, .interpreter_threads = 16,              \
	.tstate_next = 8, .tstate_thread = 152, .tstate_frame = 56, .tstate_bytes = 160
#define STRINGS                                                                                    \
	.unicode_length = 16, .unicode_hash = 24, .unicode_state = 32, .unicode_kind_shift = 2,    \
	.ascii_data = 40, .compact_data = 56, .bytes_size = 16, .bytes_data = 32
#define CODE                                                                                       \
	.code_name = 120, .code_qualname = 128, .code_filename = 112, .code_linetable = 136,       \
	.code_firstlineno = 68, .code_flags = 48, .code_adaptive = 200, .code_bytes = 144

static const struct bpfprof_python_layout made[] = {
	{ .chain = PYTHON_CHAIN_OBJECTS,
	  .lines = PYTHON_LINES_LNOTAB,
	  .version = 0x308,
	  STATES,
	  .runtime_current = 1368,
	  .frame_previous = 24,
	  .frame_code = 32,
	  .frame_lasti = 104,
	  .lasti_unit = 1,
	  .frame_bytes = 112,
	  .code_name = 112,
	  .code_filename = 104,
	  .code_linetable = 120,
	  .code_firstlineno = 40,
	  .code_flags = 36,
	  .code_bytes = 128,
	  STRINGS },
	{ .chain = PYTHON_CHAIN_ENTRY_FLAG,
	  .lines = PYTHON_LINES_LOCATIONS,
	  .version = 0x30b,
	  STATES,
	  .runtime_current = 576,
	  .cframe_frame = 8,
	  .cframe_previous = 16,
	  .frame_code = 32,
	  .frame_previous = 48,
	  .frame_lasti = 56,
	  .frame_owner = 68,
	  .frame_bytes = 72,
	  CODE,
	  STRINGS },
	{ .chain = PYTHON_CHAIN_CFRAME,
	  .lines = PYTHON_LINES_LOCATIONS,
	  .version = 0x30c,
	  STATES,
	  .cframe_previous = 8,
	  .frame_previous = 8,
	  .frame_lasti = 56,
	  .frame_owner = 70,
	  .shim_owner = 3,
	  .frame_bytes = 72,
	  CODE,
	  STRINGS },
	{ .chain = PYTHON_CHAIN_FRAMES,
	  .lines = PYTHON_LINES_LOCATIONS,
	  .version = 0x30e,
	  STATES,
	  .frame_previous = 8,
	  .frame_lasti = 56,
	  .frame_owner = 74,
	  .shim_owner = 3,
	  .code_mask = 3,
	  .frame_bytes = 80,
	  CODE,
	  STRINGS },
};

const struct bpfprof_python_layout *python_layout_made(uint32_t chain)
{
	return &made[(chain - PYTHON_CHAIN_OBJECTS) % (sizeof(made) / sizeof(*made))];
}

size_t python_chain_string(struct unwind_reader *reader, const struct bpfprof_python_layout *layout,
			   uint64_t va, char *dst, size_t cap)
{
	__u8 header[BPFPROF_PYTHON_FRAME_BYTES + 8] = { 0 }, data[BPFPROF_PYTHON_PIECE_BYTES];
	uint64_t length, total;
	uint32_t state, kind, len;

	dst[0] = '\0';
	if (reader->read(reader, va, header,
			 layout->free_threaded ? STRING_HEADER_FT_BYTES : STRING_HEADER_BYTES))
		return 0;
	memcpy(&length, header + (layout->unicode_length & 127), sizeof(length));
	memcpy(&state, header + (layout->unicode_state & 127), sizeof(state));
	state >>= layout->unicode_kind_shift & 31;
	kind = state & 7;
	if (!(state & 8) || (kind != 1 && kind != 2 && kind != 4) || length >> 28)
		length = 0;
	total = length * kind;
	len = total < sizeof(data) ? (uint32_t)total : (uint32_t)sizeof(data);
	va += state & 16 ? layout->ascii_data : layout->compact_data;
	if (len && reader->read(reader, va, data, len))
		return 0;
	return python_text(dst, cap, data, len, total, kind);
}
