// SPDX-License-Identifier: Apache-2.0
#include "symbol/demangle.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "test_elf_fixture.h"

/* Expected texts: the examples of the Itanium C++ ABI and of Rust RFC 2603, without parameters. */
Test(demangle, names, .timeout = 20)
{
	static const struct {
		const char *name, *want;
	} cases[] = {
		{ "main", "main" },
		{ "_Z3foov", "foo" },
		{ "_ZN2ns5Class6methodEiPKc", "ns::Class::method" },
		{ "_ZNK2ns5ClasscvbEv", "ns::Class::operator bool" },
		{ "_ZN2ns5ClassC1Ev", "ns::Class::Class" },
		{ "_ZN2ns5ClassD0Ev", "ns::Class::~Class" },
		{ "_Z3addIiET_S0_S0_", "add<int>" },
		{ "_ZNSt6vectorIiSaIiEE9push_backEOi",
		  "std::vector<int, std::allocator<int> >::push_back" },
		{ "_ZZ4mainENKUlvE_clEv", "main::{lambda()#1}::operator()" },
		{ "_ZN12_GLOBAL__N_16hiddenEv", "(anonymous namespace)::hidden" },
		{ "_Z3foov.cold", "foo.cold" },
		{ "_Z3foov.part.0", "foo.part.0" },
		{ "_Z3foov.constprop.0.isra.1", "foo.constprop.0.isra.1" },
		{ "_Z3foov.llvm.1234567890", "foo" },
		{ "plain.cold", "plain.cold" },
		{ "_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE",
		  "core::fmt::Write::write_fmt" },
		{ "_ZN71_$LT$Test$u20$$u2b$$u20$$u27$static$u20$as$u20$foo..Bar$LT$Test$GT$$GT$3bar"
		  "17h930b740aa94f1d3aE",
		  "<Test + 'static as foo::Bar<Test>>::bar" },
		{ "_ZN4core3fmt5Write9write_fmt17h0123456789abcdefE.llvm.77",
		  "core::fmt::Write::write_fmt" },
		{ "_RNvCs1234_7mycrate3foo", "mycrate::foo" },
		{ "_RNvNtCs1234_7mycrate3bar3foo.llvm.77", "mycrate::bar::foo" },
		{ "_RINvNtC3std3mem8align_ofdE", "std::mem::align_of::<f64>" },
		{ "_RNqCs4fqI2P2rA04_11utf8_identsu30____7hkackfecea1cbdathfdh9hlq6y",
		  "utf8_idents::\u10e1\u10d0\u10ed\u10db\u10d4\u10da\u10d0\u10d3_"
		  "\u10d2\u10d4\u10db\u10e0\u10d8\u10d4\u10da\u10d8_"
		  "\u10e1\u10d0\u10d3\u10d8\u10da\u10d8" },
		{ "_Z", "_Z" },
		{ "_ZN", "_ZN" },
		{ "_Z3fo", "_Z3fo" },
		{ "_R", "_R" },
		/* A binder of 62^6 lifetimes. */
		{ "_RIIIIIIIINvNtC3std5me_Gm8alin_Z7EsoduuuuEdDGm8alin_Z7EsoduuuuEdB_uuu5",
		  "_RIIIIIIIINvNtC3std5me_Gm8alin_Z7EsoduuuuEdDGm8alin_Z7EsoduuuuEdB_uuu5" },
		{ "_Rubbish", "_Rubbish" },
		{ "", "?" },
		{ ".", "." },
		{ "a\nb\tc\033d\177", "a?b?c?d?" },
		{ "caf\xc3\xa9", "caf\xc3\xa9" },
		{ "bad\xff\xc3utf", "bad??utf" },
		{ "long\xc0\x80surrogate\xed\xa0\x80", "long??surrogate???" },
		{ "c1\xc2\x9b", "c1??" },
		{ "\xf0\x9f\x98\x80", "\xf0\x9f\x98\x80" },
		{ "\xf4\x90\x80\x80", "????" },
	};
	char dst[DEMANGLE_MAX_OUTPUT];
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		memset(dst, 'x', sizeof(dst));
		demangle(cases[i].name, dst);
		cr_assert_str_eq(dst, cases[i].want, "case %zu: %s", i, dst);
	}
}

static void add_times(struct buf *buf, const char *str, size_t times)
{
	while (times--)
		buf_add_str(buf, str);
}

Test(demangle, long_names_are_cut_visibly)
{
	size_t lengths[] = { 1022, 1023, 1024, 4095, 4096, 100000 }, i;
	char dst[DEMANGLE_MAX_OUTPUT];
	struct buf name;

	buf_init(&name, 200000);
	for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		buf_reset(&name);
		add_times(&name, "n", lengths[i]);
		demangle(name.data, dst);
		cr_assert_eq(strlen(dst), lengths[i] < 1024 ? lengths[i] : 1023);
		cr_assert_eq(!strcmp(dst + strlen(dst) - 3, "..."), lengths[i] >= 1024);
		buf_reset(&name);
		buf_printf(&name, "_ZN%zu", lengths[i]);
		add_times(&name, "n", lengths[i]);
		buf_add_str(&name, "1fEv");
		demangle(name.data, dst);
		cr_assert_leq(strlen(dst), 1023);
		cr_assert_eq(dst[0], name.len < DEMANGLE_MAX_INPUT ? 'n' : '_', "%zu", lengths[i]);
	}
	/* Never within a character. */
	buf_reset(&name);
	add_times(&name, "\xc3\xa9", 1000);
	demangle(name.data, dst);
	cr_assert(!strcmp(dst + strlen(dst) - 3, "...") && (strlen(dst) - 3) % 2 == 0);
	buf_fini(&name);
}

