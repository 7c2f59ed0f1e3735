// SPDX-License-Identifier: Apache-2.0
#include "elf/image.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <gelf.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "test_elf_fixture.h"

/* A small valid file that the tests below break: ELF header, 2 program headers, notes, sections. */
struct tiny {
	Elf64_Ehdr eh;
	Elf64_Phdr ph[2];
	struct {
		Elf64_Nhdr nh;
		char name[4];
		uint8_t id[20];
	} note;
	char strings[32];
	uint32_t pad;
	Elf64_Shdr sh[3];
};

static struct tiny tiny_make(void)
{
	struct tiny t = { 0 };
	int i;

	memcpy(t.eh.e_ident, ELFMAG, SELFMAG);
	t.eh.e_ident[EI_CLASS] = ELFCLASS64;
	t.eh.e_ident[EI_DATA] = ELFDATA2LSB;
	t.eh.e_ident[EI_VERSION] = EV_CURRENT;
	t.eh.e_type = ET_DYN;
	t.eh.e_machine = EM_X86_64;
	t.eh.e_phoff = offsetof(struct tiny, ph);
	t.eh.e_phentsize = sizeof(Elf64_Phdr);
	t.eh.e_phnum = 2;
	t.eh.e_shoff = offsetof(struct tiny, sh);
	t.eh.e_shentsize = sizeof(Elf64_Shdr);
	t.eh.e_shnum = 3;
	t.eh.e_shstrndx = 1;
	t.ph[0] = (Elf64_Phdr){ .p_type = PT_LOAD,
				.p_flags = PF_R | PF_X,
				.p_vaddr = 0x400000,
				.p_filesz = sizeof(t),
				.p_memsz = sizeof(t) };
	t.ph[1] = (Elf64_Phdr){ .p_type = PT_NOTE,
				.p_offset = offsetof(struct tiny, note),
				.p_filesz = sizeof(t.note),
				.p_memsz = sizeof(t.note),
				.p_align = 4 };
	t.note.nh = (Elf64_Nhdr){ .n_namesz = 4, .n_descsz = 20, .n_type = NT_GNU_BUILD_ID };
	memcpy(t.note.name, "GNU", 4);
	for (i = 0; i < 20; i++)
		t.note.id[i] = (uint8_t)(i + 1);
	memcpy(t.strings, "\0.shstrtab\0.note.gnu.build-id", 30);
	t.sh[1] = (Elf64_Shdr){ .sh_name = 1,
				.sh_type = SHT_STRTAB,
				.sh_offset = offsetof(struct tiny, strings),
				.sh_size = sizeof(t.strings) };
	t.sh[2] = (Elf64_Shdr){ .sh_name = 11,
				.sh_type = SHT_NOTE,
				.sh_offset = offsetof(struct tiny, note),
				.sh_size = sizeof(t.note),
				.sh_addralign = 4 };
	return t;
}

Test(elf_image, tiny_is_valid)
{
	struct tiny t = tiny_make();
	struct elf_image *img;
	uint8_t id[ELF_BUILD_ID_MAX];
	size_t nr;

	cr_assert_eq(elf_image_open_memory(&img, &t, sizeof(t)), 0);
	cr_assert(elf_image_segments(img, &nr) && nr == 2);
	cr_assert(elf_image_sections(img, &nr) && nr == 3);
	cr_assert_not_null(elf_image_section(img, ".note.gnu.build-id"));
	cr_assert_eq(elf_image_build_id(img, id), 20);
	cr_assert_arr_eq(id, t.note.id, 20);
	elf_image_free(img);
}

struct bad_case {
	char name[40];
	int offset; /* of the field */
	int bytes; /* its width */
	uint64_t value;
	int want;
};

#define EH(field)                                                                                  \
	(int)(offsetof(struct tiny, eh) + offsetof(Elf64_Ehdr, field)),                            \
		(int)sizeof(((Elf64_Ehdr *)0)->field)
