// SPDX-License-Identifier: Apache-2.0
#include "findings/loader_wait.h"

#include <criterion/criterion.h>

#include "profile/wakers.h"

TestSuite(feed, .timeout = 60);

/* Process 7 with its threads 7, 70 and 71, its children 20 and 21, and a stranger, 30. */
static bool is_child(void *arg, uint32_t pid)
{
	(void)arg;
	return pid == 20 || pid == 21;
}

static struct feed find(const struct waker_link *links, size_t nr)
{
	struct feed feed;

	feed_find(&feed, links, nr, 7, is_child, NULL);
	return feed;
}

#define FIND(...)                                                                                  \
	find((const struct waker_link[]){ __VA_ARGS__ },                                           \
	     sizeof((const struct waker_link[]){ __VA_ARGS__ }) / sizeof(struct waker_link))

Test(feed, straight_from_children)
{
	struct feed feed = FIND({ 7, 7, 20, 200, 1000, 10 }, { 7, 7, 20, 201, 100, 1 },
				{ 7, 7, 21, 21, 500, 5 }, { 7, 7, 30, 30, 9000, 90 },
				{ 7, 70, 20, 200, 7000, 70 }, { 20, 20, 7, 7, 3000, 30 });

	cr_expect_eq(feed.ns, 1600);
	cr_expect_eq(feed.nr, 16);
	cr_assert_eq(feed.nr_children, 2);
	cr_expect(feed.children[0] == 20 && feed.children[1] == 21);
}

/* A thread that is woken by children hands on what they have made. */
Test(feed, by_a_helper)
{
	struct feed feed = FIND({ 7, 7, 7, 70, 1000, 10 }, { 7, 70, 20, 200, 800, 8 },
				{ 7, 70, 7, 71, 200, 2 }, { 7, 70, 7, 7, 5000, 50 },
				{ 7, 7, 7, 71, 4000, 40 }, { 7, 71, 30, 30, 10, 1 });

	cr_expect_eq(feed.ns, 1000);
	cr_expect_eq(feed.nr, 10);
	cr_assert_eq(feed.nr_children, 1);
	cr_expect_eq(feed.children[0], 20);
	feed = FIND({ 7, 7, 7, 70, 1000, 10 }, { 7, 70, 20, 200, 790, 8 },
		    { 7, 70, 30, 30, 210, 2 });
	cr_expect(!feed.ns && !feed.nr_children, "it is woken by others, too");
}

Test(feed, none)
{
	struct feed feed = FIND({ 7, 7, 30, 30, 1000, 10 }, { 7, 7, 7, 70, 1000, 10 },
				{ 30, 30, 20, 20, 1000, 10 });

	cr_expect(!feed.ns && !feed.nr && !feed.nr_children);
	feed = find(NULL, 0);
	cr_expect(!feed.ns && !feed.nr_children);
}

Test(feed, very_many_children)
{
	static struct waker_link links[FEED_MAX_CHILDREN * 2];
	struct feed feed;
	uint32_t i;

	for (i = 0; i < FEED_MAX_CHILDREN * 2; i++)
		links[i] = (struct waker_link){ 20, 20, 1000 + i, 1000 + i, 1, 1 };
	feed_find(&feed, links, FEED_MAX_CHILDREN * 2, 20, is_child, NULL);
	cr_expect_eq(feed.nr_children, 0);
	for (i = 0; i < FEED_MAX_CHILDREN * 2; i++)
		links[i] = (struct waker_link){ 7, 7, i % 2 ? 20 : 21, i, 1, 1 };
	feed_find(&feed, links, FEED_MAX_CHILDREN * 2, 7, is_child, NULL);
	cr_expect_eq(feed.nr_children, 2);
	cr_expect_eq(feed.nr, FEED_MAX_CHILDREN * 2);
}
