/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_TESTS_TEST_ELF_FIXTURE_H
#define BPFPROF_TESTS_TEST_ELF_FIXTURE_H

/* ELF files compiled when the tests run, in a temporary folder that is removed at their end. */

#include <stddef.h>
#include <stdint.h>

struct elf_image;

struct nm_symbol { /* what binutils' nm says */
	uint64_t value;
	uint64_t bytes; /* 0 = none */
	char type;
	char name[256];
};

const char *fixture_dir(void); /* this process's folder, made when first asked for */
/* Runs a shell script in that folder; the test fails if the script does. */
void fixture_run(const char *script);
void fixture_write(const char *file, const char *text);
char *fixture_path(const char *file); /* of a file in the folder; the caller frees */
char *fixture_read(const char *path, size_t *ret_len); /* whole file; the caller frees */
struct elf_image *fixture_open(const char *path); /* fails the test if that fails */

/* `nm ARGS PATH`, sorted by value; the caller frees. */
struct nm_symbol *fixture_nm(const char *args, const char *path, size_t *ret_nr);
/* The value of one symbol by `nm`; fails the test without it. */
uint64_t fixture_value(const char *path, const char *name);
/* The offset of that symbol in a file of the folder. */
uint64_t fixture_offset(const char *file, const char *name);

#endif
