// SPDX-License-Identifier: Apache-2.0
#include "symbol/rust_name.h"

#include <ctype.h>
#include <stdint.h>
#include <string.h>

#define MAX_DEPTH 256

/* Kinds of parts that a reference may lead to; a type that is a path is both. */
enum { PATH = 1, TYPE = 2, CONST = 4 };

struct walk {
	const char *text; /* the text behind "_R": positions count from here */
	size_t pos, len;
	unsigned int depth;
	bool bad;
	struct rust_name found;
	uint8_t kinds[RUST_NAME_MAX]; /* kinds of the part that begins at each position */
};

static void walk_path(struct walk *w);
static void walk_type(struct walk *w);

static char peek(const struct walk *w)
{
	return w->pos < w->len && !w->bad ? w->text[w->pos] : 0;
}

static bool eat(struct walk *w, char c)
{
	if (peek(w) != c || !c)
		return false;
	w->pos++;
	return true;
}

static char next(struct walk *w)
{
	char c = peek(w);

	if (c)
		w->pos++;
	else
		w->bad = true;
	return c;
}

/* True: the part may be walked, and leave() must follow. */
static bool enter(struct walk *w, uint8_t kind)
{
	if (w->depth >= MAX_DEPTH || w->pos >= w->len)
		w->bad = true;
	if (w->bad)
		return false;
	w->depth++;
	w->kinds[w->pos] |= kind;
	return true;
}

static void leave(struct walk *w)
{
	w->depth--;
}

/*
 * Parses `{0-9a-zA-Z}_`: "_" is 0, "0_" is 1. Returns the number of digits; *ret stops at SIZE_MAX.
 */
static size_t base62(struct walk *w, size_t *ret)
{
	size_t value = 0, nr = 0, digit;
	bool huge = false;
	char c;

	while (!eat(w, '_')) {
		c = next(w);
		if (!isalnum((unsigned char)c)) {
			w->bad = true;
			return 0;
		}
		digit = (size_t)(isdigit((unsigned char)c)   ? c - '0'
				 : islower((unsigned char)c) ? c - 'a' + 10
							     : c - 'A' + 36);
		huge |= __builtin_mul_overflow(value, 62, &value) ||
			__builtin_add_overflow(value, digit, &value);
		nr++;
	}
	*ret = huge || value == SIZE_MAX ? SIZE_MAX : nr ? value + 1 : 0;
	return nr;
}

/* Parses a number behind the letter tag, if there is one. Returns the number of digits. */
static size_t opt_base62(struct walk *w, char tag)
{
	size_t ignored;

	return eat(w, tag) ? base62(w, &ignored) : 0;
}

static void walk_binder(struct walk *w)
{
	size_t nr = opt_base62(w, 'G');

	if (nr > w->found.binder_digits)
		w->found.binder_digits = nr;
}

static void walk_backref(struct walk *w, uint8_t kind)
{
	size_t self = w->pos - 1, target = 0;

	base62(w, &target);
	w->found.nr_backrefs++;
	if (!w->bad && (target >= self || !(w->kinds[target] & kind)))
		w->bad = true;
}

/* Walks ["u"] length ["_"] bytes. */
static void walk_plain_identifier(struct walk *w)
{
	size_t len = 0;

	if (eat(w, 'u'))
		w->found.punycode = true;
	if (!isdigit((unsigned char)peek(w)))
		w->bad = true;
	if (!eat(w, '0'))
		while (isdigit((unsigned char)peek(w)) && len <= RUST_NAME_MAX)
			len = len * 10 + (size_t)(next(w) - '0');
	eat(w, '_');
	if (len > w->len - w->pos)
		w->bad = true;
	else
		w->pos += len;
}

static void walk_identifier(struct walk *w)
{
	opt_base62(w, 's');
	walk_plain_identifier(w);
}

