// SPDX-License-Identifier: Apache-2.0
#include "symbol/d_name.h"

#include <ctype.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <libiberty/demangle.h>

#include "symbol/d_walk.h"

#define MAX_INPUT 4096

/* Counts the digits of the number at s; *ret is MAX_INPUT if the number is larger. */
static size_t number(const char *s, size_t *ret)
{
	size_t nr;

	*ret = 0;
	for (nr = 0; isdigit((unsigned char)s[nr]); nr++)
		if (*ret < MAX_INPUT)
			*ret = *ret * 10 + (size_t)(s[nr] - '0');
	if (*ret > MAX_INPUT)
		*ret = MAX_INPUT;
	return nr;
}

/* libiberty knows the attributes of a parameter in one order only: `M` before `Nk`. */
static void reorder_attributes(char *name, size_t len)
{
	size_t i, named;

	for (i = 2; i + 3 <= len; i++) {
		if (isdigit((unsigned char)name[i])) { /* an identifier of this length */
			i += number(name + i, &named) - 1;
			i += named <= len - i ? named : 0;
		} else if (!memcmp(name + i, "NkM", 3)) {
			memcpy(name + i, "MNk", 3);
		}
	}
}

/* Cuts the text at the last parentheses that are not arguments of a template. */
static void drop_parameters(char *text)
{
	char *at, *last = NULL;
	bool quoted = false;
	int depth = 0;

	for (at = text; *at; at++) {
		if (*at == '"')
			quoted = !quoted;
		if (quoted)
			continue;
		if (*at == '(' && !depth++ && at > text && at[-1] != '!')
			last = at;
		else if (*at == ')')
			depth--;
		else if (*at == '.' && !depth)
			last = NULL; /* parameters of an outer function */
	}
	if (last && !depth && !quoted)
		*last = 0;
}

/*
 * Length of `_DThn<number>_`, which marks code that adjusts `this` and jumps to the method named
 * behind it.
 */
static size_t thunk_prefix(const char *name)
{
	size_t at = strlen("_DTh"), digits, ignored;

	if (strncmp(name, "_DTh", at))
		return 0;
	at += name[at] == 'n';
	digits = number(name + at, &ignored);
	at += digits;
	return digits && name[at] == '_' && isdigit((unsigned char)name[at + 1]) ? at + 1 : 0;
}

/* References count backward, so the prefix may have another length. */
static char *thunk_demangle(const char *name, size_t prefix)
{
	char copy[MAX_INPUT], *text, *whole = NULL;

	snprintf(copy, sizeof(copy), "_D%s", name + prefix);
	text = d_name_demangle(copy);
	if (text && asprintf(&whole, "non-virtual thunk to %s", text) < 0)
		whole = NULL;
	free(text);
	return whole;
}

/* NULL also if the name would take too long. */
static char *ask_libiberty(const char *name)
{
	size_t work;

	return d_walk_measure(name, &work) ? dlang_demangle(name, 0) : NULL;
}

char *d_name_demangle(const char *name)
{
	size_t len = strlen(name), thunk = thunk_prefix(name);
	char copy[MAX_INPUT], *text;

	if (len >= MAX_INPUT)
		return NULL;
	if (!strcmp(name, "_Dmain")) /* the only name without a qualified name */
		return strdup("D main");
	if (thunk)
		return thunk_demangle(name, thunk);
	text = ask_libiberty(name);
	if (!text) {
		memcpy(copy, name, len + 1);
		reorder_attributes(copy, len);
		text = ask_libiberty(copy);
	}
	if (text)
		drop_parameters(text);
	return text;
}