#define PH(field)                                                                                  \
	(int)(offsetof(struct tiny, ph) + offsetof(Elf64_Phdr, field)),                            \
		(int)sizeof(((Elf64_Phdr *)0)->field)

static struct bad_case bad_cases[] = {
	{ "magic", 0, 1, 'E', -ENOEXEC },
	{ "32 bits", EI_CLASS, 1, ELFCLASS32, -ENOEXEC },
	{ "big endian", EI_DATA, 1, ELFDATA2MSB, -ENOEXEC },
	{ "version", EI_VERSION, 1, 2, -ENOEXEC },
	{ "relocatable", EH(e_type), ET_REL, -ENOEXEC },
	{ "core", EH(e_type), ET_CORE, -ENOEXEC },
	{ "machine", EH(e_machine), EM_386, -ENOEXEC },
	{ "AArch64 is fine", EH(e_machine), EM_AARCH64, 0 },
	{ "no segments is fine", EH(e_phnum), 0, 0 },
	{ "segments past the end", EH(e_phoff), sizeof(struct tiny) - 57, -EBADMSG },
	{ "segments' offset overflows", EH(e_phoff), UINT64_MAX - 8, -EBADMSG },
	{ "segment entry size", EH(e_phentsize), 55, -EBADMSG },
	{ "too many segments", EH(e_phnum), ELF_IMAGE_MAX_SEGMENTS + 1, -E2BIG },
	{ "extended count 0", EH(e_phnum), PN_XNUM, 0 },
	{ "more in the file than in memory", PH(p_filesz), sizeof(struct tiny) + 1, -EBADMSG },
	{ "segment offset overflows", PH(p_offset), UINT64_MAX - 1, -EBADMSG },
	{ "segment va overflows", PH(p_vaddr), UINT64_MAX - 1, -EBADMSG },
	{ "segment bigger than the file", PH(p_memsz), 1ULL << 40, 0 },
};

ParameterizedTestParameters(elf_image, broken_header)
{
	return cr_make_param_array(struct bad_case, bad_cases,
				   sizeof(bad_cases) / sizeof(bad_cases[0]));
}

ParameterizedTest(struct bad_case *c, elf_image, broken_header)
{
	struct tiny t = tiny_make();
	struct elf_image *img = NULL;
	int err;

	memcpy((char *)&t + c->offset, &c->value, (size_t)c->bytes);
	err = elf_image_open_memory(&img, &t, sizeof(t));
	cr_assert_eq(err, c->want, "%s: %d, not %d", c->name, err, c->want);
	cr_assert(!err == !!img, "%s: output touched", c->name);
	elf_image_free(img);
}

Test(elf_image, every_truncation_is_refused_or_bounded)
{
	struct tiny t = tiny_make(), *copy;
	struct elf_image *img;
	uint8_t id[ELF_BUILD_ID_MAX];
	size_t len, nr;
	int err;

	for (len = 0; len < sizeof(t); len++) {
		copy = malloc(len ? len : 1); /* exact size: ASan sees one byte too many */
		memcpy(copy, &t, len);
		err = elf_image_open_memory(&img, copy, len);
		if (len < sizeof(Elf64_Ehdr))
			cr_assert_eq(err, -ENOEXEC);
		else if (len < offsetof(struct tiny, note))
			cr_assert_eq(err, -EBADMSG);
		else
			cr_assert_eq(err, 0);
		if (!err) {
			elf_image_sections(img, &nr);
			cr_assert_eq(nr, 0); /* the last header is cut */
			err = elf_image_build_id(img, id);
			cr_assert_eq(err, len < offsetof(struct tiny, strings) ? -ENODATA : 20);
			elf_image_free(img);
		}
		free(copy);
	}
}

