/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CAPTURE_SAMPLER_H
#define BPFPROF_CAPTURE_SAMPLER_H

/*
 * Room capture: opens, starts, runs and stops one recording, and chooses its processes.
 *
 * What every command that samples shares: the loaded BPF programs, what is known of processes,
 * images and code objects, and the clock. The caller owns the struct, which must not move
 * between sampler_open() and sampler_close(), and runs the loop: it waits for sampler_fd() and
 * calls sampler_run(). Every table in here is bounded, so it may run for ever. What goes wrong
 * is said on standard error; statuses are those of base/exit_status.h.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/counters.h"
#include "capture/capture_options.h"
#include "kernel/event.h"
#include "kernel/session.h"
#include "kernel/walk.h"

struct aggregate;
struct aggregate_input;
struct bpfprof_task_state;
struct clock;
struct codes;
struct container;
struct containers;
struct deadline_runner;
struct dump;
struct images;
struct process;
struct process_dump;
struct processes;
struct profile;
struct python_maps;
struct pythons;
struct remote_child;
struct run_stats;
struct stats_reasons;
struct stream;
struct tables;
struct thread_rest;
struct thread_times;
struct waits;
struct wakers;
struct worker_steps;
struct workers;

#define SAMPLER_GROUP 1U /* of session_target_add(): the options' own pids */

#define SAMPLER_MAX_OBSERVERS 4

/* Gets every event; `see` is called in the order in which observers were added. */
struct sampler_observer {
	event_fn see;
	void *arg;
};

/* Environments looked at, and what became of that (sampler_ranks.c). */
struct sampler_ranks_stats {
	uint64_t looked, found;
	uint64_t exited; /* before it could be read */
	uint64_t cut; /* longer than is read */
	uint64_t blocked, unreadable, no_memory;
	uint64_t outside; /* of our pid namespace */
	uint64_t deferred; /* put off to the next sample: it would have taken too much time */
};

struct sampler {
	const struct capture_options *options;
	struct sampler_observer observers[SAMPLER_MAX_OBSERVERS];
	size_t nr_observers;
	struct session session;
	struct walker walker;
	struct deadline_runner *runner;
	struct processes *processes;
	struct images *images;
	struct private_files *private_files;
	struct tables *tables;
	struct pythons *pythons;
	struct python_maps *python_maps;
	struct containers *containers;
	bool cut_map_reported; /* that a map of JIT code was not read whole */
	struct budget asking; /* for containers */
	uint64_t expire_ns; /* when containers that are gone are to be forgotten */
	uint64_t nr_container_deferred, nr_container_outside;
	uint64_t nr_tagged; /* samples that have a container */
	struct budget ranking;
	struct sampler_ranks_stats ranks;
	uint64_t nr_gil_unknown; /* Python samples that --gil left out without knowing */
	struct codes *codes;
	struct stream *stream;
	struct clock *clock;
	struct workers *workers; /* NULL without --worker, and with --steps */
	struct worker_steps *steps; /* NULL without --steps */
	struct gpu_probes *windows; /* NULL without gpu_windows, and with gpu, which has its own */
	struct waits *waits; /* NULL without waits, */
	struct remote_child *remote; /* while stacks are read */
	struct wakers *wakers; /* NULL if not asked for */
	uint64_t waits_open; /* that were not over at the end, or at a border; */
	uint64_t waits_unread; /* and whose user stack was not to be had */
	uint64_t waits_unknown; /* threads that sleep then, since nobody knows when */
	uint32_t *target_pids; /* of options->pids, in the outermost pid namespace; 0: gone */
	uint32_t
		target_program; /* image of the first one of these when sampling began, 0: not known */
	uint64_t tick_ns; /* when the clock wants to be looked after */
};

/* Before all else: is what sampling cannot do without here? */
int sampler_check(void);
/* Every pid must be a live process, not one of its other threads. */
int sampler_check_targets(const pid_t *pids, size_t nr);

/* Loads everything. sampler_close() is due whatever this returns. */
int sampler_open(struct sampler *sampler, const struct capture_options *options);
/*
 * Between sampler_open() and sampler_start(). The kinds of events (kernel/event.h) follow from the
 * options: EVENT_SAMPLE is a sample that was asked for, titles come without --steps or with
 * gpu_trace. The caller adds at most SAMPLER_MAX_OBSERVERS.
 */
void sampler_observe(struct sampler *sampler, event_fn see, void *arg);
/* Of the sampler's parts: hands an event to all observers. */
void sampler_emit(const struct sampler *sampler, const struct event *event);
/* Samples flow from here on. */
int sampler_start(struct sampler *sampler);
int sampler_fd(const struct sampler *sampler);
/* Hands over what has come and does what is due. Milliseconds until it wants to be called again. */
int sampler_run(struct sampler *sampler);
/*
 * More pids, and what descends from them, for session_target_groups(): groups are bits from
 * SAMPLER_GROUP << 1 on. Looks at all processes there are. ret_pids, unless NULL, gets what samples
 * call each of pids, 0: it is gone. 0 or -errno.
 */
int sampler_targets_add(struct sampler *sampler, const pid_t *pids, size_t nr_pids, uint32_t groups,
			uint32_t *ret_pids);
