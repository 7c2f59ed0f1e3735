/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_BASE_NAMES_H
#define BPFPROF_BASE_NAMES_H

/* A list of texts. The holder of the pointer and of the length owns it, and bounds it. */

#include <stddef.h>

/* Adds a copy of name[len]. 0 or -ENOMEM. */
int names_add(char ***list, size_t *nr, const char *name, size_t len);
void names_free(char **list, size_t nr);

#endif