Test(elf_image, extended_numbering)
{
	struct tiny t = tiny_make();
	struct elf_image *img;
	size_t nr;

	t.eh.e_phnum = PN_XNUM;
	t.sh[0].sh_info = 2;
	t.eh.e_shnum = 0;
	t.sh[0].sh_size = 3;
	t.eh.e_shstrndx = SHN_XINDEX;
	t.sh[0].sh_link = 1;
	cr_assert_eq(elf_image_open_memory(&img, &t, sizeof(t)), 0);
	cr_assert(elf_image_segments(img, &nr) && nr == 2);
	cr_assert_not_null(elf_image_section(img, ".note.gnu.build-id"));
	elf_image_free(img);

	t.sh[0].sh_size = ELF_IMAGE_MAX_SECTIONS + 1;
	cr_assert_eq(elf_image_open_memory(&img, &t, sizeof(t)), 0);
	elf_image_sections(img, &nr);
	cr_assert_eq(nr, 0);
	cr_assert_eq(elf_image_sections_error(img), -E2BIG);
	elf_image_free(img);
	/* No memory for what the file does not have. */
	t.sh[0].sh_size = ELF_IMAGE_MAX_SECTIONS;
	cr_assert_eq(elf_image_open_memory(&img, &t, sizeof(t)), 0);
	cr_assert_eq(elf_image_sections_error(img), -EBADMSG);
	elf_image_free(img);
	t.eh.e_shoff = 0;
	t.eh.e_phnum = 2;
	cr_assert_eq(elf_image_open_memory(&img, &t, sizeof(t)), 0);
	cr_assert_eq(elf_image_sections_error(img), 0);
	elf_image_free(img);
	t.eh.e_shoff = offsetof(struct tiny, sh);
	t.eh.e_phnum = PN_XNUM;
	t.sh[0].sh_info = UINT32_MAX;
	cr_assert_eq(elf_image_open_memory(&img, &t, sizeof(t)), -E2BIG);
}

static int build_id_of(const struct tiny *t)
{
	uint8_t id[ELF_BUILD_ID_MAX];
	struct elf_image *img;
	int len;

	cr_assert_eq(elf_image_open_memory(&img, t, sizeof(*t)), 0);
	len = elf_image_build_id(img, id);
	elf_image_free(img);
	return len;
}

Test(elf_image, hostile_notes)
{
	struct tiny t = tiny_make();

	t.ph[1].p_type = PT_NULL; /* the section is the second way */
	cr_assert_eq(build_id_of(&t), 20);
	t = tiny_make();
	t.note.nh.n_descsz = 21; /* past the end of the notes */
	cr_assert_eq(build_id_of(&t), -ENODATA);
	t.note.nh.n_descsz = UINT32_MAX;
	cr_assert_eq(build_id_of(&t), -ENODATA);
	t = tiny_make();
	t.note.nh.n_namesz = UINT32_MAX;
	cr_assert_eq(build_id_of(&t), -ENODATA);
	t = tiny_make();
	t.note.nh.n_type = NT_GNU_ABI_TAG;
	cr_assert_eq(build_id_of(&t), -ENODATA);
	t = tiny_make();
	t.note.name[0] = 'g';
	cr_assert_eq(build_id_of(&t), -ENODATA);
	t = tiny_make();
	t.note.nh.n_descsz = ELF_BUILD_ID_MAX + 4;
	t.ph[1].p_filesz = t.sh[2].sh_size = 200;
	cr_assert_eq(build_id_of(&t), -ENODATA);
}

