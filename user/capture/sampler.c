// SPDX-License-Identifier: Apache-2.0
#include "capture/sampler.h"

#include <errno.h>
#include <inttypes.h>
#include <malloc.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/background.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/exit_status.h"
#include "base/log.h"
#include "base/time.h"
#include "base/vec.h"
#include "capture/container_filter.h"
#include "capture/ray_roles.h"
#include "capture/reader_open.h"
#include "capture/requirements.h"
#include "capture/target.h"
#include "capture/task_sampler.h"
#include "capture/worker_steps.h"
#include "capture/workers.h"
#include "kernel/clock.h"
#include "kernel/probes/gpu_probes.h"
#include "kernel/python_maps.h"
#include "kernel/stream.h"
#include "kernel/waits.h"
#include "proc/images.h"
#include "proc/pids.h"
#include "proc/processes.h"
#include "proc/usage.h"
#include "profile/aggregate.h"
#include "profile/wakers.h"
#include "python/codes.h"
#include "ray/worker_match.h"

#define CODES_BYTES (8U << 20)
/* Each larger table is a mapping of its own: what outgrows its place leaves no hole in the heap, 2 to 6 MiB in all. */
#define MMAP_BYTES (128 << 10)
#define TICK_NS NS_PER_SECOND
#define LEARN_NS                                                                                   \
	(NS_PER_SECOND / 5) /* 50 processes with torch take more than 50 ms on a slow machine */
#define LEARN_ALL_NS (10 * NS_PER_SECOND)
#define WINDOWS_SCAN_NS (20 * 1000000ULL) /* between two scans for new libraries */
#define MESSAGE_MAX 4096
#define LAST_JOBS_MS 2000 /* after the last sample */

static void on_sample(struct sampler *sampler, const struct sample_view *view)
{
	struct aggregate_input input;
	struct event event = { .kind = EVENT_SAMPLE, .input = &input };

	if (view->sample->flags & BPFPROF_SAMPLE_WAKER) { /* wakers are not filtered */
		sampler_input_fill(sampler, view, &input);
		wakers_add(sampler->wakers, &input);
		return;
	}
	if (!sampler_input(sampler, view, &input))
		return;
	if (sampler->reader.session.options.async && view->process && view->sample->nr_python)
		sampler_async(sampler, view->process, view->sample->rec.ts_ns);
	if (view->call) {
		event.kind = EVENT_CALL_STACK;
		event.call_stack = view->call;
		sampler_emit(sampler, &event);
		return;
	}
	if (view->sample->flags & (BPFPROF_SAMPLE_PAGE | BPFPROF_SAMPLE_BLOCK)) {
		event.kind = view->sample->flags & BPFPROF_SAMPLE_PAGE ? EVENT_PAGE : EVENT_BLOCK;
		sampler_emit(sampler, &event);
		return;
	}
	if (view->sample->flags & BPFPROF_SAMPLE_SIGNAL) {
		event.kind = EVENT_SIGNAL;
		sampler_emit(sampler, &event);
		return;
	}
	if (view->sample->flags & BPFPROF_SAMPLE_GAP) {
		event.kind = EVENT_GAP;
		sampler_emit(sampler, &event);
	}
	if (sampler->reader.session.options.gaps_alone &&
	    !(view->sample->flags & BPFPROF_SAMPLE_WAIT))
		return;
	if (sampler->options->gil && !(view->sample->python_flags & BPFPROF_PYTHON_GIL_HELD)) {
		sampler->nr_gil_unknown += view->sample->nr_python &&
					   !(view->sample->python_flags & BPFPROF_PYTHON_GIL_KNOWN);
		return;
	}
	sampler->nr_tagged += input.container != NULL;
	if (sampler->wakers && view->sample->flags & BPFPROF_SAMPLE_WAIT)
		input.waker = wakers_take(sampler->wakers, view->sample);
	event.kind = EVENT_SAMPLE;
	sampler_emit(sampler, &event);
}

