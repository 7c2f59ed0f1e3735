// SPDX-License-Identifier: Apache-2.0
#include "symbol/d_walk.h"

#include <ctype.h>
#include <limits.h>
#include <stdint.h>
#include <string.h>

/*
 * Walks the grammar of https://dlang.org/spec/abi.html, name mangling, as libiberty (2.40) does:
 * - A calling convention behind an identifier begins the parameters of a function. If there are
 *   none, the parser goes back to the end of the identifier.
 * - The length of a symbol that is an argument of a template stands directly before the digits that
 *   the symbol itself begins with: the parser tries each way to divide them.
 * - Each back reference to a type is parsed anew.
 * Failed steps count as work; failed branches are followed as far as libiberty does.
 */

#define MAX_DEPTH 512
#define STEP_WORK 16 /* work of one call of the parser, in bytes of text written */
#define SCAN_BYTES 16 /* bytes that are scanned in the time of writing one */
#define KEYWORD_BYTES 24 /* the longest text that is written for a letter */

struct walk {
	const char *text;
	size_t pos, len;
	size_t last_ref; /* only references before this place are followed */
	size_t written; /* bytes of text, including text that was dropped again */
	size_t work;
	unsigned int depth;
	bool bad; /* the name does not have the tried form */
	bool dear; /* there was too much work: bad stays true */
};

static void walk_type(struct walk *w);
static void walk_value(struct walk *w, char type);
static void walk_qualified(struct walk *w);
static void walk_identifier(struct walk *w);
static void walk_mangled(struct walk *w);

static char char_at(const struct walk *w, size_t pos)
{
	return pos < w->len ? w->text[pos] : 0;
}

static char peek(const struct walk *w)
{
	return w->bad ? 0 : char_at(w, w->pos);
}

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

static bool is_one_of(char c, const char *set)
{
	return c && strchr(set, c);
}

static bool eat(struct walk *w, const char *set)
{
	bool found = is_one_of(peek(w), set);

	w->pos += found;
	return found;
}

static void expect(struct walk *w, const char *set)
{
	w->bad |= !eat(w, set);
}

static bool is_text(const struct walk *w, size_t pos, const char *text)
{
	return pos < w->len && !strncmp(w->text + pos, text, strlen(text));
}

static bool eat_text(struct walk *w, const char *text)
{
	bool found = !w->bad && is_text(w, w->pos, text);

	w->pos += found ? strlen(text) : 0;
	return found;
}

static void spend(struct walk *w, size_t work)
{
	w->work += work;
	if (w->work > D_WALK_MAX_WORK)
		w->dear = w->bad = true;
}

static void write_text(struct walk *w, size_t bytes)
{
	w->written += bytes;
	spend(w, bytes);
}

/* Counts the copy of the text since written_before behind other text. */
static void copy_text(struct walk *w, size_t written_before)
{
	spend(w, w->written - written_before);
}

/* True: the form may begin here, and leave() must follow. */
static bool enter(struct walk *w)
{
	if (w->depth >= MAX_DEPTH)
		spend(w, D_WALK_MAX_WORK);
	if (!w->bad && w->pos >= w->len)
		w->bad = true;
	if (w->bad)
		return false;
	write_text(w, KEYWORD_BYTES);
	spend(w, STEP_WORK);
	w->depth++;
	return true;
}

static void leave(struct walk *w)
{
	w->depth--;
}

/* Parses a number. The name must not end with it. */
static size_t walk_number(struct walk *w)
{
	uint64_t value = 0;

	if (!is_digit(peek(w)))
		w->bad = true;
	while (is_digit(peek(w))) {
		value = value * 10 + (uint64_t)(w->text[w->pos++] - '0');
		if (value > UINT_MAX)
			w->bad = true;
	}
	if (!w->bad && w->pos == w->len)
		w->bad = true;
	return w->bad ? 0 : (size_t)value;
}

static void walk_digits(struct walk *w)
{
	size_t from = w->pos;

	while (is_digit(peek(w)))
		w->pos++;
	write_text(w, w->pos - from);
}

