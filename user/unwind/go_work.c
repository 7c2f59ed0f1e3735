// SPDX-License-Identifier: Apache-2.0
#include "unwind/go_work.h"

#include <errno.h>

#include "elf/go_table.h"

int go_work_take(int64_t *work_left, uint32_t amount)
{
	if (*work_left < amount) {
		*work_left = 0;
		return -E2BIG;
	}
	*work_left -= amount;
	return 0;
}

int go_work_values_next(int64_t *work_left, struct go_values *v)
{
	int err = go_work_take(work_left, 1);

	return err ? err : go_values_next(v);
}