/* Against libelf, for files of different linkers and languages. */
static void compare_with_libelf(const char *path)
{
	struct elf_image *img = fixture_open(path);
	const struct elf_segment *seg;
	const struct elf_section *sec;
	size_t nr, want, strndx, i;
	GElf_Phdr ph;
	GElf_Shdr sh;
	char *full = fixture_path(path);
	int fd = open(full, O_RDONLY | O_CLOEXEC);
	Elf *elf;

	elf_version(EV_CURRENT);
	elf = elf_begin(fd, ELF_C_READ, NULL);
	cr_assert(elf);
	seg = elf_image_segments(img, &nr);
	cr_assert(!elf_getphdrnum(elf, &want) && nr == want);
	for (i = 0; i < nr; i++) {
		cr_assert(gelf_getphdr(elf, (int)i, &ph));
		cr_assert(seg[i].type == ph.p_type && seg[i].flags == ph.p_flags &&
			  seg[i].off == ph.p_offset && seg[i].va == ph.p_vaddr &&
			  seg[i].file_bytes == ph.p_filesz && seg[i].mem_bytes == ph.p_memsz &&
			  seg[i].align == ph.p_align);
	}
	sec = elf_image_sections(img, &nr);
	cr_assert(!elf_getshdrnum(elf, &want) && nr == want && nr > 1);
	cr_assert(!elf_getshdrstrndx(elf, &strndx));
	for (i = 0; i < nr; i++) {
		cr_assert(gelf_getshdr(elf_getscn(elf, i), &sh));
		cr_assert(sec[i].type == sh.sh_type && sec[i].link == sh.sh_link &&
			  sec[i].flags == sh.sh_flags && sec[i].va == sh.sh_addr &&
			  sec[i].off == sh.sh_offset && sec[i].bytes == sh.sh_size &&
			  sec[i].entry_bytes == sh.sh_entsize && sec[i].align == sh.sh_addralign);
		cr_assert(elf_image_section_is(img, &sec[i], elf_strptr(elf, strndx, sh.sh_name)));
	}
	elf_end(elf);
	close(fd);
	free(full);
	elf_image_free(img);
}

Test(elf_image, headers_as_libelf_reads_them, .timeout = 60)
{
	fixture_write("a.c", "int main(void) { return 0; }\n");
	fixture_run("gcc -o pie a.c; gcc -static -o static a.c; gcc -no-pie -s -o stripped a.c;"
		    "gcc -shared -fPIC -o lib.so a.c; clang -o clang a.c;"
		    "objcopy --only-keep-debug pie pie.debug");
	compare_with_libelf("pie");
	compare_with_libelf("static");
	compare_with_libelf("stripped");
	compare_with_libelf("lib.so");
	compare_with_libelf("clang");
	compare_with_libelf("pie.debug");
	compare_with_libelf("/proc/self/exe");
	compare_with_libelf("/lib/x86_64-linux-gnu/libc.so.6");
}

Test(elf_image, build_id_of_the_linker, .timeout = 60)
{
	static const uint8_t want[] = { 0xde, 0xad, 0xbe, 0xef, 0x01 };
	const char *const files[] = { "a", "a.debug", "a.stripped" };
	uint8_t id[ELF_BUILD_ID_MAX];
	struct elf_image *img;
	size_t i;

	fixture_write("a.c", "int main(void) { return 0; }\n");
	fixture_run(
		"gcc -g -Wl,--build-id=0xdeadbeef01 -o a a.c; objcopy --only-keep-debug a a.debug;"
		"strip -o a.stripped a; gcc -Wl,--build-id=none -o none a.c");
	for (i = 0; i < 3; i++) {
		img = fixture_open(files[i]);
		cr_assert_eq(elf_image_build_id(img, id), sizeof(want), "%s", files[i]);
		cr_assert_arr_eq(id, want, sizeof(want));
		elf_image_free(img);
	}
	img = fixture_open("none");
	cr_assert_eq(elf_image_build_id(img, id), -ENODATA);
	elf_image_free(img);
}

