// SPDX-License-Identifier: Apache-2.0
#include "elf/usdt_number.h"

bool usdt_number_take(const char **at, uint64_t max, int64_t *ret)
{
	bool negative = **at == '-';
	uint64_t value = 0, digit;

	*at += negative;
	for (; **at >= '0' && **at <= '9'; ++*at) {
		digit = (uint64_t)(**at - '0');
		if (value > (max - digit) / 10)
			return false;
		value = value * 10 + digit;
	}
	*ret = (int64_t)(negative ? -value : value);
	return true;
}
