/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CUDA_REGISTRATIONS_H
#define BPFPROF_CUDA_REGISTRATIONS_H

/*
 * The kernels that a file registers with the CUDA runtime when it is loaded, from the code that nvcc and
 * clang make for this: a constructor refers to the wrapper of a fat binary, and it, or a function that it
 * calls, calls
 *
 *	__cudaRegisterFunction(handle, host function, name, name, -1, NULL, NULL, NULL, NULL, NULL)
 *
 * Host functions are addresses in the code, or are loaded from words that relocations fill. Names stay in
 * the file. The file is read in slices: a read that ran out of time continues where it stopped.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define REGISTRATIONS_MAX (1U << 17) /* kernels of a file */
#define REGISTRATIONS_MAX_FUNCTIONS 16
#define REGISTRATIONS_MAX_NAME 65536

struct elf_image;

/* Functions of the CUDA runtime that launch, or prepare a launch. */
enum registered_function {
	RUNTIME_NONE = 0,
	RUNTIME_LAUNCH, /* (kernel, ...) */
	RUNTIME_LAUNCH_EX, /* (configuration, kernel, ...) */
	RUNTIME_GET_KERNEL, /* (handle to be filled in, host function) */
};

struct registration {
	uint64_t host; /* image-relative address of the host function */
	uint64_t name; /* the address of the device function's name; 0: there are several names */
};

/* A word that the loader fills with an address. */
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
	uint32_t nr_bad; /* calls like a registration, but with impossible arguments */
};

struct registrations_reader;

int registrations_reader_new(struct registrations_reader **ret); /* 0 or -ENOMEM */
void registrations_reader_free(struct registrations_reader *reader);
/* The memory that the reader has now; NULL is fine. */
uint64_t registrations_reader_bytes(const struct registrations_reader *reader);

/*
 * 0: *ret is filled in, and the caller calls registrations_fini(); -ETIME: the caller calls again
 * with the same file (each call makes progress); -E2BIG, -EBADMSG, -EOPNOTSUPP (another machine),
 * -ENOMEM, errors of reading.
 */
int registrations_read(struct registrations_reader *reader, struct elf_image *img,
		       uint64_t deadline_ns, struct registrations *ret);
void registrations_fini(struct registrations *regs);

/* The index of the kernel with this host function, or with this word; SIZE_MAX: none. */
size_t registrations_find(const struct registrations *regs, uint64_t host);
size_t registrations_find_word(const struct registrations *regs, uint64_t rva);
enum registered_function registrations_function(const struct registrations *regs, uint64_t rva);

#endif
