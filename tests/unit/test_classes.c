// SPDX-License-Identifier: Apache-2.0
#include "memory/classes.h"

#include <criterion/criterion.h>

#include "base/buf.h"

TestSuite(classes, .timeout = 60);

#define MS 1000000ULL

static void expect(const struct block_classes *classes, const char *text)
{
	struct buf buf = { .max = 1000 };

	block_classes_write(&buf, classes);
	cr_assert_not(buf_error(&buf));
	buf_add_char(&buf, '\0');
	cr_expect_str_eq(buf.data, text);
	buf_fini(&buf);
}

Test(classes, nothing)
{
	struct block_classes none = { 0 };

	expect(&none, "    .    .    .    .    .     .    .    .    .    .    .    100");
}

/* A limit belongs to the class above it. */
Test(classes, limits)
{
	struct block_classes c = { 0 }, other = { 0 };

	block_classes_allocate(&c, 255, 100);
	block_classes_allocate(&c, 256, 200);
	block_classes_allocate(&c, 4096, 300);
	block_classes_allocate(&c, (1 << 20) - 1, 398);
	block_classes_allocate(&other, 1 << 20, 2);
	block_classes_free(&c, MS - 1, 100);
	block_classes_free(&c, MS, 200);
	block_classes_free(&other, 99 * MS, 1);
	block_classes_free(&other, 10000 * MS, 300);
	block_classes_add(&c, &other);
	expect(&c, "   10   20   30   40   <1    10   20   <1    .    .   30     40");
}

/* Blocks that survive a doubling of the rate stand for more when they are freed. */
Test(classes, more_freed_than_allocated)
{
	struct block_classes c = { 0 };

	block_classes_allocate(&c, 4000, 1000);
	block_classes_free(&c, 1, 300);
	block_classes_free(&c, 20 * MS, 900);
	expect(&c, "    .  100    .    .    .    25    .   75    .    .    .      .");
}

/* Hours of a busy function: a small block still counts beside what came before. */
Test(classes, many_bytes)
{
	struct block_classes c = { 0 };
	int i;

	block_classes_allocate(&c, 100, 1ULL << 45);
	block_classes_free(&c, MS / 2, 1ULL << 45);
	for (i = 0; i < 1000; i++)
		block_classes_free(&c, 2 * MS, 4096);
	for (i = 0; i < 1000; i++)
		block_classes_allocate(&c, 100, 4096);
	cr_expect_eq(c.sizes[0], (double)((1ULL << 45) + 4096000));
	cr_expect_eq(c.lives[1], 4096000);
}
