// SPDX-License-Identifier: Apache-2.0
/* fuzz: max_len=8192 */
#include "symbol/perfmap.h"

#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/strtab.h"
#include "elf/image.h"

#define NR 16

struct input {
	const uint8_t *data;
	size_t size;
	bool changes; /* with each read */
	size_t nr_reads;
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static ssize_t input_read(void *arg, void *dst, size_t len, uint64_t off)
{
	struct input *input = arg;
	size_t i, shift = input->changes ? input->nr_reads++ : 0;

	if (off > input->size || len > input->size - off)
		abort();
	for (i = 0; i < len; i++)
		((uint8_t *)dst)[i] = input->data[(off + i + shift) % input->size];
	return (ssize_t)len;
}

/* An address has the same name whatever else is asked in the same call. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input input = { .data = data, .size = size };
	struct elf_source source = { .read = input_read, .arg = &input, .size = size };
	struct perfmap_query queries[NR], one;
	struct strtab *names;
	size_t i;
	int err;

	if (strtab_new(&names, 1 << 20))
		abort();
	for (i = 0; i < NR; i++)
		queries[i] = (struct perfmap_query){ .va = 0x1000 + i * 7 };
	err = perfmap_resolve(&source, names, queries, NR);
	for (i = 0; i < NR && !err; i++) {
		one = (struct perfmap_query){ .va = queries[i].va };
		if (perfmap_resolve(&source, names, &one, 1) || one.name != queries[i].name ||
		    one.start != queries[i].start || one.start > one.va)
			abort();
	}
	input.changes = true; /* a map that is written while it is read */
	perfmap_resolve(&source, names, queries, NR);
	strtab_free(names);
	return 0;
}
