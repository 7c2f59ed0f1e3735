/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CAPTURE_SAMPLER_H
#define BPFPROF_CAPTURE_SAMPLER_H

/*
 * Room capture: opens, starts, runs and stops one recording, and chooses its processes.
 *
 * The parts that all commands which sample share: the loaded BPF programs, the clock, and tables of
 * processes, images and code objects. The caller owns the struct, which must not move between
 * sampler_open() and sampler_close(), and runs the loop: it waits for sampler_fd() in sampler_poll() and calls
 * sampler_run(). Every table is bounded, so a sampler may run for ever. Errors are reported on
 * standard error; statuses are those of base/exit_status.h.
 */

#include <poll.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/counters.h"
#include "capture/capture_options.h"
#include "capture/root_check.h"
#include "kernel/event.h"
#include "kernel/session.h"
#include "threads/thread_reader.h"

struct aggregate;
struct background;
struct aggregate_input;
struct bpfprof_task_state;
struct clock;
struct codes;
struct container;
struct containers;
struct deadline_runner;
struct dump;
struct process;
struct process_dump;
struct profile;
struct run_stats;
struct stats_reasons;
struct stream;
struct task_sampler;
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

/* Reads of environments, by result (sampler_ranks.c). */
struct sampler_ranks_stats {
	uint64_t read, found;
	uint64_t exited; /* the process ended before the read */
	uint64_t cut; /* the environment is longer than the limit */
	uint64_t blocked, unreadable, no_memory;
	uint64_t outside; /* the process is outside of our pid namespace */
	uint64_t deferred; /* the next sample tries again: the time for reads was used up */
};

/* --async (sampler_async.c). */
struct sampler_async_stats {
	struct budget budget; /* time for searches of all processes together */
	uint64_t early; /* samples of Python since the last search that found no asyncio */
	uint64_t failed; /* searches */
};

struct sampler {
	const struct capture_options *options;
	struct sampler_observer observers[SAMPLER_MAX_OBSERVERS];
	size_t nr_observers;
	struct thread_reader reader; /* the session, and the facts about processes */
	bool cut_map_reported; /* the user knows that a map of JIT code was not read whole */
	struct root_check root_check;
	struct tenant_budgets asking; /* time for finding containers */
	uint64_t expire_ns; /* when containers that have ended are forgotten next */
	uint64_t nr_container_deferred, nr_container_outside;
	uint64_t nr_tagged; /* samples with a container */
	struct tenant_budgets ranking; /* time for reading environments */
	struct sampler_ranks_stats ranks;
	struct sampler_async_stats async;
	uint64_t nr_gil_unknown; /* Python samples left out by --gil whose GIL is not known */
	struct codes *codes;
	/* Reads files and processes beside the loop; NULL: the loop waits for them (sampler_open()). */
	struct background *background;
	struct stream *stream;
	struct clock *clock;
	struct workers *workers; /* NULL without --worker, and with --steps */
	struct worker_steps *steps; /* NULL without --steps */
	struct gpu_probes *windows; /* NULL without gpu_windows, and with gpu, which has its own */
	struct waits *waits; /* NULL without waits */
	struct wakers *wakers; /* NULL without wakers */
	struct task_sampler *tasks; /* NULL without async, and without waits */
	uint64_t waits_open; /* waits that went on at the end, or at an interval boundary */
	uint64_t waits_unread; /* open waits whose user stack could not be read */
	uint64_t waits_unknown; /* threads that sleep then, without a known begin */
	uint32_t *
		target_pids; /* options->pids in the outermost pid namespace; 0: the process has ended */
	uint32_t target_program; /* image of the first target at the start; 0: not known */
	uint64_t waited_ns; /* for --start-at */
	bool attached; /* to the kernel; only the clock is missing */
	uint64_t tick_ns; /* when periodic work of the clock is due */
};

/* Before all else: does this machine have all that sampling needs? */
int sampler_check(void);
/* Every pid must be a live process, not a thread of another one. */
int sampler_check_targets(const pid_t *pids, size_t nr);

