// SPDX-License-Identifier: Apache-2.0
#include "findings/loader_wait.h"

#include <criterion/criterion.h>

#include "profile/wakers.h"

TestSuite(loader, .timeout = 60);

/* Process 7 with its threads 7, 70 and 71, its children 20 and 21, and a stranger, 30. */
static bool is_child(void *arg, uint32_t pid)
{
	(void)arg;
	return pid == 20 || pid == 21;
}

static struct loader_wait find(const struct waker_link *links, size_t nr)
{
	struct loader_wait loader;

	loader_wait_find(&loader, links, nr, 7, is_child, NULL);
	return loader;
}

#define FIND(...)                                                                                  \
	find((const struct waker_link[]){ __VA_ARGS__ },                                           \
	     sizeof((const struct waker_link[]){ __VA_ARGS__ }) / sizeof(struct waker_link))

Test(loader, straight_from_children)
{
	struct loader_wait loader = FIND({ 7, 7, 20, 200, 1000, 10 }, { 7, 7, 20, 201, 100, 1 },
					 { 7, 7, 21, 21, 500, 5 }, { 7, 7, 30, 30, 9000, 90 },
					 { 7, 70, 20, 200, 7000, 70 }, { 20, 20, 7, 7, 3000, 30 });

	cr_expect_eq(loader.ns, 1600);
	cr_expect_eq(loader.nr, 16);
	cr_assert_eq(loader.nr_children, 2);
	cr_expect(loader.children[0] == 20 && loader.children[1] == 21);
}

/* A thread that is woken by children hands on what they have made. */
Test(loader, by_a_helper)
{
	struct loader_wait loader = FIND({ 7, 7, 7, 70, 1000, 10 }, { 7, 70, 20, 200, 800, 8 },
					 { 7, 70, 7, 71, 200, 2 }, { 7, 70, 7, 7, 5000, 50 },
					 { 7, 7, 7, 71, 4000, 40 }, { 7, 71, 30, 30, 10, 1 });

	cr_expect_eq(loader.ns, 1000);
	cr_expect_eq(loader.nr, 10);
	cr_assert_eq(loader.nr_children, 1);
	cr_expect_eq(loader.children[0], 20);
	loader = FIND({ 7, 7, 7, 70, 1000, 10 }, { 7, 70, 20, 200, 790, 8 },
		      { 7, 70, 30, 30, 210, 2 });
	cr_expect(!loader.ns && !loader.nr_children, "it is woken by others, too");
}

Test(loader, none)
{
	struct loader_wait loader = FIND({ 7, 7, 30, 30, 1000, 10 }, { 7, 7, 7, 70, 1000, 10 },
					 { 30, 30, 20, 20, 1000, 10 });

	cr_expect(!loader.ns && !loader.nr && !loader.nr_children);
	loader = find(NULL, 0);
	cr_expect(!loader.ns && !loader.nr_children);
}

Test(loader, very_many_children)
{
	static struct waker_link links[LOADER_WAIT_MAX_CHILDREN * 2];
	struct loader_wait loader;
	uint32_t i;

	for (i = 0; i < LOADER_WAIT_MAX_CHILDREN * 2; i++)
		links[i] = (struct waker_link){ 20, 20, 1000 + i, 1000 + i, 1, 1 };
	loader_wait_find(&loader, links, LOADER_WAIT_MAX_CHILDREN * 2, 20, is_child, NULL);
	cr_expect_eq(loader.nr_children, 0);
	for (i = 0; i < LOADER_WAIT_MAX_CHILDREN * 2; i++)
		links[i] = (struct waker_link){ 7, 7, i % 2 ? 20 : 21, i, 1, 1 };
	loader_wait_find(&loader, links, LOADER_WAIT_MAX_CHILDREN * 2, 7, is_child, NULL);
	cr_expect_eq(loader.nr_children, 2);
	cr_expect_eq(loader.nr, LOADER_WAIT_MAX_CHILDREN * 2);
}
