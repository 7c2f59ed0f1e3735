// SPDX-License-Identifier: Apache-2.0
#include "base/units.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>

#define NS_PER_SECOND UINT64_C(1000000000)

/*
 * Writes value in the first unit in which it has at most three digits before the point, or in the last
 * one. Each unit is a thousand of the one before.
 */
static const char *scaled(char dst[UNITS_TEXT], uint64_t value, const char *const *units, size_t nr)
{
	double shown = (double)value;
	size_t i = 0;

	for (; i + 1 < nr && shown >= 999.5; i++)
		shown /= 1000;
	if (!i)
		snprintf(dst, UNITS_TEXT, "%" PRIu64 "%s", value, units[i]);
	else
		snprintf(dst, UNITS_TEXT, shown < 99.95 ? "%.1f%s" : "%.0f%s", shown, units[i]);
	return dst;
}

const char *units_count(char dst[UNITS_TEXT], uint64_t count)
{
	static const char *const units[] = { "", " k", " M", " G", " T", " P", " E" };

	if (count > 9999999)
		return scaled(dst, count, units, sizeof(units) / sizeof(units[0]));
	snprintf(dst, UNITS_TEXT, "%" PRIu64, count);
	return dst;
}

const char *units_bytes(char dst[UNITS_TEXT], uint64_t bytes)
{
	static const char *const units[] = { " B", " kB", " MB", " GB", " TB", " PB", " EB" };

	return scaled(dst, bytes, units, sizeof(units) / sizeof(units[0]));
}

const char *units_ns(char dst[UNITS_TEXT], uint64_t ns)
{
	static const char *const units[] = { " ns", " us", " ms", " s" };
	uint64_t seconds = ns / NS_PER_SECOND + (ns % NS_PER_SECOND >= NS_PER_SECOND / 2);
	uint64_t minutes = seconds / 60;

	if (seconds < 100)
		return scaled(dst, ns, units, sizeof(units) / sizeof(units[0]));
	if (minutes < 100)
		snprintf(dst, UNITS_TEXT, "%" PRIu64 " min %" PRIu64 " s", minutes, seconds % 60);
	else if (minutes < 6000)
		snprintf(dst, UNITS_TEXT, "%" PRIu64 " h %" PRIu64 " min", minutes / 60,
			 minutes % 60);
	else
		snprintf(dst, UNITS_TEXT, "%" PRIu64 " h", minutes / 60);
	return dst;
}
