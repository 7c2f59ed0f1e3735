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
		{ "_ZN2ns3fooEv@plt", "ns::foo@plt" },
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
		/* Binders that print nothing. */
		{ "_RNvMINtC1a1bFGzzzzzz_uEuEu1f", "_RNvMINtC1a1bFGzzzzzz_uEuEu1f" },
		{ "_RNvMINtC1a1bFG_uEuEu1f", "<()>::f" },
		/* The same, behind a reference into the bytes of an identifier. */
		{ "_RINvC1a13fFGzzzzzz_EuuB9_E", "_RINvC1a13fFGzzzzzz_EuuB9_E" },
		{ "_RINvC1a13fFGzzzzzz_EuuB1_E", "_RINvC1a13fFGzzzzzz_EuuB1_E" },
		{ "_RINvC1a1bFG_RL0_hEuE", "a::b::<for<'a> fn(&'a u8)>" },
		{ "_RINvC1a1bDG_NtC1c1dp1eRL0_hEL_E", "a::b::<dyn for<'a> c::d<e = &'a u8>>" },
		{ "_RINvC1a1bKj1f_KaE", "_RINvC1a1bKj1f_KaE" },
		{ "_RINvC1a1bKj1f_KpAhKanb_E", "_RINvC1a1bKj1f_KpAhKanb_E" },
		{ "_RINvC1a1bKj1f_KpAhanb_E", "a::b::<31, _, [u8; -11]>" },
		{ "_RNvXs_C1aINtB4_1bNtB4_1cENtC1d1e1f", "<a::b<a::c> as d::e>::f" },
		/* Letters of a hash and of an identifier. */
		{ "_RNvNtCsGu3a9Gzzzz_3std3mem4drop", "std::mem::drop" },
		{ "_RNvC1a9xGzzzzzz_", "a::xGzzzzzz_" },
		{ "_RNvCs1_9uu1BBBBBB32BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBB",
		  "uu1BBBBBB::BBBBBBBBBBBBBBBBBBBBBBBBBBBBBBBB" },
		{ "_Rubbish", "_Rubbish" },
		/* D: the examples of its ABI, and attributes as newer compilers order them. */
		{ "_Dmain", "D main" },
		{ "_D", "_D" },
		{ "_DYNAMIC", "_DYNAMIC" },
		{ "_D3foo3BarQe3bazFiZv", "foo.Bar.Bar.baz" },
		{ "_D3app5stage__T4sortTmZQiFNbNiAmZv", "app.stage.sort!(ulong).sort" },
		{ "_D3std3uni__T4findVAyaa2_2829ZQrMxFKAaZk", "std.uni.find!(\"()\").find" },
		{ "_D2rt5minfo6ModuleFAiZ4sortFkZb", "rt.minfo.Module(int[]).sort" },
		{ "_DThn16_3foo3BarQe3bazMFiZv", "non-virtual thunk to foo.Bar.Bar.baz" },
		{ "_DThn16", "_DThn16" },
		{ "_DThn16_Thn16_3fooFZv", "_DThn16_Thn16_3fooFZv" },
		{ "_D2rt8lifetime5startFNaNbNkMAiZPv", "rt.lifetime.start" },
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

/* A name of len bytes that ends in end. */
static void add_name(struct buf *name, size_t len, const char *end)
{
	add_times(name, "n", len - strlen(end));
	buf_add_str(name, end);
}

Test(demangle, long_names_are_cut_in_their_middle)
{
	size_t lengths[] = { 1023, 1024, 4095, 4096, 16383, 16384, 100000 }, i;
	char dst[DEMANGLE_MAX_OUTPUT], other[DEMANGLE_MAX_OUTPUT];
	struct buf name;

	buf_init(&name, 200000);
	for (i = 0; i < sizeof(lengths) / sizeof(lengths[0]); i++) {
		buf_reset(&name);
		add_name(&name, lengths[i], "the_end");
		demangle(name.data, dst);
		cr_assert_eq(strlen(dst), 1023);
		cr_assert_eq(!strcmp(name.data, dst), lengths[i] == 1023);
		cr_assert_eq(!strncmp(dst + 504, "...[", 4), lengths[i] > 1023);
		cr_assert_str_eq(dst + 1023 - 7, "the_end");
		/* Names that differ only in the middle stay different. */
		name.data[lengths[i] - 508] = 'm';
		demangle(name.data, other);
		cr_assert_str_neq(dst, other);
		/* A name that was cut already says the same again. */
		demangle(dst, other);
		cr_assert_str_eq(dst, other);
	}
	/* Never within a character. */
	for (i = 0; i < 8; i++) {
		buf_reset(&name);
		add_times(&name, "m", i);
		add_times(&name, i & 4 ? "\xf0\x9f\x98\x80" : "\xc3\xa9", 1000);
		demangle(name.data, dst);
		cr_assert_null(strchr(dst, '?'), "%s", dst);
		cr_assert_geq(strlen(dst), 1023 - 6);
	}
	buf_fini(&name);
}

static bool ends_with(const char *text, const char *end)
{
	return strlen(text) >= strlen(end) && !strcmp(text + strlen(text) - strlen(end), end);
}

