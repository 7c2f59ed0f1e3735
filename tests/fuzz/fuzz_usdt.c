// SPDX-License-Identifier: Apache-2.0
/* fuzz: max_len=16384 */
#include "elf/usdt.h"

#include <stdlib.h>
#include <string.h>

#include "elf/image.h"

#define MAX 8

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void arguments_check(const char *text)
{
	struct usdt_argument argument;
	unsigned int i;

	for (i = 1; i < 10; i++) {
		if (usdt_argument(text, i, &argument))
			continue;
		if (argument.reg > 15 || !argument.bytes || argument.bytes > 8 ||
		    (argument.kind == USDT_REGISTER && argument.off) ||
		    (argument.kind == USDT_MEMORY && argument.off != (int32_t)argument.off))
			abort();
	}
}

/* A library, or only the text of a probe's arguments. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct usdt_probe probes[MAX];
	struct elf_image *img;
	char text[256] = "";
	size_t nr, i;

	if (elf_image_open_memory(&img, data, size)) {
		memcpy(text, data, size < sizeof(text) ? size : sizeof(text) - 1);
		arguments_check(text);
		return 0;
	}
	if (!usdt_find(img, "pytorch", probes, MAX, &nr)) {
		if (!nr || nr > MAX)
			abort();
		for (i = 0; i < nr; i++) {
			if (!probes[i].off || probes[i].off >= size ||
			    probes[i].semaphore_off >= size || probes[i].semaphore_off % 2)
				abort();
			arguments_check(probes[i].arguments);
		}
	}
	elf_image_free(img);
	return 0;
}
