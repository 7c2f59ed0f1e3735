// SPDX-License-Identifier: Apache-2.0
#include "formats/pickle.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/text.h"
#include "unpickled.h"

static char *data;
static size_t len;
static struct pickle pickle;

static void begin(void)
{
	pickle_begin(&pickle, open_memstream(&data, &len));
}

static char *end(void)
{
	char *text;

	cr_assert_eq(pickle_end(&pickle), 0);
	cr_assert_eq(fclose(pickle.out), 0);
	text = unpickled(data, len);
	free(data);
	return text;
}

/* Each number takes the shortest form, and none becomes negative. */
Test(pickle, numbers)
{
	static const struct {
		uint64_t value;
		size_t bytes;
	} cases[] = {
		{ 0, 2 },
		{ 255, 2 },
		{ 256, 3 },
		{ 65535, 3 },
		{ 65536, 5 },
		{ INT32_MAX, 5 },
		{ 0x80000000, 7 },
		{ UINT32_MAX, 7 },
		{ 0x7fffffffff, 7 },
		{ 0x8000000000, 8 },
		{ 0x7f0000000000, 8 },
		{ INT64_MAX, 10 },
		{ 1ULL << 63, 11 },
		{ UINT64_MAX, 11 },
	};
	size_t i;

	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		size_t taken;
		char *text;

		begin();
		pickle_number(&pickle, cases[i].value);
		cr_assert_eq(fflush(pickle.out), 0);
		taken = len - 2;
		text = end();
		cr_expect(strtoull(text, NULL, 10) == cases[i].value && taken == cases[i].bytes,
			  "%s, %zu bytes", text, taken);
		free(text);
	}
}

Test(pickle, values)
{
	char *text;

	begin();
	pickle_dict_open(&pickle);
	pickle_text(&pickle, "empty");
	pickle_dict_open(&pickle);
	pickle_dict_close(&pickle);
	pickle_text(&pickle, "list");
	pickle_list_open(&pickle);
	pickle_bool(&pickle, true);
	pickle_list_add(&pickle);
	pickle_pair(&pickle, 7, 70000);
	pickle_list_add(&pickle);
	pickle_list_open(&pickle);
	pickle_list_add(&pickle);
	pickle_text(&pickle, "");
	pickle_list_add(&pickle);
	pickle_dict_close(&pickle);
	text = end();
	cr_expect_str_eq(text, "{empty:{},list:[True,(7,70000),[],]}");
	free(text);
}

/* More values than numbers of one byte; recalled ones are as they were. */
Test(pickle, keeps)
{
	uint32_t first = 0, last = 0, i;
	char *text;

	begin();
	pickle_list_open(&pickle);
	for (i = 0; i < 300; i++) {
		pickle_number(&pickle, 1000 + i);
		last = pickle_keep(&pickle);
		first = first ? first : last;
		pickle_list_add(&pickle);
	}
	pickle_recall(&pickle, first);
	pickle_list_add(&pickle);
	pickle_recall(&pickle, last);
	pickle_list_add(&pickle);
	text = end();
	cr_expect(first == 1 && last == 300);
	cr_expect_str_eq(strstr(text, "1298,"), "1298,1299,1000,1299]");
	free(text);
}

/* Names that targets chose: no bytes that a reader refuses, and no more than is useful. */
Test(pickle, texts)
{
	static char longest[2 * TEXT_MAX];
	char *text;

	memset(longest, 'x', sizeof(longest) - 1);
	begin();
	pickle_list_open(&pickle);
	pickle_text(&pickle, "a\xff\xed\xa0\x80\x1b");
	pickle_list_add(&pickle);
	pickle_text(&pickle, longest);
	pickle_list_add(&pickle);
	text = end();
	cr_expect(!strncmp(text, "[a\xef\xbf\xbd", 5), "%.40s", text);
	cr_expect(!strchr(text, '\x1b') && !strstr(text, "\xed\xa0"));
	cr_expect(strlen(text) < TEXT_MAX + 40 && strlen(text) > TEXT_MAX);
	free(text);
}
