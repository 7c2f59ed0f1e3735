// SPDX-License-Identifier: Apache-2.0
#include "nccl_files.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "gpu/nccl_report.h"
#include "base/buf.h"
#include "gpu/report_read.h"

TestSuite(nccl_report, .timeout = 60);

char *nccl_report_of(const char *first, const char *second, size_t rows)
{
	const struct nccl_report_options options = { .rows = rows };
	struct gpu_read read;
	struct buf text;

	cr_assert_eq(gpu_read_init(&read), 0);
	cr_assert_eq(gpu_read_add(&read, "a.json", first, strlen(first)), 0);
	if (second)
		cr_assert_eq(gpu_read_add(&read, "b.json", second, strlen(second)), 0);
	buf_init(&text, 1 << 20);
	cr_assert_eq(nccl_report(&text, &read, &options), 0);
	cr_assert_eq(buf_error(&text), 0);
	gpu_read_fini(&read);
	return buf_take(&text);
}

void nccl_expect_exactly(const char *first, const char *second, const char *wanted)
{
	char *text = nccl_report_of(first, second, 64);

	cr_expect_str_eq(text, wanted, "got:\n%s\nnot:\n%s", text, wanted);
	free(text);
}

void nccl_expect_parts(const char *first, const char *second, const char *const *parts)
{
	char *text = nccl_report_of(first, second, 64), *at = text;

	for (; *parts; parts++) {
		char *found = strstr(at, *parts);

		cr_expect(found, "no '%s' in:\n%s", *parts, at);
		at = found ? found + strlen(*parts) : at;
	}
	free(text);
}

void nccl_expect_none_behind(const char *first, const char *second)
{
	char *text = nccl_report_of(first, second, 64);

	cr_expect_not(strstr(text, "BEHIND"), "%s", text);
	free(text);
}
