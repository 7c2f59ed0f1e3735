// SPDX-License-Identifier: Apache-2.0
/* bpfprof record: sample for a while, then write. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <fnmatch.h>
#include <malloc.h>
#include <poll.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/signalfd.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/deadline.h"
#include "base/log.h"
#include "base/strtab.h"
#include "base/time.h"
#include "cli/command.h"
#include "cli/options.h"
#include "cli/recording.h"
#include "cli/requirements.h"
#include "cli/target.h"
#include "kernel/clock.h"
#include "kernel/python_maps.h"
#include "kernel/stream.h"
#include "kernel/tables.h"
#include "proc/images.h"
#include "proc/processes.h"
#include "proc/self.h"
#include "proc/usage.h"
#include "profile/aggregate.h"
#include "profile/symbolize.h"
#include "python/codes.h"
#include "python/pythons.h"

#define AGGREGATE_BYTES (16U << 20)
#define CODES_BYTES (16U << 20)
#define MAX_OPEN_IMAGES 1024
#define TICK_NS NS_PER_SECOND
#define LEARN_NS (NS_PER_SECOND / 20)
#define SHORT_SLICE_NS 100000ULL
#define MESSAGE_MAX 4096
#define CANNOT_EXEC 127

static bool comm_matches(const struct record_options *options, const char *comm)
{
	char name[BPFPROF_COMM_LEN + 1] = { 0 };
	size_t i;

	memcpy(name, comm, BPFPROF_COMM_LEN);
	for (i = 0; i < options->nr_comms; i++)
		if (!fnmatch(options->comms[i], name, 0))
			return true;
	return false;
}

/*
 * With --comm everything is sampled and chosen here, since any process may take a
 * matching name at any time; pids named besides are targets in the kernel's map all the same.
 */
static bool is_wanted(struct recording *rec, const struct bpfprof_sample *sample)
{
	if (!rec->options->nr_comms)
		return true;
	return comm_matches(rec->options, sample->leader_comm) ||
	       comm_matches(rec->options, sample->comm) ||
	       session_is_target(&rec->session, (pid_t)sample->task.pid);
}

static void on_sample(void *arg, const struct sample_view *view)
{
	struct recording *rec = arg;
	struct aggregate_input input = {
		.sample = view->sample,
		.kernel = view->kernel,
		.nr_kernel = view->nr_kernel,
		.user = view->user,
		.nr_user = view->nr_user,
		.stop = view->stop,
		.unmerged = view->unmerged,
	};

	if (!is_wanted(rec, view->sample))
		return;
	if (rec->options->gil && !(view->sample->python_flags & BPFPROF_PYTHON_GIL_HELD))
		return;
	recording_see(rec, view->sample->task.pid, view->sample->task.start_ns);
	aggregate_add(rec->aggregate, &input);
}

static void on_exit_event(void *arg, const struct bpfprof_task_id *task, const char *comm,
			  uint64_t cpu_ns)
{
	struct recording *rec = arg;

	(void)comm;
	session_target_remove(&rec->session, (pid_t)task->pid);
	aggregate_exit(rec->aggregate, task, cpu_ns);
}

static void on_retire(void *arg, struct process *process)
{
	struct recording *rec = arg;

	tables_retire(rec->tables, process, time_monotonic_ns());
	python_maps_clear(rec->python_maps, process, time_monotonic_ns());
}

static int on_layout(void *arg, uint32_t nr, const struct bpfprof_python_layout *layout)
{
	struct recording *rec = arg;

	return python_maps_layout(rec->python_maps, nr, layout);
}

static void on_unknown_python(void *arg, const char *path, uint32_t version)
{
	(void)arg;
	if (version)
		log_warn("%s: Python %u.%u: layout not known, native frames only", path,
			 version >> 24, version >> 16 & 0xff);
	else
		log_warn("%s: a Python of unknown version: native frames only", path);
}

/* Every pid named must be a live process, not one of its other threads. */
static int check_targets(const struct record_options *options)
{
	struct target target;
	size_t i;
	int err;

	for (i = 0; i < options->nr_pids; i++) {
		err = target_probe(options->pids[i], &target);
		if (err == -ESRCH) {
			log_error("pid %d: no such process", options->pids[i]);
			return EXIT_NO_TARGET;
		}
		if (!err && target.zombie) {
			log_error("pid %d: it has exited and only waits for its parent (zombie)",
				  options->pids[i]);
			return EXIT_NO_TARGET;
		}
		if (!err && target.leader && target.leader != target.pid) {
			log_error("pid %d: is a thread of process %d, which is what -p takes",
				  options->pids[i], target.leader);
			return EXIT_NO_TARGET;
		}
	}
	return EXIT_DONE;
}

