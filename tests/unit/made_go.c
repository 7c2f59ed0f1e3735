// SPDX-License-Identifier: Apache-2.0
#include "made_go.h"

#include <stdio.h>
#include <stdlib.h>

#include "test_elf_fixture.h"

#define SOURCE "tests/unit/go_program.S"

const int made_go_versions[MADE_GO_VERSIONS] = { 2, 16, 18, 20 };

void made_go(const char *file, int version, const char *flags)
{
	char script[1024], *root = realpath(".", NULL);

	snprintf(script, sizeof(script),
		 "gcc -nostdlib -static -Wl,--build-id=none -DGO=%d %s -o %s %s/" SOURCE, version,
		 flags, file, root);
	free(root);
	fixture_run(script);
}

struct elf_image *made_go_open(const char *file)
{
	char *path = fixture_path(file);
	struct elf_image *img = fixture_open(path);

	free(path);
	return img;
}

uint64_t made_go_label(const char *file, const char *name)
{
	char *path = fixture_path(file);
	uint64_t value = fixture_value(path, name);

	free(path);
	return value;
}
