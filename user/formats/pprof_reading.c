// SPDX-License-Identifier: Apache-2.0
#include "formats/pprof_reading.h"

#include <errno.h>

#include "base/buf.h"
#include "base/strtab.h"

int pprof_malformed(struct pprof *p, const char *what)
{
	if (!p->why->len)
		buf_printf(p->why, "no pprof, or a damaged one: %s at byte %zu of %zu", what,
			   (size_t)(p->field - (p->whole.at)),
			   (size_t)(p->whole.end - p->whole.at));
	return -EBADMSG;
}

int pprof_too_many(struct pprof *p, const char *what, uint32_t most)
{
	buf_printf(p->why, "it has more than %u %s", most, what);
	return -E2BIG;
}

int pprof_text(struct pprof *p, uint64_t index, uint32_t *ret)
{
	if (index >= p->texts.nr && index)
		return pprof_malformed(p, "a text that is not there");
	*ret = index ? PPROF_AT(p->texts, uint32_t, index) : 0;
	return 0;
}