/* Have all processes that -p named ended? Asks the kernel for each. */
bool sampler_targets_gone(const struct sampler *sampler);
/* No samples of the clock after this. sampler_stop() is still due. */
void sampler_stop_clock(struct sampler *sampler);
/* No samples after this; those that are still on their way are handed over. */
void sampler_stop(struct sampler *sampler);
/*
 * After sampler_stop() and sampler_run_stats(): gives back what profiles are not made of, programs and
 * maps among it. Symbols want their memory. Who shares the session has to be done with it.
 */
void sampler_let_go(struct sampler *sampler);
/* A zeroed struct is fine. */
void sampler_close(struct sampler *sampler);

/* sampler_input.c: is it a name that --comm means? */
bool sampler_comm_matches(const struct capture_options *options, const char comm[BPFPROF_COMM_LEN]);
/* What is known of a sample for who takes it. False: it was not asked for. */
bool sampler_input(struct sampler *sampler, const struct sample_view *view,
		   struct aggregate_input *ret);
/* The same of every sample, whether or not it was asked for. */
void sampler_input_fill(struct sampler *sampler, const struct sample_view *view,
			struct aggregate_input *ret);

/*
 * sampler_waits.c: the same of a thread that no sample came of. sample is what ret borrows, and says
 * that it waits.
 */
bool sampler_thread_input(struct sampler *sampler, const struct bpfprof_task_state *state,
			  struct bpfprof_sample *sample, struct aggregate_input *ret);

/* What such an input borrows. */
struct sampler_sleeper {
	struct bpfprof_sample sample;
	uint64_t user[BPFPROF_MAX_FRAMES];
	bool is_read; /* its user stack is known */
};

/* The same file: of one that sleeps, with its stack as dump_read() has read it; process: NULL, it has not. */
bool sampler_sleeper_input(struct sampler *sampler, const struct bpfprof_task_state *state,
			   const struct dump *dump, const struct process_dump *process,
			   struct sampler_sleeper *to, struct aggregate_input *ret);

/* Where an interval ends and the next one begins. */
struct sampler_rotate {
	struct thread_times *times; /* whose border is at at_ns already; not to be closed yet */
	uint64_t at_ns; /* CLOCK_MONOTONIC, a moment ago */
	uint64_t reading_ns; /* reading stacks may take so long; 0: the default */
	size_t max_pages; /* of one process's memory, kept meanwhile; 0: the default */
	size_t max_frames; /* of its threads, the same */
	/* What of it is told. NULL: all. */
	bool (*wants)(void *arg, const struct aggregate_input *input);
	void *arg;
};

/*
 * The same file: tells what threads have done until then, waits that are not over among it. Hands over
 * samples meanwhile.
 */
void sampler_waits_rotate(struct sampler *sampler, const struct sampler_rotate *cut);
/*
 * The same for the last time: after sampler_stop_clock() and before sampler_stop(). Sets cut->at_ns: no
 * sample of a wait tells of time after it. Needs no border.
 */
void sampler_waits_end(struct sampler *sampler, struct sampler_rotate *cut);

/* The same file: what sampler_open() and so on do for waits. 0 or -errno. */
int sampler_waits_start(struct sampler *sampler);
void sampler_waits_thread_end(struct sampler *sampler, const struct bpfprof_waiter *waiter);

/*
 * sampler_container.c: the container that the process lives in, NULL if it lives in none or that is
 * not known (yet). Cheap to ask; borrowed until the next sampler_run().
 */
const struct container *sampler_container(struct sampler *sampler, struct process *process);
/* Now and then; nothing that was borrowed may be held. */
void sampler_containers_tick(struct sampler *sampler, uint64_t now_ns);

/* sampler_ranks.c: sees to it that process->ranks is known, if it can be. Cheap once it is. */
void sampler_ranks_scan(struct sampler *sampler, struct process *process);

extern const struct counter sampler_counters[], sampler_image_counters[];
/*
 * sampler_stats.c: adds what was counted since the start in the kernel, by the walker and of
 * images: lost, clock, walk and files; sets the BPF programs' run time and the clock's name.
 */
void sampler_stats(struct sampler *sampler, struct run_stats *stats);
/* Its two parts: that of images alone is to be had after sampler_let_go(), and grows with symbols. */
void sampler_run_stats(struct sampler *sampler, struct run_stats *stats);
void sampler_image_stats(const struct sampler *sampler, struct run_stats *stats);
/* Sets what this process and its maps cost; of memory the most that it was at any such call. */
void sampler_own_usage(const struct sampler *sampler, struct run_stats *stats);

/*
 * sampler_profile.c: a finished profile of what aggregate holds, with the host's name; the caller fills
 * in when it was and stats. Problems of files found on the way are added to files.
 * *kernel_names_hidden is set to 1 if kernel addresses cannot be seen. 0 or -ENOMEM.
 */
int sampler_profile(struct sampler *sampler, const struct aggregate *aggregate, struct profile *ret,
		    struct stats_reasons *files, int *kernel_names_hidden);
void sampler_warn_kernel_names(void);

/*
 * sampler_sweep.c: for who runs for ever, between two intervals: lets go of files and code that
 * are in use no more, nor in aggregates (all samples that are still to be named).
 */
void sampler_sweep(struct sampler *sampler, const struct aggregate *const *aggregates, size_t nr);

#endif
