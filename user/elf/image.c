// SPDX-License-Identifier: Apache-2.0
#include "elf/image.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/file_read.h"
#include "elf/arch.h"

#define WINDOW_BYTES 16384
#define NR_WINDOWS 4
#define MAX_NOTE_BYTES 65536
#define MAX_SECTION_NAME 64 /* of names that callers look for */
#define FEW_SECTIONS 256 /* most files have no more: kept until the image is freed */

struct window {
	uint64_t off;
	uint32_t len; /* 0 = holds nothing */
	uint32_t used; /* elf_image.clock at the last use */
	uint8_t *data;
};

struct elf_image {
	struct elf_source source;
	uint32_t clock;
	uint16_t machine, type;
	uint64_t entry;
	uint16_t shnum, shentsize, shstrndx; /* as in the file header */
	uint64_t shoff;
	bool sections_read;
	int sections_error;
	uint64_t names_off, names_bytes; /* of the sections */
	size_t nr_segments, nr_sections;
	struct elf_segment *segments;
	struct elf_section *sections;
	void *memo;
	struct window windows[NR_WINDOWS];
};

/* The window that holds off, filled if needed; the least recently used one makes room. */
static int window_get(struct elf_image *img, uint64_t off, struct window **ret)
{
	struct window *w, *oldest = &img->windows[0];
	uint64_t start = off - off % WINDOW_BYTES;
	size_t want = WINDOW_BYTES;
	ssize_t got;

	img->clock++;
	for (w = img->windows; w < img->windows + NR_WINDOWS; w++) {
		if (w->len && w->off == start)
			goto found;
		if (img->clock - w->used > img->clock - oldest->used)
			oldest = w;
	}
	w = oldest;
	if (!w->data) {
		w->data = malloc(WINDOW_BYTES);
		if (!w->data)
			return -ENOMEM;
	}
	w->len = 0;
	if (img->source.size - start < want)
		want = img->source.size - start;
	got = img->source.read(img->source.arg, w->data, want, start);
	if (got < 0)
		return (int)got;
	w->off = start;
	w->len = (size_t)got < want ? (uint32_t)got : (uint32_t)want;
found:
	w->used = img->clock;
	*ret = w;
	return 0;
}

int elf_image_read(struct elf_image *img, uint64_t off, void *dst, size_t len)
{
	uint8_t *out = dst;
	struct window *w = NULL;
	size_t skip, part;
	ssize_t got;
	int err;

	if (off > img->source.size || len > img->source.size - off)
		return -EBADMSG;
	if (len >= WINDOW_BYTES) {
		got = img->source.read(img->source.arg, dst, len, off);
		return got < 0 ? (int)got : (size_t)got < len ? -EBADMSG : 0;
	}
	while (len) {
		err = window_get(img, off, &w);
		if (err)
			return err;
		skip = off - w->off;
		if (skip >= w->len) /* the file was truncated meanwhile */
			return -EBADMSG;
		part = w->len - skip < len ? w->len - skip : len;
		memcpy(out, w->data + skip, part);
		out += part;
		off += part;
		len -= part;
	}
	return 0;
}

void elf_image_drop_cache(struct elf_image *img)
{
	struct window *w;

	for (w = img->windows; w < img->windows + NR_WINDOWS; w++) {
		free(w->data);
		*w = (struct window){ 0 };
	}
	if (img->nr_sections > FEW_SECTIONS) {
		free(img->sections);
		img->sections = NULL;
		img->nr_sections = 0;
		img->sections_read = false;
	}
}

size_t elf_image_bytes(const struct elf_image *img)
{
	return img->nr_sections > FEW_SECTIONS ? img->nr_sections * sizeof(*img->sections) : 0;
}

static int header_read(struct elf_image *img, Elf64_Ehdr *eh)
{
	int err;

	if (img->source.size < sizeof(*eh))
		return -ENOEXEC;
	err = elf_image_read(img, 0, eh, sizeof(*eh));
	if (err)
		return err;
	if (memcmp(eh->e_ident, ELFMAG, SELFMAG) || eh->e_ident[EI_CLASS] != ELFCLASS64 ||
	    eh->e_ident[EI_DATA] != ELFDATA2LSB || eh->e_ident[EI_VERSION] != EV_CURRENT)
		return -ENOEXEC;
	if (eh->e_type != ET_EXEC && eh->e_type != ET_DYN)
		return -ENOEXEC;
	if (eh->e_machine != EM_X86_64 && eh->e_machine != EM_AARCH64)
		return -ENOEXEC;
	img->machine = eh->e_machine;
	img->type = eh->e_type;
	img->entry = eh->e_entry;
	img->shoff = eh->e_shoff;
	img->shnum = eh->e_shnum;
	img->shentsize = eh->e_shentsize;
	img->shstrndx = eh->e_shstrndx;
	return 0;
}

