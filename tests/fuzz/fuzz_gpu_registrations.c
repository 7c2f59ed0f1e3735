// SPDX-License-Identifier: Apache-2.0
/* fuzz: max_len=65536 */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/time.h"
#include "cuda/code_function.h"
#include "cuda/kernel_names.h"
#include "cuda/registrations.h"
#include "elf/image.h"

#define MAX_ASKED 32

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_registrations(struct elf_image *img)
{
	struct registrations_reader *reader;
	struct registrations regs = { 0 };
	size_t i;
	int err;

	if (registrations_reader_new(&reader))
		return;
	do
		err = registrations_read(reader, img, 0, &regs);
	while (err == -ETIME);
	if (err && (regs.nr || regs.kernels))
		abort();
	for (i = 0; i < regs.nr; i++)
		if ((i && regs.kernels[i].host <= regs.kernels[i - 1].host) ||
		    registrations_find(&regs, regs.kernels[i].host) != i)
			abort();
	for (i = 0; i < regs.nr_words; i++)
		if (regs.words[i].what >= regs.nr)
			abort();
	registrations_fini(&regs);
	registrations_reader_free(reader);
}

static void check_name(const char *name)
{
	size_t len = strnlen(name, REGISTRATIONS_MAX_NAME + 1), i;

	if (!len || len > REGISTRATIONS_MAX_NAME)
		abort();
	for (i = 0; i < len; i++)
		if (name[i] <= ' ' || name[i] > '~')
			abort();
}

/* An ELF file: what it registers, and what all that looks like a call launches. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct kernel_walk walk = { 0 };
	struct kernel_names *names;
	struct elf_image *img;
	uint32_t nr_asked = 0;
	const char *name;
	uint64_t rva;
	size_t i;
	int err;

	if (elf_image_open_memory(&img, data, size))
		return 0;
	if (kernel_names_new(&names))
		abort();
	check_registrations(img);
	for (i = 0; i + 5 <= size && nr_asked < MAX_ASKED; i++) {
		if ((data[i] != 0xe8 && data[i] != 0xff) || elf_image_off_to_rva(img, i, &rva))
			continue;
		nr_asked++;
		err = kernel_names_find(names, 1, img, rva + (data[i] == 0xe8 ? 5 : 6), UINT64_MAX,
					&walk, &name);
		if (!err)
			check_name(name);
		if (walk.argument >= CODE_NR_ARGUMENTS || (err && err != -ENOENT))
			walk = (struct kernel_walk){ 0 };
	}
	kernel_names_free(names);
	elf_image_free(img);
	return 0;
}
