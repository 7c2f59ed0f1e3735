// SPDX-License-Identifier: Apache-2.0
/* fuzz: max_len=2048 */
#include "proc/cgroup_limits.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "proc/thread_time.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* Where nothing is there, no path leads to anything; a time is what the text begins with. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cgroup_limits limits;
	struct thread_time time;
	char *text = malloc(size + 1);

	if (!text)
		abort();
	memcpy(text, data, size);
	text[size] = 0;
	cgroup_limits_parse(&limits, "/nonexistent", text);
	if (limits.cpu[0] || limits.memory[0])
		abort();
	if (!thread_time_parse(&time, text) && time.run_ns != strtoull(text, NULL, 10))
		abort();
	free(text);
	return 0;
}