static int section_header_read(struct elf_image *img, uint64_t index, Elf64_Shdr *sh)
{
	uint64_t off;

	if (!img->shoff || img->shentsize != sizeof(*sh))
		return -EBADMSG;
	if (__builtin_mul_overflow(index, sizeof(*sh), &off) ||
	    __builtin_add_overflow(off, img->shoff, &off))
		return -EBADMSG;
	return elf_image_read(img, off, sh, sizeof(*sh));
}

static bool segment_valid(const Elf64_Phdr *ph)
{
	uint64_t end;

	if (ph->p_type == PT_LOAD && ph->p_filesz > ph->p_memsz)
		return false;
	return !__builtin_add_overflow(ph->p_offset, ph->p_filesz, &end) &&
	       !__builtin_add_overflow(ph->p_vaddr, ph->p_memsz, &end) &&
	       !__builtin_add_overflow(ph->p_vaddr, ph->p_filesz, &end);
}

static int segments_read(struct elf_image *img, const Elf64_Ehdr *eh)
{
	uint64_t nr = eh->e_phnum, i, off;
	struct elf_segment *seg;
	Elf64_Phdr ph;
	Elf64_Shdr sh;
	int err;

	if (nr == PN_XNUM) { /* gABI: the true number is in sh_info of section 0 */
		err = section_header_read(img, 0, &sh);
		if (err)
			return err;
		nr = sh.sh_info;
	}
	if (!nr)
		return 0;
	if (nr > ELF_IMAGE_MAX_SEGMENTS)
		return -E2BIG;
	if (eh->e_phentsize != sizeof(ph))
		return -EBADMSG;
	img->segments = calloc(nr, sizeof(*img->segments));
	if (!img->segments)
		return -ENOMEM;
	for (i = 0; i < nr; i++) {
		if (__builtin_add_overflow(eh->e_phoff, i * sizeof(ph), &off))
			return -EBADMSG;
		err = elf_image_read(img, off, &ph, sizeof(ph));
		if (err)
			return err;
		if (!segment_valid(&ph))
			return -EBADMSG;
		seg = &img->segments[img->nr_segments++];
		*seg = (struct elf_segment){
			.type = ph.p_type,
			.flags = ph.p_flags,
			.off = ph.p_offset,
			.va = ph.p_vaddr,
			.file_bytes = ph.p_filesz,
			.mem_bytes = ph.p_memsz,
			.align = ph.p_align,
		};
	}
	return 0;
}

int elf_image_new(struct elf_image **ret, const struct elf_source *source)
{
	struct elf_image *img = calloc(1, sizeof(*img));
	Elf64_Ehdr eh;
	int err;

	if (!img) {
		if (source->close)
			source->close(source->arg);
		return -ENOMEM;
	}
	img->source = *source;
	err = header_read(img, &eh);
	if (!err)
		err = segments_read(img, &eh);
	if (err) {
		elf_image_free(img);
		return err;
	}
	*ret = img;
	return 0;
}

void elf_image_free(struct elf_image *img)
{
	if (!img)
		return;
	if (img->source.close)
		img->source.close(img->source.arg);
	elf_image_drop_cache(img);
	free(img->segments);
	free(img->sections);
	free(img->memo);
	free(img);
}

static ssize_t fd_read(void *arg, void *dst, size_t len, uint64_t off)
{
	return file_read_at((int)(intptr_t)arg, dst, len, off);
}

static void fd_close(void *arg)
{
	close((int)(intptr_t)arg);
}

int elf_image_open_fd(struct elf_image **ret, int fd)
{
	struct elf_source source = { .read = fd_read,
				     .close = fd_close,
				     .arg = (void *)(intptr_t)fd };
	struct stat st;
	int err = 0;

	if (fstat(fd, &st))
		err = -errno;
	else if (!S_ISREG(st.st_mode) || st.st_size < 0)
		err = -ENOEXEC;
	if (err) {
		close(fd);
		return err;
	}
	source.size = (uint64_t)st.st_size;
	return elf_image_new(ret, &source);
}

static ssize_t memory_read(void *arg, void *dst, size_t len, uint64_t off)
{
	memcpy(dst, (const char *)arg + off, len);
	return (ssize_t)len;
}

