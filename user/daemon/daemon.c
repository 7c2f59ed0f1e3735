// SPDX-License-Identifier: Apache-2.0
/* bpfprof daemon: a profile of the machine per interval, for ever. */
#include "daemon/daemon.h"

#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/background.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/exit_status.h"
#include "base/log.h"
#include "base/signals.h"
#include "base/time.h"
#include "daemon/http.h"
#include "daemon/http_library.h"
#include "daemon/service.h"
#include "formats/output.h"
#include "proc/self.h"
#include "profile/aggregate.h"
#include "profile/thread_times.h"

#define AGGREGATE_MIN_BYTES (2U << 20) /* also if everything else takes the memory */
#define CALL_KEYS 2048 /* of one process: the tables have room for eight workers with as many */
#define TIMES_BYTES                                                                                \
	(2ULL << 20) /* of that, the times of threads; more of them take room from stacks */
#define CLOCK_STEP_NS NS_PER_SECOND
#define LAST_JOBS_NS (NS_PER_SECOND / 2) /* the time for jobs with samples of an ended interval */
#define LISTEN_DEFAULT "127.0.0.1:9464"
#define LOCK_WAIT_MS 15000 /* the last writer of a killed daemon may still be at work */
#define MESSAGE_MAX 4096
/* A group of session_target_add(); remote_profile.c has the groups above. */
#define FILTER_GROUP_A (SAMPLER_GROUP << 1)
#define FILTER_GROUP_B (SAMPLER_GROUP << 2)

static uint64_t offset_now(void)
{
	return time_wall_ns() - time_monotonic_ns();
}

/*
 * The first multiple of the interval's length after moment_ns that is at least half an interval
 * after its start.
 */
static uint64_t next_boundary(const struct daemon *daemon, const struct interval *interval,
			      uint64_t moment_ns)
{
	uint64_t length = daemon->options->interval_seconds * NS_PER_SECOND;
	uint64_t after = interval->start_ns + length / 2;
	uint64_t wall;

	if (after < moment_ns + 1)
		after = moment_ns + 1;
	wall = after + interval->offset_ns;
	return (wall + length - 1) / length * length - interval->offset_ns;
}

/*
 * A new aggregate gets the memory that the aggregates before it, which are still being written,
 * leave.
 */
static int interval_begin(struct daemon *daemon, struct interval *interval, uint64_t now_ns)
{
	size_t taken = daemon->writer.pid ? daemon->writer.aggregate_bytes : 0;
	size_t bytes = daemon->aggregate_bytes;
	uint64_t begin_ns;
	int err;

	if (daemon->ended.aggregate)
		taken += aggregate_bytes(daemon->ended.aggregate);
	if (daemon->times && thread_times_bytes(daemon->times) > TIMES_BYTES)
		taken += thread_times_bytes(daemon->times) - TIMES_BYTES;
	/*
	 * The next aggregate gets as much as this one; otherwise every other interval would have
	 * little.
	 */
	if (taken + bytes / 2 < bytes)
		bytes /= 2;
	else
		bytes = taken + bytes / 4 < bytes ? bytes - taken : bytes / 4;
	interval->end_ns = next_boundary(daemon, interval, now_ns);
	err = aggregate_new(&interval->aggregate, daemon->options->threads, bytes);
	if (err || daemon->options->capture.session.waits)
		return err;
	/* Without memory for seconds the interval does without them. */
	begin_ns = interval->start_ns - (interval->start_ns + interval->offset_ns) % NS_PER_SECOND;
	aggregate_seconds_keep(interval->aggregate, begin_ns);
	return 0;
}

/*
 * The running interval ends at its boundary, and the next one begins there. If the interval before
 * it still waits for the writer, or memory is short, the running interval is extended to a later
 * boundary.
 */
