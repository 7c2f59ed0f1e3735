// SPDX-License-Identifier: Apache-2.0
#include "python/lines.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <inttypes.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bpfprof.h"
#include "made_profile.h"

#define SCRIPT "tests/unit/python_lines.py"
#define PAGE 4096

TestSuite(python_lines, .timeout = 300);

/* The line, asked of a table that ends where memory does. */
static uint32_t line_of(uint32_t lines, const void *table, size_t len, uint32_t first_line,
			uint32_t lasti)
{
	static uint8_t *page;

	if (!page) {
		page = mmap(NULL, 2 * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			    0);
		cr_assert(page != MAP_FAILED && !mprotect(page + PAGE, PAGE, PROT_NONE));
	}
	cr_assert_leq(len, PAGE);
	memcpy(page + PAGE - len, table, len);
	return python_line(lines, page + PAGE - len, len, first_line, lasti);
}

struct wanted {
	uint32_t lasti;
	uint32_t line;
};

struct example {
	const char *table;
	size_t len;
	uint32_t first_line;
	struct wanted wanted[6]; /* up to the first one that is all 0 */
};

#define BYTES(text) text, sizeof(text) - 1

static void check(uint32_t lines, const struct example *examples, size_t nr)
{
	for (size_t i = 0; i < nr; i++) {
		const struct example *ex = &examples[i];

		for (size_t n = 0; n < 6; n++) {
			const struct wanted *w = &ex->wanted[n];
			uint32_t line;

			if (!w->lasti && !w->line && n)
				break;
			line = line_of(lines, ex->table, ex->len, ex->first_line, w->lasti);
			cr_expect_eq(line, w->line,
				     "example %zu, instruction %" PRIu32 ": %" PRIu32
				     " instead of %" PRIu32,
				     i, w->lasti, line, w->line);
		}
	}
}

Test(python_lines, lnotab)
{
	static const struct example examples[] = {
		{ BYTES(""), 7, { { 0, 7 }, { 1000000, 7 } } },
		/* A step leads to where it ends. */
		{ BYTES("\x04\x01\x02\x03"), 1, { { 0, 1 }, { 1, 1 }, { 2, 2 }, { 3, 5 } } },
		/* The first line of a module with a docstring, or of a decorated function */
		{ BYTES("\x00\x02\x04\x01"), 1, { { 0, 3 }, { 1, 3 }, { 2, 4 } } },
		/* Back */
		{ BYTES("\x02\x05\x02\xfe\x02\x80"), 200, { { 1, 205 }, { 2, 203 }, { 3, 75 } } },
		/* 300 lines, 300 bytes further */
		{ BYTES("\xff\x00\x2d\x7f\x00\x7f\x00\x2e"), 1, { { 149, 1 }, { 150, 301 } } },
		/* A step that ends within an instruction */
		{ BYTES("\x03\x01\x01\x01"), 1, { { 1, 1 }, { 2, 3 } } },
		{ BYTES("\x02\x01\x02"), 1, { { 1, 2 }, { 2, 2 } } },
		{ BYTES("\x02"), 9, { { 0, 9 }, { 5, 9 } } },
		/* Lines that are none */
		{ BYTES("\x02\xff\x02\xff\x02\x05"),
		  1,
		  { { 0, 1 }, { 1, 0 }, { 2, 0 }, { 3, 4 } } },
		{ BYTES("\x02\x01\x02\xff"),
		  INT32_MAX,
		  { { 0, INT32_MAX }, { 1, 0 }, { 2, INT32_MAX } } },
		{ BYTES("\x02\x02"), UINT32_MAX, { { 0, 0 }, { 1, 1 } } },
		{ BYTES("\x02\x02"), 5, { { UINT32_MAX, 7 } } },
		{ BYTES("\x02\x02"), 5, { { 0x80000000, 7 } } }, /* twice that is 0 in 32 bits */
	};

	check(PYTHON_LINES_LNOTAB, examples, sizeof(examples) / sizeof(examples[0]));
}

Test(python_lines, ranges)
{
	static const struct example examples[] = {
		{ BYTES(""), 7, { { 0, 0 } } },
		/* A step is that of the range itself. */
		{ BYTES("\x04\x00\x02\x03"), 1, { { 0, 1 }, { 1, 1 }, { 2, 4 }, { 3, 0 } } },
		{ BYTES("\x02\x02\x02\xff\x02\x81"), 200, { { 0, 202 }, { 1, 201 }, { 2, 74 } } },
		/* No line, and on from the line before */
		{ BYTES("\x02\x05\x02\x80\x02\x01"), 1, { { 0, 6 }, { 1, 0 }, { 2, 7 } } },
		{ BYTES("\x02\x05\x04\x80\x00\x80\x02\xff"), 1, { { 2, 0 }, { 3, 5 }, { 4, 0 } } },
		/* Empty ranges: lines only */
		{ BYTES("\x00\x7f\x00\x7f\x02\x2e\x02\x01"), 1, { { 0, 301 }, { 1, 302 } } },
		{ BYTES("\x00\x01"), 1, { { 0, 0 } } },
		{ BYTES("\xfe\x01\xfe\x00\x02\x01"),
		  1,
		  { { 126, 2 }, { 127, 2 }, { 253, 2 }, { 254, 3 } } },
		{ BYTES("\x03\x01\x02\x01"), 1, { { 1, 2 }, { 2, 3 } } },
		{ BYTES("\x02\x01\x02"), 1, { { 0, 2 }, { 1, 0 } } },
		{ BYTES("\x02\xfe\x02\x05"), 1, { { 0, 0 }, { 1, 4 } } },
		{ BYTES("\x02\x01\x02\xff"), INT32_MAX, { { 0, 0 }, { 1, INT32_MAX } } },
		{ BYTES("\x02\x02"), 5, { { 0x80000000, 0 } } },
	};

	check(PYTHON_LINES_RANGES, examples, sizeof(examples) / sizeof(examples[0]));
}