/* elf_image_read() has checked off and len against size before memory_read() is called. */
int elf_image_open_memory(struct elf_image **ret, const void *data, size_t len)
{
	struct elf_source source = { .read = memory_read, .arg = (void *)data, .size = len };

	return elf_image_new(ret, &source);
}

int elf_image_take_memory(struct elf_image **ret, void *data, size_t len)
{
	struct elf_source source = { .read = memory_read, .close = free, .arg = data, .size = len };

	return elf_image_new(ret, &source);
}

void **elf_image_memo(struct elf_image *img)
{
	return &img->memo;
}

uint64_t elf_image_size(const struct elf_image *img)
{
	return img->source.size;
}

uint16_t elf_image_machine(const struct elf_image *img)
{
	return img->machine;
}

bool elf_image_is_native(const struct elf_image *img)
{
	return img->machine == ARCH_MACHINE;
}

bool elf_image_is_loaded(const struct elf_image *img)
{
	return img->source.loaded;
}

uint16_t elf_image_type(const struct elf_image *img)
{
	return img->type;
}

uint64_t elf_image_entry(const struct elf_image *img)
{
	return img->entry;
}

const struct elf_segment *elf_image_segments(const struct elf_image *img, size_t *ret_nr)
{
	*ret_nr = img->nr_segments;
	return img->segments;
}

const struct elf_segment *elf_image_segment(const struct elf_image *img, uint32_t type)
{
	size_t i;

	for (i = 0; i < img->nr_segments; i++)
		if (img->segments[i].type == type)
			return &img->segments[i];
	return NULL;
}

const struct elf_segment *elf_image_segment_at(const struct elf_image *img, uint64_t rva,
					       uint32_t flags)
{
	const struct elf_segment *seg;
	size_t i;

	for (i = 0; i < img->nr_segments; i++) {
		seg = &img->segments[i];
		if (seg->type == PT_LOAD && (seg->flags & flags) == flags && rva >= seg->va &&
		    rva - seg->va < seg->file_bytes)
			return seg;
	}
	return NULL;
}

static uint32_t clamp(uint64_t value)
{
	return value < UINT32_MAX ? (uint32_t)value : UINT32_MAX;
}

/* Finds the number of sections and the place of their names. */
static int sections_count(struct elf_image *img, uint64_t *ret_nr)
{
	uint64_t nr = img->shnum, strndx = img->shstrndx;
	Elf64_Shdr sh;
	int err;

	err = section_header_read(img, 0, &sh);
	if (err)
		return err;
	if (!nr) /* gABI: section 0 has a number that does not fit */
		nr = sh.sh_size;
	if (strndx == SHN_XINDEX)
		strndx = sh.sh_link;
	if (nr > ELF_IMAGE_MAX_SECTIONS)
		return -E2BIG;
	img->names_bytes = 0;
	if (strndx < nr) {
		err = section_header_read(img, strndx, &sh);
		if (err)
			return err;
		if (sh.sh_type == SHT_STRTAB) {
			img->names_off = sh.sh_offset;
			img->names_bytes = sh.sh_size;
		}
	}
	*ret_nr = nr;
	return 0;
}

static int sections_read(struct elf_image *img)
{
	struct elf_section *sections;
	uint64_t nr = 0, i;
	Elf64_Shdr sh;
	int err;

	if (!img->shoff)
		return 0;
	err = sections_count(img, &nr);
	if (err || !nr)
		return err;
	if (nr > img->source.size / sizeof(sh)) /* allocates no more than the file can have */
		return -EBADMSG;
	sections = calloc(nr, sizeof(*sections));
	if (!sections)
		return -ENOMEM;
	for (i = 0; i < nr; i++) {
		err = section_header_read(img, i, &sh);
		if (err) {
			free(sections);
			return err;
		}
		sections[i] = (struct elf_section){
			.type = sh.sh_type,
			.link = sh.sh_link,
			.flags = sh.sh_flags,
			.va = sh.sh_addr,
			.off = sh.sh_offset,
			.bytes = sh.sh_size,
			.entry_bytes = clamp(sh.sh_entsize),
			.align = clamp(sh.sh_addralign),
			.name_off = sh.sh_name,
		};
	}
	img->sections = sections;
	img->nr_sections = nr;
	return 0;
}

const struct elf_section *elf_image_sections(struct elf_image *img, size_t *ret_nr)
{
	if (!img->sections_read) {
		img->sections_read = true;
		img->sections_error = sections_read(img);
	}
	*ret_nr = img->nr_sections;
	return img->sections;
}

int elf_image_sections_error(struct elf_image *img)
{
	size_t nr;

	elf_image_sections(img, &nr);
	return img->sections_error;
}

