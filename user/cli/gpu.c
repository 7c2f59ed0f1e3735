// SPDX-License-Identifier: Apache-2.0
/* bpfprof gpu: CUDA and NCCL calls of running programs. */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "base/time.h"
#include "cli/command.h"
#include "cli/gpu_job.h"
#include "cli/gpu_options.h"
#include "gpu/kernel_names.h"
#include "kernel/gpu_probes.h"
#include "kernel/gpu_waits_map.h"
#include "kernel/uprobe_multi.h"
#include "profile/aggregate.h"

#define AGGREGATE_BYTES (16U << 20)
#define TEXT_MAX (16U << 20)
#define LOOK_NS (20 * 1000000ULL) /* for new libraries, between two looks at what has come */
#define NAMES_LIVE_NS (50 * 1000000ULL) /* of each second */
#define NAMES_END_NS (2 * NS_PER_SECOND)
#define TICK_NS NS_PER_SECOND
#define IDLE_NS (5 * NS_PER_SECOND)
#define COLUMNS_DEFAULT 80
#define ROWS_DEFAULT 24
/* To another screen and back; the cursor to its corner; what is below it away; the end of a line. */
#define SCREEN_OPEN "\033[?1049h\033[?25l"
#define SCREEN_CLOSE "\033[?25h\033[?1049l"
#define SCREEN_HOME "\033[H"
#define SCREEN_REST "\033[J"
#define LINE_REST "\033[K"

static void on_sample(void *arg, const struct aggregate_input *input)
{
	(void)arg; /* there is no clock */
	(void)input;
}

static void on_exit_event(void *arg, const struct bpfprof_task_id *task, uint64_t cpu_ns)
{
	struct gpu_job *job = arg;

	(void)cpu_ns;
	if (!gpu_tally_exit(job->tally, task))
		return;
	gpu_probes_forget_threads(job->probes, task->pid, task->start_ns);
	gpu_waits_map_forget(&job->sampler.session, task->pid, task->start_ns, gpu_waits_told, job);
	gpu_waits_exit(job->waits, task->pid, task->start_ns);
}

static void on_call_stack(void *arg, const struct aggregate_input *input,
			  const struct bpfprof_gpu_call *call)
{
	struct gpu_job *job = arg;

	gpu_tally_stack(job->tally, input, call);
}

static void on_call(void *arg, const struct bpfprof_gpu_event *event)
{
	struct gpu_job *job = arg;

	gpu_tally_call(job->tally, event);
}

static void on_kernel_name(void *arg, const struct bpfprof_gpu_name *name)
{
	struct gpu_job *job = arg;

	gpu_tally_name(job->tally, name);
}

static void on_wait(void *arg, const struct bpfprof_gpu_wait *wait)
{
	struct gpu_job *job = arg;

	gpu_waits_record(job->waits, wait);
}

static void screen_measure(size_t *ret_columns, size_t *ret_rows)
{
	struct winsize size = { 0 };

	*ret_columns = COLUMNS_DEFAULT;
	*ret_rows = ROWS_DEFAULT;
	if (ioctl(STDOUT_FILENO, TIOCGWINSZ, &size))
		return;
	if (size.ws_col)
		*ret_columns = size.ws_col;
	if (size.ws_row)
		*ret_rows = size.ws_row;
}

/* As many lines as fit. What a target wrote is safe by now: gpu_table() sees to that. */
static void draw_text(const char *text, size_t rows)
{
	size_t len;

	fputs(SCREEN_HOME, stdout);
	for (; *text && rows > 1; rows--) {
		len = strcspn(text, "\n");
		fwrite(text, 1, len, stdout);
		fputs(LINE_REST "\n", stdout);
		text += len + (text[len] == '\n');
	}
	fputs(SCREEN_REST, stdout);
	fflush(stdout);
}