/* The distance of the back reference `Q[A-Z]*[a-z]` at pos; 0: there is none. *ret_end: its end. */
static size_t reference_at(const struct walk *w, size_t pos, size_t *ret_end)
{
	size_t back = 0, i;

	for (i = pos + 1; isupper((unsigned char)char_at(w, i)) && back <= w->len; i++)
		back = back * 26 + (size_t)(w->text[i] - 'A');
	if (!islower((unsigned char)char_at(w, i)))
		return 0;
	back = back * 26 + (size_t)(w->text[i] - 'a');
	*ret_end = i + 1;
	return back <= pos ? back : 0;
}

static bool is_instance(const struct walk *w, size_t pos)
{
	return is_text(w, pos, "__T") || is_text(w, pos, "__U");
}

/* Does a part of a qualified name begin here? */
static bool is_name(const struct walk *w, size_t pos)
{
	size_t back, end;

	if (char_at(w, pos) != 'Q')
		return is_digit(char_at(w, pos)) || is_instance(w, pos);
	back = reference_at(w, pos, &end);
	return back && is_digit(char_at(w, pos - back));
}

static bool is_symbol(const struct walk *w)
{
	return !w->bad && is_text(w, w->pos, "_D") && is_name(w, w->pos + 2);
}

/* Walks a plain name. If the compiler declares it, words are put before all text written so far. */
static void walk_plain_name(struct walk *w, size_t len)
{
	static const char *const special[] = { "__initZ", "__vtblZ", "__ClassZ", "__InterfaceZ",
					       "__ModuleInfoZ" };
	size_t i, from = w->pos;

	for (i = 0; i < sizeof(special) / sizeof(special[0]); i++)
		if (len + 1 == strlen(special[i]) && is_text(w, from, special[i])) {
			copy_text(w, 0);
			write_text(w, KEYWORD_BYTES);
		}
	w->pos += len;
	if (len == 10 && is_text(w, from, "__postblitMFZ"))
		w->pos += 3;
	write_text(w, len);
}

static size_t walk_length(struct walk *w)
{
	size_t len = walk_number(w);

	spend(w, (w->len - w->pos) / SCAN_BYTES);
	if (len > w->len - w->pos)
		w->bad = true;
	return w->bad ? 0 : len;
}

static void walk_name_reference(struct walk *w)
{
	size_t end = 0, back = reference_at(w, w->pos, &end), len;

	if (!back) {
		w->bad = true;
		return;
	}
	w->pos -= back;
	len = walk_length(w);
	if (!w->bad)
		walk_plain_name(w, len);
	w->pos = end;
}

static void walk_function_type(struct walk *w);

static void walk_type_reference(struct walk *w, bool function)
{
	size_t end = 0, back = reference_at(w, w->pos, &end), last_ref = w->last_ref;

	if (!back || w->pos >= last_ref) {
		w->bad = true;
		return;
	}
	w->last_ref = w->pos;
	w->pos -= back;
	if (function)
		walk_function_type(w);
	else
		walk_type(w);
	w->last_ref = last_ref;
	w->pos = end;
}

static void walk_modifiers(struct walk *w)
{
	while (eat(w, "O") || eat_text(w, "Ng"))
		spend(w, STEP_WORK);
	if (!peek(w) || (peek(w) == 'N'))
		w->bad = true;
	eat(w, "xy");
}

static void walk_attributes(struct walk *w)
{
	if (!peek(w))
		w->bad = true;
	while (peek(w) == 'N' && !is_one_of(char_at(w, w->pos + 1), "ghkn")) {
		w->pos++;
		expect(w, "abcdefijlm");
		write_text(w, KEYWORD_BYTES);
	}
}

/* Walks parameters. The end of the name ends them, too. */
static void walk_parameters(struct walk *w)
{
	while (peek(w) && !eat(w, "XYZ")) {
		eat(w, "M");
		eat_text(w, "Nk");
		if (eat(w, "I"))
			eat(w, "K");
		else
			eat(w, "JKL");
		write_text(w, KEYWORD_BYTES);
		walk_type(w);
	}
}

static void walk_function(struct walk *w)
{
	expect(w, "FUWVRY");
	walk_attributes(w);
	walk_parameters(w);
}

static void walk_function_type(struct walk *w)
{
	size_t before = w->written;

	if (!enter(w))
		return;
	walk_function(w);
	walk_type(w);
	copy_text(w, before);
	leave(w);
}

