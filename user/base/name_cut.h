/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_BASE_NAME_CUT_H
#define BPFPROF_BASE_NAME_CUT_H

/*
 * Takes in a name piece by piece and cuts the middle out of a long one. A hash of the whole name
 * stands there, so that the end is kept and two different names stay different. UTF-8 characters
 * stay whole.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NAME_CUT_MAX 1024 /* with the NUL */
#define NAME_CUT_SHORTEST 64
#define NAME_CUT_END 503 /* bytes of the end that are kept */

struct name_cut {
	uint64_t len; /* of the whole name, so far */
	uint32_t hash;
	char head[NAME_CUT_MAX];
	char end[NAME_CUT_END]; /* the byte at i of the name is at i % NAME_CUT_END */
};

void name_cut_init(struct name_cut *cut);
void name_cut_add(struct name_cut *cut, const char *str, size_t len);
/* The name, or `HEAD...[0123abcd]...END`. Length. */
size_t name_cut_finish(const struct name_cut *cut, char dst[NAME_CUT_MAX]);
/* Cuts a name of len bytes to at most max (NAME_CUT_SHORTEST or more) in the same way. Length. */
size_t name_cut_short(const char *name, size_t len, size_t max, char dst[NAME_CUT_MAX]);
/* Does name begin with the result of name_cut_finish() for a cut name? */
bool name_cut_is_cut(const char *name, size_t len);

#endif
