// SPDX-License-Identifier: Apache-2.0
#include "python/layout.h"

#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "elf/image.h"
#include "elf/symbol_find.h"
#include "python/debug_offsets.h"
#include "python/layout_ranges.h"

#define PYTHON_LAYOUTS
#include "python/layouts.h"

#define LAYOUTS_MACHINE EM_X86_64 /* of the headers that layouts.h was made from */
#define NR_LAYOUTS (sizeof(python_layouts) / sizeof(python_layouts[0]))

#define MAX_STATE_BYTES (1U << 20) /* _PyRuntime and PyInterpreterState: below 500 KiB until now */
#define MAX_ADAPTIVE 1024
#define MAX_STRING_HEADER 128
#define MAX_PROGRAM_SYMBOL_BYTES (16U << 20) /* if a program does not export _PyRuntime */
#define SECTION ".PyRuntime" /* holds _PyRuntime and nothing else, from 3.10 on */
#define SECTION_TOLERANCE 4096 /* patch releases add some identifiers */
#define RELEASE_CANDIDATE 0xc /* PY_RELEASE_LEVEL_GAMMA: layouts are fixed from then on */

/* Symbols that identify CPython and its version. The first two are looked up in every file. */
enum {
	RUNTIME,
	CURRENT, /* up to 3.6, which has no _PyRuntime */
	NR_FIRST,
	VERSION = NR_FIRST, /* 3.11+ */
	EVAL,
	CONFIG, /* 3.8+ */
	FRAME_BACK, /* 3.9+ */
	ITER_SEND, /* 3.10+ */
	CONTEXT, /* 3.7+ */
	FSPATH, /* 3.6+ */
	STRING2, /* 2.x */
	MEMORY_VIEW, /* 2.7, 3.x */
	TRACE_REFS, /* configured --with-trace-refs: every object is 16 bytes longer */
	NR_NAMES
};

static const char *const names[NR_NAMES] = {
	[RUNTIME] = "_PyRuntime",
	[CURRENT] = "_PyThreadState_Current",
	[VERSION] = "Py_Version",
	[EVAL] = "_PyEval_EvalFrameDefault",
	[CONFIG] = "PyConfig_Clear",
	[FRAME_BACK] = "PyFrame_GetBack",
	[ITER_SEND] = "PyIter_Send",
	[CONTEXT] = "PyContextVar_New",
	[FSPATH] = "PyOS_FSPath",
	[STRING2] = "PyString_FromString",
	[MEMORY_VIEW] = "PyMemoryView_FromObject",
	[TRACE_REFS] = "_Py_AddToAllObjects",
};

static bool has(const struct symbol_found *found, unsigned int name)
{
	return found[name].pattern != UINT32_MAX;
}

/* A program, not a library. */
static bool is_program(const struct elf_image *img)
{
	return elf_image_segment(img, PT_INTERP) || !elf_image_segment(img, PT_DYNAMIC);
}

/* For a program that contains CPython and does not export it. */
static int symbols_from_symtab(struct elf_image *img, struct symbol_found found[NR_NAMES])
{
	struct symbol_pattern patterns[NR_NAMES];
	struct symbol_found all[NR_NAMES * 4];
	size_t nr, i;
	int err;

	for (i = 0; i < NR_NAMES; i++)
		patterns[i] = (struct symbol_pattern){ names[i], SYMBOL_EXACT };
	/* Most programs are not Python: the first name needs only the strings. */
	err = symbol_find_all(img, SHT_SYMTAB, MAX_PROGRAM_SYMBOL_BYTES, patterns, 1, all, 1, &nr);
	if (err || !nr)
		return -ENODATA;
	err = symbol_find_all(img, SHT_SYMTAB, MAX_PROGRAM_SYMBOL_BYTES, patterns, NR_NAMES, all,
			      NR_NAMES * 4, &nr);
	if (err)
		return err;
	for (i = 0; i < NR_NAMES; i++)
		found[i].pattern = UINT32_MAX;
	for (i = 0; i < nr; i++)
		found[all[i].pattern] = all[i];
	return 0;
}

/* For such a program without symbols: only the section is left. */
static void symbols_from_section(const struct elf_section *section,
				 struct symbol_found found[NR_NAMES])
{
	size_t i;

	for (i = 0; i < NR_NAMES; i++)
		found[i] = (struct symbol_found){ .pattern = UINT32_MAX };
	found[RUNTIME] = (struct symbol_found){ .value = section->va,
						.bytes = section->bytes,
						.type = STT_OBJECT };
}

