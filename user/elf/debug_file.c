// SPDX-License-Identifier: Apache-2.0
#include "elf/debug_file.h"

#include <elf.h>
#include <errno.h>
#include <limits.h>
#include <lzma.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "elf/image.h"
#include "elf/symbols.h"

#define CHUNK_BYTES 32768

static int decode(struct elf_image *img, const struct elf_section *sec, lzma_stream *xz,
		  struct buf *out)
{
	__cleanup(free_mem) uint8_t *in = malloc(CHUNK_BYTES);
	__cleanup(free_mem) uint8_t *plain = malloc(CHUNK_BYTES);
	uint64_t pos = 0, part;
	lzma_ret status;
	int err;

	if (!in || !plain)
		return -ENOMEM;
	do {
		if (!xz->avail_in && pos < sec->bytes) {
			part = sec->bytes - pos < CHUNK_BYTES ? sec->bytes - pos : CHUNK_BYTES;
			err = elf_image_read(img, sec->off + pos, in, part);
			if (err)
				return err;
			pos += part;
			xz->next_in = in;
			xz->avail_in = part;
		}
		xz->next_out = plain;
		xz->avail_out = CHUNK_BYTES;
		status = lzma_code(xz, pos == sec->bytes ? LZMA_FINISH : LZMA_RUN);
		buf_add(out, plain, CHUNK_BYTES - xz->avail_out);
	} while (status == LZMA_OK && !buf_error(out));
	if (buf_error(out))
		return buf_error(out);
	switch (status) {
	case LZMA_STREAM_END:
		return 0;
	case LZMA_MEM_ERROR:
		return -ENOMEM;
	case LZMA_MEMLIMIT_ERROR:
		return -E2BIG;
	default:
		return -EBADMSG;
	}
}

int debug_data_open(struct elf_image **ret, struct elf_image *img)
{
	const struct elf_section *sec = elf_image_section(img, ".gnu_debugdata");
	lzma_stream xz = LZMA_STREAM_INIT;
	struct buf out;
	size_t len;
	char *data;
	int err;

	if (!sec || sec->type != SHT_PROGBITS)
		return -ENODATA;
	if (sec->bytes > DEBUG_DATA_MAX_INPUT)
		return -E2BIG;
	if (lzma_stream_decoder(&xz, DEBUG_DATA_MAX_DICTIONARY, 0) != LZMA_OK)
		return -ENOMEM;
	buf_init(&out, DEBUG_DATA_MAX_OUTPUT);
	err = decode(img, sec, &xz, &out);
	lzma_end(&xz);
	if (!err) {
		len = out.len;
		data = buf_take(&out);
		err = data ? elf_image_take_memory(ret, data, len) : -ENOMEM;
		if (err == -ENOEXEC)
			err = -EBADMSG;
	}
	buf_fini(&out);
	return err;
}

static bool same_build_id(struct elf_image *a, const uint8_t *id, int len)
{
	uint8_t other[ELF_BUILD_ID_MAX];

	return elf_image_build_id(a, other) == len && !memcmp(other, id, (size_t)len);
}

static bool checksum_matches(struct elf_image *img, uint32_t want)
{
	__cleanup(free_mem) uint8_t *chunk = malloc(CHUNK_BYTES);
	uint64_t size = elf_image_size(img), pos, part;
	uLong crc = crc32(0, NULL, 0);

	if (!chunk || size > DEBUG_LINK_MAX_BYTES)
		return false;
	for (pos = 0; pos < size; pos += part) {
		part = size - pos < CHUNK_BYTES ? size - pos : CHUNK_BYTES;
		if (elf_image_read(img, pos, chunk, part))
			return false;
		crc = crc32(crc, chunk, (uInt)part);
	}
	return (uint32_t)crc == want;
}

static struct elf_image *open_by_build_id(const struct elf_debug_paths *paths, const uint8_t *id,
					  int len)
{
	char path[PATH_MAX], hex[2 * ELF_BUILD_ID_MAX + 1];
	struct elf_image *img;
	int i, n;

	if (!paths->root || len < 2)
		return NULL;
	for (i = 0; i < len; i++)
		snprintf(hex + 2 * i, 3, "%02x", id[i]);
	n = snprintf(path, sizeof(path), "%s/.build-id/%.2s/%s.debug", paths->root, hex, hex + 2);
	if (n < 0 || (size_t)n >= sizeof(path))
		return NULL;
	img = paths->open(paths->arg, path);
	if (img && !same_build_id(img, id, len)) {
		elf_image_free(img);
		img = NULL;
	}
	return img;
}

/* The base name in .gnu_debuglink and the checksum behind it, padded to 4 bytes. */
static int link_read(struct elf_image *img, char name[NAME_MAX + 1], uint32_t *ret_crc)
{
	const struct elf_section *sec = elf_image_section(img, ".gnu_debuglink");
	char data[NAME_MAX + 1 + 8] = { 0 };
	size_t len, crc_at;

	if (!sec || sec->type != SHT_PROGBITS || sec->bytes < 6 || sec->bytes > sizeof(data) ||
	    elf_image_read(img, sec->off, data, sec->bytes))
		return -ENODATA;
	len = strnlen(data, sec->bytes);
	crc_at = (len + 4) & ~(size_t)3;
	if (!len || len > NAME_MAX || crc_at + 4 > sec->bytes)
		return -ENODATA;
	/* The name is the target's: it must not lead out of the folders that are searched. */
	if (memchr(data, '/', len) || !strcmp(data, ".") || !strcmp(data, ".."))
		return -ENODATA;
	memcpy(name, data, len + 1);
	memcpy(ret_crc, data + crc_at, 4);
	return 0;
}

static struct elf_image *open_by_link(struct elf_image *img, const struct elf_debug_paths *paths,
				      const uint8_t *id, int id_len)
{
	const struct {
		const char *root, *dir, *sub;
	} places[] = {
		{ "", paths->dir, "" },
		{ "", paths->dir, "/.debug" },
		{ paths->root, paths->dir, "" },
	};
	char name[NAME_MAX + 1], path[PATH_MAX];
	struct elf_image *debug;
	uint32_t crc;
	size_t i;
	int n;

	if (!paths->dir || link_read(img, name, &crc))
		return NULL;
	for (i = 0; i < sizeof(places) / sizeof(places[0]); i++) {
		if (!places[i].root)
			continue;
		n = snprintf(path, sizeof(path), "%s%s%s%s/%s", places[i].root,
			     *places[i].root && *places[i].dir != '/' ? "/" : "", places[i].dir,
			     places[i].sub, name);
		if (n < 0 || (size_t)n >= sizeof(path))
			continue;
		debug = paths->open(paths->arg, path);
		if (!debug)
			continue;
		if (id_len > 0 ? same_build_id(debug, id, id_len) : checksum_matches(debug, crc))
			return debug;
		elf_image_free(debug);
	}
	return NULL;
}

int debug_file_open(struct elf_image **ret, struct elf_image *img,
		    const struct elf_debug_paths *paths)
{
	uint8_t id[ELF_BUILD_ID_MAX];
	struct elf_image *debug = NULL;
	int len = elf_image_build_id(img, id);

	if (len > 0)
		debug = open_by_build_id(paths, id, len);
	if (!debug)
		debug = open_by_link(img, paths, id, len);
	if (!debug)
		return -ENODATA;
	*ret = debug;
	return 0;
}
