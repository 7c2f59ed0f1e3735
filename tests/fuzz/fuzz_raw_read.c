// SPDX-License-Identifier: Apache-2.0
/* fuzz: max_len=8192 */
/* py-spy's raw. */
#include "profile_files.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	return fuzz_profile("x.raw", data, size);
}