static void on_event(void *arg, const struct event *event)
{
	struct sampler *sampler = arg;

	switch (event->kind) {
	case EVENT_SAMPLE:
		on_sample(sampler, event->view);
		return;
	case EVENT_EXEC:
		sampler_container(sampler, event->process);
		sampler_ranks_scan(sampler, event->process);
		break;
	case EVENT_WAITER:
		if (sampler->waits)
			sampler_waits_thread_end(sampler, &event->waiter->waiter);
		return;
	case EVENT_WINDOW:
		if (sampler->steps)
			worker_steps_window(sampler->steps, event->window);
		return;
	case EVENT_EXIT:
		if (sampler->steps)
			worker_steps_exit(sampler->steps, event->task);
		/* Observers may ask whether it was a target. */
		sampler_emit(sampler, event);
		session_target_remove(&sampler->reader.session, (pid_t)event->task->pid);
		return;
	case EVENT_TITLE:
		if (sampler->steps)
			worker_steps_title(sampler->steps, event->title, event->process);
		if (sampler->steps && !sampler->reader.session.options.gpu_trace)
			return;
		break;
	default:
		break;
	}
	sampler_emit(sampler, event);
}

/* Warns about libraries without windows: there, calls may count as steps. */
static void windows_report(struct sampler *sampler)
{
	const struct gpu_probes_library *libraries;
	size_t nr, i;

	libraries = gpu_probes_libraries(sampler->windows, &nr);
	for (i = 0; i < nr; i++)
		if (libraries[i].problem)
			log_warn("%s: windows of the profiler are not seen: %s", libraries[i].path,
				 libraries[i].problem);
	if (gpu_probes_losses(sampler->windows)->nr_refused)
		log_warn("windows of the profiler are not seen in %" PRIu64 " more libraries",
			 gpu_probes_losses(sampler->windows)->nr_refused);
}

/* Replaces auto by perf or timer. Returns an exit status. */
static int choose_clock(struct session_options *session)
{
	enum session_clock asked = session->clock;
	int err;

	session->clock = SESSION_CLOCK_TIMER;
	if (!session->no_clock && asked == SESSION_CLOCK_TIMER && !session->cycles)
		return EXIT_DONE;
	err = session->no_clock ? 0 : clock_probe_perf(session->cycles);
	if (!err) {
		session->clock = SESSION_CLOCK_PERF;
		return EXIT_DONE;
	}
	if (session->cycles) {
		log_error("--event cycles: %s; use the default, --event cpu-clock",
			  err == -ENOENT || err == -EOPNOTSUPP
				  ? "this machine has no hardware cycle counter"
				  : strerror(-err));
		return EXIT_PRIVILEGE;
	}
	if (asked == SESSION_CLOCK_PERF) {
		log_error("--clock perf: perf_event_open is refused (%s): sysctl -w "
			  "kernel.perf_event_paranoid=2, or use --clock timer",
			  strerror(-err));
		return EXIT_PRIVILEGE;
	}
	log_debug("perf_event_open is refused (%s): sampling by BPF timers", strerror(-err));
	return EXIT_DONE;
}

static int open_session(struct sampler *sampler, const struct session_options *session)
{
	int status = reader_open(&sampler->reader, session, sampler->options->host_root);

	if (!status && session->wakers && !session_knows_interrupts(&sampler->reader.session)) {
		log_error("--waker: threads and interrupts look alike, since /proc/kallsyms hides "
			  "the kernel's symbols; remedy: CAP_SYSLOG, and kernel.kptr_restrict "
			  "below 2");
		return EXIT_PRIVILEGE;
	}
	return status;
}

/* May the records of one process wait, and those of another one go on? Where calls and waits are put in order, no. */
static bool records_are_independent(const struct sampler *sampler)
{
	const struct session_options *session = &sampler->reader.session.options;

	return !session->gpu && !session->gpu_windows && !session->wakers &&
	       session->waits == SESSION_NO_WAITS && !sampler->options->steps.stop;
}

