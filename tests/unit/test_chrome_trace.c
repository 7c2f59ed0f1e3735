// SPDX-License-Identifier: Apache-2.0
#include "formats/chrome_trace.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/json.h"

static const struct chrome_event event = {
	.name = "n", .category = "c", .pid = 1, .tid = 2, .ts_ns = 1234567
};

/* All that can be written, to out (NULL: counted). Returns its length as it was counted. */
static uint64_t everything(FILE *out, const char *name)
{
	struct chrome_event named = event;
	struct buf args = { .max = 1000 }, other = { .max = 1000 };
	struct chrome_trace trace;
	uint64_t bytes;

	named.name = name;
	json_key_text(&args, "kernel", name);
	json_key_three(&args, "grid", (const uint32_t[3]){ 1, 2, 4294967295U });
	named.args = &args;
	json_key_number(&other, "calls", 3);
	chrome_trace_open(&trace, out);
	chrome_trace_process(&trace, 1, "p", "rank 3");
	chrome_trace_track(&trace, 1, 2, "t", 0);
	chrome_trace_track(&trace, 1, 3, "u", -1);
	chrome_trace_slice(&trace, &named, 5);
	chrome_trace_begin(&trace, &event);
	chrome_trace_end(&trace, &event);
	chrome_trace_instant(&trace, &event);
	chrome_trace_flow(&trace, &event, 7, false);
	chrome_trace_flow(&trace, &event, 7, true);
	chrome_trace_span(&trace, &event, 8, false);
	chrome_trace_span(&trace, &event, 8, true);
	cr_assert_eq(chrome_trace_close(&trace, &other), 0);
	bytes = trace.bytes;
	buf_fini(&args);
	buf_fini(&other);
	return bytes;
}

Test(chrome_trace, every_event)
{
	static const char wanted[] =
		"{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n"
		"{\"ph\":\"M\",\"pid\":1,\"tid\":0,\"name\":\"process_name\",\"args\":{\"name\":"
		"\"p\"}},\n"
		"{\"ph\":\"M\",\"pid\":1,\"tid\":0,\"name\":\"process_labels\",\"args\":{"
		"\"labels\":\"rank 3\"}},\n"
		"{\"ph\":\"M\",\"pid\":1,\"tid\":2,\"name\":\"thread_name\",\"args\":{\"name\":"
		"\"t\"}},\n"
		"{\"ph\":\"M\",\"pid\":1,\"tid\":3,\"name\":\"thread_name\",\"args\":{\"name\":"
		"\"u\"}},\n"
		"{\"ph\":\"M\",\"pid\":1,\"tid\":3,\"name\":\"thread_sort_index\",\"args\":{\"sort_"
		"index\":-1}},\n"
		"{\"ph\":\"X\",\"pid\":1,\"tid\":2,\"ts\":1234.567,\"name\":\"k\",\"cat\":\"c\","
		"\"dur\":0.005,"
		"\"args\":{\"kernel\":\"k\",\"grid\":[1,2,4294967295]}},\n"
		"{\"ph\":\"B\",\"pid\":1,\"tid\":2,\"ts\":1234.567,\"name\":\"n\",\"cat\":\"c\"},\n"
		"{\"ph\":\"E\",\"pid\":1,\"tid\":2,\"ts\":1234.567},\n"
		"{\"ph\":\"i\",\"pid\":1,\"tid\":2,\"ts\":1234.567,\"name\":\"n\",\"cat\":\"c\","
		"\"s\":\"t\"},\n"
		"{\"ph\":\"s\",\"pid\":1,\"tid\":2,\"ts\":1234.567,\"name\":\"n\",\"cat\":\"c\","
		"\"id\":7},\n"
		"{\"ph\":\"f\",\"pid\":1,\"tid\":2,\"ts\":1234.567,\"name\":\"n\",\"cat\":\"c\","
		"\"id\":7,\"bp\":\"e\"},\n"
		"{\"ph\":\"b\",\"pid\":1,\"tid\":2,\"ts\":1234.567,\"name\":\"n\",\"cat\":\"c\","
		"\"id\":8},\n"
		"{\"ph\":\"e\",\"pid\":1,\"tid\":2,\"ts\":1234.567,\"name\":\"n\",\"cat\":\"c\","
		"\"id\":8}\n"
		"],\"otherData\":{\"calls\":3}}\n";
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);
	uint64_t bytes = everything(out, "k");

	fclose(out);
	cr_assert_str_eq(text, wanted);
	cr_assert_eq(bytes, len);
	cr_assert_eq(everything(NULL, "k"), len);
	free(text);
}

Test(chrome_trace, names_are_made_safe)
{
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);
	uint64_t bytes = everything(out, "a\"b\\c\n\x1b\xff\xc3 \xc3\xa9");

	fclose(out);
	cr_assert_eq(bytes, len);
	cr_assert_neq(
		strstr(text, "\"a\\\"b\\\\c\\u000a\\u001b\xef\xbf\xbd\xef\xbf\xbd \xc3\xa9\""),
		NULL, "%s", text);
	free(text);
}

Test(chrome_trace, nothing_is_valid)
{
	struct buf other = { .max = 100 };
	struct chrome_trace trace;
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);

	chrome_trace_open(&trace, out);
	cr_assert_eq(chrome_trace_close(&trace, &other), 0);
	fclose(out);
	cr_assert_str_eq(text,
			 "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[\n],\"otherData\":{}}\n");
	free(text);
}

Test(chrome_trace, too_long_is_reported)
{
	struct chrome_event endless = event;
	struct buf other = { .max = 100 };
	struct chrome_trace trace;
	char *name = malloc(1 << 20);

	memset(name, 'x', (1 << 20) - 1);
	name[(1 << 20) - 1] = 0;
	endless.name = name;
	chrome_trace_open(&trace, NULL);
	chrome_trace_instant(&trace, &endless);
	chrome_trace_instant(&trace, &event);
	cr_assert_eq(chrome_trace_close(&trace, &other), -E2BIG);
	free(name);
}
