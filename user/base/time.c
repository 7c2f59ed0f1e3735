// SPDX-License-Identifier: Apache-2.0
#include "base/time.h"

#include <stdio.h>

const char *time_text_ms(char dst[TIME_TEXT_BYTES], uint64_t wall_ns)
{
	time_t seconds = (time_t)(wall_ns / NS_PER_SECOND);
	struct tm tm = { 0 };
	size_t len;

	gmtime_r(&seconds, &tm);
	len = strftime(dst, TIME_TEXT_BYTES, "%Y-%m-%dT%H:%M:%S", &tm);
	snprintf(dst + len, TIME_TEXT_BYTES - len, ".%03uZ",
		 (unsigned int)(wall_ns % NS_PER_SECOND / 1000000));
	return dst;
}
