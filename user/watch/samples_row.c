// SPDX-License-Identifier: Apache-2.0
#include "watch/samples_row.h"

#include "base/buf.h"
#include "base/text.h"
#include "base/time.h"

#define SPAN_S 300

void samples_row(struct buf *dst, const char *store, uint32_t pid, uint64_t wall_ns)
{
	uint64_t from_s = wall_ns / NS_PER_SECOND - SPAN_S;
	char text[TIME_TEXT_BYTES];

	if (!store)
		return;
	buf_add_str(dst, "samples       bpfprof report ");
	text_add_word(dst, store);
	buf_printf(dst, " --pid %u --at %s --for %us\n", pid,
		   time_text(text, from_s, TIME_OF_OPTIONS), SPAN_S + 1);
}
