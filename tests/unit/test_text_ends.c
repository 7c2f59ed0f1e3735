// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>

#include "base/buf.h"
#include "base/text.h"
#include "formats/output.h"

Test(text, begins_and_ends)
{
	cr_expect(text_begins("libcuda.so.1", "libcuda.so") && text_begins("a", ""));
	cr_expect_not(text_begins("lib", "libcuda.so"));
	cr_expect_not(text_begins("xlibcuda.so", "libcuda.so"));
	cr_expect(text_ends("/x/threading.py", "threading.py") && text_ends("a", ""));
	cr_expect(text_ends("threading.py", "threading.py"));
	cr_expect_not(text_ends("ing.py", "threading.py"));
	cr_expect_not(text_ends("threading.pyc", "threading.py"));
}

/* A file name that is only the suffix has no name before it. */
Test(text, suffix_of_a_file)
{
	cr_expect(output_has_suffix("a.json", ".json"));
	cr_expect_not(output_has_suffix(".json", ".json"));
	cr_expect_not(output_has_suffix("json", ".json"));
}

Test(text, words_of_a_shell)
{
	static const char *const words[][2] = {
		{ "/var/lib/bpfprof", "/var/lib/bpfprof" },
		{ "", "''" },
		{ "my data", "'my data'" },
		{ "it's;$HOME", "'it'\\''s;$HOME'" },
	};
	struct buf word;
	size_t i;

	buf_init(&word, TEXT_MAX);
	for (i = 0; i < sizeof(words) / sizeof(words[0]); i++) {
		buf_reset(&word);
		text_add_word(&word, words[i][0]);
		cr_expect_str_eq(word.data, words[i][1]);
	}
	buf_fini(&word);
}
