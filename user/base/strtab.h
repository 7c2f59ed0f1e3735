/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_BASE_STRTAB_H
#define BPFPROF_BASE_STRTAB_H

/*
 * Interned strings: each distinct string is kept once and has a dense id from 0; id 0 is "". Nothing is
 * removed before strtab_free(). Bytes are capped; past the cap every new string gets the id of
 * STRTAB_OVERFLOW. Pointers from strtab_get() live as long as the table.
 */

#include <stddef.h>
#include <stdint.h>

#define STRTAB_OVERFLOW "(too many names)"

struct strtab;

int strtab_new(struct strtab **ret, size_t max_bytes); /* 0 or -ENOMEM */
void strtab_free(struct strtab *tab);
static inline void strtab_free_ptr(struct strtab **tab)
{
	strtab_free(*tab);
}

/* Never fails: out of memory or room gives the id of STRTAB_OVERFLOW. */
uint32_t strtab_add(struct strtab *tab, const char *str);
/* At most len bytes, up to the first NUL. */
uint32_t strtab_add_len(struct strtab *tab, const char *str, size_t len);
/*
 * After `bytes` more, a string over len bytes (NAME_CUT_SHORTEST or more) that is not there yet is cut in its middle: the
 * strings of many small owners still fit.
 */
void strtab_cut_after(struct strtab *tab, size_t bytes, size_t len);
size_t strtab_bytes(const struct strtab *tab);
const char *strtab_get(const struct strtab *tab, uint32_t id);
uint32_t strtab_count(const struct strtab *tab);
uint64_t strtab_nr_cut(const struct strtab *tab); /* strings that strtab_cut_after() has cut */
uint64_t strtab_nr_lost(const struct strtab *tab); /* strings that became STRTAB_OVERFLOW */

#endif