static void interval_pass(struct daemon *daemon, uint64_t now_ns)
{
	struct interval next = { .start_ns = daemon->running.end_ns,
				 .offset_ns = daemon->running.offset_ns };
	struct interval ended = daemon->running;
	uint64_t offset = offset_now();

	if (!daemon->ended.aggregate) {
		if (offset - next.offset_ns + CLOCK_STEP_NS > 2 * CLOCK_STEP_NS) {
			next.offset_ns = offset;
			next.clock_step = true;
		}
		daemon->ended = ended;
		if (!interval_begin(daemon, &next, now_ns)) {
			calls_rotate(daemon, &daemon->ended);
			daemon->totals.clock_steps += next.clock_step;
			if (next.clock_step)
				log_warn("the clock was set: profiles here overlap or have a gap");
			daemon->running = next;
			daemon_waits_boundary(daemon);
			return;
		}
		daemon->ended.aggregate = NULL;
	}
	daemon->totals.intervals_extended++;
	daemon->running.end_ns = next_boundary(daemon, &daemon->running, now_ns);
	log_warn("writing profiles takes longer than an interval: this interval is extended");
}

static void on_sample(struct daemon *daemon, const struct aggregate_input *input)
{
	uint64_t ts_ns = input->sample->rec.ts_ns;
	struct interval *interval;

	remote_profile_sample(daemon, input);
	if (!process_filter_wants(&daemon->filter, &daemon->sampler, input))
		return;
	if (ts_ns >= daemon->running.end_ns)
		interval_pass(daemon, ts_ns);
	if (daemon->times) {
		thread_times_add(daemon->times, input);
		return;
	}
	interval = &daemon->running;
	if (ts_ns < interval->start_ns && daemon->ended.aggregate)
		interval = &daemon->ended;
	aggregate_add(interval->aggregate, input);
}

static void on_event(void *arg, const struct event *event)
{
	struct daemon *daemon = arg;

	switch (event->kind) {
	case EVENT_SAMPLE:
		on_sample(daemon, event->input);
		break;
	case EVENT_THREAD_END:
		daemon_waits_thread_end(daemon, event->input, event->rest);
		break;
	case EVENT_EXIT:
		aggregate_exit(daemon->running.aggregate, event->task, event->end->cpu_ns);
		remote_profile_exit(daemon, event->task, event->end->cpu_ns);
		break;
	default:
		break;
	}
}

/* The filter of choice replaces the filter in force. 0, or -errno and nothing has changed. */
static int filter_set(struct daemon *daemon, struct process_choice *choice, struct buf *why)
{
	struct process_filter filter;
	int err;

	/* While both filters exist, the new one uses the other bit of two. */
	err = process_filter_open(
		&filter, &daemon->sampler, choice,
		daemon->filter.group == FILTER_GROUP_A ? FILTER_GROUP_B : FILTER_GROUP_A, why);
	if (err)
		return err;
	process_filter_close(&daemon->filter, &daemon->sampler);
	process_choice_fini(&daemon->choice);
	daemon->choice = *choice;
	*choice = (struct process_choice){ 0 };
	daemon->filter = filter;
	daemon->filter.choice = &daemon->choice;
	daemon->filter.report = true;
	calls_choose(daemon);
	return 0;
}

/* A reload replaces tokens; it can neither add the first one nor remove the last one. */
static void tokens_set(struct daemon_options *options, struct daemon_options *from)
{
	struct tokens old = options->tokens;

	if (!options->tokens.nr != !from->tokens.nr)
		log_warn("--allow-remote-profiling: a change takes effect at the next start");
	if (!options->tokens.nr || !from->tokens.nr)
		return;
	options->tokens = from->tokens;
	from->tokens = old;
}

/* Retention, filters, tokens and log level get the values that a start would give them now. */
static void reload(struct daemon *daemon)
{
	__cleanup(buf_fini) struct buf message = { .max = MESSAGE_MAX };
	struct log_field fields[] = { { .key = "retain_age_seconds" }, { .key = "retain_bytes" } };
	struct daemon_options options;
	struct config config;
	int err;

	err = daemon_configure(&options, &config, daemon->argc, daemon->argv, &message);
	if (err) {
		log_error("SIGHUP: %s: nothing is changed",
			  message.data ? message.data : "out of memory");
		return;
	}
	config_unload(&config); /* options have copies of it */
	err = filter_set(daemon, &options.choice, &message);
	if (err) {
		log_error("SIGHUP: %s: nothing is changed",
			  message.data ? message.data : strerror(-err));
		options_fini(&daemon_flags, &options);
		return;
	}
	tokens_set(daemon->options, &options);
	daemon->options->limits = options.limits;
	daemon->options->log_level = options.log_level;
	log_set_level(options.log_level);
	options_fini(&daemon_flags, &options);
	fields[0].number = daemon->options->limits.age_seconds;
	fields[1].number = daemon->options->limits.bytes;
	log_event(LOG_INFO, "reloaded", fields, sizeof(fields) / sizeof(fields[0]));
}