Test(elf_image, offsets_and_addresses)
{
	struct tiny t = tiny_make();
	struct elf_image *img;
	uint64_t out = 7;

	/* Two segments over the same bytes: the executable one wins whatever their order. */
	t.ph[0] = (Elf64_Phdr){ .p_type = PT_LOAD,
				.p_flags = PF_R,
				.p_vaddr = 0x1000,
				.p_filesz = 0x200,
				.p_memsz = 0x400 };
	t.ph[1] = (Elf64_Phdr){ .p_type = PT_LOAD,
				.p_flags = PF_R | PF_X,
				.p_offset = 0x100,
				.p_vaddr = 0x5100,
				.p_filesz = 0x200,
				.p_memsz = 0x200 };
	cr_assert_eq(elf_image_open_memory(&img, &t, sizeof(t)), 0);
	cr_assert(!elf_image_off_to_rva(img, 0, &out) && out == 0x1000);
	cr_assert(!elf_image_off_to_rva(img, 0xff, &out) && out == 0x10ff);
	cr_assert(!elf_image_off_to_rva(img, 0x100, &out) && out == 0x5100);
	cr_assert(!elf_image_off_to_rva(img, 0x2ff, &out) && out == 0x52ff);
	out = 7;
	cr_assert(elf_image_off_to_rva(img, 0x300, &out) == -ENOENT && out == 7);
	cr_assert(!elf_image_rva_to_off(img, 0x11ff, &out) && out == 0x1ff);
	out = 7;
	cr_assert(elf_image_rva_to_off(img, 0x1200, &out) == -ENOENT); /* .bss: not in the file */
	cr_assert(elf_image_rva_to_off(img, 0xfff, &out) == -ENOENT && out == 7);
	cr_assert(elf_image_rva_to_off(img, UINT64_MAX, &out) == -ENOENT);
	elf_image_free(img);
}

struct counting {
	int nr_reads;
	int nr_closed;
	ssize_t limit; /* bytes really there, or an error */
	char data[200000];
};

static ssize_t counting_read(void *arg, void *dst, size_t len, uint64_t off)
{
	struct counting *c = arg;

	c->nr_reads++;
	if (c->limit < 0) {
		memset(dst, 0xee, len); /* half done when it failed */
		return c->limit;
	}
	if (off >= (uint64_t)c->limit)
		return 0;
	if (len > (uint64_t)c->limit - off)
		len = (uint64_t)c->limit - off;
	memcpy(dst, c->data + off, len);
	return (ssize_t)len;
}

static void counting_close(void *arg)
{
	((struct counting *)arg)->nr_closed++;
}

static struct counting *counting_new(struct elf_source *source)
{
	struct counting *c = calloc(1, sizeof(*c));
	struct tiny t = tiny_make();
	size_t i;

	cr_assert(c);
	for (i = 0; i < sizeof(c->data); i++)
		c->data[i] = (char)(i * 2654435761U >> 24);
	memcpy(c->data, &t, sizeof(t));
	c->limit = sizeof(c->data);
	*source = (struct elf_source){ counting_read, counting_close, c, sizeof(c->data), false };
	return c;
}

Test(elf_image, reads_are_right_and_few)
{
	struct elf_source source;
	struct counting *c = counting_new(&source);
	struct elf_image *img;
	uint64_t off, len, seed = 1, i;
	char got[40000];

	cr_assert_eq(elf_image_new(&img, &source), 0);
	for (i = 0; i < 20000; i++) { /* anywhere, across windows, larger than a window */
		seed = seed * 6364136223846793005ULL + 1442695040888963407ULL;
		off = (seed >> 33) % sizeof(c->data);
		len = (seed >> 13) % (i % 100 ? 100 : sizeof(got));
		if (off + len > sizeof(c->data)) {
			cr_assert_eq(elf_image_read(img, off, got, len), -EBADMSG);
			continue;
		}
		cr_assert_eq(elf_image_read(img, off, got, len), 0);
		cr_assert(!memcmp(got, c->data + off, len));
	}
	elf_image_drop_cache(img);
	c->nr_reads = 0;
	for (off = 0; off + 8 <= sizeof(c->data); off += 8) { /* two streams at a time */
		cr_assert_eq(elf_image_read(img, off, got, 8), 0);
		cr_assert(!memcmp(got, c->data + off, 8));
		cr_assert_eq(elf_image_read(img, off / 2, got, 8), 0);
	}
	cr_assert_leq(c->nr_reads, 20);
	elf_image_free(img);
	cr_assert_eq(c->nr_closed, 1);
	free(c);
}

