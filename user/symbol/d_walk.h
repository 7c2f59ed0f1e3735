/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_SYMBOL_D_WALK_H
#define BPFPROF_SYMBOL_D_WALK_H

/*
 * What it costs libiberty to demangle a name of D. Its parser goes back and tries again where a name
 * may mean two things, each time inside of the other: a name of 124 bytes can keep it busy for
 * days, and back references make gigabytes of text. This walk takes the same steps, writes nothing, and
 * stops when they become too many.
 */

#include <stdbool.h>
#include <stddef.h>

#define D_WALK_MAX_WORK (1U << 20) /* some 2 ms; a tenth of it does for each name of Phobos */

/*
 * True for a name that libiberty demangles within D_WALK_MAX_WORK. *ret_work: what was done until that
 * was known, in bytes of text written.
 */
bool d_walk_measure(const char *name, size_t *ret_work);

#endif