static void walk_const(struct walk *w)
{
	char c;

	if (!enter(w, CONST))
		return;
	c = next(w);
	if (c == 'B') {
		walk_backref(w, CONST);
	} else if (c != 'p') { /* a placeholder */
		if (!c || !strchr("aslxnihtmyojbc", c))
			w->bad = true; /* libiberty does not print this type */
		eat(w, 'n');
		while (isxdigit((unsigned char)peek(w)))
			w->pos++;
		w->bad |= !eat(w, '_');
	}
	leave(w);
}

static void walk_generics(struct walk *w)
{
	while (!w->bad && !eat(w, 'E')) {
		if (peek(w) == 'L')
			opt_base62(w, 'L');
		else if (eat(w, 'K'))
			walk_const(w);
		else
			walk_type(w);
	}
}

static void walk_path(struct walk *w)
{
	char c;

	if (!enter(w, PATH))
		return;
	c = next(w);
	switch (c) {
	case 'C':
		walk_identifier(w);
		break;
	case 'N':
		if (!isalpha((unsigned char)next(w)))
			w->bad = true;
		walk_path(w);
		walk_identifier(w);
		break;
	case 'M':
	case 'X':
		opt_base62(w, 's');
		walk_path(w);
		walk_type(w);
		if (c == 'X')
			walk_path(w);
		break;
	case 'Y':
		walk_type(w);
		walk_path(w);
		break;
	case 'I':
		walk_path(w);
		walk_generics(w);
		break;
	case 'B':
		walk_backref(w, PATH);
		break;
	default:
		w->bad = true;
	}
	leave(w);
}

static void walk_function(struct walk *w)
{
	walk_binder(w);
	eat(w, 'U');
	if (eat(w, 'K') && !eat(w, 'C'))
		walk_plain_identifier(w);
	while (!w->bad && !eat(w, 'E'))
		walk_type(w);
	walk_type(w);
}

static void walk_trait_object(struct walk *w)
{
	walk_binder(w);
	while (!w->bad && !eat(w, 'E')) {
		walk_path(w);
		while (eat(w, 'p')) {
			walk_plain_identifier(w);
			walk_type(w);
		}
	}
	if (peek(w) != 'L')
		w->bad = true;
	opt_base62(w, 'L');
}

static void walk_type(struct walk *w)
{
	char c;

	if (!enter(w, TYPE))
		return;
	c = peek(w);
	if (c && strchr("CNMXYI", c)) {
		walk_path(w);
		leave(w);
		return;
	}
	next(w);
	switch (c) {
	case 'A':
		walk_type(w);
		walk_const(w);
		break;
	case 'R':
	case 'Q':
		opt_base62(w, 'L');
		walk_type(w);
		break;
	case 'S':
	case 'P':
	case 'O':
		walk_type(w);
		break;
	case 'T':
		while (!w->bad && !eat(w, 'E'))
			walk_type(w);
		break;
	case 'F':
		walk_function(w);
		break;
	case 'D':
		walk_trait_object(w);
		break;
	case 'B': /* a reference to a type; the type is a path if one may begin there */
		walk_backref(w, TYPE | PATH);
		break;
	default:
		if (!islower((unsigned char)c)) /* a basic type */
			w->bad = true;
	}
	leave(w);
}

bool rust_name_measure(const char *name, struct rust_name *ret)
{
	struct walk w;

	w.text = name + 2;
	w.len = strlen(w.text);
	if (w.len >= RUST_NAME_MAX)
		return false;
	memset(w.kinds, 0, w.len + 1);
	w.pos = w.depth = 0;
	w.bad = false;
	w.found = (struct rust_name){ 0 };
	while (isdigit((unsigned char)peek(&w))) /* version of the encoding */
		w.pos++;
	walk_path(&w);
	if (!w.bad && w.pos < w.len) /* the crate for which the code was made */
		walk_path(&w);
	if (w.bad || w.pos != w.len)
		return false;
	*ret = w.found;
	return true;
}
