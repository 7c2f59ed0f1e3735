// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "daemon/push_queue.h"
#include "daemon/push_request.h"

TestSuite(push);

Test(push, urls)
{
	static const struct {
		const char *url, *says; /* NULL: good */
	} cases[] = {
		{ "http://pyroscope:4040", NULL },
		{ "HTTPS://a.example/pyroscope/ingest", NULL },
		{ "http://[::1]:4040/", NULL },
		{ "http://host/a@b", NULL },
		{ "", "must begin" },
		{ "pyroscope:4040", "must begin" },
		{ "file:///etc/passwd", "must begin" },
		{ "http://", "no host" },
		{ "http:///ingest", "no host" },
		{ "http://:4040", "no host" },
		{ "http://me:hidden@host/", "password" },
		{ "http://hidden@host", "password" },
		{ "http://host/?token=hidden", "?" },
		{ "http://host?hidden", "?" },
		{ "http://host/#hidden", "?" },
		{ "http://host/hidden b", "byte" },
		{ "http://host\\@other/hidden", "byte" },
		{ "http://host/\r\nHost: hidden", "byte" },
		{ "http://h\xc3\xb6st/", "byte" },
	};
	char *long_url = malloc(PUSH_URL_MAX + 2);
	struct buf why;

	buf_init(&why, 4096);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		buf_reset(&why);
		cr_expect_eq(push_url_check(cases[i].url, false, "--push-basic-auth-file", &why),
			     cases[i].says ? -EINVAL : 0, "%s", cases[i].url);
		if (!cases[i].says)
			continue;
		cr_expect(strstr(why.data, cases[i].says), "%s: %s", cases[i].url, why.data);
		cr_expect_null(strstr(why.data, "hidden"), "%s", why.data);
	}
	memset(long_url, 'x', PUSH_URL_MAX + 1);
	memcpy(long_url, "http://", 7);
	long_url[PUSH_URL_MAX] = 0;
	cr_expect_eq(push_url_check(long_url, false, "", &why), 0);
	long_url[PUSH_URL_MAX] = 'x';
	long_url[PUSH_URL_MAX + 1] = 0;
	cr_expect_eq(push_url_check(long_url, false, "", &why), -EINVAL);
	free(long_url);
	buf_fini(&why);
}

Test(push, queries)
{
	static const struct {
		const char *url;
		int err;
		const char *server;
	} cases[] = {
		{ "https://hooks.example:8443/a/b?c=d&e", 0, "https://hooks.example:8443" },
		{ "http://[::1]:4040?x", 0, "http://[::1]:4040" },
		{ "HTTP://host", 0, "HTTP://host" },
		{ "http://host/?a#b", -EINVAL, "http://host" },
		{ "http://?a", -EINVAL, "http://" },
		{ "http://a?b@c", 0, "http://a" },
	};
	struct buf why;

	buf_init(&why, 4096);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		cr_expect_eq(push_url_check(cases[i].url, true, "", &why), cases[i].err, "%s",
			     cases[i].url);
		cr_expect_eq(push_url_server(cases[i].url), strlen(cases[i].server), "%s",
			     cases[i].url);
	}
	buf_fini(&why);
}

Test(push, label_flags)
{
	static const struct {
		const char *label;
		int err;
	} cases[] = {
		{ "cluster=train-a", 0 },
		{ "_a1=b=c d", 0 },
		{ "pods=x", 0 },
		{ "", -EINVAL },
		{ "=x", -EINVAL },
		{ "a", -EINVAL },
		{ "a=", -EINVAL },
		{ "1a=x", -EINVAL },
		{ "a-b=x", -EINVAL },
		{ "a{=x", -EINVAL },
		{ "a=x,b=y", -EINVAL },
		{ "a=x}", -EINVAL },
		{ "host=x", -EINVAL },
		{ "pod=x", -EINVAL },
		{ "namespace=x", -EINVAL },
		{ "service_name=x", -EINVAL },
		{ "__name__=x", -EINVAL },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		cr_expect_eq(push_label_check(cases[i].label), cases[i].err, "%s", cases[i].label);
}

Test(push, requests)
{
	static char *more[] = { "cluster=a/b", "team=x y" };
	static const struct {
		const char *url, *host, *namespace, *pod;
		size_t nr_more;
		const char *wanted; /* up to the times */
	} cases[] = {
		{ "http://h", "node-1", NULL, NULL, 0,
		  "http://h/ingest?name=bpfprof%7Bhost%3Dnode-1%7D" },
		{ "http://h///", NULL, NULL, NULL, 0, "http://h/ingest?name=bpfprof" },
		{ "http://h/p/ingest", "n", "ml", "train-0", 2,
		  "http://h/p/ingest?name=bpfprof%7Bhost%3Dn%2Cnamespace%3Dml%2Cpod%3Dtrain-0"
		  "%2Ccluster%3Da%2Fb%2Cteam%3Dx%20y%7D" },
		{ "http://h/ingest/", "n", "", "&from=0#\n", 0,
		  "http://h/ingest?name=bpfprof%7Bhost%3Dn%2Cpod%3D%26from%3D0%23_%7D" },
		/* Text that would end a label, or add one. */
		{ "http://h/pyroscope", "n", "a,pod=b}", "{\xc3\xa4}", 0,
		  "http://h/pyroscope/"
		  "ingest?name=bpfprof%7Bhost%3Dn%2Cnamespace%3Da_pod%3Db_%2Cpod%3D"
		  "%7B%C3%A4_%7D" },
	};
	struct push_item item;
	char wanted[1024];
	struct buf url;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct push_labels labels = {
			.host = cases[i].host, .more = more, .nr_more = cases[i].nr_more, .hz = 99
		};

		cr_assert_eq(push_item_init(&item, "x", cases[i].namespace, cases[i].pod), 0);
		item.start = 1700000000;
		item.until = 1700000060;
		buf_init(&url, 4096);
		push_url_make(&url, cases[i].url, &labels, &item);
		snprintf(wanted, sizeof(wanted),
			 "%s&from=1700000000&until=1700000060&format=pprof&sampleRate=99"
			 "&spyName=bpfprof",
			 cases[i].wanted);
		cr_expect_str_eq(url.data, wanted);
		buf_fini(&url);
		push_item_fini(&item);
	}
}

