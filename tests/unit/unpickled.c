// SPDX-License-Identifier: Apache-2.0
#include "unpickled.h"

#include <criterion/criterion.h>
#include <inttypes.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_DEPTH 64
#define MAX_MEMO 4096

static char *stack[MAX_DEPTH], *memo[MAX_MEMO];
static int marks[MAX_DEPTH];
static int depth, nr_marks;

static void push(char *text)
{
	cr_assert(text && depth < MAX_DEPTH);
	stack[depth++] = text;
}

static char *joined(const char *before, const char *a, const char *between, const char *b,
		    const char *after)
{
	char *text;

	cr_assert(asprintf(&text, "%s%s%s%s%s", before, a, between, b, after) >= 0);
	return text;
}

/* Puts text behind what is in the brackets of the value at that depth. */
static void insert(int at, const char *text)
{
	size_t len = strlen(stack[at]);
	char *whole;

	cr_assert(asprintf(&whole, "%.*s%s%s%c", (int)len - 1, stack[at], len > 2 ? "," : "", text,
			   stack[at][len - 1]) >= 0);
	free(stack[at]);
	stack[at] = whole;
}

static void dict_close(void)
{
	int at, mark;
	char *pair;

	cr_assert(nr_marks);
	mark = marks[--nr_marks];
	cr_assert(mark && (depth - mark) % 2 == 0 && stack[mark - 1][0] == '{');
	for (at = mark; at < depth; at += 2) {
		pair = joined("", stack[at], ":", stack[at + 1], "");
		insert(mark - 1, pair);
		free(pair);
		free(stack[at]);
		free(stack[at + 1]);
	}
	depth = mark;
}

static uint64_t number(const unsigned char **at, int bytes)
{
	uint64_t value = 0;
	int i;

	for (i = 0; i < bytes; i++)
		value |= i < 8 ? (uint64_t)(*at)[i] << (8 * i) : 0;
	*at += bytes;
	return value;
}

static void push_number(uint64_t value)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, value);
	push(strdup(text));
}

static void pair_make(void)
{
	char *text = joined("(", stack[depth - 2], ",", stack[depth - 1], ")");

	free(stack[--depth]);
	free(stack[--depth]);
	push(text);
}

static void text_read(const unsigned char **at)
{
	size_t len = number(at, 4);

	push(strndup((const char *)*at, len));
	*at += len;
}

static void append(void)
{
	cr_assert(depth >= 2 && stack[depth - 2][0] == '[');
	insert(depth - 2, stack[depth - 1]);
	free(stack[--depth]);
}

static void keep(uint64_t nr)
{
	cr_assert(nr < MAX_MEMO && !memo[nr]);
	memo[nr] = strdup(stack[depth - 1]);
}

static void recall(uint64_t nr)
{
	cr_assert(nr < MAX_MEMO && memo[nr]);
	push(strdup(memo[nr]));
}

static void step(int op, const unsigned char **at)
{
	int bytes;

	switch (op) {
	case '}':
		push(strdup("{}"));
		break;
	case ']':
		push(strdup("[]"));
		break;
	case '(':
		marks[nr_marks++] = depth;
		break;
	case 'u':
		dict_close();
		break;
	case 'a':
		append();
		break;
	case 'K':
		push_number(number(at, 1));
		break;
	case 'M':
		push_number(number(at, 2));
		break;
	case 'J':
		push_number(number(at, 4));
		break;
	case 0x8a:
		bytes = (int)number(at, 1);
		cr_assert(bytes <= 9 && !((*at)[bytes - 1] & 0x80), "a negative number");
		push_number(number(at, bytes));
		break;
	case 'X':
		text_read(at);
		break;
	case 0x86:
		pair_make();
		break;
	case 0x88:
	case 0x89:
		push(strdup(op == 0x88 ? "True" : "False"));
		break;
	case 'q':
		keep(number(at, 1));
		break;
	case 'r':
		keep(number(at, 4));
		break;
	case 'h':
		recall(number(at, 1));
		break;
	case 'j':
		recall(number(at, 4));
		break;
	default:
		cr_assert(false, "opcode 0x%x", (unsigned int)op);
	}
}

char *unpickled(const char *data, size_t len)
{
	const unsigned char *at = (const unsigned char *)data, *end = at + len - 1;
	size_t i;

	cr_assert(len > 3 && at[0] == 0x80 && at[1] == 2 && *end == '.');
	for (at += 2; at < end;) {
		int op = *at++;

		step(op, &at);
	}
	cr_assert(at == end && depth == 1 && !nr_marks);
	for (i = 0; i < MAX_MEMO; i++) {
		free(memo[i]);
		memo[i] = NULL;
	}
	return stack[--depth];
}