Test(demangle, functions_of_a_class_with_a_long_name_stay_apart)
{
	char slow[DEMANGLE_MAX_OUTPUT], fast[DEMANGLE_MAX_OUTPUT];
	struct buf name;
	size_t i;

	for (i = 1100; i <= 16300; i += 3800) {
		buf_init(&name, DEMANGLE_MAX_INPUT);
		buf_printf(&name, "_ZN1AI%zu", i);
		add_times(&name, "n", i);
		buf_add_str(&name, "E7do_slowEv");
		demangle(name.data, slow);
		memcpy(name.data + name.len - 6, "fast", 4);
		demangle(name.data, fast);
		cr_assert(!strncmp(slow, "A<nnn", 5), "%s", slow);
		cr_assert(ends_with(slow, ">::do_slow"));
		cr_assert(ends_with(fast, ">::do_fast"));
		buf_fini(&name);
	}
	/* Names that are too long are not demangled, not even in part. */
	buf_init(&name, 2 * DEMANGLE_MAX_INPUT);
	buf_printf(&name, "_ZN1a1bE.");
	add_times(&name, "i", DEMANGLE_MAX_INPUT);
	demangle(name.data, slow);
	cr_assert(!strncmp(slow, "_ZN1a1bE.iii", 12));
	demangle(slow, fast);
	cr_assert_str_eq(slow, fast);
	buf_fini(&name);
}

static char base36(size_t i)
{
	return "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ"[i];
}

/* libiberty would need hours for each of these, or more memory or stack than there is. */
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
	cr_assert(!strncmp(dst, "f<A<int, int>", 13) && !strncmp(dst + 504, "...[", 4));
	cr_assert(ends_with(dst, name.data));
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
	cr_assert(!strncmp(dst + 504, "...[", 4) && ends_with(dst, name.data));
	/* D: each array of a type has an associative array of the one before, twice. */
	buf_reset(&name);
	buf_add_str(&name, "_D1a1bFi");
	for (i = 0; i < 40; i++)
		buf_printf(&name, "HQ%cQ%c", i ? 'g' : 'c', i ? 'i' : 'e');
	buf_add_str(&name, "Zv");
	demangle(name.data, dst);
	cr_assert_str_eq(dst, name.data);
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
	cr_assert(!strncmp(dst, "_Z1fI1AIRT_E1AI", 15) && !strncmp(dst + 504, "...[", 4));
	buf_fini(&name);
}

/* libiberty parses these parts twice or more at each level: seconds to years for each name. */
Test(demangle, d_names_that_are_tried_again_and_again_end_soon, .timeout = 20)
{
	static const char *const parts[] = { "FS1b",	 "MFS1b",      "RS1b",	     "__T1aS50",
					     "22__T1aS", "3__T__T1aS", "125__T1aS12" };
	static const size_t times[] = { 18, 24, 40, 60 };
	char dst[DEMANGLE_MAX_OUTPUT];
	struct buf name;
	size_t i, k;

	for (i = 0; i < sizeof(parts) / sizeof(parts[0]); i++)
		for (k = 0; k < sizeof(times) / sizeof(times[0]); k++) {
			buf_init(&name, DEMANGLE_MAX_INPUT);
			buf_add_str(&name, "_D1a");
			add_times(&name, parts[i], times[k]);
			demangle(name.data, dst);
			cr_assert_str_eq(dst, name.data);
			buf_fini(&name);
		}
	/* One level of each is no harm. */
	demangle("_D1a1bFS1cFZ1dZv", dst);
	cr_expect_str_eq(dst, "a.b");
	demangle("_D1a__T1bS21cZ1dFZv", dst);
	cr_expect_str_eq(dst, "a.b!(c).d");
}

/* The lines of `mangled` as c++filt has them in `plain`. Number of them. */
static size_t compare_with_cxxfilt(void)
{
	char *mangled, *plain, *a, *b, *a_end, *b_end, dst[DEMANGLE_MAX_OUTPUT];
	size_t len, nr = 0, nr_same = 0;

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
	cr_assert_gt(nr_same + 10, nr);
	free(mangled);
	free(plain);
	return nr;
}

/* All functions of libstdc++ as c++filt prints them without parameters, and in short (std::istream). */
Test(demangle, libstdcxx_as_cxxfilt, .timeout = 60)
{
	fixture_run("nm -D --defined-only --format=posix /usr/lib/x86_64-linux-gnu/libstdc++.so.6 |"
		    "awk '$2 ~ /[TtWw]/ { sub(/@.*/, \"\", $1); if (length($1) < 500) print $1 }' "
		    "> mangled;"
		    "c++filt -p -i < mangled > plain");
	cr_assert_gt(compare_with_cxxfilt(), 3000);
}

/*
 * Real names of Rust. The hashes of their crates look like binders and Punycode: the letters of a
 * hash are random.
 */
Test(demangle, rust_names_with_any_hash_as_cxxfilt, .timeout = 120)
{
	fixture_write("names.rs",
		      "use std::collections::BTreeMap;\n"
		      "fn main() {\n"
		      "    let mut map: BTreeMap<String, Vec<Box<dyn Fn(&str) -> usize>>> ="
		      " BTreeMap::new();\n"
		      "    for word in std::env::args() {\n"
		      "        map.entry(word.clone()).or_default()"
		      ".push(Box::new(move |s| s.len() + word.len()));\n"
		      "    }\n"
		      "    for (word, list) in map.iter() {\n"
		      "        println!(\"{} {}\", word, list.iter().map(|f| f(word))"
		      ".sum::<usize>());\n"
		      "    }\n"
		      "}\n");
	fixture_run("rustc -C symbol-mangling-version=v0 -C opt-level=0 -C debuginfo=0 names.rs;"
		    "nm --defined-only --format=posix names |"
		    "awk '$1 ~ /^_R/ && $2 ~ /[Tt]/ && $1 !~ /[.]/ { print $1 }' |"
		    "sed 's/Cs[0-9A-Za-z]\\{3\\}\\([0-9A-Za-z]*_\\)/CsGu3\\1/g' > mangled;"
		    "c++filt -i < mangled > plain; grep -q Gu3 mangled");
	cr_assert_gt(compare_with_cxxfilt(), 200);
}
