/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_TESTS_MADE_GO_H
#define BPFPROF_TESTS_MADE_GO_H

/* A Go program as bpfprof sees it: go_program.S, assembled in the folder of the ELF fixtures. */

#include <stdint.h>

struct elf_image;

#define MADE_GO_VERSIONS 4
extern const int made_go_versions[MADE_GO_VERSIONS]; /* of its function table */

/* Assembles it as a file of this name, with more flags for the compiler. */
void made_go(const char *file, int version, const char *flags);
struct elf_image *made_go_open(const char *file);
uint64_t made_go_label(const char *file, const char *name); /* its value */

#endif
