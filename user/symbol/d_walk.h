/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_SYMBOL_D_WALK_H
#define BPFPROF_SYMBOL_D_WALK_H

/*
 * Measures the work that libiberty needs to demangle a name of D. Its parser goes back and tries again
 * when a name may mean two things, each time inside of the other: a name of 124 bytes can take days, and
 * back references make gigabytes of text. This walk takes the same steps, writes nothing, and stops when
 * there are too many.
 */

#include <stdbool.h>
#include <stddef.h>

#define D_WALK_MAX_WORK (1U << 20) /* some 2 ms; each name of Phobos needs at most a tenth of it */

/*
 * True for a name that libiberty demangles within D_WALK_MAX_WORK. *ret_work is the work of the walk, in
 * bytes of text written.
 */
bool d_walk_measure(const char *name, size_t *ret_work);

#endif