/* Loads everything. sampler_close() is due whatever this returns. */
int sampler_open(struct sampler *sampler, const struct capture_options *options);
/*
 * Between sampler_open() and sampler_start(). The kinds of events (kernel/event.h) follow from the
 * options: EVENT_SAMPLE is a sample that the filters want; titles come without --steps or with
 * gpu_trace. The caller adds at most SAMPLER_MAX_OBSERVERS.
 */
void sampler_observe(struct sampler *sampler, event_fn see, void *arg);
/* For parts of the sampler: passes an event to all observers. */
void sampler_emit(const struct sampler *sampler, const struct event *event);
/* The part of sampler_start() before the first sample; once. */
int sampler_attach(struct sampler *sampler);
/*
 * start_time.c, for --start-at: does all that precedes the first sample, and waits until the time has come. Passes on
 * events meanwhile. Without --start-at it does nothing. signal_fd becomes readable: EXIT_FAILED.
 */
int sampler_await_start(struct sampler *sampler, int signal_fd);
/* For --ready-fd: the recording runs. Without that flag it does nothing. */
void sampler_report_ready(const struct sampler *sampler);
/* Samples flow from here on. */
int sampler_start(struct sampler *sampler);
int sampler_fd(const struct sampler *sampler);
/* poll(2), meanwhile jobs run in the background. */
int sampler_poll(struct sampler *sampler, struct pollfd *fds, nfds_t nr, int timeout_ms);
/* Passes on the events that have come, and does periodic work. Milliseconds until the next call is due. */
int sampler_run(struct sampler *sampler);
/*
 * Adds pids and their descendants to the targets of these groups (bits from SAMPLER_GROUP << 1 on).
 * Reads the parents of all processes. ret_pids, unless NULL, gets the number by which samples know
 * each of the pids; 0: the process has ended. 0 or -errno.
 */
int sampler_targets_add(struct sampler *sampler, const pid_t *pids, size_t nr_pids, uint32_t groups,
			uint32_t *ret_pids);
/* Have all processes that -p names ended? Asks the kernel for each. */
bool sampler_targets_ended(const struct sampler *sampler);
/* The clock takes no samples after this. sampler_stop() is still due. */
void sampler_stop_clock(struct sampler *sampler);
/* Passes on samples that still wait for files and processes: for two seconds at most. */
void sampler_catch_up(struct sampler *sampler);
/* Nothing takes samples after this; samples that are still on their way are passed on. */
void sampler_stop(struct sampler *sampler);
/*
 * After sampler_stop() and sampler_run_stats(): frees all that profiles do not need, programs and maps
 * included, since symbols need the memory. The session must not be used any more.
 */
void sampler_let_go(struct sampler *sampler);
/* A zeroed struct is fine. */
void sampler_close(struct sampler *sampler);

/* sampler_input.c: does --comm match the name? */
bool sampler_comm_matches(const struct capture_options *options, const char comm[BPFPROF_COMM_LEN]);
/* sampler_async.c: a sample of Python has come. Looks for asyncio in its process, if that is due. */
void sampler_async(struct sampler *sampler, struct process *process, uint64_t ts_ns);
/* The same for the processes that are there before the first sample. */
void sampler_async_start(struct sampler *sampler);
/* Fills in the facts about a sample that aggregates take. False: no filter wants the sample. */
bool sampler_input(struct sampler *sampler, const struct sample_view *view,
		   struct aggregate_input *ret);
/* The same without the filters. */
void sampler_input_fill(struct sampler *sampler, const struct sample_view *view,
			struct aggregate_input *ret);

/*
 * sampler_waits.c: the same for a thread without a sample. ret borrows sample, which says that the
 * thread waits.
 */
bool sampler_thread_input(struct sampler *sampler, const struct bpfprof_task_state *state,
			  struct bpfprof_sample *sample, struct aggregate_input *ret);

/* The memory that such an input borrows. */
struct sampler_sleeper {
	struct bpfprof_sample sample;
	uint64_t user[BPFPROF_MAX_FRAMES];
	bool is_read; /* its user stack is known */
};