/* True: the daemon must end. */
static bool on_signals(struct daemon *daemon, int fd)
{
	bool quit = false;
	int signal;

	while ((signal = signals_next(fd))) {
		if (signal == SIGHUP)
			reload(daemon);
		else
			quit = true;
	}
	return quit;
}

static void sweep(struct daemon *daemon)
{
	const struct aggregate *aggregates[4 + REMOTE_PROFILE_MAX_PROFILES + DEATHS_MAX_WAITING] = {
		daemon->running.aggregate
	};
	struct aggregate *stacks = NULL;
	size_t nr = 1 + remote_profile_aggregates(daemon, aggregates + 1);

	if (daemon->options->capture.session.gpu)
		aggregates[nr++] = daemon->calls.watch.aggregate;
	if (daemon->options->capture.session.pages)
		aggregates[nr++] = daemon->pages.aggregate;
	if (daemon->options->capture.session.deaths) {
		nr += deaths_waiting(&daemon->deaths.seen, aggregates + nr);
		stacks = deaths_stacks(&daemon->deaths.seen);
	}
	if (stacks)
		aggregates[nr++] = stacks;
	sampler_sweep(&daemon->sampler, aggregates, nr);
	aggregate_free(stacks);
	daemon->sweep_due = false;
}

/*
 * Starts the writer, once the jobs with samples of the interval have ended. No job may be half done: the
 * writer is a fork of this process.
 */
static void interval_write_begin(struct daemon *daemon, uint64_t now_ns)
{
	const struct background *background = daemon->sampler.background;

	if (!daemon->ended.aggregate || daemon->writer.pid ||
	    (!background_is_idle(background) && now_ns < daemon->ended.end_ns + LAST_JOBS_NS) ||
	    !background_try_pause(daemon->sampler.background))
		return;
	memory_watch_fork(&daemon->memory, daemon->writer_bytes);
	writer_start(daemon);
	if (daemon->sweep_due) /* the last writer needed the whole interval */
		sweep(daemon);
	daemon->sweep_due = true;
	background_resume(daemon->sampler.background);
}

/*
 * Sweeps once the writer has ended: a page that changes while the writer lives is in memory twice, and a
 * sweep changes most of them.
 */
static void sweep_after_writer(struct daemon *daemon)
{
	if (!daemon->sweep_due || daemon->writer.pid || daemon->ended.aggregate ||
	    !background_try_pause(daemon->sampler.background))
		return;
	sweep(daemon);
	background_resume(daemon->sampler.background);
}

/* Runs until a signal asks the daemon to end. */
static void loop(struct daemon *daemon, int signal_fd)
{
	uint64_t now_ns;
	int ms;

	for (;;) {
		struct pollfd fds[] = {
			{ .fd = sampler_fd(&daemon->sampler), .events = POLLIN },
			{ .fd = signal_fd, .events = POLLIN },
			{ .fd = daemon->writer.pid ? daemon->writer.fd : -1, .events = POLLIN },
			{ .fd = daemon->http ? http_fd(daemon->http) : -1, .events = POLLIN },
		};

		ms = sampler_run(&daemon->sampler);
		now_ns = time_monotonic_ns();
		if (now_ns >= daemon->running.end_ns) {
			interval_pass(daemon, now_ns);
			/* Samples from before the interval boundary that have come meanwhile. */
			ms = sampler_run(&daemon->sampler);
		}
		daemon_waits_rotate(daemon);
		interval_write_begin(daemon, now_ns);
		sweep_after_writer(daemon);
		remote_profile_run(daemon, now_ns);
		writer_watch(daemon, now_ns);
		if (!memory_watch_poll(&daemon->memory,
				       aggregate_unused_bytes(daemon->running.aggregate), now_ns))
			aggregate_freeze(daemon->running.aggregate, AGGREGATE_MIN_BYTES);
		pages_run(daemon, now_ns);
		daemon_deaths_run(daemon, now_ns);
		daemon_stalls_run(daemon, now_ns);
		pushers_watch(daemon);
		refusals_log(daemon, now_ns);
		if ((daemon->http && http_is_pending(daemon->http)) || calls_run(daemon, now_ns))
			ms = 0;
		sampler_poll(&daemon->sampler, fds, sizeof(fds) / sizeof(fds[0]),
			     time_poll_ms(time_monotonic_ns(), daemon->running.end_ns, ms));
		if (daemon->http)
			http_run(daemon->http);
		if (fds[1].revents && on_signals(daemon, signal_fd))
			return;
		if (fds[2].revents)
			writer_done(daemon);
	}
}

