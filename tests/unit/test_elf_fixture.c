// SPDX-License-Identifier: Apache-2.0
#include "test_elf_fixture.h"

#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "elf/image.h"

static char dir[64];

static void remove_dir(void)
{
	pid_t pid = fork();

	if (!pid) {
		execlp("rm", "rm", "-rf", "--", dir, (char *)NULL);
		_exit(127);
	}
	waitpid(pid, NULL, 0);
}

const char *fixture_dir(void)
{
	if (!dir[0]) {
		snprintf(dir, sizeof(dir), "/tmp/bpfprof-elf-XXXXXX");
		cr_assert(mkdtemp(dir));
		atexit(remove_dir);
	}
	return dir;
}

void fixture_run(const char *script)
{
	const char *where = fixture_dir();
	int status;
	pid_t pid;

	pid = fork();
	if (!pid) {
		if (!chdir(where))
			execlp("sh", "sh", "-ec", script, (char *)NULL);
		_exit(127);
	}
	cr_assert(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0, "failed: %s", script);
}

char *fixture_path(const char *file)
{
	char *path;

	if (file[0] == '/')
		cr_assert(path = strdup(file));
	else
		cr_assert(asprintf(&path, "%s/%s", fixture_dir(), file) > 0);
	return path;
}

void fixture_write(const char *file, const char *text)
{
	char *path = fixture_path(file);
	FILE *f = fopen(path, "w");

	cr_assert(f && fputs(text, f) >= 0 && !fclose(f));
	free(path);
}

char *fixture_read(const char *file, size_t *ret_len)
{
	char *path = fixture_path(file), *data;
	FILE *f = fopen(path, "r");
	long len;

	cr_assert(f && !fseek(f, 0, SEEK_END));
	len = ftell(f);
	rewind(f);
	cr_assert(len >= 0);
	data = malloc((size_t)len + 1);
	cr_assert(data && fread(data, 1, (size_t)len, f) == (size_t)len);
	data[len] = 0;
	fclose(f);
	free(path);
	*ret_len = (size_t)len;
	return data;
}

struct elf_image *fixture_open(const char *file)
{
	char *path = fixture_path(file);
	struct elf_image *img;
	int fd = open(path, O_RDONLY | O_CLOEXEC);

	cr_assert(fd >= 0, "%s", path);
	cr_assert(!elf_image_open_fd(&img, fd), "%s", path);
	free(path);
	return img;
}

static int nm_compare(const void *a, const void *b)
{
	const struct nm_symbol *x = a, *y = b;

	return x->value < y->value ? -1 : x->value > y->value;
}

/* POSIX format: NAME TYPE VALUE [SIZE] */
struct nm_symbol *fixture_nm(const char *args, const char *path, size_t *ret_nr)
{
	struct nm_symbol *syms = NULL, sym;
	char script[1024], *text, *line, *next, *end;
	size_t nr = 0, cap = 0, len;

	snprintf(script, sizeof(script), "nm -P -t x %s '%s' > nm.out", args, path);
	fixture_run(script);
	text = fixture_read("nm.out", &len);
	for (line = text; *line; line = next) {
		next = strchrnul(line, '\n');
		if (*next)
			*next++ = 0;
		end = strchr(line, ' ');
		if (!end || end == line || end - line >= (long)sizeof(sym.name) || !end[1] ||
		    end[2] != ' ')
			continue;
		memset(&sym, 0, sizeof(sym));
		memcpy(sym.name, line, (size_t)(end - line));
		sym.name[strcspn(sym.name, "@")] = 0;
		sym.type = end[1];
		sym.value = strtoull(end + 3, &end, 16);
		sym.bytes = strtoull(end, NULL, 16);
		if (nr == cap) {
			cap = cap ? cap * 2 : 1024;
			cr_assert(syms = realloc(syms, cap * sizeof(*syms)));
		}
		syms[nr++] = sym;
	}
	free(text);
	qsort(syms, nr, sizeof(*syms), nm_compare);
	*ret_nr = nr;
	return syms;
}

uint64_t fixture_value(const char *path, const char *name)
{
	struct nm_symbol *syms;
	uint64_t value = 0;
	size_t nr, i;

	syms = fixture_nm("", path, &nr);
	for (i = 0; i < nr && strcmp(syms[i].name, name); i++)
		;
	cr_assert(i < nr, "%s has no %s", path, name);
	value = syms[i].value;
	free(syms);
	return value;
}

uint64_t fixture_offset(const char *file, const char *name)
{
	char *path = fixture_path(file);
	struct elf_image *img = fixture_open(file);
	uint64_t off;

	cr_assert_eq(elf_image_rva_to_off(img, fixture_value(path, name), &off), 0);
	elf_image_free(img);
	free(path);
	return off;
}
