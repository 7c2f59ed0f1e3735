// SPDX-License-Identifier: Apache-2.0
/* fuzz: max_len=8192 */
#include "symbol/perfmap.h"

#include <stdlib.h>
#include <string.h>

#include "base/strtab.h"
#include "elf/image.h"

#define NR 16

struct input {
	const uint8_t *data;
	size_t size;
};

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static ssize_t input_read(void *arg, void *dst, size_t len, uint64_t off)
{
	const struct input *input = arg;

	if (off > input->size || len > input->size - off)
		abort();
	memcpy(dst, input->data + off, len);
	return (ssize_t)len;
}

/* An address has the same name whatever else is asked in the same call. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct input input = { data, size };
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
	strtab_free(names);
	return 0;
}
