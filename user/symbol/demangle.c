// SPDX-License-Identifier: Apache-2.0
#include "symbol/demangle.h"

#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include <libiberty/demangle.h>

/*
 * libiberty limits its recursion but not its output: back references double a name at each
 * level, and a 100 byte symbol can keep it busy for years. Its callback cannot say
 * "enough", so it leaves by longjmp() as soon as dst is full; the printers for
 * Itanium names keep everything on the stack, so nothing is lost by that.
 */

#define MAX_STACK_PRODUCT 16384
#define MAX_RUST_BACKREFS 24

struct output {
	char *dst;
	size_t len;
	bool full;
	bool may_jump;
	jmp_buf jump;
};

static void output_add(const char *str, size_t len, void *arg)
{
	struct output *out = arg;
	size_t room = DEMANGLE_MAX_OUTPUT - 1 - out->len;

	if (len > room) {
		out->full = true;
		len = room;
	}
	if (len) /* libiberty hands over NULL, too */
		memcpy(out->dst + out->len, str, len);
	out->len += len;
	if (out->full && out->may_jump)
		longjmp(out->jump, 1);
}

/* Length of the UTF-8 character at s, 0 if it is none or a control character. RFC 3629, 4. */
static size_t utf8_char(const unsigned char *s, size_t len)
{
	uint32_t c = s[0];
	size_t n, i;

	if (c < 0x80)
		return c >= 0x20 && c != 0x7f;
	n = c >= 0xf0 ? 4 : c >= 0xe0 ? 3 : 2;
	if (c < 0xc2 || c > 0xf4 || n > len)
		return 0;
	c &= 0x7fU >> n;
	for (i = 1; i < n; i++) {
		if ((s[i] & 0xc0) != 0x80)
			return 0;
		c = c << 6 | (s[i] & 0x3f);
	}
	if (c < 0xa0 || (n == 3 && (c < 0x800 || (c >= 0xd800 && c < 0xe000))) ||
	    (n == 4 && (c < 0x10000 || c > 0x10ffff)))
		return 0;
	return n;
}

/* Ends dst after len bytes, or visibly cut; what cannot be printed becomes '?'. */
static void output_finish(struct output *out)
{
	unsigned char *s = (unsigned char *)out->dst;
	size_t i, n, last = 0;

	if (!out->len)
		out->dst[out->len++] = '?';
	for (i = 0; i < out->len; i += n) {
		n = utf8_char(s + i, out->len - i);
		if (!n) {
			s[i] = '?';
			n = 1;
		}
		if (i <= DEMANGLE_MAX_OUTPUT - 4)
			last = i;
	}
	if (out->full) {
		out->len = last;
		memcpy(out->dst + out->len, "...", 3);
		out->len += 3;
	}
	out->dst[out->len] = 0;
}

/* Rust's legacy names are Itanium names whose last part is `17h`, 16 hex digits. Length or 0. */
static size_t rust_legacy_len(const char *name, size_t len)
{
	const char *p = name, *end = name + len;

	while ((p = memmem(p, (size_t)(end - p), "17h", 3))) {
		p += 3;
		if (end - p >= 17 && strspn(p, "0123456789abcdef") == 16 && p[16] == 'E' &&
		    (p + 17 == end || p[17] == '.'))
			return (size_t)(p + 17 - name);
	}
	return 0;
}

static size_t count_pairs(const char *name, const char *first, char second)
{
	size_t nr = 0;

	for (; *name; name++)
		nr += strchr(first, *name) && (!second || name[1] == second);
	return nr;
}

/*
 * The printer's arrays on the stack: one entry for each pair of a template and a reference
 * to a template parameter.
 */
static bool fits_stack(const char *name)
{
	return (count_pairs(name, "I", 0) + 1) * (count_pairs(name, "RO", 'T') + 1) <=
	       MAX_STACK_PRODUCT;
}

static bool has_punycode(const char *name)
{
	for (; *name; name++)
		if (name[0] == 'u' && name[1] >= '0' && name[1] <= '9')
			return true;
	return false;
}

/* The part of a name that the compilers mangled; the rest are suffixes of gcc and LLVM. 0 = none. */
static size_t mangled_len(const char *name, size_t len)
{
	size_t n = 0;

	if (!strncmp(name, "_GLOBAL_", 8))
		return len;
	if (strncmp(name, "_Z", 2) && strncmp(name, "_R", 2))
		return 0;
	if (name[1] == 'Z')
		n = rust_legacy_len(name, len);
	return n ? n : strcspn(name, ".");
}

static bool demangle_mangled(const char *name, struct output *out)
{
	bool rust = !strncmp(name, "_R", 2);

	if (!fits_stack(name))
		return false;
	/* Decoding Punycode allocates: no jump out of that, so it must be short by itself. */
	out->may_jump = !rust || !has_punycode(name);
	if (!out->may_jump && count_pairs(name, "B", 0) > MAX_RUST_BACKREFS)
		return false;
	if (setjmp(out->jump))
		return true;
	if (rust || rust_legacy_len(name, strlen(name))) {
		if (rust_demangle_callback(name, DMGL_AUTO, output_add, out))
			return true;
		if (rust)
			return false;
		out->len = 0;
		out->full = false;
	}
	return cplus_demangle_v3_callback(name, DMGL_AUTO, output_add, out);
}

void demangle(const char *name, char dst[DEMANGLE_MAX_OUTPUT])
{
	struct output out = { .dst = dst };
	char mangled[DEMANGLE_MAX_INPUT];
	size_t len = strnlen(name, DEMANGLE_MAX_INPUT), part = 0;

	if (len < DEMANGLE_MAX_INPUT)
		part = mangled_len(name, len);
	if (part) {
		memcpy(mangled, name, part);
		mangled[part] = 0;
		if (!demangle_mangled(mangled, &out)) {
			out.len = 0;
			out.full = false;
			part = 0;
		}
	}
	out.may_jump = false;
	if (strncmp(name + part, ".llvm.", 6)) /* a hash: it says nothing and differs by build */
		output_add(name + part, len - part, &out);
	output_finish(&out);
}