static void walk_delegate(struct walk *w)
{
	walk_modifiers(w);
	if (peek(w) == 'Q')
		walk_type_reference(w, true);
	else
		walk_function_type(w);
}

static void walk_tuple(struct walk *w)
{
	size_t nr = walk_number(w);

	while (nr-- && !w->bad)
		walk_type(w);
}

static void walk_type(struct walk *w)
{
	size_t before = w->written;
	char c;

	if (!enter(w))
		return;
	c = peek(w);
	if (!is_one_of(c, "FUWVRYQ"))
		w->pos++;
	switch (c) {
	case 'N':
		if (!eat(w, "n")) {
			expect(w, "gh");
			walk_type(w);
		}
		break;
	case 'H':
		walk_type(w);
		copy_text(w, before);
		walk_type(w);
		break;
	case 'P':
		if (is_one_of(peek(w), "FUWVRY"))
			walk_function_type(w);
		else
			walk_type(w);
		break;
	case 'G':
		walk_digits(w);
		/* fall through */
	case 'O':
	case 'x':
	case 'y':
	case 'A':
		walk_type(w);
		break;
	case 'C':
	case 'S':
	case 'E':
	case 'T':
		walk_qualified(w);
		break;
	case 'D':
		walk_delegate(w);
		break;
	case 'B':
		walk_tuple(w);
		break;
	case 'Q':
		walk_type_reference(w, false);
		break;
	case 'z':
		expect(w, "ik");
		break;
	default:
		if (is_one_of(c, "FUWVRY"))
			walk_function_type(w);
		else if (!is_one_of(c, "nvghstiklmfdeopjqrcbauw"))
			w->bad = true;
	}
	leave(w);
}

static void walk_integer(struct walk *w, char type)
{
	if (is_one_of(type, "auwb"))
		walk_number(w);
	else if (is_digit(peek(w)))
		walk_digits(w);
	else
		w->bad = true;
}

static void walk_real(struct walk *w)
{
	size_t from = w->pos;

	if (eat_text(w, "NAN") || eat_text(w, "INF") || eat_text(w, "NINF"))
		return;
	eat(w, "N");
	if (!isxdigit((unsigned char)peek(w)))
		w->bad = true;
	while (isxdigit((unsigned char)peek(w)))
		w->pos++;
	expect(w, "P");
	eat(w, "N");
	walk_digits(w);
	write_text(w, w->pos - from);
}

static void walk_string(struct walk *w)
{
	size_t len = walk_number(w), i;

	expect(w, "_");
	for (i = 0; i < 2 * len && !w->bad; i++, w->pos++) {
		write_text(w, 2); /* two digits of an escape sequence of four characters */
		if (!isxdigit((unsigned char)peek(w)))
			w->bad = true;
	}
}

static void walk_values(struct walk *w, size_t each)
{
	uint64_t nr = (uint64_t)walk_number(w) * each;

	while (nr-- && !w->bad)
		walk_value(w, 0);
}

static void walk_value(struct walk *w, char type)
{
	char c;

	if (!enter(w))
		return;
	c = peek(w);
	if (!is_digit(c))
		w->pos++;
	switch (c) {
	case 'n':
		break;
	case 'e':
		walk_real(w);
		break;
	case 'c':
		walk_real(w);
		expect(w, "c");
		walk_real(w);
		break;
	case 'a':
	case 'w':
	case 'd':
		walk_string(w);
		break;
	case 'A':
		walk_values(w, type == 'H' ? 2 : 1);
		break;
	case 'S':
		walk_values(w, 1);
		break;
	case 'f':
		if (is_symbol(w))
			walk_mangled(w);
		else
			w->bad = true;
		break;
	default:
		if (c == 'N' || c == 'i' || is_digit(c))
			walk_integer(w, type);
		else
			w->bad = true;
	}
	leave(w);
}

/* Is the argument at `from` a symbol of that length? */
static bool is_argument(struct walk *w, size_t from, size_t len)
{
	w->pos = from;
	w->bad = w->dear;
	if (!w->bad && is_name(w, from))
		walk_qualified(w);
	else if (is_symbol(w))
		walk_mangled(w);
	return !w->bad && w->pos - from == len;
}

