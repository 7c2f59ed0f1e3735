/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PYTHON_DEBUG_OFFSETS_H
#define BPFPROF_PYTHON_DEBUG_OFFSETS_H

/*
 * What CPython 3.13+ says about its own layout: _Py_DebugOffsets, the first bytes of
 * _PyRuntime (Include/internal/pycore_debug_offsets.h; 3.13: pycore_runtime.h). They are plain numbers
 * that no relocation touches, so those in the file are those in memory. The struct differs
 * between minor versions, and some of what we need is not in it: that is in layouts.h.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bpfprof_python_layout;

#define PYTHON_DEBUG_OFFSETS_MAX 1024 /* bytes of it that are asked for */
#define PYTHON_DEBUG_OFFSETS_HEAD 16 /* cookie and version */
#define PYTHON_DEBUG_COOKIE "xdebugpy" /* 8 bytes */
#define PYTHON_DEBUG_VERSION_AT 8
#define PYTHON_DEBUG_FREE_THREADED_AT 16

/* Is the layout of this version (0x30d = 3.13) told in this way? */
bool python_debug_offsets_known(uint16_t version);

/* Version that these bytes say, as PY_VERSION_HEX; 0 if they are the beginning of something else. */
uint32_t python_debug_offsets_version(const uint8_t head[PYTHON_DEBUG_OFFSETS_HEAD]);

/*
 * The layout from data[0..len), the first bytes of _PyRuntime. version is that of
 * Py_Version, runtime_bytes the size of the symbol (0 = not known). 0, -ENOTSUP version not
 * known, -EBADMSG cookie missing, cut off, or contradicting itself.
 */
int python_debug_offsets_parse(struct bpfprof_python_layout *ret, const uint8_t *data, size_t len,
			       uint32_t version, uint64_t runtime_bytes);

#endif