Test(elf_image, source_is_closed_once_and_its_errors_are_reported)
{
	struct elf_source source;
	struct counting *c = counting_new(&source);
	struct elf_image *img = NULL;
	char got[20000];

	c->limit = -EIO;
	cr_assert_eq(elf_image_new(&img, &source), -EIO);
	cr_assert(!img && c->nr_closed == 1);
	c->limit = sizeof(c->data);
	cr_assert_eq(elf_image_new(&img, &source), 0);
	c->limit = 100000; /* truncated meanwhile */
	cr_assert_eq(elf_image_read(img, 150000, got, 8), -EBADMSG);
	cr_assert_eq(elf_image_read(img, 99996, got, 8), -EBADMSG);
	cr_assert_eq(elf_image_read(img, 90000, got, sizeof(got)), -EBADMSG);
	cr_assert_eq(elf_image_read(img, 99992, got, 8), 0);
	cr_assert_eq(elf_image_read(img, UINT64_MAX, got, 8), -EBADMSG);
	cr_assert_eq(elf_image_read(img, 8, got, SIZE_MAX), -EBADMSG);
	c->limit = -ESTALE;
	cr_assert_eq(elf_image_read(img, 0, got, sizeof(got)), -ESTALE);
	elf_image_free(img);
	cr_assert_eq(c->nr_closed, 2);
	free(c);
}

Test(elf_image, failed_read_leaves_nothing_in_the_cache)
{
	struct elf_source source;
	struct counting *c = counting_new(&source);
	struct elf_image *img;
	uint64_t off;
	char got[8];

	cr_assert_eq(elf_image_new(&img, &source), 0);
	for (off = 0; off < 65536; off += 4096)
		cr_assert_eq(elf_image_read(img, off, got, 8), 0);
	c->limit = -EIO;
	cr_assert_eq(elf_image_read(img, 150000, got, 8), -EIO);
	c->limit = sizeof(c->data);
	for (off = 0; off < 65536; off += 4096) {
		cr_assert_eq(elf_image_read(img, off, got, 8), 0);
		cr_assert(!memcmp(got, c->data + off, 8), "%lu", off);
	}
	elf_image_free(img);
	free(c);
}

Test(elf_image, only_regular_files)
{
	struct elf_image *img;
	struct tiny t = tiny_make();
	int fds[2], fd;

	cr_assert(!pipe(fds) && write(fds[1], &t, sizeof(t)) == sizeof(t));
	cr_assert_eq(elf_image_open_fd(&img, fds[0]), -ENOEXEC);
	cr_assert(fcntl(fds[0], F_GETFD) < 0, "not closed");
	cr_assert_eq(elf_image_open_fd(&img, open("/", O_RDONLY)), -ENOEXEC);
	cr_assert_eq(elf_image_open_fd(&img, open("/dev/zero", O_RDONLY)), -ENOEXEC);
	cr_assert_eq(elf_image_open_fd(&img, -1), -EBADF);
	fd = open(fixture_dir(), O_TMPFILE | O_RDWR, 0600);
	cr_assert(fd >= 0 && write(fd, &t, sizeof(t)) == sizeof(t));
	cr_assert(!ftruncate(fd, 3LL << 30)); /* sparse */
	cr_assert_eq(elf_image_open_fd(&img, fd), 0);
	cr_assert_eq(elf_image_size(img), 3ULL << 30);
	cr_assert_eq(elf_image_read(img, (3ULL << 30) - 8, &t, 8), 0);
	elf_image_free(img);
	cr_assert(fcntl(fd, F_GETFD) < 0, "not closed");
}
