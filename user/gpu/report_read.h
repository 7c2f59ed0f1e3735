/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_GPU_REPORT_READ_H
#define BPFPROF_GPU_REPORT_READ_H

/*
 * What `report --nccl` needs of several files of `bpfprof gpu --once --json`. A file may come from
 * anywhere: it is bounded in bytes, depth and in how much is kept of it; what has the wrong type is
 * skipped and counted. Strings are as the file has them, up to a NUL, not yet fit for a terminal.
 * What belongs to a process stands together, [first, first + nr) of an array. Everything
 * lives until gpu_read_fini().
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GPU_READ_FILE_BYTES (64U << 20)
#define GPU_READ_FILES 1024

struct strtab;

struct gpu_read_file {
	const char *path; /* as it was named */
	const char *host;
	double seconds; /* that it was watched for, 0: not known */
	size_t nr_processes;
};

struct gpu_read_range {
	size_t first, nr;
};

struct gpu_read_process {
	uint32_t file;
	uint64_t pid;
	const char *name, *container, *pod, *namespace, *ray_task, *rank; /* "": not known */
	bool silent; /* it has NCCL, made no call and was in none: nothing else is told of it */
	struct gpu_read_range comms, operations, completions, open;
	struct gpu_read_range where; /* threads, where it has nothing open */
	bool device_known;
	uint64_t device_free, device_total, live_bytes;
};

struct gpu_read_comm {
	uint32_t process;
	uint32_t rank, size; /* rank < size, where they are */
	bool known; /* hash, rank and size are */
	uint64_t comm; /* its address, what the others name it by */
	uint64_t hash;
	uint64_t calls; /* from when it was met on */
	const char *last; /* function, or "" */
};

struct gpu_read_operation {
	uint32_t process;
	const char *operation, *datatype;
	uint64_t comm, stream;
	uint64_t calls, bytes, ns, max_ns; /* of all calls */
	bool captured; /* written into a graph, where they wait for nobody */
};

/* Collectives of one size: those that were seen to be complete, and those that were not yet. */
struct gpu_read_completion {
	uint32_t process;
	const char *operation, *datatype;
	uint64_t comm;
	uint64_t bytes; /* of one */
	uint64_t count, ns, max_ns; /* from the call until it was seen, of all of those */
	uint64_t within_ns; /* by how much they may have been complete before */
	uint64_t pending; /* those that were not; */
	double pending_seconds; /* since the oldest was called, 0: not known; */
	uint64_t pending_stream; /* and what it was put on */
};

/* Collectives of one kind in a group. */
struct gpu_read_grouped {
	const char *operation, *datatype;
	uint64_t comm, stream;
	uint64_t bytes, count; /* of one; of these */
	bool between_two; /* a send or receive: */
	uint32_t peer;
};

/* A call that had not returned. */
struct gpu_read_open {
	uint32_t process;
	uint64_t tid;
	const char *thread, *function;
	double seconds; /* since it began, not negative; */
	bool since_before; /* or at least so long, before it was watched: what follows may be 0 then */
	uint64_t stream, comm, bytes;
	struct gpu_read_range
		group; /* of ncclGroupEnd: what it waits for, as far as that is told */
	bool peer_known; /* of a send or receive: */
	uint32_t peer;
	uint64_t group_calls; /* in it, 0: not known */
	bool group_complete; /* nothing else is in it, and something is */
	struct gpu_read_range frames; /* leaf first */
};

/* A thread of a process that has nothing open. */
struct gpu_read_where {
	uint32_t process;
	uint64_t tid;
	const char *thread;
	bool was_in_nccl; /* as the last of its process that was seen there */
	bool running; /* on a CPU */
	struct gpu_read_range frames; /* leaf first; none: not known */
};

struct gpu_read {
	struct gpu_read_file *files;
	size_t nr_files, cap_files;
	struct gpu_read_process *processes;
	size_t nr_processes, cap_processes;
	struct gpu_read_comm *comms;
	size_t nr_comms, cap_comms;
	struct gpu_read_operation *operations;
	size_t nr_operations, cap_operations;
	struct gpu_read_completion *completions;
	size_t nr_completions, cap_completions;
	struct gpu_read_open *open;
	size_t nr_open, cap_open;
	struct gpu_read_grouped *grouped;
	size_t nr_grouped, cap_grouped;
	struct gpu_read_where *where;
	size_t nr_where, cap_where;
	const char **frames;
	size_t nr_frames, cap_frames;
	uint64_t nr_not_understood; /* entries of another type than they should have */
	uint64_t nr_left_out; /* entries past what is kept */
	struct strtab *strings;
};

int gpu_read_init(struct gpu_read *read); /* 0 or -ENOMEM */
void gpu_read_fini(struct gpu_read *read);

/*
 * Adds the file of that name with the content text[len]. 0, -EBADMSG (not what gpu --json writes),
 * -E2BIG (over GPU_READ_FILE_BYTES or GPU_READ_FILES, or too much to parse), -ENOMEM. After an error
 * a part of the file may have been added.
 */
int gpu_read_add(struct gpu_read *read, const char *path, const char *text, size_t len);

/* The communicator at that address in a process, or NULL. */
const struct gpu_read_comm *gpu_read_comm_of(const struct gpu_read *read, uint32_t process,
					     uint64_t comm);

/* Is it a send or receive, which is between two ranks and not of all? */
bool gpu_read_is_between_two(const char *operation);

#endif
