// SPDX-License-Identifier: Apache-2.0
#include "base/time.h"

#include <stdio.h>
#include <string.h>

const char *time_text(char dst[TIME_TEXT_BYTES], uint64_t seconds, enum time_format format)
{
	time_t when = (time_t)seconds;
	size_t len = 0;
	struct tm tm;

	if (gmtime_r(&when, &tm))
		switch (format) {
		case TIME_OF_NAMES:
			len = strftime(dst, TIME_TEXT_BYTES, "%Y%m%dT%H%M%SZ", &tm);
			break;
		case TIME_OF_PEOPLE:
			len = strftime(dst, TIME_TEXT_BYTES, "%Y-%m-%d %H:%M:%S UTC", &tm);
			break;
		case TIME_OF_OPTIONS:
			len = strftime(dst, TIME_TEXT_BYTES, "%Y-%m-%dT%H:%M:%SZ", &tm);
			break;
		}
	dst[len] = '\0';
	return dst;
}

const char *time_text_ms(char dst[TIME_TEXT_BYTES], uint64_t wall_ns)
{
	size_t len = strlen(time_text(dst, wall_ns / NS_PER_SECOND, TIME_OF_OPTIONS));

	if (len)
		snprintf(dst + len - 1, TIME_TEXT_BYTES - len + 1, ".%03uZ",
			 (unsigned int)(wall_ns % NS_PER_SECOND / 1000000));
	return dst;
}