/* Any other file costs two searches in its hash table here, and its section headers. */
static int symbols_read(struct elf_image *img, struct symbol_found found[NR_NAMES], bool *bare)
{
	int err = symbol_find_dynamic(img, names, NR_FIRST, found);
	const struct elf_section *section;

	if (err && err != -ENODATA)
		return err;
	if (!err && (has(found, RUNTIME) || has(found, CURRENT)))
		return symbol_find_dynamic(img, names, NR_NAMES, found);
	section = elf_image_section(img, SECTION);
	if (!section && !is_program(img))
		return -ENODATA;
	err = symbols_from_symtab(img, found);
	if (!err || !section || section->type != SHT_PROGBITS)
		return err;
	symbols_from_section(section, found);
	*bare = true;
	return 0;
}

/* The version as PY_VERSION_HEX, as far as known; 0: not at all. */
static int version_find(struct elf_image *img, const struct symbol_found *found, uint32_t *ret)
{
	uint64_t version;
	int err;

	if (has(found, VERSION)) {
		err = elf_image_read_rva(img, found[VERSION].value, &version, sizeof(version));
		if (err)
			return err;
		/* The symbol came with 3.11. */
		if (version < 0x030b0000 || version > UINT32_MAX)
			return -EBADMSG;
		*ret = (uint32_t)version;
		return 0;
	}
	if (!has(found, RUNTIME)) {
		if (has(found, STRING2))
			*ret = has(found, MEMORY_VIEW) ? 0x02070000 : 0x02000000;
		else
			*ret = has(found, FSPATH) ? 0x03060000 : 0x03000000;
		return 0;
	}
	if (has(found, ITER_SEND))
		*ret = 0x030a0000;
	else if (has(found, FRAME_BACK))
		*ret = 0x03090000;
	else if (has(found, CONFIG))
		*ret = 0x03080000;
	else
		*ret = has(found, CONTEXT) ? 0x03070000 : 0;
	return 0;
}

/*
 * The version if there is only the section: 3.13+ has it in the section. Before that the size of the
 * section is sizeof(_PyRuntimeState) with all its static objects, far from that of any other version or
 * kind of build. Up to 3.10 only a symbol can identify the eval loop.
 */
static int version_of_section(struct elf_image *img, const struct symbol_found *runtime,
			      uint32_t *ret)
{
	static const struct {
		uint32_t version;
		uint64_t bytes;
	} sizes[] = { { 0x030b0000, 0x28b20 }, { 0x030c0000, 0x704a8 } };
	uint8_t head[PYTHON_DEBUG_OFFSETS_HEAD];
	size_t i;
	int err;

	err = elf_image_read_rva(img, runtime->value, head, sizeof(head));
	if (err)
		return err;
	*ret = python_debug_offsets_version(head);
	for (i = 0; !*ret && i < sizeof(sizes) / sizeof(*sizes); i++)
		if (runtime->bytes + SECTION_TOLERANCE >= sizes[i].bytes &&
		    runtime->bytes <= sizes[i].bytes + SECTION_TOLERANCE)
			*ret = sizes[i].version;
	return 0;
}

/* Each alpha and beta release has a layout of its own. */
static bool is_settled(uint32_t version)
{
	return !(version & 0xffff) || (version >> 4 & 0xf) >= RELEASE_CANDIDATE;
}

/* _PyRuntime must lie completely in writable data. */
static int runtime_check(const struct elf_image *img, const struct symbol_found *runtime)
{
	const struct elf_segment *seg;
	size_t nr, i;

	if (runtime->type != STT_OBJECT)
		return -EBADMSG;
	seg = elf_image_segments(img, &nr);
	for (i = 0; i < nr; i++)
		if (seg[i].type == PT_LOAD && (seg[i].flags & PF_W) &&
		    runtime->value >= seg[i].va && runtime->value - seg[i].va < seg[i].mem_bytes &&
		    runtime->bytes <= seg[i].mem_bytes - (runtime->value - seg[i].va))
			return 0;
	return -EBADMSG;
}

static int layout_from_file(struct elf_image *img, const struct symbol_found *runtime,
			    uint32_t version, struct bpfprof_python_layout *ret)
{
	uint8_t data[PYTHON_DEBUG_OFFSETS_MAX];
	size_t len = sizeof(data);
	int err;

	if (runtime->bytes && runtime->bytes < len)
		len = runtime->bytes;
	err = elf_image_read_rva(img, runtime->value, data, len);
	if (err)
		return err;
	return python_debug_offsets_parse(ret, data, len, version, runtime->bytes);
}