bool elf_image_section_is(struct elf_image *img, const struct elf_section *sec, const char *name)
{
	size_t len = strlen(name) + 1;
	char text[MAX_SECTION_NAME];
	uint64_t off;

	return len <= sizeof(text) && sec->name_off < img->names_bytes &&
	       len <= img->names_bytes - sec->name_off &&
	       !__builtin_add_overflow(img->names_off, sec->name_off, &off) &&
	       !elf_image_read(img, off, text, len) && !memcmp(text, name, len);
}

const struct elf_section *elf_image_section(struct elf_image *img, const char *name)
{
	const struct elf_section *sections;
	size_t nr, i;

	sections = elf_image_sections(img, &nr);
	for (i = 0; i < nr; i++)
		if (elf_image_section_is(img, &sections[i], name))
			return &sections[i];
	return NULL;
}

/* The segment whose file bytes hold off; executable ones first: data may share a page with code. */
int elf_image_off_to_rva(const struct elf_image *img, uint64_t off, uint64_t *ret_rva)
{
	const struct elf_segment *seg, *best = NULL;
	size_t i;

	for (i = 0; i < img->nr_segments; i++) {
		seg = &img->segments[i];
		if (seg->type != PT_LOAD || off < seg->off || off - seg->off >= seg->file_bytes)
			continue;
		if (!best || (!(best->flags & PF_X) && (seg->flags & PF_X)))
			best = seg;
	}
	if (!best)
		return -ENOENT;
	*ret_rva = best->va + (off - best->off);
	return 0;
}

int elf_image_rva_to_off(const struct elf_image *img, uint64_t rva, uint64_t *ret_off)
{
	const struct elf_segment *seg = elf_image_segment_at(img, rva, 0);

	if (!seg)
		return -ENOENT;
	*ret_off = seg->off + (rva - seg->va);
	return 0;
}

int elf_image_read_rva(struct elf_image *img, uint64_t rva, void *dst, size_t len)
{
	uint64_t off;

	return elf_image_rva_to_off(img, rva, &off) ? -EBADMSG : elf_image_read(img, off, dst, len);
}

static uint64_t align_up(uint64_t value, uint64_t align)
{
	return (value + align - 1) & ~(align - 1);
}

/* The build id among the notes at off, or -ENODATA. Sizes are 32 bits: no sum here overflows. */
static int notes_find_build_id(struct elf_image *img, uint64_t off, uint64_t bytes, uint64_t align,
			       uint8_t id[ELF_BUILD_ID_MAX])
{
	uint64_t pos = 0, desc;
	Elf64_Nhdr nh;
	char name[4];
	int err;

	if (bytes > MAX_NOTE_BYTES)
		bytes = MAX_NOTE_BYTES;
	align = align == 8 ? 8 : 4;
	while (pos + sizeof(nh) <= bytes) {
		if (elf_image_read(img, off + pos, &nh, sizeof(nh)))
			return -ENODATA;
		desc = align_up(pos + sizeof(nh) + nh.n_namesz, align);
		if (desc + nh.n_descsz > bytes)
			return -ENODATA;
		if (nh.n_type == NT_GNU_BUILD_ID && nh.n_namesz == sizeof(name) && nh.n_descsz &&
		    nh.n_descsz <= ELF_BUILD_ID_MAX &&
		    !elf_image_read(img, off + pos + sizeof(nh), name, sizeof(name)) &&
		    !memcmp(name, ELF_NOTE_GNU, sizeof(name))) {
			err = elf_image_read(img, off + desc, id, nh.n_descsz);
			return err ? -ENODATA : (int)nh.n_descsz;
		}
		pos = align_up(desc + nh.n_descsz, align);
	}
	return -ENODATA;
}

int elf_image_build_id(struct elf_image *img, uint8_t id[ELF_BUILD_ID_MAX])
{
	const struct elf_section *sec;
	const struct elf_segment *seg;
	size_t nr, i;
	int len;

	for (i = 0; i < img->nr_segments; i++) {
		seg = &img->segments[i];
		if (seg->type != PT_NOTE)
			continue;
		len = notes_find_build_id(img, seg->off, seg->file_bytes, seg->align, id);
		if (len > 0)
			return len;
	}
	/* Separate debug files keep the section but not always the segment. */
	sec = elf_image_sections(img, &nr);
	for (i = 0; i < nr; i++) {
		if (sec[i].type != SHT_NOTE)
			continue;
		len = notes_find_build_id(img, sec[i].off, sec[i].bytes, sec[i].align, id);
		if (len > 0)
			return len;
	}
	return -ENODATA;
}