static bool is_settled(void *arg, struct process *process, const struct bpfprof_sample *sample)
{
	struct sampler *sampler = arg;
	uint64_t now_ns = time_monotonic_ns();

	return sampler_container_is_settled(process, now_ns) &&
	       (sample->flags & BPFPROF_SAMPLE_KTHREAD || sampler_ranks_are_settled(process)) &&
	       ray_roles_are_settled(sampler, process, sample, now_ns);
}

/* Makes the tables that only samples need. */
static int setup_samples(struct sampler *sampler)
{
	struct thread_reader *reader = &sampler->reader;
	size_t codes_bytes = sampler->options->codes_bytes;
	const struct stream_handlers handlers = { .see = on_event,
						  .is_settled = is_settled,
						  .arg = sampler };
	int err;

	err = python_maps_new(&reader->walker.python_maps, &reader->session);
	if (!err)
		err = codes_new(&sampler->codes, codes_bytes ? codes_bytes : CODES_BYTES);
	if (!err && sampler->options->background_share && records_are_independent(sampler))
		err = background_new(&sampler->background, &reader->refusals,
				     sampler->options->background_share);
	background_pause(sampler->background);
	return err ? err
		   : stream_new(&sampler->stream, &reader->session, &reader->walker, sampler->codes,
				sampler->background, &handlers);
}

static int cannot_start(int err)
{
	log_error("sampling cannot be started: %s", strerror(-err));
	return err == -EPERM || err == -EACCES ? EXIT_PRIVILEGE : EXIT_FAILED;
}

/* A process and its parent. */
struct parent {
	pid_t pid, parent;
};

struct parents {
	struct parent *list;
	size_t nr, cap;
};

static int note_parent(void *arg, pid_t pid, const struct proc_usage *usage)
{
	struct parents *parents = arg;

	if (vec_grow(parents->list, parents->nr + 1, parents->cap, VEC_BOUNDED))
		return -ENOMEM;
	parents->list[parents->nr++] = (struct parent){ .pid = pid, .parent = usage->parent };
	return 0;
}

/*
 * The pid in the kernel's view: in a pid namespace, /proc and the user have other pids. 0: the
 * process has ended.
 */
static uint32_t kernel_pid(struct sampler *sampler, pid_t pid)
{
	struct bpfprof_task_id task = { 0 };

	if (session_pids_are_the_nodes(&sampler->reader.session))
		return (uint32_t)pid;
	background_pause(sampler->background);
	if (walker_learn(&sampler->reader.walker, (uint32_t)pid, time_monotonic_ns(), &task))
		log_debug("pid %d: cannot be looked at", pid);
	background_resume(sampler->background);
	return task.pid;
}

/* Adds pid and, unless no_subprocesses is set, its present descendants. */
static int targets_add(struct sampler *sampler, pid_t pid, uint32_t groups, struct parents *parents,
		       uint32_t *ret_pid)
{
	uint32_t known = kernel_pid(sampler, pid), child;
	size_t i;
	int err = 0;

	*ret_pid = known;
	if (known)
		err = session_target_add(&sampler->reader.session, (pid_t)known, groups);
	if (err || sampler->options->no_subprocesses)
		return err;
	for (i = 0; i < parents->nr && !err; i++) {
		if (parents->list[i].parent != pid)
			continue;
		parents->list[i].parent = 0; /* the child is added once */
		err = targets_add(sampler, parents->list[i].pid, groups, parents, &child);
	}
	return err;
}

int sampler_targets_add(struct sampler *sampler, const pid_t *pids, size_t nr_pids, uint32_t groups,
			uint32_t *ret_pids)
{
	struct parents parents = { 0 };
	uint32_t known;
	size_t i;
	int err = 0, round;

	/*
	 * The second list has the children that were made while the first one was read; BPF adds
	 * later ones.
	 */
	for (round = 0; round < 2 && !err; round++) {
		parents.nr = 0;
		if (nr_pids && !sampler->options->no_subprocesses)
			err = pids_each(note_parent, &parents);
		for (i = 0; i < nr_pids && !err; i++) {
			err = targets_add(sampler, pids[i], groups, &parents, &known);
			if (ret_pids)
				ret_pids[i] = known;
		}
	}
	free(parents.list);
	return err;
}