static int layout_from_table(const struct elf_image *img, const struct symbol_found *found,
			     uint32_t version, struct bpfprof_python_layout *ret)
{
	size_t i;

	for (i = 0; i < NR_LAYOUTS && python_layouts[i].version != version >> 16; i++)
		;
	if (i == NR_LAYOUTS || has(found, TRACE_REFS))
		return -ENOTSUP;
	*ret = python_layouts[i];
	/* These lie behind a mutex, and the table has its size on that CPU. */
	if (elf_image_machine(img) != LAYOUTS_MACHINE)
		ret->runtime_current = ret->gil = 0;
	return 0;
}

static uint16_t largest(const uint16_t *ends, size_t nr)
{
	uint16_t max = 0;
	size_t i;

	for (i = 0; i < nr; i++)
		if (ends[i] > max)
			max = ends[i];
	return (max + 7) & ~7;
}

/* Sets the number of bytes to be read of each object. */
static void layout_finish(struct bpfprof_python_layout *l)
{
	const uint16_t tstate[] = { l->tstate_next + 8, l->tstate_thread + 8, l->tstate_frame + 8,
				    l->status_mask ? l->tstate_status + 4 : 0 };
	const uint16_t frame[] = { l->frame_code + 8, l->frame_previous + 8, l->frame_lasti + 8,
				   l->frame_owner + 1 };
	const uint16_t code[] = { l->code_name + 8,	l->code_qualname + 8,
				  l->code_filename + 8, l->code_linetable + 8,
				  l->code_flags + 4,	l->code_firstlineno + 4,
				  l->code_version + 4 };

	l->tstate_bytes = largest(tstate, sizeof(tstate) / sizeof(*tstate));
	l->frame_bytes = largest(frame, sizeof(frame) / sizeof(*frame));
	l->code_bytes = largest(code, sizeof(code) / sizeof(*code));
}

/* Is a field of `bytes` bytes aligned, and does it lie in the bytes that are read? */
static bool fits(uint32_t off, uint32_t bytes, uint32_t room)
{
	return bytes <= room && off <= room - bytes && !(off % bytes);
}

static bool states_fit(const struct bpfprof_python_layout *l)
{
	uint32_t room = l->tstate_bytes;

	if (!fits(l->runtime_interpreters, 8, MAX_STATE_BYTES) || !l->runtime_interpreters ||
	    !fits(l->runtime_current, 8, MAX_STATE_BYTES) ||
	    !fits(l->interpreter_next, 8, MAX_STATE_BYTES) ||
	    !fits(l->interpreter_threads, 8, MAX_STATE_BYTES) ||
	    l->interpreter_threads == l->interpreter_next || !fits(l->gil, 8, MAX_STATE_BYTES) ||
	    !fits(l->gil_holder, 8, PYTHON_GIL_BYTES))
		return false;
	if (room % 8 || room >= BPFPROF_PYTHON_TSTATE_BYTES || !fits(l->tstate_next, 8, room) ||
	    !fits(l->tstate_next + 8U, 8, room) || /* its interpreter */
	    !fits(l->tstate_thread, 8, room) || !l->tstate_thread ||
	    !fits(l->tstate_frame, 8, room) || !l->tstate_frame ||
	    (l->status_mask && !fits(l->tstate_status, 4, room)))
		return false;
	if (l->chain != PYTHON_CHAIN_ENTRY_FLAG && l->chain != PYTHON_CHAIN_CFRAME)
		return !l->cframe_frame && !l->cframe_previous;
	return fits(l->cframe_frame, 8, MAX_STRING_HEADER) &&
	       l->cframe_previous == l->cframe_frame + 8; /* they are read together */
}

static bool frame_fits(const struct bpfprof_python_layout *l)
{
	uint32_t room = l->frame_bytes;

	if (room % 8 || room >= BPFPROF_PYTHON_FRAME_BYTES || !fits(l->frame_code, 8, room) ||
	    !fits(l->frame_previous, 8, room) || l->frame_code == l->frame_previous ||
	    l->code_mask > 7)
		return false;
	if (l->chain == PYTHON_CHAIN_OBJECTS)
		return fits(l->frame_lasti, 4, room) && (l->lasti_unit == 1 || l->lasti_unit == 2);
	return fits(l->frame_lasti, 8, room) && fits(l->frame_owner, 1, room) && l->frame_owner &&
	       (l->chain == PYTHON_CHAIN_ENTRY_FLAG || (l->shim_owner && l->shim_owner < 256));
}

