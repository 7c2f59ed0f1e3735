// SPDX-License-Identifier: Apache-2.0
#include "memory/classes.h"

#include <math.h>

#include "base/buf.h"
#include "base/time.h"

/* Each class ends before its limit; the last one has none. */
static const struct {
	uint64_t limit;
	const char *name;
} sizes[NR_SIZE_CLASSES] = {
	{ 256, "<256" },    { 4 << 10, "<4K" },	     { 64 << 10, "<64K" },
	{ 1 << 20, "<1M" }, { UINT64_MAX, "more" },
}, lives[NR_LIFE_CLASSES] = {
	{ NS_PER_SECOND / 1000, "1ms" }, { NS_PER_SECOND / 100, "10ms" },
	{ NS_PER_SECOND / 10, ".1s" },	 { NS_PER_SECOND, "1s" },
	{ 10 * NS_PER_SECOND, "10s" },	 { UINT64_MAX, "more" },
};

void block_classes_allocate(struct block_classes *classes, uint64_t block_bytes, uint64_t bytes)
{
	int i = 0;

	while (i < NR_SIZE_CLASSES - 1 && block_bytes >= sizes[i].limit)
		i++;
	classes->sizes[i] += (double)bytes;
}

void block_classes_free(struct block_classes *classes, uint64_t life_ns, uint64_t bytes)
{
	int i = 0;

	while (i < NR_LIFE_CLASSES - 1 && life_ns >= lives[i].limit)
		i++;
	classes->lives[i] += (double)bytes;
}

void block_classes_add(struct block_classes *dst, const struct block_classes *src)
{
	int i;

	for (i = 0; i < NR_SIZE_CLASSES; i++)
		dst->sizes[i] += src->sizes[i];
	for (i = 0; i < NR_LIFE_CLASSES; i++)
		dst->lives[i] += src->lives[i];
}

void block_classes_head(struct buf *dst)
{
	int i;

	buf_printf(dst, "%-27s%-32sNot\n", "  Size of block", "Freed within");
	for (i = 0; i < NR_SIZE_CLASSES; i++)
		buf_printf(dst, "%5s", sizes[i].name);
	buf_add_char(dst, ' ');
	for (i = 0; i < NR_LIFE_CLASSES; i++)
		buf_printf(dst, "%5s", lives[i].name);
	buf_printf(dst, "%7s", "freed");
}

static void part_write(struct buf *dst, int width, double part)
{
	if (part < 0.0005)
		buf_printf(dst, "%*s", width, ".");
	else if (part < 0.005)
		buf_printf(dst, "%*s", width, "<1");
	else
		buf_printf(dst, "%*.0f", width, 100 * part);
}

void block_classes_write(struct buf *dst, const struct block_classes *classes)
{
	double all = 0, freed = 0;
	int i;

	for (i = 0; i < NR_SIZE_CLASSES; i++)
		all += classes->sizes[i];
	all = fmax(all, 1);
	for (i = 0; i < NR_SIZE_CLASSES; i++)
		part_write(dst, 5, classes->sizes[i] / all);
	buf_add_char(dst, ' ');
	for (i = 0; i < NR_LIFE_CLASSES; i++)
		freed += classes->lives[i];
	all = fmax(all, freed); /* an estimate of what was freed may be more than was allocated */
	for (i = 0; i < NR_LIFE_CLASSES; i++)
		part_write(dst, 5, classes->lives[i] / all);
	part_write(dst, 7, 1 - freed / all);
}
