/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef BPFPROF_BPF_GPU_COMMS_BPF_H
#define BPFPROF_BPF_GPU_COMMS_BPF_H

/* Communicators of NCCL: hash, rank, size, and last use. */

#include "gpu/maps.bpf.h"

#define RANK_UNKNOWN 0xffffffffU

/* Communicators by handle. Writer: BPF. */
HASH_MAP(gpu_comms, 4096, struct bpfprof_gpu_comm_key, struct bpfprof_gpu_comm);

/* Reads hash, rank and size of a communicator, which are neighbours in its struct. */
static __always_inline void comm_read(struct bpfprof_gpu_comm *comm, __u64 va, __u32 file_nr)
{
	struct bpfprof_gpu_file *file = bpf_map_lookup_elem(&gpu_files, &file_nr);
	struct {
		__u64 hash;
		__u32 rank, size, device, pad;
	} who;

	if (!file || !file->comm_rank || user_read(&who, sizeof(who), va + file->comm_rank - 8))
		return;
	comm->hash = who.hash;
	comm->rank = who.rank;
	comm->size = who.size;
	comm->device = who.device + 1;
}

/* Counts the use of a communicator. Reads it first if it is unknown, or was not complete yet. */
static __always_inline void comm_use(const struct bpfprof_gpu_key *key, __u32 file_nr, __u64 now)
{
	struct bpfprof_gpu_comm_key at = { .start_ns = key->start_ns,
					   .comm = key->handle,
					   .pid = key->pid };
	struct bpfprof_gpu_comm *comm = bpf_map_lookup_elem(&gpu_comms, &at);
	struct bpfprof_gpu_comm fresh = { .rank = RANK_UNKNOWN };

	if (!comm) {
		bpf_map_update_elem(&gpu_comms, &at, &fresh, BPF_NOEXIST);
		comm = bpf_map_lookup_elem(&gpu_comms, &at);
		if (!comm) {
			gpu_count(GPU_COUNT_COMMS_FULL);
			return;
		}
	}
	if (!comm->size || !comm->hash)
		comm_read(comm, at.comm, file_nr);
	__sync_fetch_and_add(&comm->calls, 1);
	comm->last_ns = now;
	comm->last_function = key->function;
}

/*
 * Adds a new communicator. Not all functions have the rank as an argument, and in a group it is
 * valid later.
 */
static __always_inline void comm_note(const struct bpfprof_gpu_open *open,
				      const struct bpfprof_gpu_function *f, __u64 now)
{
	struct bpfprof_gpu_comm_key key = { .start_ns = open->key.start_ns, .pid = open->key.pid };
	struct bpfprof_gpu_comm comm = { .rank = RANK_UNKNOWN,
					 .last_ns = now,
					 .last_function = open->key.function };

	if (user_read(&key.comm, 8, open->out) || !key.comm)
		return;
	comm_read(&comm, key.comm, open->file);
	/* A member of a growing communicator passes no rank. */
	if (f->extra && f->count && open->key.dims[0] != RANK_UNKNOWN) {
		comm.rank = open->key.dims[0];
		comm.size = open->key.dims[1];
	}
	if (bpf_map_update_elem(&gpu_comms, &key, &comm, BPF_ANY))
		gpu_count(GPU_COUNT_COMMS_FULL);
}

#endif
