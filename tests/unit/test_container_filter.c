// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "capture/container_filter.h"
#include "container/containers.h"

static struct container_filter filter;

static void teardown(void)
{
	container_filter_fini(&filter);
}

TestSuite(container_filter, .fini = teardown);

static void add(int (*fn)(struct container_filter *, const char *, struct buf *), const char *text)
{
	struct buf why;

	buf_init(&why, 1024);
	cr_assert_eq(fn(&filter, text, &why), 0, "%s: %s", text, why.data);
	cr_assert_eq(why.len, 0);
	buf_fini(&why);
}

static const struct container trainer = {
	.id = "4f2c0000aaaa", .name = "worker", .pod = "trainer-0", .namespace = "ml"
};
static const struct container other = {
	.id = "4f2d0000bbbb", .name = "worker", .pod = "trainer-1", .namespace = "web"
};
static const struct container docker = { .id = "77", .name = "", .pod = "", .namespace = "" };

Test(container_filter, none_takes_everything)
{
	cr_expect_not(container_filter_is_set(&filter));
	cr_expect(container_filter_matches(&filter, &trainer));
	cr_expect(container_filter_matches(&filter, NULL));
}

Test(container_filter, pods)
{
	static const struct {
		const char *pattern;
		bool trainer, other, docker;
	} cases[] = {
		{ "trainer-0", true, false, false },
		{ "trainer-*", true, true, false },
		{ "trainer", false, false, false },
		{ "ml/trainer-*", true, false, false },
		{ "ml/*", true, false, false },
		{ "*/trainer-[01]", true, true, false },
		{ "*", true, true, false },
		{ "*/*", true, true, false },
		{ "web/trainer-0", false, false, false },
		{ "m/trainer-0", false, false, false },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		add(container_filter_add_pod, cases[i].pattern);
		cr_expect(container_filter_is_set(&filter));
		cr_expect_eq(container_filter_matches(&filter, &trainer), cases[i].trainer, "%s",
			     cases[i].pattern);
		cr_expect_eq(container_filter_matches(&filter, &other), cases[i].other, "%s",
			     cases[i].pattern);
		cr_expect_eq(container_filter_matches(&filter, &docker), cases[i].docker, "%s",
			     cases[i].pattern);
		cr_expect_not(container_filter_matches(&filter, NULL));
		container_filter_fini(&filter);
	}
}

Test(container_filter, ids)
{
	add(container_filter_add_id, "4f2c");
	cr_expect(container_filter_matches(&filter, &trainer));
	cr_expect_not(container_filter_matches(&filter, &other));
	cr_expect_not(container_filter_matches(&filter, NULL));
	/* One more. */
	add(container_filter_add_id, "containerd://77");
	cr_expect(container_filter_matches(&filter, &docker));
	cr_expect(container_filter_matches(&filter, &trainer));
	cr_expect_not(container_filter_matches(&filter, &other));
	/* And of those, what lives in a pod of that name. */
	add(container_filter_add_pod, "trainer-*");
	cr_expect(container_filter_matches(&filter, &trainer));
	cr_expect_not(container_filter_matches(&filter, &docker));
	cr_expect_not(container_filter_matches(&filter, &other));
}

Test(container_filter, refused)
{
	static const char *const pods[] = { "", "/x", "ml/", "a/b/c" };
	static const char *const ids[] = { "", "containerd://", "a/b" };
	struct buf why;

	buf_init(&why, 1024);
	for (size_t i = 0; i < sizeof(pods) / sizeof(pods[0]); i++) {
		cr_expect_eq(container_filter_add_pod(&filter, pods[i], &why), -EINVAL, "%s",
			     pods[i]);
		cr_expect(strstr(why.data, "ml/trainer-*"));
		buf_reset(&why);
	}
	for (size_t i = 0; i < sizeof(ids) / sizeof(ids[0]); i++) {
		cr_expect_eq(container_filter_add_id(&filter, ids[i], &why), -EINVAL, "%s", ids[i]);
		cr_expect(strstr(why.data, "id"));
		buf_reset(&why);
	}
	cr_expect_not(container_filter_is_set(&filter));
	buf_fini(&why);
}

Test(container_filter, text)
{
	struct buf text;

	buf_init(&text, 1024);
	add(container_filter_add_pod, "ml/\033[1m*");
	container_filter_text(&text, &filter);
	cr_expect_str_eq(text.data, "--pod ml/?[1m*");
	add(container_filter_add_pod, "b");
	add(container_filter_add_id, "77");
	buf_reset(&text);
	container_filter_text(&text, &filter);
	cr_expect_str_eq(text.data, "--pod ml/?[1m* (and 1 more) and --container 77");
	buf_fini(&text);
}
