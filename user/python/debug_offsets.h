/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PYTHON_DEBUG_OFFSETS_H
#define BPFPROF_PYTHON_DEBUG_OFFSETS_H

/*
 * CPython 3.13 and later describe their own layout: _Py_DebugOffsets, the first bytes of _PyRuntime
 * (Include/internal/pycore_debug_offsets.h; 3.13: pycore_runtime.h). These are plain numbers without
 * relocations, so the file has the same numbers as the memory. The struct differs between minor versions;
 * layouts.h has the offsets that are missing there.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct bpfprof_python_layout;

#define PYTHON_DEBUG_OFFSETS_MAX 1024 /* bytes that are read at most */
#define PYTHON_DEBUG_OFFSETS_HEAD 16 /* cookie and version */
#define PYTHON_DEBUG_COOKIE "xdebugpy" /* 8 bytes */
#define PYTHON_DEBUG_VERSION_AT 8
#define PYTHON_DEBUG_FREE_THREADED_AT 16

/* Does this version (0x30d = 3.13) describe its own layout? */
bool python_debug_offsets_known(uint16_t version);

/* The version in these bytes, as PY_VERSION_HEX; 0 if they are not the head of the struct. */
uint32_t python_debug_offsets_version(const uint8_t head[PYTHON_DEBUG_OFFSETS_HEAD]);

/*
 * The layout from data[0..len), the first bytes of _PyRuntime. version is that of Py_Version,
 * runtime_bytes the size of the symbol (0: not known). 0, -ENOTSUP the version is not known, -EBADMSG
 * there is no cookie, or the data are cut off or contradict themselves.
 */
int python_debug_offsets_parse(struct bpfprof_python_layout *ret, const uint8_t *data, size_t len,
			       uint32_t version, uint64_t runtime_bytes);

#endif
