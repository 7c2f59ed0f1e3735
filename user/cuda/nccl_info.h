/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CUDA_NCCL_INFO_H
#define BPFPROF_CUDA_NCCL_INFO_H

/*
 * The arguments of a collective that has not returned, from the stack frame of the exported
 * function: it copies all its arguments into a struct ncclInfo there and passes its address on
 * (NCCL src/include/info.h; the members up to sliceSteps are the same from 2.8 to 2.32). Frames
 * belong to the target, so the reader accepts a struct only if it has a pointer to its function's
 * name ("AllReduce") in the library, and all its members are possible.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NCCL_INFO_NAME_BYTES 16 /* of "ReduceScatter", with the NUL */
#define NCCL_INFO_MAX 4 /* of one frame */
#define NCCL_INFO_TYPE_UNKNOWN UINT32_MAX

struct nccl_info {
	char name[NCCL_INFO_NAME_BYTES]; /* of the function, filled with zeros */
	uint32_t type; /* of NCCL, or NCCL_INFO_TYPE_UNKNOWN */
	uint32_t op, root; /* root: or peer */
	uint64_t count; /* 0 if the type is not known */
	uint64_t bytes;
	uint64_t comm, stream;
};

/*
 * Copies the string at va, an address of the process in a read-only part of the library's file, to
 * name, which is all zeros. False: it is elsewhere, or longer.
 */
typedef bool (*nccl_info_read_name)(void *arg, uint64_t va, char name[NCCL_INFO_NAME_BYTES]);

/*
 * Finds all different structs in a frame whose lowest address is a multiple of 8. Returns their
 * number; NCCL_INFO_MAX + 1 if there are more, or more candidates than the limit of names that are
 * read.
 */
size_t nccl_info_find(const uint8_t *frame, size_t len, nccl_info_read_name read_name, void *arg,
		      struct nccl_info ret[NCCL_INFO_MAX]);

/* Is it a struct of that function? function: the exported name ("ncclAllReduceConfig"). */
bool nccl_info_is_of(const struct nccl_info *info, const char *function);

/* The arguments that a function has; none, if it is no collective. */
struct nccl_info_has {
	bool op, root, peer;
};

struct nccl_info_has nccl_info_has(const char *function);

#endif
