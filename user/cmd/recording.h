/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CMD_RECORDING_H
#define BPFPROF_CMD_RECORDING_H

/* The state of one `bpfprof record`, shared by record*.c and nobody else. */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/process_map.h"
#include "capture/memory_watch.h"
#include "capture/sampler.h"
#include "cmd/child_command.h"
#include "gpu/monitor.h"
#include "memory/monitor.h"
#include "profile/profile.h"
#include "profile/stats.h"

struct aggregate;
struct gpu_memory_log;
struct record_findings;
struct record_options;
struct record_timeline;
struct task_time;
struct thread_times;

/* Facts from /proc about a process when it was first seen. */
struct seen_process {
	struct hash_node node;
	struct process_key key;
	uint64_t cpu_ns, rss_bytes; /* at the beginning of the recording */
	uint32_t parent; /* in our own pid namespace */
	bool baseline; /* cpu_ns, rss_bytes and parent are known */
	bool reported; /* in the profile */
	char *cmdline; /* NULL if not known */
};

#define RECORDING_MAX_SEEN 4096

struct recording {
	const struct record_options *options;
	struct sampler sampler;
	struct aggregate *aggregate;
	struct gpu_monitor watch; /* with --gpu */
	struct gpu_memory_log *gpu_memory; /* NULL: no file shows the GPU's memory over time */
	struct memory_monitor pages; /* with --memory */
	struct run_stats memory_stats; /* of its profile */
	struct thread_times *times; /* NULL without --wall and --off-cpu */
	struct hash_table seen;
	struct memory_watch memory;
	struct child_command command; /* of `-- CMD` */
	uint64_t start_mono_ns, end_mono_ns, start_wall_ns;
	struct record_findings *findings; /* NULL with --no-findings */
	struct record_timeline *timeline; /* NULL without one */
	struct run_stats stats;
};

/* record_stats.c */
/* own_pid: in our own pid namespace, 0 = it has none there. */
void recording_see(struct recording *rec, uint32_t pid, uint32_t own_pid, uint64_t start_ns);
void recording_forget(struct recording *rec);
void recording_usage(struct recording *rec, struct profile *profile);
/* After sampling has stopped. */
void recording_stats(struct recording *rec);

/* record_files.c: 0, or EXIT_FAILED and an error if some output cannot be written. */
int recording_check_outputs(const struct record_options *options);
/* record_files.c: begins a timeline if one is wanted, after sampling has begun. An exit status. */
int recording_timeline_start(struct recording *rec);
/* calls, memory: to be written beside it; NULL without --gpu, --memory. */
int recording_write(struct recording *rec, const struct profile *profile,
		    const struct profile *calls, const struct profile *memory);

/* record_py_spy.c: changes the profile as --py-spy wants it. Without that flag it does nothing. 0 or -ENOMEM. */
int recording_py_spy(const struct recording *rec, struct profile *profile);

/* record_tasks.c */
void recording_tasks(struct recording *rec, const struct aggregate_input *input,
		     const struct task_time *time);

/* record_memory.c. Without --memory these do nothing, and the profile stays empty. */
int recording_memory_open(struct recording *rec); /* an exit status */
int recording_memory_start(struct recording *rec); /* the same; after sampler_start() */
void recording_memory_end(struct recording *rec); /* before sampler_stop() */
/* With symbols, and findings in place of those of record. 0 or -errno, which is reported. */
int recording_memory_profile(struct recording *rec, struct profile *ret);

#endif