Test(python_lines, locations)
{
	static const struct example examples[] = {
		{ BYTES(""), 7, { { 0, 0 } } },
		/* Short forms: 3 instructions of form 0, 1 of form 9, 8 of form 5 */
		{ BYTES("\x82\x11\xc8\x7f\xaf\x00"),
		  4,
		  { { 0, 4 }, { 3, 4 }, { 4, 4 }, { 11, 4 }, { 12, 0 } } },
		/* One line: 0, 1, 2 further */
		{ BYTES("\xd0\x01\x02\xd8\x01\x02\xe1\x01\x02"),
		  4,
		  { { 0, 4 }, { 1, 5 }, { 2, 7 }, { 3, 7 }, { 4, 0 } } },
		/* No columns: +1, -1, +31; then +32 and -100 in two bytes */
		{ BYTES("\xe8\x02\xe8\x03\xe8\x3e"), 10, { { 0, 11 }, { 1, 10 }, { 2, 41 } } },
		{ BYTES("\xe8\x40\x01\xe8\x49\x03"), 200, { { 0, 232 }, { 1, 132 } } },
		/* Long: +5, then end line and two columns, some of two bytes */
		{ BYTES("\xf1\x0a\x01\x41\x02\x05\xf0\x03\x00\x01\x01"),
		  10,
		  { { 0, 15 }, { 1, 15 }, { 2, 14 }, { 3, 0 } } },
		/* None, and on from the line before */
		{ BYTES("\xd8\x01\x02\xf9\xd8\x01\x02"),
		  1,
		  { { 0, 2 }, { 1, 0 }, { 2, 0 }, { 3, 3 } } },
		/* A module starts with line 0. */
		{ BYTES("\xf0\x03\x01\x01\x01\xd8\x00\x01"), 1, { { 0, 0 }, { 1, 1 } } },
		/* + 2^30, as far as 32 bits go */
		{ BYTES("\xe8\x40\x40\x40\x40\x40\x02\xe8\x02"),
		  1,
		  { { 0, 0x40000001 }, { 1, 0x40000002 } } },
		{ BYTES("\xe8\x02\xe8\x03"), INT32_MAX, { { 0, 0 }, { 1, INT32_MAX } } },
		{ BYTES("\xe8\x05\xe8\x08"), 1, { { 0, 0 }, { 1, 3 } } },
		/* A varint without end: what follows its 32 bits counts for nothing. */
		{ BYTES("\xe8\x42\x40\x40\x40\x40\x40\x41\x41\x41\xe8\x02"),
		  1,
		  { { 0, 2 }, { 1, 3 } } },
		/* Cut off in the middle */
		{ BYTES("\xe8"), 5, { { 0, 5 }, { 1, 0 } } },
		{ BYTES("\xe8\x42"), 5, { { 0, 6 }, { 1, 0 } } },
		{ BYTES("\xf0\x42"), 5, { { 0, 6 }, { 1, 0 } } },
		{ BYTES("\xd8"), 5, { { 0, 6 } } },
		/* An entry begins where the table does, whatever its top bit. */
		{ BYTES("\x58\x01\x02\xd8"), 5, { { 0, 6 }, { 1, 7 } } },
		{ BYTES("\xe8\x02"), 5, { { 0x80000000, 0 } } },
	};

	check(PYTHON_LINES_LOCATIONS, examples, sizeof(examples) / sizeof(examples[0]));
}

Test(python_lines, unknown_format)
{
	cr_expect_eq(line_of(PYTHON_LINES_INVALID, "\x02\x01", 2, 5, 0), 0);
	cr_expect_eq(line_of(PYTHON_LINES_LOCATIONS + 1, "\x02\x01", 2, 5, 0), 0);
	cr_expect_eq(python_line(PYTHON_LINES_LNOTAB, NULL, 0, 5, 0), 5);
	cr_expect_eq(python_line(PYTHON_LINES_LOCATIONS, NULL, 0, 5, 0), 0);
}