/* Writes the intervals that are left. An exit status. */
static int finish(struct daemon *daemon, int signal_fd)
{
	uint64_t errors;

	daemon->quit_ns = time_monotonic_ns();
	service_notify("STOPPING=1");
	daemon_waits_end(daemon);
	sampler_stop(&daemon->sampler);
	daemon_deaths_last(daemon);
	if (!writer_finish(daemon, signal_fd))
		return EXIT_FAILED;
	if (daemon->ended.aggregate && (writer_start(daemon) || !writer_finish(daemon, signal_fd)))
		return EXIT_FAILED;
	if (!daemon->times)
		daemon->running.end_ns = time_monotonic_ns();
	daemon->ended = daemon->running;
	daemon->running.aggregate = NULL;
	calls_rotate(daemon, &daemon->ended);
	errors = daemon->totals.write_errors;
	writer_start(daemon);
	if (!writer_finish(daemon, signal_fd))
		return EXIT_FAILED;
	return daemon->totals.write_errors == errors ? EXIT_DONE : EXIT_FAILED;
}

static int folder_name(struct daemon *daemon)
{
	__cleanup(buf_fini) struct buf path = { .max = PATH_MAX };
	const struct output_names names = { .pid = (uint32_t)getpid(), .time_ns = time_wall_ns() };
	int err = output_expand_path(&path, daemon->options->output, &names);

	if (err)
		return err;
	daemon->output = buf_take(&path);
	return daemon->output ? 0 : -ENOMEM;
}

/* Waits for another daemon to end. 0 or -errno. */
static int folder_lock(struct daemon *daemon)
{
	int err, waited_ms = 0;

	err = folder_name(daemon);
	while (!err &&
	       (err = store_open(&daemon->store, daemon->output, &daemon->options->access)) ==
		       -EBUSY &&
	       waited_ms < LOCK_WAIT_MS) {
		if (!waited_ms)
			log_info("%s: another daemon has it, waiting", daemon->output);
		poll(NULL, 0, 100);
		waited_ms += 100;
		err = 0;
	}
	/* Other errors may be gone by the time that the first profile is written. */
	if (!err && daemon->options->access.has_group && store_check(daemon->store) == -EPERM)
		err = -EPERM;
	return err;
}

static void folder_failed(const struct daemon *daemon, int err)
{
	const char *output = daemon->output ? daemon->output : daemon->options->output;

	if (err == -EPERM && daemon->options->access.has_group)
		log_error("--group: files in %s cannot be given to group %u: bpfprof must be in "
			  "that group (systemd: SupplementaryGroups=, Kubernetes: "
			  "supplementalGroups) or have CAP_CHOWN, and own the folder",
			  output, daemon->options->access.group);
	else if (err == -EBUSY)
		log_error("--output %s: another daemon writes into it", output);
	else
		log_error("--output %s: cannot be used: %s", output, strerror(-err));
}

