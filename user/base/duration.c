// SPDX-License-Identifier: Apache-2.0
#include "base/duration.h"

#include <ctype.h>
#include <errno.h>

#define NS_PER_SECOND 1000000000ULL

static int unit_seconds(const char *text, uint64_t *ret)
{
	if (text[0] && text[1])
		return -EINVAL;
	switch (text[0]) {
	case 0:
	case 's':
		*ret = 1;
		return 0;
	case 'm':
		*ret = 60;
		return 0;
	case 'h':
		*ret = 3600;
		return 0;
	default:
		return -EINVAL;
	}
}

int duration_parse(const char *text, uint64_t *ret_ns)
{
	uint64_t whole = 0, fraction_ns = 0, place = NS_PER_SECOND, unit, ns;
	int nr_digits = 0;

	for (; isdigit((unsigned char)*text); text++, nr_digits++) {
		/* The number stops just above the maximum, so it cannot overflow. */
		if (whole <= DURATION_MAX_NS / NS_PER_SECOND)
			whole = whole * 10 + (uint64_t)(*text - '0');
	}
	if (*text == '.') {
		for (text++; isdigit((unsigned char)*text); text++, nr_digits++) {
			place /= 10;
			fraction_ns += place * (uint64_t)(*text - '0');
		}
	}
	if (!nr_digits || unit_seconds(text, &unit))
		return -EINVAL;
	if (whole > DURATION_MAX_NS / NS_PER_SECOND / unit)
		return -ERANGE;
	ns = (whole * NS_PER_SECOND + fraction_ns) * unit;
	if (!ns || ns > DURATION_MAX_NS)
		return -ERANGE;
	*ret_ns = ns;
	return 0;
}