/* Any bytes: no read behind them, and each result is a valid line. */
Test(python_lines, any_bytes)
{
	uint32_t state = 1, lines, line, i;
	uint8_t table[64];
	size_t len, n;

	for (i = 0; i < 100000; i++) {
		for (n = 0; n < sizeof(table); n++) {
			state = state * 1664525 + 1013904223;
			table[n] = (uint8_t)(state >> 24);
		}
		len = state % (sizeof(table) + 1);
		for (lines = PYTHON_LINES_LNOTAB; lines <= PYTHON_LINES_LOCATIONS; lines++) {
			line = line_of(lines, table, len, state, i % 300);
			cr_assert_leq(line, INT32_MAX);
		}
	}
}

/* The output of the script, line by line. */
struct answer {
	uint32_t lines;
	uint64_t nr_codes;
	uint64_t nr_instructions;
	char version[32];
	bool ended;
};

static size_t decode_hex(char *hex)
{
	uint8_t *out = (uint8_t *)hex;
	size_t len = strlen(hex) / 2, i;

	if (hex[0] == '-')
		return 0;
	for (i = 0; i < len; i++) {
		char digits[3] = { hex[2 * i], hex[2 * i + 1] };

		out[i] = (uint8_t)strtoul(digits, NULL, 16);
	}
	return len;
}

/* FIRST_LINE TABLE COUNTxLINE... */
static void compare_code(struct answer *answer, char *text)
{
	char *save, *word = strtok_r(text, " ", &save), *hex, *end;
	uint32_t first_line, lasti = 0, line, want;
	unsigned long count;
	size_t len;

	first_line = (uint32_t)strtoul(word, &end, 10);
	hex = strtok_r(NULL, " ", &save);
	cr_assert(!*end && hex, "%s: not a line of the script: %s", answer->version, word);
	len = decode_hex(hex);
	while ((word = strtok_r(NULL, " ", &save))) {
		count = strtoul(word, &end, 10);
		cr_assert_eq(*end, 'x', "%s", word);
		want = (uint32_t)strtoul(end + 1, NULL, 10);
		for (; count; count--, lasti++) {
			line = python_line(answer->lines, (const uint8_t *)hex, len, first_line,
					   lasti);
			cr_assert_eq(
				line, want,
				"%s: code %" PRIu64 ", first line %" PRIu32 ", instruction %" PRIu32
				": line %" PRIu32 " instead of %" PRIu32,
				answer->version, answer->nr_codes, first_line, lasti, line, want);
		}
	}
	answer->nr_codes++;
	answer->nr_instructions += lasti;
}

static void compare_line(struct answer *answer, char *text)
{
	uint64_t nr_codes, nr_instructions;
	char *end;

	if (!strncmp(text, "python ", 7)) {
		uint32_t lines = answer->lines;

		*answer = (struct answer){ .lines = lines };
		snprintf(answer->version, sizeof(answer->version), "%s", text + 7);
	} else if (!strncmp(text, "end ", 4)) {
		nr_codes = strtoull(text + 4, &end, 10);
		nr_instructions = strtoull(end, NULL, 10);
		cr_assert_eq(answer->nr_codes, nr_codes);
		cr_assert_eq(answer->nr_instructions, nr_instructions);
		cr_assert_gt(nr_codes, 1000);
		answer->ended = true;
		fprintf(stderr,
			"python_lines: Python %s: %" PRIu64 " instructions of %" PRIu64
			" code objects compared\n",
			answer->version, nr_instructions, nr_codes);
	} else {
		compare_code(answer, text);
	}
}

static int minors[] = { 8, 9, 10, 11, 12, 13, 14, 15 };

ParameterizedTestParameters(python_lines, interpreters)
{
	return cr_make_param_array(int, minors, sizeof(minors) / sizeof(minors[0]));
}

/* Every instruction of real and awkward code, against every Python 3.8-3.15 that is here. */
ParameterizedTest(int *minor, python_lines, interpreters)
{
	static const char find[] =
		"for python in"
		" \"$PYENV_ROOT\"/versions/*/bin/python3.%d \"$(pyenv root "
		"2>/dev/null)\"/versions/*/bin/python3.%d"
		" \"$HOME\"/.pyenv/versions/*/bin/python3.%d /usr/bin/python3.%d "
		"/usr/local/bin/python3.%d; do"
		" [ ! -x \"$python\" ] || readlink -f \"$python\"; done | sort -u |"
		" while read -r python; do \"$python\" -B -E " SCRIPT " </dev/null || exit 1; done";
	struct answer answer = { .lines = PYTHON_LINES_LOCATIONS };
	char command[1024], *text, *line, *save;
	int status;

	if (access(SCRIPT, R_OK))
		cr_skip_test("not run from the root of the source tree");
	if (*minor <= 10)
		answer.lines = *minor == 10 ? PYTHON_LINES_RANGES : PYTHON_LINES_LNOTAB;
	snprintf(command, sizeof(command), find, *minor, *minor, *minor, *minor, *minor);
	text = made_run(command, "", 0, &status);
	if (!status && !text[0]) {
		free(text);
		cr_skip_test("no Python 3.%d", *minor);
	}
	for (line = strtok_r(text, "\n", &save); line; line = strtok_r(NULL, "\n", &save))
		compare_line(&answer, line);
	cr_assert(!status && answer.ended, "Python 3.%d: status %d", *minor, status);
	free(text);
}