/* A folder of an earlier version, or one that kubelet has made, keeps its mode. */
static void folder_warn(const struct daemon *daemon)
{
	const struct store_access *access = &daemon->options->access;
	struct stat st;

	if (!fstat(store_fd(daemon->store), &st) && store_access_is_open(access, &st))
		log_warn("--output %s: every user can look into this folder, which existed before "
			 "(mode %04o): %s",
			 daemon->output, st.st_mode & 07777,
			 access->file_mode || access->has_group
				 ? "its mode is left alone, as it belongs to another user or is "
				   "for everybody; choose a folder below it"
				 : "add --file-mode 0640 to close it, or --file-mode 0644 if "
				   "everybody may read profiles");
	if (faccessat(store_fd(daemon->store), ".", W_OK | X_OK, AT_EACCESS) < 0)
		log_warn("--output %s: cannot be written: %s; no profile is kept until it can",
			 daemon->output, strerror(errno));
}

static int folder_open(struct daemon *daemon)
{
	struct store_counts counts = { 0 };
	int err = folder_lock(daemon);

	if (err) {
		folder_failed(daemon, err);
		return EXIT_FAILED;
	}
	if (daemon->options->split == DAEMON_SPLIT_POD)
		err = split_repair(daemon, &counts);
	else
		err = store_repair(daemon->store, time_wall_ns() / NS_PER_SECOND, &counts);
	if (!err && daemon->options->split == DAEMON_SPLIT_NODE)
		err = store_prune(daemon->store, &daemon->options->limits,
				  time_wall_ns() / NS_PER_SECOND, &counts);
	/* The folder may be usable by the time that the first profile is written. */
	if (err)
		log_warn("%s: %s", daemon->output, strerror(-err));
	folder_warn(daemon);
	daemon->totals.sets = counts.sets;
	daemon->totals.stored_bytes = counts.bytes;
	daemon->totals.stale_removed = counts.stale;
	return EXIT_DONE;
}

static const char *listen_problem(int err)
{
	return err == -ELIBACC ? HTTP_LIBRARY " cannot be loaded; install libmicrohttpd12"
			       : strerror(-err);
}

static const char *socket_problem(int err)
{
	return err == -ENOPROTOOPT
		       ? "needs Linux 6.5: older kernels do not say which process has connected"
	       : err == -EPERM
		       ? "only root or the user of the daemon may own its folder and write to it"
		       : strerror(-err);
}

/* Without --listen the daemon also runs if another process uses the port. */
static int listen_start(struct daemon *daemon)
{
	const char *address = daemon->options->listen ? daemon->options->listen : LISTEN_DEFAULT;
	char port[8];
	struct log_field fields[] = { { .key = "address", .text = address },
				      { .key = "port", .text = port } };
	int err;

	if (!strcmp(address, "none") && !daemon->options->socket)
		return EXIT_DONE;
	if (!strcmp(address, "none")) {
		log_error("--socket: is served beside HTTP, leave --listen none out");
		return EXIT_USAGE;
	}
	err = daemon_listen(daemon, address);
	if (!err && daemon->options->socket) {
		err = http_socket_open(daemon->http, daemon->options->socket);
		if (err) {
			log_error("--socket %s: %s", daemon->options->socket, socket_problem(err));
			return EXIT_FAILED;
		}
	}
	if (err && (daemon->options->listen || daemon->options->socket)) {
		log_error("--listen %s: %s", address, listen_problem(err));
		return EXIT_FAILED;
	}
	if (err) {
		log_warn("%s: no metrics: %s", address, listen_problem(err));
		return EXIT_DONE;
	}
	snprintf(port, sizeof(port), "%u", http_port(daemon->http));
	log_event(LOG_INFO, "listening", fields, sizeof(fields) / sizeof(fields[0]));
	return EXIT_DONE;
}

/* As with record, a process that is named by its pid must exist. */
static int filter_start(struct daemon *daemon)
{
	__cleanup(buf_fini) struct buf message = { .max = MESSAGE_MAX };
	int err = filter_set(daemon, &daemon->options->choice, &message);

	if (!err)
		return EXIT_DONE;
	log_error("%s", message.data ? message.data : strerror(-err));
	return err == -ENOENT ? EXIT_NO_TARGET : err == -EINVAL ? EXIT_PRIVILEGE : EXIT_FAILED;
}

