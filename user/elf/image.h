/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_ELF_IMAGE_H
#define BPFPROF_ELF_IMAGE_H

/*
 * Room elf: reads headers, sections and symbols of ELF files, and trusts none of them.
 *
 * One ELF file, read by bounded preads: never mapped (a tenant that truncates the file would kill us
 * by SIGBUS), and nothing in it is trusted. elf_image_new() checks and keeps the headers; everything
 * else is read on demand. 64-bit little-endian x86-64 (and AArch64) only.
 * Errors: -ENOEXEC not such an ELF file, -EBADMSG malformed or truncated, -E2BIG over our limits, -EIO
 * and others from the source. Not thread-safe.
 * Reference: System V gABI chapters 4 and 5; LSB for .gnu_* sections.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define ELF_IMAGE_MAX_SEGMENTS 64
#define ELF_IMAGE_MAX_SECTIONS (1U << 17) /* 7 MiB; a linker may keep one for each function */
#define ELF_BUILD_ID_MAX 64

/* The source of the bytes; read returns the number of bytes read (fewer at the end) or -errno. */
struct elf_source {
	ssize_t (*read)(void *arg, void *dst, size_t len, uint64_t off);
	void (*close)(void *arg); /* NULL is fine */
	void *arg;
	uint64_t size;
	bool loaded; /* the memory of a process: what is read costs time and room */
};

struct elf_segment { /* program header */
	uint32_t type;
	uint32_t flags;
	uint64_t off;
	uint64_t va; /* image-relative address, as in the file */
	uint64_t file_bytes;
	uint64_t mem_bytes;
	uint64_t align;
};

struct elf_section {
	uint32_t type;
	uint32_t link;
	uint64_t flags;
	uint64_t va;
	uint64_t off;
	uint64_t bytes;
	uint32_t entry_bytes, align; /* UINT32_MAX: that much or more */
	uint32_t name_off; /* see elf_image_section_is() */
};

struct elf_image;

/* The image owns the source from here on, also when this fails. */
int elf_image_new(struct elf_image **ret, const struct elf_source *source);
int elf_image_open_fd(struct elf_image **ret,
		      int fd); /* takes fd; regular files only, else -ENOEXEC */
int elf_image_open_memory(struct elf_image **ret, const void *data, size_t len); /* borrows data */
int elf_image_take_memory(struct elf_image **ret, void *data,
			  size_t len); /* frees data, in any case */
void elf_image_free(struct elf_image *img);

/*
 * Reads exactly len bytes at off: 0, or -EBADMSG past the end. Small reads go through a few cached
 * windows (64 KiB in all at most, allocated on first use).
 */
int elf_image_read(struct elf_image *img, uint64_t off, void *dst, size_t len);
/* Frees windows and very many section headers; pointers to these end. */
void elf_image_drop_cache(struct elf_image *img);
size_t elf_image_bytes(const struct elf_image *img); /* of section headers that it would free */
uint64_t elf_image_size(const struct elf_image *img);
uint16_t elf_image_machine(const struct elf_image *img); /* EM_* */
bool elf_image_is_native(
	const struct elf_image *img); /* is it for the CPU of the build (elf/arch.h)? */
bool elf_image_is_loaded(const struct elf_image *img); /* elf_source.loaded */
uint16_t elf_image_type(const struct elf_image *img); /* ET_EXEC or ET_DYN */
/* The entry point if the file is a program (elf/program_entry.h); 0: there is none. */
uint64_t elf_image_entry(const struct elf_image *img);

const struct elf_segment *elf_image_segments(const struct elf_image *img, size_t *ret_nr);
/* The first segment of this type (PT_*), or NULL. */
const struct elf_segment *elf_image_segment(const struct elf_image *img, uint32_t type);
/* The first PT_LOAD segment with all of flags (PF_*) that has rva in the file, or NULL. */
const struct elf_segment *elf_image_segment_at(const struct elf_image *img, uint64_t rva,
					       uint32_t flags);
/* The first call reads section headers; 0 sections if the file has none or they are malformed. */
const struct elf_section *elf_image_sections(struct elf_image *img, size_t *ret_nr);
/* The error of reading section headers: 0, -EBADMSG, -E2BIG, -ENOMEM or that of the source. */
int elf_image_sections_error(struct elf_image *img);
bool elf_image_section_is(struct elf_image *img, const struct elf_section *sec, const char *name);
const struct elf_section *elf_image_section(struct elf_image *img, const char *name);

/* File offset to image-relative address and back, by PT_LOAD. -ENOENT outside of all segments. */
int elf_image_off_to_rva(const struct elf_image *img, uint64_t off, uint64_t *ret_rva);
int elf_image_rva_to_off(const struct elf_image *img, uint64_t rva, uint64_t *ret_off);
/* elf_image_read() at an image-relative address: -EBADMSG also outside of all segments. */
int elf_image_read_rva(struct elf_image *img, uint64_t rva, void *dst, size_t len);

/* A place for one other module to keep facts about the file: allocated memory, freed with the image. */
void **elf_image_memo(struct elf_image *img);

/* Length of the GNU build id copied to id, -ENODATA without one. */
int elf_image_build_id(struct elf_image *img, uint8_t id[ELF_BUILD_ID_MAX]);

#endif