static int draw(struct gpu_job *job, struct gpu_picture *picture)
{
	__cleanup(buf_fini) struct buf text;
	size_t columns, rows;
	int err;

	buf_init(&text, TEXT_MAX);
	screen_measure(&columns, &rows);
	err = gpu_picture_take(picture, job);
	if (!err)
		gpu_names_find(job, picture, NAMES_LIVE_NS);
	if (!err)
		err = gpu_text(&text, job, picture, columns);
	if (!err)
		draw_text(text.data ? text.data : "", rows);
	return err;
}

static void say_watching(const struct gpu_job *job)
{
	const struct gpu_probes_library *libraries;
	size_t nr, i, hooked = 0;
	uint64_t functions = 0;

	libraries = gpu_probes_libraries(job->probes, &nr);
	for (i = 0; i < nr; i++) {
		hooked += !libraries[i].problem;
		functions += libraries[i].functions;
		if (libraries[i].problem)
			log_warn("%s: not watched: %s", libraries[i].path, libraries[i].problem);
	}
	log_info("watching %" PRIu64 " functions in %zu libraries", functions, hooked);
	if (!hooked)
		log_info("no process has loaded libcuda or libnccl yet");
}

static bool signal_arrived(int fd)
{
	struct signalfd_siginfo info;

	return read(fd, &info, sizeof(info)) == sizeof(info);
}

/* Until the time is over, a signal arrives or the targets are gone. */
static int loop(struct gpu_job *job, int signal_fd, bool live, struct gpu_picture *picture)
{
	uint64_t duration_ns = job->options->record.duration_ns;
	uint64_t end_ns = duration_ns ? job->start_ns + duration_ns : UINT64_MAX;
	uint64_t now_ns = job->start_ns, tick_ns = now_ns;
	struct pollfd fds[] = { { .fd = sampler_fd(&job->sampler), .events = POLLIN },
				{ .fd = signal_fd, .events = POLLIN } };
	int wait_ms, err = 0;

	while (now_ns < end_ns && !err) {
		wait_ms = sampler_run(&job->sampler);
		now_ns = time_monotonic_ns();
		if (gpu_probes_look(job->probes, now_ns, LOOK_NS))
			wait_ms = 0;
		if (now_ns >= tick_ns) {
			tick_ns = now_ns + TICK_NS;
			gpu_probes_sweep(job->probes, now_ns - IDLE_NS);
			if (live)
				err = draw(job, picture);
			if (sampler_targets_gone(&job->sampler)) {
				log_info("what was watched has exited");
				break;
			}
		}
		if (end_ns > now_ns && (end_ns - now_ns) / 1000000 < (uint64_t)wait_ms)
			wait_ms = (int)((end_ns - now_ns) / 1000000) + 1;
		poll(fds, 2, wait_ms);
		if (fds[1].revents && signal_arrived(signal_fd))
			break;
		now_ns = time_monotonic_ns();
	}
	return err;
}

static int print_text(struct gpu_job *job, const struct gpu_picture *picture)
{
	__cleanup(buf_fini) struct buf text;
	size_t columns, rows;
	int err;

	buf_init(&text, TEXT_MAX);
	screen_measure(&columns, &rows);
	err = gpu_text(&text, job, picture, columns);
	if (!err && text.data && (fputs(text.data, stdout) < 0 || fflush(stdout)))
		err = -errno;
	return err;
}

static bool to_stdout(const struct gpu_job *job)
{
	const struct record_options *record = &job->options->record;
	size_t i;

	for (i = 0; i < record->nr_outputs; i++)
		if (!strcmp(record->outputs[i].path, "-"))
			return true;
	return false;
}

static int finish(struct gpu_job *job, struct gpu_picture *picture)
{
	int err, status;

	/* What is under way: calls that were counted, but whose records have not been taken yet. */
	sampler_run(&job->sampler);
	job->end_ns = time_monotonic_ns();
	err = gpu_picture_take(picture, job);
	if (!err)
		gpu_names_find(job, picture, NAMES_END_NS);
	if (!err && !to_stdout(job))
		err = print_text(job, picture);
	if (err)
		log_error("%s", strerror(-err));
	status = gpu_files_write(job, picture);
	return err ? EXIT_FAILED : status;
}

