/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CUDA_REGISTRATIONS_H
#define BPFPROF_CUDA_REGISTRATIONS_H

/*
 * The kernels that a file registers with the CUDA runtime when it is loaded, read out of the code
 * that does so (of nvcc and clang): a constructor that refers to a fat binary's wrapper, and
 * in it, or in a function that it calls, calls of
 *
 *	__cudaRegisterFunction(handle, host function, name, name, -1, NULL, NULL, NULL, NULL, NULL)
 *
 * Host functions are addresses in the code, or are loaded from words that relocations fill.
 * Names stay in the file. In slices: a pass that has run out of time goes on where it stopped.
 * x86-64 only.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REGISTRATIONS_MAX (1U << 17) /* kernels of a file */
#define REGISTRATIONS_MAX_FUNCTIONS 16
#define REGISTRATIONS_MAX_NAME 65536

struct elf_image;

/* Functions of the CUDA runtime that take part in a launch. */
enum registered_function {
	RUNTIME_NONE = 0,
	RUNTIME_LAUNCH, /* (kernel, ...) */
	RUNTIME_LAUNCH_EX, /* (configuration, kernel, ...) */
	RUNTIME_GET_KERNEL, /* (handle to be filled in, host function) */
};

struct registration {
	uint64_t host; /* image-relative address of the host function */
	uint64_t name; /* of the device function's name; 0: there are several */
};

/* A word that is filled with the address of something. */
struct registration_word {
	uint64_t rva;
	uint32_t what; /* index of a kernel, or enum registered_function */
};

struct registrations {
	struct registration *kernels; /* ascending by host, each once */
	size_t nr;
	struct registration_word *words; /* of kernels, ascending */
	size_t nr_words;
	struct registration_word functions[REGISTRATIONS_MAX_FUNCTIONS]; /* of the runtime */
	size_t nr_functions;
	uint32_t nr_bad; /* calls that look like registrations, but for what they refer to */
};

struct registrations_reader;

int registrations_reader_new(struct registrations_reader **ret); /* 0 or -ENOMEM */
void registrations_reader_free(struct registrations_reader *reader);
/* Memory that it takes now; NULL is fine. */
uint64_t registrations_reader_bytes(const struct registrations_reader *reader);

/*
 * 0: *ret is filled in, to be released with registrations_fini(); -ETIME: call again with the same
 * file (each call gets on); -E2BIG, -EBADMSG, -EOPNOTSUPP (another machine), -ENOMEM, errors of reading.
 */
int registrations_read(struct registrations_reader *reader, struct elf_image *img,
		       uint64_t deadline_ns, struct registrations *ret);
void registrations_fini(struct registrations *regs);

/* The kernel of this host function, or of the word that has it; SIZE_MAX: none. */
size_t registrations_find(const struct registrations *regs, uint64_t host);
size_t registrations_find_word(const struct registrations *regs, uint64_t rva);
enum registered_function registrations_function(const struct registrations *regs, uint64_t rva);

#endif
