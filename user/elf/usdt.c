// SPDX-License-Identifier: Apache-2.0
#include "elf/usdt.h"

#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "elf/image.h"

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))
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

static const char *const registers[][4] = {
	{ "rax", "eax", "ax", "al" },	   { "rcx", "ecx", "cx", "cl" },
	{ "rdx", "edx", "dx", "dl" },	   { "rbx", "ebx", "bx", "bl" },
	{ "rsp", "esp", "sp", "spl" },	   { "rbp", "ebp", "bp", "bpl" },
	{ "rsi", "esi", "si", "sil" },	   { "rdi", "edi", "di", "dil" },
	{ "r8", "r8d", "r8w", "r8b" },	   { "r9", "r9d", "r9w", "r9b" },
	{ "r10", "r10d", "r10w", "r10b" }, { "r11", "r11d", "r11w", "r11b" },
	{ "r12", "r12d", "r12w", "r12b" }, { "r13", "r13d", "r13w", "r13b" },
	{ "r14", "r14d", "r14w", "r14b" }, { "r15", "r15d", "r15w", "r15b" },
};

/* The number of the register, by a name of any width or (wide) of 8 bytes only; -1: none. */
static int register_find(const char *name, size_t len, bool wide)
{
	size_t i, k;

	for (i = 0; i < ARRAY_SIZE(registers); i++)
		for (k = 0; k < (wide ? 1 : ARRAY_SIZE(registers[i])); k++)
			if (strlen(registers[i][k]) == len && !memcmp(registers[i][k], name, len))
				return (int)i;
	return -1;
}

/* Takes an integer, 0 if there is none. False: it is more than max. */
static bool number_take(const char **at, uint64_t max, int64_t *ret)
{
	bool negative = **at == '-';
	uint64_t value = 0, digit;

	*at += negative;
	for (; **at >= '0' && **at <= '9'; ++*at) {
		digit = (uint64_t)(**at - '0');
		if (value > (max - digit) / 10)
			return false;
		value = value * 10 + digit;
	}
	*ret = (int64_t)(negative ? -value : value);
	return true;
}

/* Extends a number of so many bytes to 64 bits. */
static int64_t extend(int64_t value, unsigned int bytes, bool is_signed)
{
	unsigned int unused = 64 - bytes * 8;
	uint64_t high = (uint64_t)value << unused;

	return is_signed ? (int64_t)high >> unused : (int64_t)(high >> unused);
}

/* "$2" or "$-1", len characters of it; ret has its bytes. */
static int constant_parse(const char *text, size_t len, bool is_signed, struct usdt_argument *ret)
{
	const char *at = text + 1;
	int64_t value;

	if (len < 2 || (len == 2 && *at == '-') || !number_take(&at, INT64_MAX, &value) ||
	    at != text + len)
		return -ENOTSUP;
	ret->kind = USDT_CONSTANT;
	ret->off = extend(value, ret->bytes, is_signed);
	return 0;
}

/* "%rax" or "-104(%rbp)", len characters of it. */
static int operand_parse(const char *text, size_t len, struct usdt_argument *ret)
{
	const char *at = text, *end = text + len;
	bool memory = *at != '%';
	int64_t off = 0;
	int reg;

	if (memory && (!number_take(&at, INT32_MAX, &off) || at >= end || *at++ != '('))
		return -ENOTSUP;
	if (at >= end || *at++ != '%')
		return -ENOTSUP;
	if (memory && (end - at < 2 || *--end != ')'))
		return -ENOTSUP;
	reg = register_find(at, (size_t)(end - at), memory);
	if (reg < 0)
		return -ENOTSUP;
	ret->kind = memory ? USDT_MEMORY : USDT_REGISTER;
	ret->reg = (uint8_t)reg;
	ret->off = off;
	return 0;
}

/* The text of the argument of that number, and its length; NULL: there is none. */
static const char *argument_find(const char *arguments, unsigned int nr, size_t *ret_len)
{
	const char *at = arguments;

	for (;; nr--) {
		at += strspn(at, " ");
		*ret_len = strcspn(at, " ");
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
	err = *operand == '$' ? constant_parse(operand, len, is_signed, &argument)
			      : operand_parse(operand, len, &argument);
	if (!err)
		*ret = argument;
	return err;
}
