// SPDX-License-Identifier: Apache-2.0
/* fuzz: max_len=512 */
#include "python/text.h"

#include <stdlib.h>
#include <string.h>

#define HEADER 4 /* bytes of a character, room, bytes not there, answers */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Bytes of the well-formed character at text, 0 if there is none. */
static size_t utf8_len(const unsigned char *text)
{
	size_t len = text[0] < 0x80 ? 1 : text[0] < 0xe0 ? 2 : text[0] < 0xf0 ? 3 : 4, i;

	if ((text[0] >= 0x80 && text[0] < 0xc2) || text[0] > 0xf4)
		return 0;
	for (i = 1; i < len; i++) {
		if ((text[i] & 0xc0) != 0x80)
			return 0;
	}
	if ((text[0] == 0xe0 && text[1] < 0xa0) || (text[0] == 0xed && text[1] > 0x9f) ||
	    (text[0] == 0xf0 && text[1] < 0x90) || (text[0] == 0xf4 && text[1] > 0x8f))
		return 0;
	return len;
}

struct questions {
	uint8_t answers; /* one bit each */
	int nr;
};

static int has_init(void *arg, const char *folder)
{
	struct questions *questions = arg;

	if (!folder[0] || folder[strlen(folder) - 1] == '/' || ++questions->nr > 64)
		abort();
	if (questions->answers == 0x55)
		return -1;
	return questions->answers >> (questions->nr - 1) % 8 & 1;
}

/* What comes out is UTF-8, terminated, no longer than its room; and short is the end of long. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct questions questions = { 0 };
	const char *short_file;
	size_t cap, len, n, one;
	char *dst;

	if (size < HEADER)
		return 0;
	cap = data[1] + 1U;
	questions.answers = data[3];
	dst = malloc(cap);
	if (!dst)
		abort();
	len = python_text(dst, cap, data + HEADER, size - HEADER, size - HEADER + data[2],
			  data[0] % 6);
	if (len >= cap || strlen(dst) != len)
		abort();
	for (n = 0; n < len; n += one) {
		one = utf8_len((unsigned char *)dst + n);
		if (!one)
			abort();
	}
	short_file = python_short_file(dst, has_init, &questions);
	if (short_file < dst || short_file > dst + len || (len && !*short_file))
		abort();
	free(dst);
	return 0;
}
