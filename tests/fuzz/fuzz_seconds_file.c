// SPDX-License-Identifier: Apache-2.0
/* fuzz: max_len=8192 */
/* The seconds of a profile, not packed: the fuzzer would fight with gzip's check sums. */
#include <stdint.h>
#include <stdlib.h>

#include "base/buf.h"
#include "formats/output.h"
#include "formats/profile_read.h"
#include "formats/seconds_file.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* A pprof of one stack and three samples, in the fields of profile.proto. */
static const char pprof[] =
	"\x0a\x04\x08\x01\x10\x02" /* samples, count */
	"\x12\x06\x0a\x01\x01\x12\x01\x05"
	"\x12\x06\x0a\x01\x01\x12\x01\x01"
	"\x12\x06\x0a\x01\x01\x12\x01\x7f"
	"\x22\x06\x08\x01\x22\x02\x08\x01" /* a location, of the function */
	"\x2a\x04\x08\x01\x10\x03"
	"\x32\x00\x32\x07samples\x32\x05"
	"count\x32\x01"
	"f"
	"\x48\x80\xa8\xd6\xb9\x07\x50\x80\xa8\xd6\xb9\x07"; /* second 2, for two */

static void read_with(struct seconds_cut *cut)
{
	struct profile_read read;
	struct profile profile;
	uint64_t total = 0;
	struct buf why;
	size_t i;

	if (profile_read_init(&read, NULL))
		abort();
	buf_init(&why, 4096);
	read.cut = cut;
	if (profile_read_add(&read, "x.pb.gz", pprof, sizeof(pprof) - 1, &why))
		abort();
	profile_read_finish(&read, &profile);
	for (i = 0; i < profile.nr_samples; i++)
		total += profile.samples[i].count;
	if (cut->foreign ? total != 5 + 1 + 127 : total + cut->nr_left_out > 5 + 1 + 127)
		abort();
	profile_fini(&profile);
	profile_read_fini(&read);
	buf_fini(&why);
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct seconds_cut cut = { .from_s = size % 3,
				   .until_s = size % 7 ? size % 7 : UINT64_MAX };
	struct buf why;
	uint32_t i;
	int err;

	buf_init(&why, 4096);
	err = seconds_read_plain(&cut, (const char *)data, size, &why);
	if (err && !why.len)
		abort();
	for (i = 0; !err && i < cut.nr_samples; i++)
		if (cut.kept[i] > cut.placed[i])
			abort();
	if (!err)
		read_with(&cut);
	seconds_cut_fini(&cut);
	buf_fini(&why);
	return 0;
}
