// SPDX-License-Identifier: Apache-2.0
#include "python/debug_offsets.h"

#include <errno.h>
#include <string.h>

#include "base/bytes.h"
#include "bpfprof.h"

/* One version and build: the place of each offset in _Py_DebugOffsets, and the missing offsets. */
struct python_debug_layout {
	uint16_t version;
	uint16_t free_threaded;
	uint16_t bytes; /* sizeof(_Py_DebugOffsets) */
	uint16_t runtime_bytes; /* place of the size of _PyRuntime */
	uint16_t interpreter_bytes;
	uint16_t thread_bytes;
	uint16_t runtime_interpreters;
	uint16_t interpreter_next;
	uint16_t interpreter_threads;
	uint16_t gil;
	uint16_t gil_state; /* of the interpreter's own GIL */
	uint16_t gil_holder; /* of the holder in that GIL */
	uint16_t tstate_next;
	uint16_t tstate_thread;
	uint16_t tstate_frame;
	uint16_t tstate_status;
	uint16_t frame_code;
	uint16_t frame_previous;
	uint16_t frame_lasti;
	uint16_t frame_owner;
	uint16_t code_name;
	uint16_t code_qualname;
	uint16_t code_filename;
	uint16_t code_linetable;
	uint16_t code_firstlineno;
	uint16_t code_argcount;
	uint16_t code_adaptive;
	uint16_t unicode_length;
	uint16_t unicode_state;
	uint16_t ascii_data;
	uint16_t bytes_size;
	uint16_t bytes_data;
	/* Missing in the struct: distances from other offsets, and constants. */
	int16_t flags_from_argcount;
	int16_t version_from_firstlineno;
	int16_t hash_from_length;
	int16_t compact_from_ascii;
	int16_t gil_from_status;
	uint16_t unicode_kind_shift;
	uint32_t status_mask;
	uint16_t shim_owner;
	uint16_t code_mask;
};

#define PYTHON_DEBUG_LAYOUTS
#include "python/layouts.h"

#define NR_LAYOUTS (sizeof(python_debug_layouts) / sizeof(python_debug_layouts[0]))

struct reading {
	const uint8_t *data;
	size_t len;
	bool bad;
};

static uint64_t read_u64(struct reading *r, uint16_t at)
{
	r->bad |= r->len < 8 || at > r->len - 8;
	return r->bad ? 0 : bytes_u64(r->data + at);
}

/* The offset at `at` plus distance, into an object of `bytes` bytes. */
static uint32_t read_offset(struct reading *r, uint16_t at, int distance, uint64_t bytes)
{
	uint64_t value = read_u64(r, at);

	if (value >= bytes || value > INT32_MAX || (int64_t)value + distance < 0) {
		r->bad = true;
		return 0;
	}
	return (uint32_t)((int64_t)value + distance);
}

static uint16_t read_small(struct reading *r, uint16_t at, int distance)
{
	/* A distance can be added below the largest 16-bit number. */
	return (uint16_t)read_offset(r, at, distance, 1U << 15);
}

static const struct python_debug_layout *layout_find(uint16_t version, uint64_t free_threaded)
{
	size_t i;

	for (i = 0; i < NR_LAYOUTS; i++)
		if (python_debug_layouts[i].version == version &&
		    python_debug_layouts[i].free_threaded == free_threaded)
			return &python_debug_layouts[i];
	return NULL;
}

bool python_debug_offsets_known(uint16_t version)
{
	return layout_find(version, 0) != NULL;
}

uint32_t python_debug_offsets_version(const uint8_t head[PYTHON_DEBUG_OFFSETS_HEAD])
{
	uint64_t version = bytes_u64(head + PYTHON_DEBUG_VERSION_AT);

	return !memcmp(head, PYTHON_DEBUG_COOKIE, 8) && version <= UINT32_MAX ? (uint32_t)version
									      : 0;
}

/* Nothing else depends on the holder of the GIL: after an invalid offset it is just not known. */
static void parse_gil(struct reading *r, const struct python_debug_layout *at,
		      struct bpfprof_python_layout *layout, uint64_t interpreter_bytes)
{
	uint64_t gil = read_u64(r, at->gil), state = read_u64(r, at->gil_state);
	uint64_t holder = read_u64(r, at->gil_holder);

	if (layout->free_threaded || gil >= interpreter_bytes || gil % 8 || holder <= state ||
	    holder - state >= PYTHON_GIL_BYTES || (holder - state) % 8)
		return;
	layout->gil = (uint32_t)gil;
	layout->gil_holder = (uint32_t)(holder - state);
}

