// SPDX-License-Identifier: Apache-2.0
/* fuzz: max_len=17000 */
#include "symbol/demangle.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Any bytes give a short, printable, terminated text. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	char *name = malloc(size + 1), dst[DEMANGLE_MAX_OUTPUT];
	size_t len, i;

	if (!name)
		abort();
	if (size)
		memcpy(name, data, size);
	name[size] = 0;
	memset(dst, 1, sizeof(dst));
	demangle(name, dst);
	len = strnlen(dst, sizeof(dst));
	if (!len || len == sizeof(dst))
		abort();
	for (i = 0; i < len; i++)
		if ((unsigned char)dst[i] < 0x20 || dst[i] == 0x7f)
			abort();
	free(name);
	return 0;
}