static int setup_targets(struct sampler *sampler)
{
	const struct capture_options *options = sampler->options;
	struct parents none = { 0 };
	struct target target;
	uint32_t child;
	size_t i;
	int err;

	sampler->target_pids = calloc(options->nr_pids + 1, sizeof(*sampler->target_pids));
	if (!sampler->target_pids)
		return -ENOMEM;
	err = sampler_targets_add(sampler, options->pids, options->nr_pids, SAMPLER_GROUP,
				  sampler->target_pids);
	if (!err && options->child)
		err = targets_add(sampler, options->child, SAMPLER_GROUP | BPFPROF_TARGET_AT_EXEC,
				  &none, &child);
	/* A target that has ended since sampler_check_targets() raised no exit event. */
	for (i = 0; i < options->nr_pids && !err; i++)
		if (!target_probe(options->pids[i], &target) && target.zombie)
			session_target_remove(&sampler->reader.session,
					      (pid_t)sampler->target_pids[i]);
	return err;
}

/*
 * The kernel cannot walk a process that it does not know, and Python frames cannot be read later.
 * So this reads the existing processes before sampling starts: as many as possible in a short time,
 * the newest first.
 */
static void learn_processes(struct sampler *sampler)
{
	/* Without samples nothing reports the other processes later. */
	uint64_t limit_ns = sampler->reader.session.options.gpu ? LEARN_ALL_NS : LEARN_NS;
	uint64_t start_ns = time_monotonic_ns(), now_ns = start_ns;
	struct parents all = { 0 };
	pid_t pid;
	int err = 0;

	/* The targets were read when they were added. */
	if (sampler->reader.session.options.filter &&
	    !session_pids_are_the_nodes(&sampler->reader.session))
		return;
	if (pids_each(note_parent, &all))
		log_debug("not all processes could be looked at before sampling starts");
	while (all.nr && now_ns - start_ns < limit_ns) {
		pid = all.list[--all.nr].pid;
		if (!sampler->reader.session.options.filter ||
		    session_is_target(&sampler->reader.session, pid))
			err = walker_learn(&sampler->reader.walker, (uint32_t)pid, now_ns, NULL);
		/*
		 * The process may be about to map something, so that its lock is busy: one more
		 * try.
		 */
		if (err == -ETIMEDOUT && sampler->reader.session.options.gpu)
			walker_learn(&sampler->reader.walker, (uint32_t)pid, now_ns, NULL);
		err = 0;
		now_ns = time_monotonic_ns();
	}
	free(all.list);
}

/* The target may have no sample if only its children run. */
static void target_program_note(struct sampler *sampler)
{
	const struct process *process;
	size_t i;

	for (i = 0; i < sampler->options->nr_pids && !sampler->target_program; i++) {
		process = processes_find(sampler->reader.processes, sampler->target_pids[i]);
		sampler->target_program = process ? process->program : 0;
	}
}

int sampler_check(void)
{
	__cleanup(buf_fini) struct buf message = { .max = MESSAGE_MAX };

	mallopt(M_ARENA_MAX, 1);
	mallopt(M_MMAP_THRESHOLD, MMAP_BYTES);
	libbpf_log_init();
	if (!requirements_check(&message))
		return EXIT_DONE;
	log_error("%s", message.data ? message.data : "requirements: out of memory");
	return EXIT_PRIVILEGE;
}

