// SPDX-License-Identifier: Apache-2.0
/* Symbols in .gnu_debugdata and in separate debug files. */
#include "elf/symbols.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>

#include "base/strtab.h"
#include "elf/image.h"
#include "test_elf_fixture.h"
#include "elf_names.h"

/* The recipe of Fedora's find-debuginfo: functions that .dynsym lacks, xz, one section. */
static const char minidebuginfo[] =
	"gcc -O1 -rdynamic -o full a.c; nm -D full --format=posix --defined-only | awk '{print "
	"$1}' | sort > dyn;"
	"nm full --format=posix --defined-only | awk '$2 ~ /[Tt]/ {print $1}' | sort > all;"
	"comm -13 dyn all > keep; objcopy -S --keep-symbols=keep full mini.debug 2>/dev/null;"
	"objcopy --only-keep-debug full only; objcopy -S --remove-section .comment "
	"--keep-symbols=keep only mini;"
	"xz -k mini; strip -o a full; objcopy --add-section .gnu_debugdata=mini.xz a";

Test(elf_symbols, debugdata_inside_the_file)
{
	uint64_t hidden;

	fixture_write("a.c", elf_two_functions);
	fixture_run(minidebuginfo);
	hidden = fixture_value("full", "hidden");
	cr_assert_str_eq(elf_name_of("a", NULL, hidden), "hidden");
	cr_assert_str_eq(elf_name_of("a", NULL, fixture_value("full", "exported") + 1), "exported");
	/* Its symbols do not border on those of .dynsym: a symbol without a size names nothing. */
	cr_assert_str_eq(elf_name_of("full", NULL, fixture_value("full", "bare") + 1), "bare");
	cr_assert_str_eq(elf_name_of("a", NULL, fixture_value("full", "bare") + 1), "");
	cr_assert_str_eq(elf_name_of("a", NULL, fixture_value("full", "shown") + 1), "shown");
	cr_assert_str_eq(elf_name_of("a", NULL, fixture_value("full", "shown") + 20), "");
	fixture_run("strip -R .gnu_debugdata -o none a");
	cr_assert_str_eq(elf_name_of("none", NULL, hidden), "");
	cr_assert_str_eq(elf_name_of("none", NULL, fixture_value("full", "exported") + 1),
			 "exported");
}

Test(elf_symbols, debugdata_bombs_are_refused)
{
	struct elf_symbol syms[2] = { 0 };
	uint64_t hidden, exported;

	fixture_write("a.c", elf_two_functions);
	fixture_run(minidebuginfo);
	hidden = fixture_value("full", "hidden");
	exported = fixture_value("full", "exported");
	fixture_run(
		"set_data() { objcopy --update-section .gnu_debugdata=$1 a $2; };"
		"head -c 40000000 /dev/zero | xz > bomb.xz; set_data bomb.xz bomb;"
		"xz -k --lzma2=dict=512MiB -c mini > wide.xz; set_data wide.xz wide;"
		"head -c 100 mini.xz > cut.xz; set_data cut.xz cut;"
		"head -c 500 mini.xz | tr '\\000-\\377' '\\377\\000-\\376' > bad.xz; set_data "
		"bad.xz bad;"
		"xz -c full.c > text.xz 2>/dev/null || xz -c a.c > text.xz; set_data text.xz text");
	static const struct {
		const char *file;
		int want;
	} cases[] = { { "bomb", -E2BIG },
		      { "wide", -E2BIG },
		      { "cut", -EBADMSG },
		      { "bad", -EBADMSG },
		      { "text", -EBADMSG } };
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		memset(syms, 0, sizeof(syms));
		syms[0].rva = hidden;
		syms[1].rva = exported;
		cr_assert_eq(elf_names_resolve(cases[i].file, NULL, syms, 2), cases[i].want, "%s",
			     cases[i].file);
		/* Earlier results stay. */
		cr_assert_str_eq(strtab_get(elf_names, syms[syms[1].rva == exported].name),
				 "exported");
		cr_assert_eq(syms[syms[1].rva != exported].name, 0);
	}
}

struct opened {
	char paths[1024];
};

static struct elf_image *open_recorded(void *arg, const char *path)
{
	struct opened *opened = arg;
	struct elf_image *img = NULL;
	int fd;

	if (strlen(opened->paths) + strlen(path) + 2 < sizeof(opened->paths)) {
		strncat(opened->paths, path + strlen(fixture_dir()), 256);
		strncat(opened->paths, "\n", 2);
	}
	fd = open(path, O_RDONLY | O_CLOEXEC);
	return fd >= 0 && !elf_image_open_fd(&img, fd) ? img : NULL;
}

