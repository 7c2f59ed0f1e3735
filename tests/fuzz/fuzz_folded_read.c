// SPDX-License-Identifier: Apache-2.0
/* fuzz: max_len=8192 */
/* Collapsed stacks, with our counters. */
#include "profile_files.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	return fuzz_profile("x.folded", data, size);
}