static int choose_clock(const struct record_options *options, enum session_clock *ret)
{
	bool cycles = options->event == RECORD_EVENT_CYCLES;
	int err;

	*ret = SESSION_CLOCK_TIMER;
	if (options->clock == RECORD_CLOCK_TIMER && !cycles)
		return EXIT_DONE;
	err = clock_probe_perf(cycles);
	if (!err) {
		*ret = SESSION_CLOCK_PERF;
		return EXIT_DONE;
	}
	if (cycles) {
		log_error("--event cycles: %s; use the default, --event cpu-clock",
			  err == -ENOENT || err == -EOPNOTSUPP
				  ? "this machine has no hardware cycle counter"
				  : strerror(-err));
		return EXIT_PRIVILEGE;
	}
	if (options->clock == RECORD_CLOCK_PERF) {
		log_error("--clock perf: perf_event_open is refused (%s): sysctl -w "
			  "kernel.perf_event_paranoid=2, or use --clock timer",
			  strerror(-err));
		return EXIT_PRIVILEGE;
	}
	log_debug("perf_event_open is refused (%s): sampling by BPF timers", strerror(-err));
	return EXIT_DONE;
}

static void raise_file_limit(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return;
	limit.rlim_cur = limit.rlim_max;
	setrlimit(RLIMIT_NOFILE, &limit);
}

static uint32_t max_open_images(void)
{
	struct rlimit limit;

	if (getrlimit(RLIMIT_NOFILE, &limit) || limit.rlim_cur / 2 > MAX_OPEN_IMAGES)
		return MAX_OPEN_IMAGES;
	return (uint32_t)limit.rlim_cur / 2;
}

/*
 * We run rarely and shortly, but mappings must be read before a short process is gone:
 * a short slice (Linux 6.12) gets us a CPU sooner without any more of it.
 */
static void ask_short_slice(void)
{
	struct {
		uint32_t size, policy;
		uint64_t flags;
		int32_t nice;
		uint32_t priority;
		uint64_t runtime, deadline, period;
	} attr = { .size = sizeof(attr), .policy = SCHED_OTHER, .runtime = SHORT_SLICE_NS };

	if (syscall(SYS_sched_setattr, 0, &attr, 0))
		log_debug("no short slice: %s", strerror(errno));
}

static int open_session(struct recording *rec, enum session_clock clock)
{
	const struct record_options *options = rec->options;
	struct session_options session = {
		.hz = options->hz,
		.clock = clock,
		.cycles = options->event == RECORD_EVENT_CYCLES,
		.filter = (options->nr_pids || options->command) && !options->nr_comms,
		.follow = (options->nr_pids || options->command) && !options->no_subprocesses,
		.ring_bytes = options->test_ring_bytes,
		.nr_rows = options->test_row_slots,
	};
	__cleanup(buf_fini) struct buf message = { .max = MESSAGE_MAX };
	int err;

	err = session_open(&rec->session, &session);
	if (!err)
		return EXIT_DONE;
	if (requirements_explain(&message) && message.data) {
		log_error("%s", message.data);
		return EXIT_PRIVILEGE;
	}
	log_error("the BPF programs cannot be loaded: %s (--verbose shows the kernel's words)",
		  strerror(-err));
	return err == -EPERM || err == -EACCES ? EXIT_PRIVILEGE : EXIT_FAILED;
}

static int setup_tables(struct recording *rec)
{
	struct stream_handlers handlers = { .sample = on_sample,
					    .exit = on_exit_event,
					    .arg = rec };
	int err;

	err = deadline_runner_new(&rec->runner);
	if (!err)
		err = images_new(&rec->images, rec->runner, rec->options->host_root,
				 max_open_images());
	if (!err)
		err = tables_new(&rec->tables, &rec->session);
	if (!err)
		err = python_maps_new(&rec->python_maps, &rec->session);
	if (!err)
		err = pythons_new(&rec->pythons, on_layout, on_unknown_python, rec);
	if (!err)
		err = codes_new(&rec->codes, CODES_BYTES);
	if (!err)
		err = processes_new(&rec->processes, on_retire, rec);
	if (!err)
		err = aggregate_new(&rec->aggregate, rec->options->threads, AGGREGATE_BYTES);
	if (err)
		return err;
	rec->walker.session = &rec->session;
	rec->walker.runner = rec->runner;
	rec->walker.processes = rec->processes;
	rec->walker.images = rec->images;
	rec->walker.tables = rec->tables;
	rec->walker.pythons = rec->pythons;
	rec->walker.python_maps = rec->python_maps;
	err = walker_init(&rec->walker);
	return err ? err
		   : stream_new(&rec->stream, &rec->session, &rec->walker, rec->codes, &handlers);
}