int sampler_check_targets(const pid_t *pids, size_t nr)
{
	struct target target;
	size_t i;
	int err;

	for (i = 0; i < nr; i++) {
		err = target_probe(pids[i], &target);
		if (err == -ESRCH) {
			log_error("pid %d: no such process", pids[i]);
			return EXIT_NO_TARGET;
		}
		if (!err && target.zombie) {
			log_error("pid %d: the process has exited and only waits for its parent "
				  "(zombie)",
				  pids[i]);
			return EXIT_NO_TARGET;
		}
		if (!err && target.leader && target.leader != target.pid) {
			log_error("pid %d: is a thread of process %d, and -p takes processes",
				  pids[i], target.leader);
			return EXIT_NO_TARGET;
		}
	}
	return EXIT_DONE;
}

int sampler_open(struct sampler *sampler, const struct capture_options *options)
{
	struct session_options session = capture_session_options(options);
	int status, err;

	*sampler = (struct sampler){ .options = options };
	if (session.async && session.waits != SESSION_NO_WAITS) {
		err = task_sampler_new(&sampler->tasks, options->host_root);
		if (err)
			return cannot_start(err);
	}
	status = choose_clock(&session);
	if (!status)
		status = open_session(sampler, &session);
	if (status)
		return status;
	err = setup_samples(sampler);
	if (!err && options->session.wakers)
		err = wakers_new(&sampler->wakers);
	if (!err && options->steps.stop)
		err = worker_steps_new(&sampler->steps, sampler);
	if (!err && options->session.gpu_windows && !options->session.gpu)
		err = gpu_probes_new(&sampler->windows, &sampler->reader.session,
				     sampler->reader.images, sampler->reader.runner);
	if (!err && sampler->windows)
		worker_steps_windows(sampler->steps, sampler->windows);
	if (!err && options->nr_workers && !options->steps.stop)
		err = workers_new(&sampler->workers, options->workers, options->nr_workers);
	return err ? cannot_start(err) : EXIT_DONE;
}

/* Now that events of their exits come: a pid may have been reused since its user saw it. */
static int check_starts(const struct capture_options *options)
{
	size_t i;

	for (i = 0; i < options->nr_pids; i++) {
		if (target_has_start(options->pids[i], options->pid_start))
			continue;
		log_error("pid %d: no such process", options->pids[i]);
		return EXIT_NO_TARGET;
	}
	return EXIT_DONE;
}

int sampler_attach(struct sampler *sampler)
{
	int err;

	if (sampler->attached)
		return EXIT_DONE;
	err = session_attach(&sampler->reader.session);
	if (!err)
		err = setup_targets(sampler);
	if (err)
		return cannot_start(err);
	err = check_starts(sampler->options);
	if (err)
		return err;
	learn_processes(sampler);
	target_program_note(sampler);
	if (sampler->reader.session.options.async)
		sampler_async_start(sampler);
	if (sampler->reader.session.options.waits != SESSION_NO_WAITS)
		err = sampler_waits_start(sampler);
	sampler->attached = !err;
	return err ? cannot_start(err) : EXIT_DONE;
}

int sampler_start(struct sampler *sampler)
{
	int status = sampler_attach(sampler), err = 0;

	if (status)
		return status;
	if (sampler->steps)
		worker_steps_poll(sampler->steps);
	task_sampler_ready(sampler);
	if (!sampler->reader.session.options.no_clock)
		err = clock_start(&sampler->clock, &sampler->reader.session);
	if (err)
		return cannot_start(err);
	/* Before top has its screen. */
	root_check(&sampler->root_check, sampler->reader.images, sampler->options->host_root);
	background_resume(sampler->background);
	sampler->tick_ns = time_monotonic_ns() + TICK_NS;
	task_sampler_start(sampler);
	while (sampler->windows &&
	       gpu_probes_scan(sampler->windows, time_monotonic_ns(), NS_PER_SECOND))
		sampler_run(sampler);
	return EXIT_DONE;
}

int sampler_fd(const struct sampler *sampler)
{
	return stream_fd(sampler->stream);
}

