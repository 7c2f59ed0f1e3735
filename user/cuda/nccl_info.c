// SPDX-License-Identifier: Apache-2.0
#include "cuda/nccl_info.h"

#include "base/bytes.h"
#include "cuda/functions.h"

#define STRUCT_BYTES 80
#define MAX_FUNCTIONS 32 /* of ncclFunc_t; 2.32 has half as many */
#define MAX_STEPS 64 /* a chunk has at most NCCL_STEPS, 8 */
#define MAX_RANKS 65536
#define MAX_BYTES (1ULL << 50)
#define MAX_NAMES 128 /* names that are read for a frame, at each mapping of the library */

enum {
	COLL = 0,
	NAME = 8,
	COUNT = 32,
	TYPE = 40,
	OP = 44,
	ROOT = 48,
	COMM = 56,
	STREAM = 64,
	CHUNK_STEPS = 72,
	SLICE_STEPS = 76
};

static bool is_possible(const uint8_t *at)
{
	uint32_t bytes = gpu_nccl_type_bytes(bytes_u32(at + TYPE));
	uint64_t comm = bytes_u64(at + COMM);

	return bytes && bytes_u32(at + COLL) < MAX_FUNCTIONS && bytes_u32(at + OP) <= INT32_MAX &&
	       bytes_u32(at + ROOT) < MAX_RANKS && bytes_u32(at + CHUNK_STEPS) <= MAX_STEPS &&
	       bytes_u32(at + SLICE_STEPS) <= MAX_STEPS && comm && !(comm % 8) &&
	       bytes_u64(at + NAME) && bytes_u64(at + COUNT) <= MAX_BYTES / bytes;
}

/*
 * Up to 2.21, NCCL turns elements that it only copies into bytes in its struct, so their type
 * and count are not known.
 */
static bool may_be_changed(const struct nccl_info *info)
{
	return !info->type &&
	       (!strcmp(info->name, "AllGather") || !strcmp(info->name, "Broadcast"));
}

static void info_set(struct nccl_info *info, const uint8_t *at)
{
	info->type = bytes_u32(at + TYPE);
	info->op = bytes_u32(at + OP);
	info->root = bytes_u32(at + ROOT);
	info->count = bytes_u64(at + COUNT);
	info->bytes = info->count * gpu_nccl_type_bytes(info->type);
	info->comm = bytes_u64(at + COMM);
	info->stream = bytes_u64(at + STREAM);
	if (may_be_changed(info)) {
		info->type = NCCL_INFO_TYPE_UNKNOWN;
		info->count = 0;
	}
}

static const struct gpu_function *collective(const char *function)
{
	const struct gpu_function *functions;
	size_t nr, i;

	functions = gpu_functions(&nr);
	for (i = 1; i < nr; i++)
		if (functions[i].wire.kind == GPU_KIND_COLLECTIVE &&
		    !strcmp(functions[i].name, function))
			return &functions[i];
	return NULL;
}

size_t nccl_info_find(const uint8_t *frame, size_t len, nccl_info_read_name read_name, void *arg,
		      struct nccl_info ret[NCCL_INFO_MAX])
{
	struct nccl_info info;
	size_t nr = 0, nr_names = 0, at, i;

	for (at = 0; at + STRUCT_BYTES <= len; at += 8) {
		if (!is_possible(frame + at))
			continue;
		if (nr_names++ == MAX_NAMES)
			return NCCL_INFO_MAX + 1;
		memset(&info, 0, sizeof(info)); /* compared as bytes */
		if (!read_name(arg, bytes_u64(frame + at + NAME), info.name))
			continue;
		info_set(&info, frame + at);
		for (i = 0; i < nr && memcmp(&ret[i], &info, sizeof(info)) != 0; i++)
			;
		if (i < nr)
			continue;
		if (nr == NCCL_INFO_MAX)
			return NCCL_INFO_MAX + 1;
		ret[nr++] = info;
	}
	return nr;
}

bool nccl_info_is_of(const struct nccl_info *info, const char *function)
{
	const struct gpu_function *known = collective(function);
	const char *shown = known ? known->shown + strlen("nccl") : "";

	/* ncclBcast is ncclBroadcast in place. */
	return known && !strcmp(info->name, strcmp(shown, "Bcast") ? shown : "Broadcast");
}

struct nccl_info_has nccl_info_has(const char *function)
{
	const struct gpu_function *known = collective(function);
	const char *extra = known ? gpu_nccl_extra(known) : "";

	return (struct nccl_info_has){ .op = !strcmp(extra, "op") ||
					     (known && !strcmp(known->shown, "ncclReduce")),
				       .root = !strcmp(extra, "root"),
				       .peer = !strcmp(extra, "peer") };
}