/* pid -> parent of all processes there are. */
struct parent {
	pid_t pid, parent;
};

static size_t parents_read(struct parent **ret)
{
	struct parent *parents = NULL, *tmp;
	size_t nr = 0, cap = 0;
	struct proc_usage usage;
	struct dirent *entry;
	DIR *dir = opendir("/proc");
	pid_t pid;

	while (dir && (entry = readdir(dir))) {
		pid = (pid_t)strtoul(entry->d_name, NULL, 10);
		if (pid <= 0 || proc_usage_read(&usage, pid))
			continue;
		if (nr == cap) {
			cap = cap ? cap * 2 : 256;
			tmp = realloc(parents, cap * sizeof(*tmp));
			if (!tmp)
				break;
			parents = tmp;
		}
		parents[nr].pid = pid;
		parents[nr++].parent = usage.parent;
	}
	if (dir)
		closedir(dir);
	*ret = parents;
	return nr;
}

/* Adds pid and, unless told otherwise, what descends from it already. */
static int targets_add(struct recording *rec, pid_t pid, struct parent *parents, size_t nr)
{
	size_t i;
	int err;

	err = session_target_add(&rec->session, pid);
	if (err || rec->options->no_subprocesses)
		return err;
	for (i = 0; i < nr && !err; i++) {
		if (parents[i].parent != pid)
			continue;
		parents[i].parent = 0; /* once is enough */
		err = targets_add(rec, parents[i].pid, parents, nr);
	}
	return err;
}

static int setup_targets(struct recording *rec)
{
	const struct record_options *options = rec->options;
	__cleanup(free_mem) struct parent *parents = NULL;
	size_t i, nr = 0;
	int err = 0, round;

	/* Children made while the first list was read are in the second; later ones BPF adds. */
	for (round = 0; round < 2 && !err; round++) {
		free(parents);
		parents = NULL;
		if (options->nr_pids && !options->no_subprocesses)
			nr = parents_read(&parents);
		for (i = 0; i < options->nr_pids && !err; i++)
			err = targets_add(rec, options->pids[i], parents, nr);
	}
	if (!err && rec->command_pid)
		err = session_target_add(&rec->session, rec->command_pid);
	return err;
}

/*
 * The kernel cannot walk a process that it does not know, and Python frames cannot be had later:
 * so those that are there already are looked at before sampling starts, as many as
 * can be in a moment, the latest first.
 */
static void learn_processes(struct recording *rec)
{
	__cleanup(free_mem) struct parent *parents = NULL;
	uint64_t start_ns = time_monotonic_ns(), now_ns = start_ns;
	size_t nr = parents_read(&parents);

	while (nr-- && now_ns - start_ns < LEARN_NS) {
		if (!rec->session.options.filter ||
		    session_is_target(&rec->session, parents[nr].pid))
			walker_learn(&rec->walker, (uint32_t)parents[nr].pid, now_ns);
		now_ns = time_monotonic_ns();
	}
}

/* In the child: waits until sampling runs, then becomes the command. */
static void command_exec(char **command, int go_fd, int error_fd, const sigset_t *old_signals)
{
	char byte;
	int err;

	sigprocmask(SIG_SETMASK, old_signals, NULL);
	signal(SIGXFSZ, SIG_DFL); /* main() ignores them, and exec would keep that */
	signal(SIGPIPE, SIG_DFL);
	if (read(go_fd, &byte, 1) == 1) /* told to give up */
		_exit(0);
	execvp(command[0], command);
	err = errno;
	if (write(error_fd, &err, sizeof(err)) != sizeof(err))
		_exit(CANNOT_EXEC - 1);
	_exit(CANNOT_EXEC);
}