int sampler_poll(struct sampler *sampler, struct pollfd *fds, nfds_t nr, int timeout_ms)
{
	return background_poll(sampler->background, fds, nr, timeout_ms);
}

static void readers_tick(struct sampler *sampler, uint64_t now_ns)
{
	sampler_containers_tick(sampler, now_ns);
	deadline_close_all(sampler->reader.runner);
}

static void tick_job(void *arg, const void *data, size_t bytes, bool late)
{
	readers_tick(arg, time_monotonic_ns());
	(void)data;
	(void)bytes;
	(void)late;
}

static void tick(struct sampler *sampler, uint64_t now_ns)
{
	const struct background_job job = { .fn = tick_job, .arg = sampler };

	if (sampler->clock)
		clock_tick(sampler->clock);
	root_check(&sampler->root_check, sampler->reader.images, sampler->options->host_root);
	sampler_refusals_name(sampler);
	if (!sampler->background)
		readers_tick(sampler, now_ns);
	else /* without room for it, the next tick tries again */
		background_post(sampler->background, &job);
	sampler->tick_ns = now_ns + TICK_NS;
}

int sampler_run(struct sampler *sampler)
{
	int wait_ms = stream_run(sampler->stream);
	uint64_t now_ns = time_monotonic_ns();

	if (sampler->waits)
		waits_run(sampler->waits, now_ns);
	task_sampler_run(sampler);
	if (now_ns >= sampler->tick_ns)
		tick(sampler, now_ns);
	if (sampler->windows && gpu_probes_scan(sampler->windows, now_ns, WINDOWS_SCAN_NS))
		return 0;
	return wait_ms;
}

bool sampler_targets_ended(const struct sampler *sampler)
{
	const struct capture_options *options = sampler->options;
	size_t i;

	if (!options->nr_pids || options->nr_comms || options->nr_workers || options->child)
		return false;
	for (i = 0; i < options->nr_pids; i++)
		/*
		 * A target that has exited counts as ended, even if its parent leaves it a zombie.
		 */
		if (sampler->target_pids[i] &&
		    session_is_target(&sampler->reader.session, (pid_t)sampler->target_pids[i]) &&
		    (!kill(options->pids[i], 0) || errno == EPERM))
			return false;
	return true;
}

void sampler_stop_clock(struct sampler *sampler)
{
	if (sampler->clock)
		clock_stop(sampler->clock);
	task_sampler_stop(sampler);
}

void sampler_catch_up(struct sampler *sampler)
{
	stream_run(sampler->stream);
	background_finish(sampler->background, LAST_JOBS_MS);
}

void sampler_stop(struct sampler *sampler)
{
	sampler_stop_clock(sampler);
	if (sampler->waits)
		waits_stop(sampler->waits);
	sampler_catch_up(sampler);
	task_sampler_end(sampler);
	background_pause(sampler->background);
	root_check(&sampler->root_check, sampler->reader.images, sampler->options->host_root);
}

void sampler_let_go(struct sampler *sampler)
{
	background_free(sampler->background);
	sampler->background = NULL;
	waits_free(sampler->waits);
	sampler->waits = NULL;
	if (sampler->windows) {
		windows_report(sampler);
		worker_steps_windows(sampler->steps, NULL);
	}
	gpu_probes_free(sampler->windows);
	sampler->windows = NULL;
	clock_free(sampler->clock);
	sampler->clock = NULL;
	stream_free(sampler->stream);
	sampler->stream = NULL;
	thread_reader_let_go(&sampler->reader);
	python_maps_free(sampler->reader.walker.python_maps);
	sampler->reader.walker.python_maps = NULL;
}

void sampler_close(struct sampler *sampler)
{
	sampler_let_go(sampler);
	task_sampler_free(sampler->tasks);
	sampler->tasks = NULL;
	free(sampler->target_pids);
	wakers_free(sampler->wakers);
	workers_free(sampler->workers);
	worker_steps_free(sampler->steps);
	codes_free(sampler->codes);
	thread_reader_close(&sampler->reader);
}
