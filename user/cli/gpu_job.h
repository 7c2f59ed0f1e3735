/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CLI_GPU_JOB_H
#define BPFPROF_CLI_GPU_JOB_H

/* The state of one `bpfprof gpu`, shared by gpu*.c and nobody else. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "cli/sampler.h"
#include "gpu_calls.h"
#include "profile/gpu_tally.h"
#include "profile/gpu_waits.h"

struct aggregate;
struct buf;
struct gpu_function;
struct gpu_options;
struct gpu_report_completion;
struct gpu_report_starved;
struct gpu_probes;
struct kernel_names;
struct strtab;

struct gpu_open_call {
	uint32_t tid;
	char thread[BPFPROF_COMM_LEN + 1];
	struct bpfprof_gpu_open open; /* the outermost one of its thread */
};

struct gpu_comm_entry {
	struct bpfprof_gpu_comm_key key;
	struct bpfprof_gpu_comm comm;
};

struct gpu_memory_entry {
	struct bpfprof_gpu_process_key key;
	struct bpfprof_gpu_memory memory;
};

/* What the kernel's maps held when they were read, each sorted by process. */
struct gpu_picture {
	struct gpu_tally_count *counts;
	size_t nr_counts, cap_counts;
	struct gpu_open_call *open;
	size_t nr_open, cap_open;
	struct gpu_comm_entry *comms;
	size_t nr_comms, cap_comms;
	struct gpu_memory_entry *memory;
	size_t nr_memory, cap_memory;
	uint64_t counters[GPU_NR_COUNTERS];
	uint64_t ts_ns;
	bool no_memory; /* some of it is missing */
};

struct gpu_job {
	const struct gpu_options *options;
	struct sampler_options sampler_options;
	struct sampler sampler;
	struct aggregate *aggregate;
	struct gpu_tally *tally;
	struct gpu_waits *waits;
	struct gpu_probes *probes;
	struct kernel_names *names;
	uint64_t start_ns, start_wall_ns, end_ns; /* end_ns: 0 while it runs */
};

/* gpu_picture.c: 0 or -ENOMEM. */
int gpu_picture_take(struct gpu_picture *picture, const struct gpu_job *job);
/* What the kernel has counted of a process, to the waits and the tally of a job, which is arg. */
void gpu_waits_told(void *arg, const struct bpfprof_gpu_waits *process);
void gpu_picture_fini(struct gpu_picture *picture);
/* The communicator of a collective, or NULL. */
const struct gpu_comm_entry *gpu_picture_comm(const struct gpu_picture *picture,
					      const struct bpfprof_gpu_key *key);

/* gpu_names.c: tells the tally what kernels that it has no name for are called, as far as time allows. */
void gpu_names_find(struct gpu_job *job, const struct gpu_picture *picture, uint64_t limit_ns);

/* gpu_text.c: adds the table, or the JSON. columns: of the terminal. 0 or -ENOMEM. */
int gpu_text(struct buf *dst, struct gpu_job *job, const struct gpu_picture *picture,
	     size_t columns);

/* gpu_text_waits.c: the value of what gpu_nccl_extra() names, as text; constant or in room. */
const char *gpu_extra_text(const struct gpu_function *function, uint32_t value, char room[16]);
/*
 * The same file: what is known of when the collectives of a process were complete. How many it
 * filled in: at most all rows of waits. Strings are kept in strings, or constants.
 */
size_t gpu_completions_fill(struct gpu_report_completion *to, const struct gpu_waits *waits,
			    const struct gpu_tally_process *process, struct strtab *strings);

void gpu_starved_fill(struct gpu_report_starved *to, const struct gpu_waits *waits,
		      const struct gpu_tally_process *process, uint64_t now_ns);

/* gpu_files.c: before it begins, and at the end; what went wrong is said. An exit status. */
int gpu_files_check(const struct gpu_job *job);
int gpu_files_write(struct gpu_job *job, const struct gpu_picture *picture);

#endif