/* The command waits for the pipe's other end to close, so that nothing of it is missed. */
static int command_fork(struct recording *rec, const sigset_t *old_signals)
{
	int go[2], error[2];
	pid_t pid;

	if (pipe2(go, O_CLOEXEC))
		return -errno;
	if (pipe2(error, O_CLOEXEC)) {
		close(go[0]);
		close(go[1]);
		return -errno;
	}
	pid = fork();
	if (!pid) {
		close(go[1]);
		close(error[0]);
		command_exec(rec->options->command, go[0], error[1], old_signals);
	}
	close(go[0]);
	close(error[1]);
	rec->command_pid = pid > 0 ? pid : 0;
	rec->command_go_fd = go[1];
	rec->command_error_fd = error[0];
	return pid < 0 ? -EAGAIN : 0;
}

/* Lets the command run. 0, or why it could not be executed. */
static int command_release(struct recording *rec)
{
	int err = 0;

	if (rec->command_go_fd < 0)
		return 0;
	close(rec->command_go_fd);
	rec->command_go_fd = -1;
	/* The other end closes with exec. */
	if (read(rec->command_error_fd, &err, sizeof(err)) != sizeof(err))
		err = 0;
	close(rec->command_error_fd);
	rec->command_error_fd = -1;
	return -err;
}

/* Has the command ended? */
static bool command_reap(struct recording *rec)
{
	int status;

	if (!rec->command_pid || rec->command_done)
		return rec->command_done;
	if (waitpid(rec->command_pid, &status, WNOHANG) != rec->command_pid)
		return false;
	rec->command_done = true;
	if (WIFEXITED(status) && WEXITSTATUS(status))
		log_info("%s exited with status %d", rec->options->command[0], WEXITSTATUS(status));
	else if (WIFSIGNALED(status))
		log_info("%s was killed by signal %d", rec->options->command[0], WTERMSIG(status));
	return true;
}

static bool targets_gone(const struct recording *rec)
{
	const struct record_options *options = rec->options;
	size_t i;

	if (!options->nr_pids || options->nr_comms || options->command)
		return false;
	for (i = 0; i < options->nr_pids; i++)
		if (!kill(options->pids[i], 0) || errno == EPERM)
			return false;
	return true;
}

static bool signal_arrived(int fd)
{
	struct signalfd_siginfo info;

	return read(fd, &info, sizeof(info)) == sizeof(info);
}

/* Until the duration is over, a signal arrives, or everything asked for has ended. */
static void loop(struct recording *rec, int signal_fd)
{
	uint64_t end_ns = rec->options->duration_ns ? rec->start_mono_ns + rec->options->duration_ns
						    : UINT64_MAX;
	uint64_t now_ns = rec->start_mono_ns, tick_ns = now_ns + TICK_NS;
	struct pollfd fds[] = { { .fd = stream_fd(rec->stream), .events = POLLIN },
				{ .fd = signal_fd, .events = POLLIN } };
	int wait_ms;

	while (now_ns < end_ns) {
		wait_ms = stream_run(rec->stream);
		if (command_reap(rec))
			break;
		now_ns = time_monotonic_ns();
		if (now_ns >= tick_ns) {
			clock_tick(rec->clock);
			tick_ns = now_ns + TICK_NS;
			if (targets_gone(rec))
				break;
		}
		if (end_ns > now_ns && (end_ns - now_ns) / 1000000 < (uint64_t)wait_ms)
			wait_ms = (int)((end_ns - now_ns) / 1000000) + 1;
		poll(fds, 2, wait_ms);
		if (fds[1].revents && signal_arrived(signal_fd))
			break;
		now_ns = time_monotonic_ns();
	}
}

static int finish(struct recording *rec)
{
	struct symbolize_options symbolize_options = { .kallsyms = "/proc/kallsyms",
						       .codes = rec->codes,
						       .runner = rec->runner };
	struct profile profile = { 0 };
	struct aggregate_view view;
	char host[256] = "localhost";
	int err, hidden = 0, status;

	aggregate_view_get(rec->aggregate, &view);
	symbolize_options.now_ns = time_monotonic_ns();
	err = symbolize(&profile, &view, rec->images, &symbolize_options, &rec->stats.files,
			&hidden);
	if (err) {
		log_error("symbols: %s", strerror(-err));
		return EXIT_FAILED;
	}
	if (hidden)
		log_warn(
			"kernel functions have no names: /proc/kallsyms hides its addresses (needs "
			"CAP_SYSLOG and kernel.kptr_restrict below 2)");
	recording_usage(rec, &profile);
	recording_stats(rec);
	gethostname(host, sizeof(host) - 1);
	profile.host = strtab_add(profile.strings, host);
	profile.time_ns = rec->start_wall_ns;
	profile.duration_ns = rec->end_mono_ns - rec->start_mono_ns;
	profile.hz = rec->options->hz;
	profile.threads = rec->options->threads;
	profile.stats = &rec->stats;
	if (!view.nr_taken && rec->options->nr_comms)
		log_info("no process matched --comm in that time");
	status = recording_write(rec, &profile);
	profile_fini(&profile);
	return status;
}