static void parse_states(struct reading *r, const struct python_debug_layout *at,
			 struct bpfprof_python_layout *layout, uint64_t runtime_bytes)
{
	uint64_t interpreter_bytes = read_u64(r, at->interpreter_bytes);
	uint64_t thread_bytes = read_u64(r, at->thread_bytes);

	/* The size is known in two ways: both must agree. */
	if (runtime_bytes && read_u64(r, at->runtime_bytes) != runtime_bytes)
		r->bad = true;
	layout->runtime_interpreters =
		read_offset(r, at->runtime_interpreters, 0, read_u64(r, at->runtime_bytes));
	layout->interpreter_next = read_offset(r, at->interpreter_next, 0, interpreter_bytes);
	layout->interpreter_threads = read_offset(r, at->interpreter_threads, 0, interpreter_bytes);
	parse_gil(r, at, layout, interpreter_bytes);
	layout->tstate_next = read_small(r, at->tstate_next, 0);
	layout->tstate_thread = read_small(r, at->tstate_thread, 0);
	layout->tstate_frame = read_small(r, at->tstate_frame, 0);
	layout->tstate_status = read_small(r, at->tstate_status, at->gil_from_status);
	layout->status_mask = at->status_mask;
	if (layout->tstate_next >= thread_bytes || layout->tstate_thread >= thread_bytes ||
	    layout->tstate_frame >= thread_bytes || layout->tstate_status >= thread_bytes)
		r->bad = true;
}

static void parse_objects(struct reading *r, const struct python_debug_layout *at,
			  struct bpfprof_python_layout *layout)
{
	layout->frame_code = read_small(r, at->frame_code, 0);
	layout->frame_previous = read_small(r, at->frame_previous, 0);
	layout->frame_lasti = read_small(r, at->frame_lasti, 0);
	layout->frame_owner = read_small(r, at->frame_owner, 0);
	layout->shim_owner = at->shim_owner;
	layout->code_mask = at->code_mask;
	layout->code_name = read_small(r, at->code_name, 0);
	layout->code_qualname = read_small(r, at->code_qualname, 0);
	layout->code_filename = read_small(r, at->code_filename, 0);
	layout->code_linetable = read_small(r, at->code_linetable, 0);
	layout->code_firstlineno = read_small(r, at->code_firstlineno, 0);
	layout->code_flags = read_small(r, at->code_argcount, at->flags_from_argcount);
	layout->code_version = read_small(r, at->code_firstlineno, at->version_from_firstlineno);
	layout->code_adaptive = read_small(r, at->code_adaptive, 0);
	layout->unicode_length = read_small(r, at->unicode_length, 0);
	layout->unicode_hash = read_small(r, at->unicode_length, at->hash_from_length);
	layout->unicode_state = read_small(r, at->unicode_state, 0);
	layout->unicode_kind_shift = at->unicode_kind_shift;
	layout->ascii_data = read_small(r, at->ascii_data, 0);
	layout->compact_data = read_small(r, at->ascii_data, at->compact_from_ascii);
	layout->bytes_size = read_small(r, at->bytes_size, 0);
	layout->bytes_data = read_small(r, at->bytes_data, 0);
}

int python_debug_offsets_parse(struct bpfprof_python_layout *ret, const uint8_t *data, size_t len,
			       uint32_t version, uint64_t runtime_bytes)
{
	struct bpfprof_python_layout layout = { .chain = PYTHON_CHAIN_FRAMES,
						.lines = PYTHON_LINES_LOCATIONS,
						.version = (uint16_t)(version >> 16) };
	struct reading r = { .data = data, .len = len };
	const struct python_debug_layout *at;
	uint64_t free_threaded = read_u64(&r, PYTHON_DEBUG_FREE_THREADED_AT);

	if (!python_debug_offsets_known(layout.version))
		return -ENOTSUP;
	if (r.bad || python_debug_offsets_version(data) != version)
		return -EBADMSG;
	at = layout_find(layout.version, free_threaded);
	if (!at || len < at->bytes)
		return -EBADMSG;
	layout.free_threaded = (uint16_t)free_threaded;
	r.len = at->bytes;
	parse_states(&r, at, &layout, runtime_bytes);
	parse_objects(&r, at, &layout);
	if (r.bad)
		return -EBADMSG;
	*ret = layout;
	return 0;
}