static bool code_fits(const struct bpfprof_python_layout *l)
{
	uint32_t room = l->code_bytes;

	if (room % 8 || room >= BPFPROF_PYTHON_CODE_BYTES || !fits(l->code_name, 8, room) ||
	    !l->code_name || !fits(l->code_qualname, 8, room) || !fits(l->code_filename, 8, room) ||
	    !l->code_filename || !fits(l->code_linetable, 8, room) || !l->code_linetable ||
	    !fits(l->code_firstlineno, 4, room) || !fits(l->code_flags, 4, room) ||
	    !fits(l->code_version, 4, room))
		return false;
	if (l->chain == PYTHON_CHAIN_OBJECTS)
		return !l->code_adaptive && l->lines != PYTHON_LINES_LOCATIONS;
	return l->code_adaptive && l->code_adaptive <= MAX_ADAPTIVE && !(l->code_adaptive % 2) &&
	       l->lines == PYTHON_LINES_LOCATIONS;
}

static bool strings_fit(const struct bpfprof_python_layout *l)
{
	return fits(l->unicode_length, 8, MAX_STRING_HEADER) && l->unicode_length &&
	       fits(l->unicode_hash, 8, MAX_STRING_HEADER) &&
	       fits(l->unicode_state, 4, MAX_STRING_HEADER - 4) && l->unicode_kind_shift <= 27 &&
	       l->ascii_data > l->unicode_state && l->ascii_data <= MAX_STRING_HEADER &&
	       l->compact_data > l->ascii_data && l->compact_data <= MAX_STRING_HEADER &&
	       fits(l->bytes_size, 8, MAX_STRING_HEADER) && l->bytes_size &&
	       l->bytes_data > l->bytes_size && l->bytes_data <= MAX_STRING_HEADER;
}

int python_layout_check(const struct bpfprof_python_layout *layout)
{
	if (layout->chain < PYTHON_CHAIN_OBJECTS || layout->chain > PYTHON_CHAIN_FRAMES ||
	    layout->lines < PYTHON_LINES_LNOTAB || layout->lines > PYTHON_LINES_LOCATIONS ||
	    layout->version >> 8 != 3 || layout->free_threaded > 1)
		return -EBADMSG;
	if (!states_fit(layout) || !frame_fits(layout) || !code_fits(layout) ||
	    !strings_fit(layout))
		return -EBADMSG;
	return 0;
}

static int layout_find(struct elf_image *img, const struct symbol_found *found, uint32_t version,
		       struct bpfprof_python_layout *ret)
{
	const struct symbol_found *runtime = &found[RUNTIME];
	struct bpfprof_python_layout layout = { 0 };
	uint64_t need;
	int err;

	if (!has(found, RUNTIME) || !is_settled(version))
		return -ENOTSUP;
	err = runtime_check(img, runtime);
	if (err)
		return err;
	if (python_debug_offsets_known((uint16_t)(version >> 16)))
		err = layout_from_file(img, runtime, version, &layout);
	else
		err = layout_from_table(img, found, version, &layout);
	if (err)
		return err;
	layout_finish(&layout);
	need = layout.runtime_interpreters > layout.runtime_current ? layout.runtime_interpreters
								    : layout.runtime_current;
	if (python_layout_check(&layout) || runtime->bytes < need + 8)
		return -EBADMSG;
	*ret = layout;
	return 0;
}

int python_image_probe(struct python_image *ret, struct elf_image *img)
{
	struct symbol_found found[NR_NAMES];
	struct python_image python = { 0 };
	bool bare = false;
	int err;

	err = symbols_read(img, found, &bare);
	if (err)
		return err;
	/* Another program has a symbol of this name. */
	if (!bare && (has(found, RUNTIME) ? !has(found, EVAL) : !has(found, MEMORY_VIEW)))
		return -ENODATA;
	err = bare ? version_of_section(img, &found[RUNTIME], &python.version)
		   : version_find(img, found, &python.version);
	if (err)
		return err;
	python.runtime_rva = has(found, RUNTIME) ? found[RUNTIME].value : 0;
	err = layout_find(img, found, python.version, &python.layout);
	if (err == -ENOTSUP)
		*ret = python; /* the caller can report the version */
	if (!err)
		err = python_ranges_read(img, &found[EVAL],
					 python.layout.chain != PYTHON_CHAIN_OBJECTS,
					 &python.ranges, &python.nr_ranges);
	if (!err)
		*ret = python;
	return err;
}

void python_image_fini(struct python_image *python)
{
	free(python->ranges);
	*python = (struct python_image){ 0 };
}