static int run(struct gpu_job *job, int signal_fd)
{
	bool live = !job->options->once && isatty(STDOUT_FILENO);
	struct gpu_picture picture = { 0 };
	int status, err;

	status = sampler_start(&job->sampler);
	if (status)
		return status;
	while (gpu_probes_look(job->probes, time_monotonic_ns(), NS_PER_SECOND))
		sampler_run(&job->sampler);
	job->start_ns = time_monotonic_ns();
	job->start_wall_ns = time_wall_ns();
	if (!live)
		say_watching(job);
	else
		fputs(SCREEN_OPEN, stdout);
	err = loop(job, signal_fd, live, &picture);
	if (live) {
		fputs(SCREEN_CLOSE, stdout);
		fflush(stdout);
	}
	if (err) {
		log_error("%s", strerror(-err));
		status = EXIT_FAILED;
	} else {
		status = finish(job, &picture);
	}
	gpu_picture_fini(&picture);
	return status;
}

static int open_all(struct gpu_job *job)
{
	struct sampler_handlers handlers = { .sample = on_sample,
					     .exit = on_exit_event,
					     .call_stack = on_call_stack,
					     .call = on_call,
					     .kernel_name = on_kernel_name,
					     .wait = on_wait,
					     .arg = job };
	int status, err;

	err = aggregate_new(&job->aggregate, job->options->record.threads, AGGREGATE_BYTES);
	if (!err)
		err = gpu_tally_new(&job->tally, job->aggregate);
	if (!err)
		err = gpu_waits_new(&job->waits);
	if (!err)
		err = kernel_names_new(&job->names);
	if (err) {
		log_error("%s", strerror(-err));
		return EXIT_FAILED;
	}
	status = sampler_open(&job->sampler, &job->sampler_options, &handlers);
	if (status)
		return status;
	err = gpu_probes_new(&job->probes, &job->sampler.session, job->sampler.images,
			     job->sampler.runner);
	if (!err)
		return EXIT_DONE;
	log_error("calls cannot be watched: %s", strerror(-err));
	return EXIT_FAILED;
}

static int run_with(struct gpu_job *job)
{
	const struct record_options *record = &job->options->record;
	__cleanup(close_fd) int signal_fd = -1;
	sigset_t signals;
	int status;

	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	sigprocmask(SIG_BLOCK, &signals, NULL);
	signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
	if (signal_fd < 0) {
		log_error("%s", strerror(errno));
		return EXIT_FAILED;
	}
	job->sampler_options = (struct sampler_options){
		.hz = RECORD_HZ_DEFAULT,
		.pids = record->pids,
		.nr_pids = record->nr_pids,
		.no_subprocesses = record->no_subprocesses,
		.host_root = record->host_root,
		.gpu = true,
	};
	status = open_all(job);
	if (!status)
		status = run(job, signal_fd);
	gpu_probes_free(job->probes);
	sampler_close(&job->sampler);
	gpu_tally_free(job->tally);
	gpu_waits_free(job->waits);
	kernel_names_free(job->names);
	aggregate_free(job->aggregate);
	return status;
}

int gpu_run(const struct gpu_options *options)
{
	struct gpu_job job = { .options = options };
	int status = sampler_check();

	if (!status && !uprobe_multi_probe()) {
		log_error("calls cannot be watched: this kernel lacks uprobe_multi links; "
			  "remedy: Linux 6.6 or newer");
		status = EXIT_PRIVILEGE;
	}
	/* Before there are threads: it forks. */
	if (!status && !uprobe_multi_returns_are_safe()) {
		log_error(
			"calls cannot be watched: this kernel would end programs under seccomp "
			"where their calls return; remedy: Linux 6.14 or newer, or a later stable "
			"version of this one");
		status = EXIT_PRIVILEGE;
	}
	if (!status)
		status = gpu_files_check(&job);
	if (!status)
		status = sampler_check_targets(options->record.pids, options->record.nr_pids);
	return status ? status : run_with(&job);
}
