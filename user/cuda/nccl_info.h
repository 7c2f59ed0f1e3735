/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CUDA_NCCL_INFO_H
#define BPFPROF_CUDA_NCCL_INFO_H

/*
 * The arguments of a collective that has not returned, out of the stack frame of the exported
 * function: there each of them makes a struct ncclInfo of all that it was given, and hands its
 * address on (NCCL src/include/info.h; its members up to sliceSteps are the same from 2.8 to
 * 2.32). What is taken for one names its own function, by a pointer to "AllReduce" in the library, and all its
 * members are possible. Frames are the target's: nothing in them is believed without that.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NCCL_INFO_NAME_BYTES 16 /* of "ReduceScatter", with the NUL */
#define NCCL_INFO_MAX 4 /* of one frame */
#define NCCL_INFO_TYPE_UNKNOWN UINT32_MAX

struct nccl_info {
	char name[NCCL_INFO_NAME_BYTES]; /* that it gives itself, the rest is zeros */
	uint32_t type; /* of NCCL, or NCCL_INFO_TYPE_UNKNOWN: then the count is 0, */
	uint32_t op, root; /* root: or peer */
	uint64_t count, bytes; /* but not these */
	uint64_t comm, stream;
};

/*
 * Copies the string that the library's file has at va, as the process maps it, to name, which is all
 * zeros; not what may be written there, or is longer.
 */
typedef bool (*nccl_info_read_name)(void *arg, uint64_t va, char name[NCCL_INFO_NAME_BYTES]);

/*
 * All different ones in a frame whose lowest address is a multiple of 8. Their number, one more
 * than NCCL_INFO_MAX if there are more, or more that may be some than names are read for.
 */
size_t nccl_info_find(const uint8_t *frame, size_t len, nccl_info_read_name read_name, void *arg,
		      struct nccl_info ret[NCCL_INFO_MAX]);

/* Is it of that function, by its exported name ("ncclAllReduceConfig")? */
bool nccl_info_is_of(const struct nccl_info *info, const char *function);

/* Which of its members that function has: none, if it is no collective. */
struct nccl_info_has {
	bool op, root, peer;
};

struct nccl_info_has nccl_info_has(const char *function);

#endif