static void teardown(struct recording *rec)
{
	char give_up = 'x';

	if (rec->command_go_fd >= 0) {
		if (write(rec->command_go_fd, &give_up, 1) != 1)
			log_debug("the command had gone already");
		close(rec->command_go_fd);
	}
	if (rec->command_error_fd >= 0)
		close(rec->command_error_fd);
	clock_free(rec->clock);
	stream_free(rec->stream);
	walker_fini(&rec->walker);
	processes_free(rec->processes);
	tables_free(rec->tables);
	python_maps_free(rec->python_maps);
	pythons_free(rec->pythons);
	codes_free(rec->codes);
	images_free(rec->images);
	aggregate_free(rec->aggregate);
	recording_forget(rec);
	session_close(&rec->session);
	deadline_runner_free(rec->runner);
}

static int start(struct recording *rec)
{
	struct self_usage self;
	int err;

	err = setup_tables(rec);
	if (!err)
		err = session_attach(&rec->session);
	if (!err)
		err = setup_targets(rec);
	if (!err)
		learn_processes(rec);
	if (!err)
		err = clock_start(&rec->clock, &rec->session);
	if (err) {
		log_error("sampling cannot be started: %s", strerror(-err));
		return err == -EPERM || err == -EACCES ? EXIT_PRIVILEGE : EXIT_FAILED;
	}
	rec->start_mono_ns = time_monotonic_ns();
	rec->start_wall_ns = time_wall_ns();
	if (!self_usage_read(&self))
		rec->stats.startup_seconds = self.age_seconds;
	err = command_release(rec);
	if (err) {
		log_error("%s: cannot be run: %s", rec->options->command[0], strerror(-err));
		return EXIT_FAILED;
	}
	return EXIT_DONE;
}

static int run(struct recording *rec, int signal_fd)
{
	enum session_clock clock;
	int status;

	status = choose_clock(rec->options, &clock);
	if (!status)
		status = open_session(rec, clock);
	if (!status)
		status = start(rec);
	if (status)
		return status;
	if (isatty(STDERR_FILENO))
		log_info("sampling at %u Hz%s", rec->options->hz,
			 rec->options->duration_ns ? "" : ", Ctrl-C ends it and writes");
	loop(rec, signal_fd);
	rec->end_mono_ns = time_monotonic_ns();
	clock_stop(rec->clock);
	stream_run(rec->stream);
	return finish(rec);
}

int record_run(const struct record_options *options)
{
	struct recording rec = { .options = options, .command_go_fd = -1, .command_error_fd = -1 };
	__cleanup(close_fd) int signal_fd = -1;
	__cleanup(buf_fini) struct buf message = { .max = MESSAGE_MAX };
	sigset_t signals, old_signals;
	int status;

	mallopt(M_ARENA_MAX, 1);
	libbpf_log_init();
	if (requirements_check(&message)) {
		log_error("%s", message.data ? message.data : "requirements: out of memory");
		return EXIT_PRIVILEGE;
	}
	status = recording_check_outputs(options);
	if (!status)
		status = check_targets(options);
	if (status)
		return status;
	raise_file_limit();
	sigemptyset(&signals);
	sigaddset(&signals, SIGINT);
	sigaddset(&signals, SIGTERM);
	sigprocmask(SIG_BLOCK, &signals, &old_signals);
	signal_fd = signalfd(-1, &signals, SFD_CLOEXEC | SFD_NONBLOCK);
	if (signal_fd < 0 || (options->command && command_fork(&rec, &old_signals))) {
		log_error("%s", strerror(errno));
		return EXIT_FAILED;
	}
	ask_short_slice(); /* not before the fork: the command must not inherit it */
	status = run(&rec, signal_fd);
	teardown(&rec);
	return status;
}
