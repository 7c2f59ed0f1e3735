// SPDX-License-Identifier: Apache-2.0
#include "elf/usdt.h"

#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "elf/image.h"
#include "elf/usdt_operand.h"

#define NOTE_OWNER "stapsdt"
#define NOTE_TYPE 3
#define ADDRESSES 3 /* of the probe, of .stapsdt.base when it was linked, of the semaphore */
#define SEMAPHORE_BYTES 2

struct notes {
	const char *at;
	size_t left;
};

struct note {
	uint64_t va[ADDRESSES];
	const char *provider, *name, *arguments; /* each ends by a NUL */
};

static size_t padded(size_t bytes)
{
	return (bytes + 3) & ~(size_t)3;
}

/* Takes bytes and their padding. NULL: there are not as many. */
static const char *bytes_take(struct notes *notes, size_t bytes)
{
	const char *at = notes->at;
	size_t all = padded(bytes);

	if (bytes > notes->left)
		return NULL;
	if (all > notes->left) /* the last note may have no padding */
		all = notes->left;
	notes->at += all;
	notes->left -= all;
	return at;
}

static const char *text_take(struct notes *desc)
{
	size_t len = strnlen(desc->at, desc->left);
	const char *at = desc->at;

	if (len == desc->left)
		return NULL;
	desc->at += len + 1;
	desc->left -= len + 1;
	return at;
}

/* False: it is broken. */
static bool desc_parse(struct notes *desc, struct note *ret)
{
	if (desc->left < sizeof(ret->va))
		return false;
	memcpy(ret->va, desc->at, sizeof(ret->va));
	desc->at += sizeof(ret->va);
	desc->left -= sizeof(ret->va);
	ret->provider = text_take(desc);
	ret->name = ret->provider ? text_take(desc) : NULL;
	ret->arguments = ret->name ? text_take(desc) : NULL;
	return ret->arguments;
}

/* 1: *ret is a note of a probe; 0: it is another note; -EBADMSG. */
static int note_take(struct notes *notes, struct note *ret)
{
	const char *header = bytes_take(notes, sizeof(Elf64_Nhdr)), *owner;
	struct notes desc;
	Elf64_Nhdr nh;

	if (!header)
		return -EBADMSG;
	memcpy(&nh, header, sizeof(nh));
	owner = bytes_take(notes, nh.n_namesz);
	desc.left = nh.n_descsz;
	desc.at = owner ? bytes_take(notes, nh.n_descsz) : NULL;
	if (!desc.at)
		return -EBADMSG;
	return nh.n_type == NOTE_TYPE && nh.n_namesz == sizeof(NOTE_OWNER) &&
	       !memcmp(owner, NOTE_OWNER, sizeof(NOTE_OWNER)) && desc_parse(&desc, ret);
}

/* The file offset of bytes at an address, in a segment with that flag; 0: there is none. */
static uint64_t place(const struct elf_image *img, uint64_t va, uint64_t bytes, uint32_t flag)
{
	const struct elf_segment *seg = elf_image_segment_at(img, va, flag);

	return seg && seg->file_bytes - (va - seg->va) >= bytes ? seg->off + (va - seg->va) : 0;
}

/* The text with its NUL. False: there is no room. */
static bool text_copy(char *dst, size_t cap, const char *text)
{
	size_t len = strlen(text);

	if (len >= cap)
		return false;
	memcpy(dst, text, len + 1);
	return true;
}

static bool probe_fill(struct elf_image *img, const struct note *note, struct usdt_probe *ret)
{
	const struct elf_section *base = elf_image_section(img, ".stapsdt.base");
	uint64_t moved = base && note->va[1] ? base->va - note->va[1] : 0; /* prelink */

	*ret = (struct usdt_probe){ .off = place(img, note->va[0] + moved, 1, PF_X) };
	if (note->va[2])
		ret->semaphore_off = place(img, note->va[2] + moved, SEMAPHORE_BYTES, PF_W);
	if (!ret->off || ret->off >= elf_image_size(img) ||
	    ret->semaphore_off >= elf_image_size(img))
		return false;
	if (note->va[2] && (!ret->semaphore_off || ret->semaphore_off % SEMAPHORE_BYTES))
		return false;
	return text_copy(ret->name, sizeof(ret->name), note->name) &&
	       text_copy(ret->arguments, sizeof(ret->arguments), note->arguments);
}

int usdt_find(struct elf_image *img, const char *provider, struct usdt_probe *probes, size_t cap,
	      size_t *ret_nr)
{
	const struct elf_section *section = elf_image_section(img, ".note.stapsdt");
	__cleanup(free_mem) char *bytes = NULL;
	struct notes notes;
	struct note note;
	size_t nr = 0;
	int err;

	if (!section || section->type != SHT_NOTE || !section->bytes)
		return -ENODATA;
	if (section->bytes > USDT_NOTES_BYTES)
		return -E2BIG;
	bytes = malloc(section->bytes);
	if (!bytes)
		return -ENOMEM;
	err = elf_image_read(img, section->off, bytes, section->bytes);
	if (err)
		return err;
	notes = (struct notes){ .at = bytes, .left = section->bytes };
	while (notes.left && nr < cap) {
		err = note_take(&notes, &note);
		if (err < 0)
			return err;
		if (err && !strcmp(note.provider, provider))
			nr += probe_fill(img, &note, &probes[nr]);
	}
	if (!nr)
		return -ENODATA;
	*ret_nr = nr;
	return 0;
}

/* Extends a number of so many bytes to 64 bits. */
static int64_t extend(int64_t value, unsigned int bytes, bool is_signed)
{
	unsigned int unused = 64 - bytes * 8;
	uint64_t high = (uint64_t)value << unused;

	return is_signed ? (int64_t)high >> unused : (int64_t)(high >> unused);
}

/* The text of the argument of that number, and its length; NULL: there is none. */
static const char *argument_find(const char *arguments, unsigned int nr, size_t *ret_len)
{
	const char *at = arguments;

	for (;; nr--) {
		at += strspn(at, " ");
		*ret_len = usdt_operand_len(at);
		if (!*ret_len)
			return NULL;
		if (nr <= 1)
			return at;
		at += *ret_len;
	}
}

int usdt_argument(const char *arguments, unsigned int nr, struct usdt_argument *ret)
{
	struct usdt_argument argument = { .bytes = 0 };
	size_t len;
	const char *at = nr ? argument_find(arguments, nr, &len) : NULL, *end, *operand;
	bool is_signed;
	int err;

	if (!at)
		return -ENOENT;
	end = at + len;
	operand = memchr(at, '@', len);
	if (!operand)
		return -ENOTSUP;
	is_signed = *at == '-';
	at += is_signed;
	if (operand != at + 1 || !strchr("1248", *at))
		return -ENOTSUP;
	argument.bytes = (uint8_t)(*at - '0');
	operand++;
	len = (size_t)(end - operand);
	err = usdt_operand_parse(operand, len, &argument);
	if (err)
		return err;
	if (argument.kind == USDT_CONSTANT)
		argument.off = extend(argument.off, argument.bytes, is_signed);
	*ret = argument;
	return 0;
}
