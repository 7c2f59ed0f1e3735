// SPDX-License-Identifier: Apache-2.0
/* fuzz: max_len=4096 */
#include "cuda/nccl_info.h"

#include <stdlib.h>
#include <string.h>

#include "cuda/functions.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* The library has its names one behind the other, and any bytes behind them. */
static bool read_name(void *arg, uint64_t va, char name[NCCL_INFO_NAME_BYTES])
{
	static const char *const names[] = {
		"AllReduce", "AllGather", "Broadcast", "Reduce",
		"Send",	     "",	  "\xff\xff",  "ReduceScatter"
	};

	(void)arg;
	if (!va)
		abort();
	if (va > 64)
		return false;
	memcpy(name, names[va % 8], strlen(names[va % 8]));
	return true;
}

static void check(const struct nccl_info *info)
{
	uint32_t bytes = gpu_nccl_type_bytes(info->type);
	bool unknown = info->type == NCCL_INFO_TYPE_UNKNOWN;

	if (!memchr(info->name, '\0', sizeof(info->name)) || !info->comm || info->comm % 8 ||
	    info->root >= 65536 || info->op > INT32_MAX || info->bytes > 1ULL << 50)
		abort();
	if (unknown ? info->count : !bytes || info->bytes != info->count * bytes)
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct nccl_info found[NCCL_INFO_MAX];
	uint8_t *frame = malloc(size ? size : 1);
	size_t nr, i, k;

	if (!frame)
		abort();
	memcpy(frame, data, size);
	nr = nccl_info_find(frame, size, read_name, NULL, found);
	if (nr > NCCL_INFO_MAX + 1)
		abort();
	for (i = 0; nr <= NCCL_INFO_MAX && i < nr; i++) {
		check(&found[i]);
		for (k = 0; k < i; k++)
			if (!memcmp(&found[i], &found[k], sizeof(found[i])))
				abort();
	}
	free(frame);
	return 0;
}