static int run(struct daemon *daemon, int signal_fd)
{
	struct log_field fields[] = {
		{ .key = "folder", .text = daemon->output },
		{ .key = "interval_seconds", .number = daemon->options->interval_seconds },
		{ .key = "hz", .number = daemon->options->capture.session.hz },
		{ .key = "sets", .number = daemon->totals.sets },
		{ .key = "stale_removed", .number = daemon->totals.stale_removed }
	};
	struct self_usage self;
	int status;

	status = sampler_open(&daemon->sampler, &daemon->options->capture);
	sampler_observe(&daemon->sampler, on_event, daemon);
	if (!status && daemon->options->capture.session.gpu)
		status = calls_open(daemon);
	if (!status)
		status = pages_open(daemon);
	if (status)
		return status;
	daemon_deaths_open(daemon);
	daemon_stalls_open(daemon);
	status = sampler_start(&daemon->sampler);
	if (!status)
		status = filter_start(daemon);
	if (!status)
		status = pages_start(daemon);
	if (status)
		return status;
	daemon_deaths_start(daemon);
	daemon->running.start_ns = time_monotonic_ns();
	daemon->running.offset_ns = offset_now();
	if (interval_begin(daemon, &daemon->running, daemon->running.start_ns) ||
	    daemon_waits_open(daemon)) {
		log_error("out of memory");
		return EXIT_FAILED;
	}
	daemon->last_good_ns = daemon->running.start_ns;
	if (!self_usage_read(&self))
		memory_watch_begin(&daemon->memory, &daemon->sampler, daemon->sampling_bytes,
				   &self);
	/* It passes on the samples that come meanwhile. */
	if (daemon->options->capture.session.gpu) {
		gpu_monitor_start(&daemon->calls.watch);
		gpu_monitor_log(&daemon->calls.watch);
	}
	status = listen_start(daemon);
	if (status)
		return status;
	log_event(LOG_INFO, "sampling", fields, sizeof(fields) / sizeof(fields[0]));
	service_notify("READY=1");
	loop(daemon, signal_fd);
	status = finish(daemon, signal_fd);
	daemon_deaths_end(daemon, signal_fd);
	daemon_stalls_end(daemon);
	if (!daemon->asked_again)
		log_info("ended");
	return status;
}

int daemon_run(struct daemon_options *options, int argc, char *const argv[])
{
	struct daemon daemon = { .options = options, .argc = argc, .argv = argv };
	__cleanup(close_fd) int signal_fd = -1;
	int status;

	status = sampler_check();
	if (!status && options->capture.session.gpu)
		status = gpu_monitor_check();
	if (status)
		return status;
	signal_fd = signals_open((const int[]){ SIGINT, SIGTERM, SIGHUP, 0 }, NULL);
	if (signal_fd < 0) {
		log_error("%s", strerror(-signal_fd));
		return EXIT_FAILED;
	}
	options->capture.background_share = 4;
	options->capture.session.follow = true; /* a client may ask for a pid at any time */
	options->capture.session.gpu_waits = options->capture.session.gpu;
	options->capture.session.call_keys = CALL_KEYS;
	daemon_memory_share(&daemon);
	status = push_start(&daemon);
	if (!status)
		status = notify_start(&daemon);
	if (!status)
		status = folder_open(&daemon);
	if (!status)
		status = run(&daemon, signal_fd);
	pushers_end(&daemon);
	http_close(daemon.http);
	buf_fini(&daemon.metrics);
	if (daemon.sampler.options) {
		if (daemon.sampler.reader.session.skel)
			process_filter_close(&daemon.filter, &daemon.sampler);
		calls_close(&daemon);
		background_pause(daemon.sampler.background);
		daemon_stalls_close(&daemon);
		daemon_deaths_close(&daemon);
		hash_table_clear(&daemon.folders.tenants);
		memory_monitor_close(&daemon.pages);
		sampler_close(&daemon.sampler);
	}
	process_choice_fini(&daemon.choice);
	thread_times_free(daemon.times);
	aggregate_free(daemon.running.aggregate);
	aggregate_free(daemon.ended.aggregate);
	aggregate_free(daemon.ended.calls.aggregate);
	store_close(daemon.store);
	free(daemon.output);
	return status;
}
