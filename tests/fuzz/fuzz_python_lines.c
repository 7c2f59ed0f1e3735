// SPDX-License-Identifier: Apache-2.0
/* fuzz: max_len=1024 */
#include "python/lines.h"

#include <stdlib.h>
#include <string.h>

#include "bpfprof.h"

#define HEADER 8 /* format, padding, first line, instruction */

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/*
 * An answer is a line, and what follows the step in which it was found does not matter: a
 * longer table gives the same one. (An lnotab always has an answer, and a cut number ends in 0.)
 */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	uint32_t lines, first_line, lasti = 0, i, line;
	uint8_t *longer;
	size_t len;

	if (size < HEADER)
		return 0;
	lines = data[0] % (PYTHON_LINES_LOCATIONS + 2);
	memcpy(&first_line, data + 2, 4);
	memcpy(&lasti, data + 6, 2);
	data += HEADER;
	len = size - HEADER;
	longer = malloc(len + 8);
	if (!longer)
		abort();
	memcpy(longer, data, len);
	memcpy(longer + len, "\0\0\0\0\x82\x7f\xff\x01", 8);
	for (i = 0; i < 8; i++, lasti += i) {
		line = python_line(lines, data, len, first_line, lasti);
		if (line > INT32_MAX)
			abort();
		if (line && (lines == PYTHON_LINES_RANGES || lines == PYTHON_LINES_LOCATIONS) &&
		    python_line(lines, longer, len + 8, first_line, lasti) != line)
			abort();
		if (line && (lines == PYTHON_LINES_INVALID || lines > PYTHON_LINES_LOCATIONS))
			abort();
	}
	free(longer);
	return 0;
}
