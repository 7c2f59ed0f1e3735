// SPDX-License-Identifier: Apache-2.0
#include "tasks/task_group.h"

#include <stdbool.h>
#include <stdlib.h>

#define NUMBER 256 /* stands for a number among the characters */
#define MIN_NAMES 4 /* names that differ in a number that functions may have */
#define MAX_SPREAD 16 /* range of their numbers, per name: some parts may be on other nodes */

/* A name as a series of characters and numbers. */
struct walk {
	const char *name, *at;
	enum task_numbers numbers;
	uint64_t joined; /* the last number that may belong to a function */
};

static bool is_digit(char c)
{
	return c >= '0' && c <= '9';
}

/* Is it a letter of a word? Each byte outside of ASCII counts as one. */
static bool is_letter(char c)
{
	return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (unsigned char)c >= 0x80;
}

static bool may_be_of_function(char before, char behind)
{
	return is_letter(before) || before == '_' || behind == '_';
}

static uint64_t value_of(const char *digits, const char *end)
{
	uint64_t value = 0;

	for (; digits < end; digits++)
		if (__builtin_mul_overflow(value, 10, &value) ||
		    __builtin_add_overflow(value, (uint64_t)(*digits - '0'), &value))
			return UINT64_MAX;
	return value;
}

/* Returns the next character, NUMBER, or 0 at the end. */
static int walk_next(struct walk *walk)
{
	const char *end = walk->at;
	char before = walk->at > walk->name ? walk->at[-1] : 0;
	bool joined;

	if (!is_digit(*walk->at) || is_digit(before) || walk->numbers == TASK_NUMBERS_NONE)
		return *walk->at ? (unsigned char)*walk->at++ : 0;
	while (is_digit(*end))
		end++;
	joined = may_be_of_function(before, *end);
	if (is_letter(*end) || (joined && walk->numbers == TASK_NUMBERS_APART))
		return (unsigned char)*walk->at++;
	if (joined)
		walk->joined = value_of(walk->at, end);
	walk->at = end;
	return NUMBER;
}

static struct walk walk_of(const char *name, enum task_numbers numbers)
{
	return (struct walk){ .name = name, .at = name, .numbers = numbers };
}

static int compare_as(const char *a, const char *b, enum task_numbers numbers)
{
	struct walk x = walk_of(a, numbers), y = walk_of(b, numbers);
	int c, d;

	do {
		c = walk_next(&x);
		d = walk_next(&y);
	} while (c && c == d);
	return c - d;
}

/* Sorts by the name without numbers, then without the numbers that no function has, then by name. */
static int compare_members(const void *a, const void *b)
{
	const struct task_member *x = a, *y = b;
	int order = compare_as(x->name, y->name, TASK_NUMBERS_ALL);

	if (!order)
		order = compare_as(x->name, y->name, TASK_NUMBERS_APART);
	return order ?: compare_as(x->name, y->name, TASK_NUMBERS_NONE);
}

static uint64_t joined_number(const char *name)
{
	struct walk walk = walk_of(name, TASK_NUMBERS_ALL);

	while (walk_next(&walk))
		;
	return walk.joined;
}

/* Do the members differ in numbers that functions may have, as the parts of one job do? */
static bool are_parts(const struct task_member *members, size_t nr)
{
	uint64_t low = UINT64_MAX, high = 0, number, names = 0;
	size_t i;

	for (i = 0; i < nr; i++) {
		if (i && !compare_as(members[i - 1].name, members[i].name, TASK_NUMBERS_APART))
			continue;
		names++;
		number = joined_number(members[i].name);
		low = number < low ? number : low;
		high = number > high ? number : high;
	}
	return names >= MIN_NAMES && high - low <= MAX_SPREAD * names;
}

/* The number of members that are equal to the first one, apart from these numbers. */
static size_t run_of(const struct task_member *members, size_t nr, enum task_numbers numbers)
{
	size_t end = 1;

	while (end < nr && !compare_as(members[0].name, members[end].name, numbers))
		end++;
	return end;
}

static void group_set(struct task_member *members, size_t nr, enum task_numbers numbers)
{
	bool differ = compare_as(members[0].name, members[nr - 1].name, TASK_NUMBERS_NONE) != 0;
	size_t i;

	for (i = 0; i < nr; i++) {
		members[i].numbers = differ ? numbers : TASK_NUMBERS_NONE;
		members[i].nr = i ? 0 : (uint32_t)nr;
	}
}

void task_groups_find(struct task_member *members, size_t nr)
{
	size_t first, end, part, n;

	if (nr)
		qsort(members, nr, sizeof(*members), compare_members);
	for (first = 0; first < nr; first += end) {
		end = run_of(members + first, nr - first, TASK_NUMBERS_ALL);
		if (are_parts(members + first, end)) {
			group_set(members + first, end, TASK_NUMBERS_ALL);
			continue;
		}
		for (part = 0; part < end; part += n) {
			n = run_of(members + first + part, end - part, TASK_NUMBERS_APART);
			group_set(members + first + part, n, TASK_NUMBERS_APART);
		}
	}
}

void task_group_text(char *dst, size_t cap, const char *name, enum task_numbers numbers)
{
	struct walk walk = walk_of(name, numbers);
	size_t len = 0;
	int c;

	while (len + 1 < cap && (c = walk_next(&walk)))
		dst[len++] = (char)(c == NUMBER ? '#' : c);
	dst[len] = 0;
}