Test(push, secrets)
{
	static const struct {
		const char *text;
		size_t len;
		int err;
		const char *wanted;
	} cases[] = {
		{ "token\n", 6, 0, "token" },
		{ "a b:c\xc3\xa4\r\n\n", 10, 0, "a b:c\xc3\xa4" },
		{ "", 0, -EINVAL, NULL },
		{ "\n", 1, -EINVAL, NULL },
		{ "a\r\nX-Other: b", 13, -EINVAL, NULL },
		{ "a\0b", 3, -EINVAL, NULL },
		{ "a\x7f", 2, -EINVAL, NULL },
	};
	char path[] = "/tmp/bpfprof-secret-XXXXXX", *big = malloc(PUSH_SECRET_MAX + 1);
	int fd = mkstemp(path);
	struct buf text;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		cr_assert_eq(ftruncate(fd, 0), 0);
		cr_assert_eq(pwrite(fd, cases[i].text, cases[i].len, 0), (ssize_t)cases[i].len);
		buf_init(&text, PUSH_SECRET_MAX + 1);
		cr_expect_eq(push_secret_read(&text, path), cases[i].err, "%zu", i);
		if (cases[i].wanted)
			cr_expect_str_eq(text.data, cases[i].wanted);
		else
			cr_expect_eq(text.len, 0);
		buf_fini(&text);
	}
	memset(big, 'x', PUSH_SECRET_MAX + 1);
	buf_init(&text, 2 * PUSH_SECRET_MAX);
	cr_assert_eq(pwrite(fd, big, PUSH_SECRET_MAX, 0), PUSH_SECRET_MAX);
	cr_expect_eq(push_secret_read(&text, path), 0);
	cr_assert_eq(pwrite(fd, big, PUSH_SECRET_MAX + 1, 0), PUSH_SECRET_MAX + 1);
	cr_expect_eq(push_secret_read(&text, path), -E2BIG);
	unlink(path);
	cr_expect_eq(push_secret_read(&text, path), -ENOENT);
	cr_assert_eq(mkfifo(path, 0600), 0);
	cr_expect_eq(push_secret_read(&text, path), -EINVAL);
	cr_expect_eq(push_secret_read(&text, "/dev/zero"), -EINVAL);
	unlink(path);
	buf_fini(&text);
	free(big);
	close(fd);
}

static size_t add(struct push_queue *queue, unsigned int number)
{
	struct push_item item;
	char path[16];

	snprintf(path, sizeof(path), "%u", number);
	cr_assert_eq(push_item_init(&item, path, "ns", NULL), 0);
	return push_queue_add(queue, &item);
}

static void expect_next(struct push_queue *queue, unsigned int number)
{
	struct push_item item;
	char path[16];

	snprintf(path, sizeof(path), "%u", number);
	cr_assert_eq(push_queue_take(queue, &item), 0);
	cr_expect_str_eq(item.path, path);
	cr_expect_str_eq(item.namespace, "ns");
	cr_expect_null(item.pod);
	push_item_fini(&item);
}

/*
 * The queue keeps its order. If it is full, the oldest entry is dropped, even one that comes back.
 */
Test(push, queue)
{
	struct push_queue queue;
	struct push_item item;

	cr_assert_eq(push_queue_init(&queue, 3), 0);
	cr_expect_eq(push_queue_take(&queue, &item), -ENOENT);
	for (unsigned int round = 0; round < 4; round++) {
		for (unsigned int i = 0; i < 3; i++)
			cr_expect_eq(add(&queue, i), 0);
		cr_expect_eq(add(&queue, 3), 1);
		cr_assert_eq(push_queue_take(&queue, &item), 0);
		cr_expect_str_eq(item.path, "1");
		cr_expect_eq(push_queue_return(&queue, &item), 0);
		expect_next(&queue, 1);
		cr_assert_eq(push_queue_take(&queue, &item), 0);
		cr_expect_str_eq(item.path, "2");
		cr_expect_eq(add(&queue, 4), 0);
		cr_expect_eq(add(&queue, 5), 0);
		cr_expect_eq(push_queue_return(&queue, &item), 1);
		expect_next(&queue, 3);
		expect_next(&queue, 4);
		expect_next(&queue, 5);
		cr_expect_eq(queue.nr, 0);
		/* Another place in the ring each time. */
		cr_expect_eq(add(&queue, 7), 0);
		expect_next(&queue, 7);
	}
	add(&queue, 8);
	push_queue_fini(&queue);
}

Test(push, waits)
{
	static const struct {
		unsigned int failures;
		uint64_t most_ms;
	} cases[] = { { 1, 1000 },   { 2, 2000 },	 { 3, 4000 },
		      { 5, 16000 },  { 6, 30000 },	 { 7, 30000 },
		      { 64, 30000 }, { 1000000, 30000 }, { UINT32_MAX, 30000 } };

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		cr_expect_eq(push_wait_ms(cases[i].failures, 0), cases[i].most_ms);
		cr_expect_eq(push_wait_ms(cases[i].failures, UINT32_MAX), cases[i].most_ms / 2);
	}
}
