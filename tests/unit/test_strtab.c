// SPDX-License-Identifier: Apache-2.0
#include "base/strtab.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/name_cut.h"

Test(strtab, empty_string_is_zero)
{
	struct strtab *tab;

	cr_assert(!strtab_new(&tab, 1000));
	cr_assert_eq(strtab_add(tab, ""), 0);
	cr_assert_eq(strtab_add_len(tab, "abc", 0), 0);
	cr_assert_str_eq(strtab_get(tab, 0), "");
	cr_assert_str_eq(strtab_get(tab, 12345), STRTAB_OVERFLOW);
	strtab_free(tab);
	strtab_free(NULL);
}

Test(strtab, each_string_once_with_dense_ids)
{
	struct strtab *tab;
	const char *first;
	char name[32];
	uint32_t i, base;

	cr_assert(!strtab_new(&tab, 10 << 20));
	base = strtab_count(tab);
	for (i = 0; i < 100000; i++) {
		snprintf(name, sizeof(name), "name %u", i);
		cr_assert_eq(strtab_add(tab, name), base + i);
	}
	first = strtab_get(tab, base);
	for (i = 0; i < 100000; i++) {
		snprintf(name, sizeof(name), "name %u", i);
		cr_assert_eq(strtab_add_len(tab, name, strlen(name)), base + i);
		cr_assert_str_eq(strtab_get(tab, base + i), name);
	}
	cr_assert_eq(strtab_get(tab, base), first);
	cr_assert_eq(strtab_count(tab), base + 100000);
	cr_assert_eq(strtab_nr_lost(tab), 0);
	strtab_free(tab);
}

Test(strtab, prefixes_and_long_strings_are_distinct)
{
	char *big = malloc(200001);
	struct strtab *tab;
	uint32_t a, b, c, d;

	memset(big, 'b', 200000);
	big[200000] = 0;
	cr_assert(!strtab_new(&tab, 10 << 20));
	a = strtab_add(tab, "abc");
	b = strtab_add(tab, "abcd");
	c = strtab_add(tab, big);
	d = strtab_add_len(tab, big, 199999);
	cr_assert(a != b && c != d);
	cr_assert_eq(strtab_add_len(tab, "abcdef", 4), b);
	cr_assert_eq(strlen(strtab_get(tab, c)), 200000);
	cr_assert_eq(strlen(strtab_get(tab, d)), 199999);
	strtab_free(tab);
	free(big);
}

Test(strtab, past_the_cap_new_strings_are_counted_as_lost)
{
	struct strtab *tab;
	uint32_t kept, lost, nr;

	cr_assert(!strtab_new(&tab, 64));
	kept = strtab_add(tab, "kept");
	cr_assert_str_eq(strtab_get(tab, kept), "kept");
	lost = strtab_add(tab, "this string is longer than all that may be kept, so it is not");
	cr_assert_str_eq(strtab_get(tab, lost), STRTAB_OVERFLOW);
	cr_assert_eq(strtab_nr_lost(tab), 1);
	nr = strtab_count(tab);
	strtab_add(tab, "this string is longer than all that may be kept, so it is not");
	cr_assert(strtab_nr_lost(tab) == 2 && strtab_count(tab) == nr);
	cr_assert_eq(strtab_add(tab, "kept"), kept);
	strtab_free(tab);
}

Test(strtab, long_strings_are_cut_when_room_gets_short)
{
	char first[301], other[301];
	struct strtab *tab;
	uint32_t whole, cut;
	const char *text;

	memset(first, 'a', 300);
	memset(other, 'b', 300);
	first[300] = other[300] = 0;
	cr_assert(!strtab_new(&tab, 1 << 20));
	strtab_cut_after(tab, 200, NAME_CUT_SHORTEST);
	whole = strtab_add(tab, first);
	cr_expect_str_eq(strtab_get(tab, whole), first);
	cut = strtab_add(tab, other);
	text = strtab_get(tab, cut);
	cr_expect(strlen(text) <= NAME_CUT_SHORTEST && strlen(text) > NAME_CUT_SHORTEST / 2);
	cr_expect(text[0] == 'b' && text[strlen(text) - 1] == 'b');
	cr_expect_eq(strtab_add(tab, other), cut);
	cr_expect_eq(strtab_add(tab, first), whole, "it was there before");
	other[150] = 'c';
	cr_expect_neq(strtab_add(tab, other), cut, "the hash tells names apart");
	cr_expect_str_eq(strtab_get(tab, strtab_add(tab, "short")), "short");
	cr_expect_eq(strtab_nr_lost(tab), 0);
	cr_expect_geq(strtab_nr_cut(tab), 2);
	strtab_cut_after(tab, SIZE_MAX, NAME_CUT_SHORTEST);
	cr_expect_str_eq(strtab_get(tab, strtab_add(tab, other)), other);
	strtab_free(tab);
}