/* The same for a thread that sleeps, with the stack of thread_read(); process NULL: it was not read. */
bool sampler_sleeper_input(struct sampler *sampler, const struct bpfprof_task_state *state,
			   const struct dump *dump, const struct process_dump *process,
			   struct sampler_sleeper *to, struct aggregate_input *ret);

/* The end of an interval, which is the begin of the next one. */
struct sampler_rotate {
	struct thread_times *times; /* their boundary is at at_ns already; they are still open */
	uint64_t at_ns; /* CLOCK_MONOTONIC, a moment ago */
	uint64_t reading_ns; /* the limit for reading stacks; 0: the default */
	size_t max_pages; /* the limit of pages of one process that are kept; 0: the default */
	size_t max_frames; /* the limit of frames of one process; 0: the default */
	/* Chooses the threads that are reported. NULL: all. */
	bool (*wants)(void *arg, const struct aggregate_input *input);
	void *arg;
};

/*
 * sampler_waits.c: reports the times of threads until at_ns, including those of waits that go on. Passes
 * on samples meanwhile.
 */
void sampler_waits_rotate(struct sampler *sampler, const struct sampler_rotate *rotate);
/*
 * sampler_waits.c: does the same for the last time, after sampler_stop_clock() and before sampler_stop().
 * Sets rotate->at_ns: no sample of a wait counts time after it. The times need no boundary.
 */
void sampler_waits_end(struct sampler *sampler, struct sampler_rotate *rotate);

/* sampler_waits.c: the part of sampler_start() and of events that concerns waits. 0 or -errno. */
int sampler_waits_start(struct sampler *sampler);
void sampler_waits_thread_end(struct sampler *sampler, const struct bpfprof_waiter *waiter);

/*
 * sampler_container.c: the container of the process; NULL: none, or not known (yet). Cheap; borrowed
 * until the next sampler_run().
 */
const struct container *sampler_container(struct sampler *sampler, struct process *process);
/* Would sampler_container() wait for no file? The same for sampler_ranks_scan(). */
bool sampler_container_is_settled(const struct process *process, uint64_t now_ns);
bool sampler_ranks_are_settled(const struct process *process);
/* Names the containers in reader.refusals. */
void sampler_refusals_name(struct sampler *sampler);
/* Periodic work; borrowed containers become invalid. */
void sampler_containers_tick(struct sampler *sampler, uint64_t now_ns);

/* sampler_ranks.c: fills process->ranks if they can be found. Cheap once they are known. */
void sampler_ranks_scan(struct sampler *sampler, struct process *process);

extern const struct counter sampler_counters[], sampler_image_counters[];
/*
 * sampler_stats.c: adds the counters of the kernel, of the walker and of images since the start: lost,
 * clock, walk and files. Sets the run time of the BPF programs and the name of the clock.
 */
void sampler_stats(struct sampler *sampler, struct run_stats *stats);
/* Its two parts: the one of images works after sampler_let_go(), and grows with symbols. */
void sampler_run_stats(struct sampler *sampler, struct run_stats *stats);
void sampler_image_stats(const struct sampler *sampler, struct run_stats *stats);
/* Sets the CPU time and memory of this process and its maps; memory is the maximum of all calls. */
void sampler_own_usage(const struct sampler *sampler, struct run_stats *stats);

/*
 * sampler_profile.c: a finished profile of the aggregate, with the host's name; the caller fills in its
 * time and stats. Adds problems of files to files.
 * release: the aggregate is of no more use; its memory is freed early, see aggregate_free_samples().
 * *kernel_names_hidden is set to 1 if kernel addresses cannot be seen. 0 or -ENOMEM.
 */
int sampler_profile(struct sampler *sampler, struct aggregate *aggregate, bool release,
		    struct profile *ret, struct stats_reasons *files, int *kernel_names_hidden);
void sampler_warn_kernel_names(void);

/*
 * sampler_sweep.c: for the daemon, between two intervals: frees files and code that neither processes
 * nor aggregates (all samples without names yet) use any more.
 */
void sampler_sweep(struct sampler *sampler, const struct aggregate *const *aggregates, size_t nr);

#endif