Test(elf_symbols, separate_debug_files)
{
	struct opened opened = { 0 };
	char root[100], script[600];
	struct elf_debug_paths paths = {
		.dir = fixture_dir(), .root = root, .open = open_recorded, .arg = &opened
	};
	uint64_t hidden;

	snprintf(root, sizeof(root), "%s/debug", fixture_dir());
	fixture_write("a.c", elf_two_functions);
	fixture_run("gcc -g -O1 -Wl,--build-id=0xabcdef0123 -o full a.c; objcopy --only-keep-debug "
		    "full x.debug;"
		    "strip -o a full; objcopy --add-gnu-debuglink=x.debug a linked;"
		    "mkdir -p debug/.build-id/ab .debug");
	hidden = fixture_value("full", "hidden");
	/* Beside the image. */
	cr_assert_str_eq(elf_name_of("linked", &paths, hidden), "hidden");
	cr_assert_str_eq(opened.paths, "/debug/.build-id/ab/cdef0123.debug\n/x.debug\n");
	cr_assert_str_eq(elf_name_of("linked", NULL, hidden), "");
	cr_assert_str_eq(elf_name_of("a", &paths, hidden), "");
	/* .debug, root/dir, .build-id */
	fixture_run("mv x.debug .debug/");
	cr_assert_str_eq(elf_name_of("linked", &paths, hidden), "hidden");
	snprintf(script, sizeof(script), "mkdir -p debug%s; mv .debug/x.debug debug%s/",
		 fixture_dir(), fixture_dir());
	fixture_run(script);
	cr_assert_str_eq(elf_name_of("linked", &paths, hidden), "hidden");
	snprintf(script, sizeof(script), "mv debug%s/x.debug debug/.build-id/ab/cdef0123.debug",
		 fixture_dir());
	fixture_run(script);
	cr_assert_str_eq(elf_name_of("a", &paths, hidden), "hidden");
	cr_assert_str_eq(elf_name_of("linked", &paths, hidden), "hidden");
	/* A file of another build is refused, in every place. */
	fixture_run("gcc -g -O1 -Wl,--build-id=0xabcdef0124 -o other a.c; cp other x.debug;"
		    "cp other debug/.build-id/ab/cdef0123.debug");
	cr_assert_str_eq(elf_name_of("linked", &paths, hidden), "");
	cr_assert_str_eq(elf_name_of("a", &paths, hidden), "");
}

Test(elf_symbols, debuglink_without_build_id_needs_its_checksum)
{
	struct opened opened = { 0 };
	struct elf_debug_paths paths = { .dir = fixture_dir(),
					 .open = open_recorded,
					 .arg = &opened };
	uint64_t hidden;

	fixture_write("a.c", elf_two_functions);
	fixture_run("gcc -g -O1 -Wl,--build-id=none -o full a.c; objcopy --only-keep-debug full "
		    "x.debug;"
		    "strip -o a full; objcopy --add-gnu-debuglink=x.debug a");
	hidden = fixture_value("full", "hidden");
	cr_assert_str_eq(elf_name_of("a", &paths, hidden), "hidden");
	fixture_run("printf x >> x.debug");
	cr_assert_str_eq(elf_name_of("a", &paths, hidden), "");
}

Test(elf_symbols, debuglink_cannot_lead_elsewhere)
{
	struct opened opened = { 0 };
	struct elf_debug_paths paths = { .dir = fixture_dir(),
					 .open = open_recorded,
					 .arg = &opened };
	uint64_t hidden;

	fixture_write("a.c", elf_two_functions);
	fixture_run(
		"gcc -g -O1 -o full a.c; strip -o a full; mkdir sub; cp full sub/x;"
		"printf 'sub/x\\0\\0\\0abcd' > link; objcopy --add-section .gnu_debuglink=link a "
		"slash;"
		"printf '..\\0\\0abcd' > link; objcopy --add-section .gnu_debuglink=link a dots;"
		"printf '\\0\\0\\0\\0abcd' > link; objcopy --add-section .gnu_debuglink=link a "
		"empty;"
		"printf 'abcdefgh' > link; objcopy --add-section .gnu_debuglink=link a unended");
	hidden = fixture_value("full", "hidden");
	cr_assert_str_eq(elf_name_of("slash", &paths, hidden), "");
	cr_assert_str_eq(elf_name_of("dots", &paths, hidden), "");
	cr_assert_str_eq(elf_name_of("empty", &paths, hidden), "");
	cr_assert_str_eq(elf_name_of("unended", &paths, hidden), "");
	cr_assert_str_eq(opened.paths, "");
}