static char base36(size_t i)
{
	return "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[i];
}

/* Each of these would take libiberty hours, or more memory or stack than there is. */
Test(demangle, hostile_names_end_soon, .timeout = 20)
{
	static const char base62[] =
		"0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ";
	size_t last, next, digit;
	char ref[8];
	char dst[DEMANGLE_MAX_OUTPUT];
	struct buf name;
	size_t i;

	buf_init(&name, DEMANGLE_MAX_INPUT);
	/* Each level names the one before twice: 2^33 characters if it were written out. */
	buf_add_str(&name, "_Z1fI1AIiiE");
	for (i = 1; i < 34; i++)
		buf_printf(&name, "S_IS%c_S%c_E", base36(i), base36(i));
	buf_add_str(&name, "Evv");
	demangle(name.data, dst);
	cr_assert(!strncmp(dst, "f<A<int, int>", 13) && strlen(dst) == DEMANGLE_MAX_OUTPUT - 1);
	/* Rust: each tuple refers twice to the one before, by its position behind "_R", in base 62. */
	buf_reset(&name);
	buf_add_str(&name, "_RINvC1a1fTllE");
	for (i = 0, last = 8; i < 34; i++, last = next) {
		next = name.len - 2;
		digit = last - 1; /* "0_" is 1 */
		snprintf(ref, sizeof(ref), "%.*s%c_", digit >= 62, &base62[digit / 62],
			 base62[digit % 62]);
		buf_printf(&name, "TB%sB%sE", ref, ref);
	}
	buf_add_str(&name, "E");
	demangle(name.data, dst);
	cr_assert(!strncmp(dst, "a::f::<(i32, i32), ((i32, i32), (i32, i32))", 43), "%s", dst);
	cr_assert_eq(strlen(dst), DEMANGLE_MAX_OUTPUT - 1);
	/* A pack expansion over a type that is shared the same way: nothing is printed on the way. */
	buf_reset(&name);
	buf_add_str(&name, "_Z1fIJDp1AI");
	add_times(&name, "S0_I", 34);
	buf_add_str(&name, "iiE");
	for (i = 1; i <= 34; i++)
		buf_printf(&name, "S%c_E", base36(i));
	buf_add_str(&name, "EEvv");
	demangle(name.data, dst);
	cr_assert_str_eq(dst, name.data);
	/* A conversion operator to a template parameter with arguments: parsed twice at each level. */
	buf_reset(&name);
	buf_add_str(&name, "_Zcv");
	add_times(&name, "T_I", 40);
	buf_add_str(&name, "i");
	add_times(&name, "E", 40);
	buf_add_str(&name, "v");
	demangle(name.data, dst);
	cr_assert_str_eq(dst, name.data);
	/* Deeper than the stack would bear. */
	buf_reset(&name);
	buf_add_str(&name, "_Z1fI");
	add_times(&name, "P", 3900);
	buf_add_str(&name, "iEvv");
	demangle(name.data, dst);
	/* Templates x references to template parameters: an array on the stack. */
	buf_reset(&name);
	buf_add_str(&name, "_Z1fI");
	add_times(&name, "1AIRT_E", 500);
	buf_add_str(&name, "Evv");
	demangle(name.data, dst);
	cr_assert_str_eq(dst + strlen(dst) - 3, "...");
	buf_fini(&name);
}

/* All functions of libstdc++ as c++filt prints them without parameters, and in short (std::istream). */
Test(demangle, libstdcxx_as_cxxfilt, .timeout = 60)
{
	char *mangled, *plain, *a, *b, *a_end, *b_end, dst[DEMANGLE_MAX_OUTPUT];
	size_t len, nr = 0, nr_same = 0;

	fixture_run("nm -D --defined-only --format=posix /usr/lib/x86_64-linux-gnu/libstdc++.so.6 |"
		    "awk '$2 ~ /[TtWw]/ { sub(/@.*/, \"\", $1); if (length($1) < 500) print $1 }' "
		    "> mangled;"
		    "c++filt -p -i < mangled > plain");
	mangled = fixture_read("mangled", &len);
	plain = fixture_read("plain", &len);
	for (a = mangled, b = plain; *a && *b; a = a_end + 1, b = b_end + 1) {
		a_end = strchr(a, '\n');
		b_end = strchr(b, '\n');
		*a_end = *b_end = 0;
		demangle(a, dst);
		nr++;
		nr_same += !strcmp(dst, b);
		cr_assert(!strcmp(dst, b) || strlen(dst) == DEMANGLE_MAX_OUTPUT - 1,
			  "%s: %s, not %s", a, dst, b);
	}
	cr_assert_gt(nr, 3000);
	cr_assert_gt(nr_same, nr - 10);
	free(mangled);
	free(plain);
}
