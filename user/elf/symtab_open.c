// SPDX-License-Identifier: Apache-2.0
/* Finds the symbol tables of an image. */
#include "elf/symtab.h"

#include <elf.h>
#include <errno.h>

#include "elf/dynamic.h"
#include "elf/image.h"

/* gABI 5, "Hash Table": nchain is the number of symbols. */
static int count_by_hash(struct elf_image *img, uint64_t va, uint64_t *ret)
{
	uint32_t head[2];
	int err = elf_image_read_rva(img, va, head, sizeof(head));

	if (!err)
		*ret = head[1];
	return err;
}

/* .gnu.hash: the chain of the highest bucket ends, by its lowest bit, with the last symbol. */
static int count_by_gnu_hash(struct elf_image *img, uint64_t va, uint64_t *ret)
{
	uint32_t head[4], bucket, last = 0, i;
	uint64_t buckets;
	int err = elf_image_read_rva(img, va, head, sizeof(head));

	if (err)
		return err;
	if (head[0] > SYMTAB_MAX_SYMBOLS || head[2] > SYMTAB_MAX_SYMBOLS)
		return -E2BIG;
	buckets = va + sizeof(head) + (uint64_t)head[2] * 8;
	for (i = 0; i < head[0]; i++) {
		err = elf_image_read_rva(img, buckets + (uint64_t)i * 4, &bucket, sizeof(bucket));
		if (err)
			return err;
		if (bucket > last)
			last = bucket;
	}
	if (last < head[1]) { /* nothing is exported */
		*ret = head[1];
		return 0;
	}
	va = buckets + (uint64_t)head[0] * 4;
	for (i = last; i < SYMTAB_MAX_SYMBOLS; i++) {
		err = elf_image_read_rva(img, va + (uint64_t)(i - head[1]) * 4, &bucket,
					 sizeof(bucket));
		if (err)
			return err;
		if (bucket & 1) {
			*ret = (uint64_t)i + 1;
			return 0;
		}
	}
	return -E2BIG;
}

/* An image without section headers (stripped, or read from memory): the loader's tables. */
static int open_dynamic(struct symtab *ret, struct elf_image *img)
{
	struct elf_dynamic dyn;
	int err = elf_dynamic_read(&dyn, img);

	if (err)
		return err;
	if (!dyn.tags[DT_SYMTAB] || !dyn.tags[DT_STRTAB] || (!dyn.tags[DT_HASH] && !dyn.gnu_hash))
		return -ENODATA;
	err = dyn.tags[DT_HASH] ? count_by_hash(img, dyn.tags[DT_HASH], &ret->nr)
				: count_by_gnu_hash(img, dyn.gnu_hash, &ret->nr);
	if (err)
		return err;
	ret->strings_bytes = dyn.tags[DT_STRSZ];
	if (elf_image_rva_to_off(img, dyn.tags[DT_SYMTAB], &ret->off) ||
	    elf_image_rva_to_off(img, dyn.tags[DT_STRTAB], &ret->strings_off))
		return -EBADMSG;
	return 0;
}

static int open_section(struct symtab *ret, struct elf_image *img, uint32_t type)
{
	const struct elf_section *sec, *strings;
	size_t nr, i;

	sec = elf_image_sections(img, &nr);
	for (i = 0; i < nr && sec[i].type != type; i++)
		;
	if (i == nr)
		return -ENODATA;
	if (sec[i].entry_bytes != sizeof(Elf64_Sym) || sec[i].link >= nr)
		return -EBADMSG;
	strings = &sec[sec[i].link];
	if (strings->type != SHT_STRTAB)
		return -EBADMSG;
	ret->off = sec[i].off;
	ret->nr = sec[i].bytes / sizeof(Elf64_Sym);
	ret->strings_off = strings->off;
	ret->strings_bytes = strings->bytes;
	return 0;
}

int symtab_open(struct symtab *ret, struct elf_image *img, uint32_t type)
{
	struct symtab tab = { .img = img, .partial = type == SHT_DYNSYM };
	uint64_t end;
	size_t nr;
	int err;

	elf_image_sections(img, &nr);
	if (nr)
		err = open_section(&tab, img, type);
	else
		err = type == SHT_DYNSYM ? open_dynamic(&tab, img) : -ENODATA;
	if (err)
		return err;
	if (tab.nr > SYMTAB_MAX_SYMBOLS)
		return -E2BIG;
	if (__builtin_add_overflow(tab.off, tab.nr * sizeof(Elf64_Sym), &end) ||
	    __builtin_add_overflow(tab.strings_off, tab.strings_bytes, &end))
		return -EBADMSG;
	*ret = tab;
	return 0;
}