static void walk_symbol_argument(struct walk *w)
{
	size_t first = w->pos, digits_end, from, len, rest;

	if (is_symbol(w)) {
		walk_mangled(w);
		return;
	}
	if (peek(w) == 'Q') {
		walk_qualified(w);
		return;
	}
	len = walk_number(w);
	if (!len)
		w->bad = true;
	if (w->bad)
		return;
	digits_end = from = w->pos;
	for (rest = len; rest; rest /= 10, from--)
		if (is_argument(w, from, rest))
			return;
	w->pos = first > from ? first : from; /* all digits belong to the symbol */
	w->bad = w->dear;
	if (digits_end > first && !w->bad)
		walk_qualified(w);
}

static void walk_value_argument(struct walk *w)
{
	size_t end, back = 0, before = w->written;
	char type = peek(w);

	if (type == 'Q') {
		back = reference_at(w, w->pos, &end);
		if (!back)
			w->bad = true;
		type = char_at(w, w->pos - back);
	}
	walk_type(w);
	copy_text(w, before); /* the name of a literal struct */
	walk_value(w, type);
}

/* Walks arguments. The end of the name ends them, too. */
static void walk_arguments(struct walk *w)
{
	while (peek(w) && !eat(w, "Z")) {
		spend(w, STEP_WORK);
		eat(w, "H");
		if (eat(w, "S")) {
			walk_symbol_argument(w);
		} else if (eat(w, "T")) {
			walk_type(w);
		} else if (eat(w, "V")) {
			walk_value_argument(w);
		} else if (eat(w, "X")) {
			size_t len = walk_length(w);

			write_text(w, len);
			w->pos += len;
		} else {
			w->bad = true;
		}
	}
}

/* Walks `__T` name arguments; len 0: not known. */
static void walk_instance(struct walk *w, size_t len)
{
	size_t from = w->pos, before;

	if (!is_name(w, from + 3) || char_at(w, from + 3) == '0') {
		w->bad = true;
		return;
	}
	w->pos += 3;
	walk_identifier(w);
	before = w->written;
	walk_arguments(w);
	copy_text(w, before);
	if (len && w->pos - from != len)
		w->bad = true;
}

/* `__S<number>` distinguishes declarations of one name and is not shown. */
static bool is_counter(const struct walk *w, size_t len)
{
	size_t i = 3;

	if (len < 4 || !is_text(w, w->pos, "__S"))
		return false;
	while (i < len && is_digit(char_at(w, w->pos + i)))
		i++;
	return i == len;
}

static void walk_identifier(struct walk *w)
{
	size_t len;

	if (!enter(w))
		return;
	if (peek(w) == 'Q') {
		walk_name_reference(w);
	} else if (is_instance(w, w->pos)) {
		walk_instance(w, 0);
	} else {
		len = walk_length(w);
		if (!len)
			w->bad = true;
		if (!w->bad && len >= 5 && is_instance(w, w->pos)) {
			walk_instance(w, len);
		} else if (!w->bad && is_counter(w, len)) {
			w->pos += len;
			walk_identifier(w);
		} else if (!w->bad) {
			walk_plain_name(w, len);
		}
	}
	leave(w);
}

/* Walks the parameters of the name before, if it is a function with declarations inside. */
static void walk_own_parameters(struct walk *w)
{
	size_t from = w->pos;

	if (!is_one_of(peek(w), "MFUWVRY"))
		return;
	if (eat(w, "M"))
		walk_modifiers(w);
	walk_function(w);
	if (!peek(w)) {
		w->pos = from;
		w->bad = w->dear;
	}
}

static void walk_qualified(struct walk *w)
{
	if (!enter(w))
		return;
	do {
		if (eat(w, "0")) {
			while (eat(w, "0"))
				;
			continue;
		}
		walk_identifier(w);
		walk_own_parameters(w);
	} while (!w->bad && is_name(w, w->pos));
	leave(w);
}

/* Walks `_D` name, then `Z` or a type. */
static void walk_mangled(struct walk *w)
{
	w->pos += 2;
	walk_qualified(w);
	if (!eat(w, "Z"))
		walk_type(w);
}

bool d_walk_measure(const char *name, size_t *ret_work)
{
	struct walk w = { .text = name, .len = strlen(name) };

	w.last_ref = w.len;
	if (is_text(&w, 0, "_D"))
		walk_mangled(&w);
	*ret_work = w.work;
	return !w.bad && w.len && w.pos == w.len;
}
