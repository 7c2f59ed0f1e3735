// SPDX-License-Identifier: Apache-2.0
/* fuzz: max_len=8192 */
/* pprof's protobuf, not packed: the fuzzer would fight with gzip's check sums. */
#include "profile_files.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	return fuzz_profile("x.pb.gz", data, size);
}
