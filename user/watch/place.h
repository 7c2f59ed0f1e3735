/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_WATCH_PLACE_H
#define BPFPROF_WATCH_PLACE_H

/* A colleague names the frame of a stack that is code of the program itself, not of the system. */

#include <stdbool.h>

/* Does the file of a function come with the language, and not with the program? */
bool place_is_of_system(const char *file, bool python);

#endif
