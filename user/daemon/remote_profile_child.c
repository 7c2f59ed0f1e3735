// SPDX-License-Identifier: Apache-2.0
/* The child processes of remote_profile.c do the work that may take long, or hang. */
#include "daemon/remote_profile.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <unistd.h>

#include "base/background.h"
#include "base/buf.h"
#include "base/cleanup.h"
#include "base/exit_status.h"
#include "capture/pod_processes.h"
#include "daemon/daemon.h"
#include "daemon/http_later.h"
#include "formats/output.h"
#include "proc/pids.h"
#include "proc/usage.h"
#include "profile/aggregate.h"
#include "profile/profile.h"
#include "profile/ray_calls.h"

#define SAID_BYTES 65536 /* of a command's standard error */
#define SAID_SHOWN 2048
#define ARGUMENTS_BYTES 65536

static bool head_write(int fd, const struct remote_profile_head *head)
{
	return write(fd, head, sizeof(*head)) == sizeof(*head);
}

/* Nothing was sampled. True, with the answer in head: no process of the filter exists. */
static bool is_nowhere(struct remote_profile_job *job, struct remote_profile_head *head)
{
	const struct container_filter *filter = &job->query.choice.containers;
	__cleanup(buf_fini) struct buf text = { .max = sizeof(head->text) - 64 };
	struct pids found;

	if (!container_filter_is_set(filter) ||
	    pod_processes_find(&found, job->daemon->sampler.reader.containers, filter, NULL, 0) ||
	    found.nr)
		return false;
	container_filter_text(&text, filter);
	head->status = 404;
	snprintf(head->text, sizeof(head->text), "%s: no process on this node lives there",
		 buf_error(&text) || !text.data ? "pod" : text.data);
	return true;
}

/* The process whose memory a client wants recorded, and the container of a client without a token. */
static bool attach_write(struct remote_profile_job *job, int fd)
{
	struct remote_profile_head head = { .status = 200 };
	struct buf why = { .max = sizeof(head.text) - 1 };
	struct remote_target target = { .pid = job->query.choice.pids[0] };
	struct proc_usage usage = { 0 };
	int err = 0;

	if (job->right.by_socket)
		err = remote_target_peer(head.text, job, &why);
	if (!err && job->kind == REMOTE_PROFILE_ATTACH &&
	    (job->right.bound || job->right.by_socket || job->query.start_ticks ||
	     job->query.choice.containers.nr_pods))
		err = remote_target_find(&target, job, &why);
	else if (!err && job->kind == REMOTE_PROFILE_ATTACH) {
		if (proc_usage_read(&usage, target.pid) || !proc_usage_has_memory(&usage)) {
			buf_printf(&why, "pid %d: no such process", target.pid);
			err = -ENOENT;
		}
		target.start_ticks = proc_usage_start_ticks(&usage);
	}
	if (err) {
		head.status = err == -EACCES ? 403 : err == -ENOENT ? 404 : 400;
		snprintf(head.text, sizeof(head.text), "%s",
			 why.len && !buf_error(&why) ? why.data : strerror(-err));
	}
	head.target = target;
	return head_write(fd, &head);
}

static bool profile_write(struct remote_profile_job *job, int fd)
{
	struct remote_profile_head head = { .status = 200, .size = HTTP_LATER_SIZE_UNKNOWN };
	struct output_options options = { .threads = job->daemon->options->threads,
					  .native = job->query.native };
	struct profile profile = { 0 };
	struct aggregate_view view;
	int err, hidden = 0;
	size_t i;

	aggregate_view_get(job->aggregate, &view);
	if (!view.counts.nr_taken && is_nowhere(job, &head))
		return head_write(fd, &head);
	err = sampler_profile(&job->daemon->sampler, job->aggregate, false, &profile,
			      &job->stats.files, &hidden);
	if (err) {
		head.status = 500;
		snprintf(head.text, sizeof(head.text), "symbols: %s", strerror(-err));
		return head_write(fd, &head);
	}
	profile.time_ns = job->start_ns + job->offset_ns;
	profile.duration_ns = job->end_ns - job->start_ns;
	profile.threads = options.threads;
	profile.stats = &job->stats;
	if (ray_calls_name(&profile, &job->stats.walk) ||
	    daemon_waits_idle(job->daemon, &profile, &job->stats.waits)) {
		head.status = 500;
		snprintf(head.text, sizeof(head.text), "%s", strerror(ENOMEM));
		return head_write(fd, &head);
	}
	for (i = 1; i < profile.nr_processes; i++)
		options.several |= profile.processes[i].pid != profile.processes[0].pid;
	return head_write(fd, &head) && !output_write_fd(fd, job->query.format, &profile, &options);
}

/* A command line that owns its words. */
struct words {
	char *list[64];
	size_t nr;
	struct buf text;
};

static void word_add(struct words *words, const char *flag, const char *value)
{
	if (words->nr + 1 == sizeof(words->list) / sizeof(words->list[0]) ||
	    asprintf(&words->list[words->nr], "%s%s", flag, value) < 0)
		_exit(1);
	words->nr++;
}

static void number_add(struct words *words, const char *flag, uint64_t number)
{
	char text[24];

	snprintf(text, sizeof(text), "%" PRIu64, number);
	word_add(words, flag, text);
}

static const char *pids_text(struct buf *dst, const struct process_choice *choice)
{
	size_t i;

	for (i = 0; i < choice->nr_pids; i++)
		buf_printf(dst, "%s%d", i ? "," : "", choice->pids[i]);
	return buf_error(dst) ? "" : dst->data;
}

static const char *workers_text(struct buf *dst, const struct process_choice *choice)
{
	size_t i;

	for (i = 0; i < choice->nr_workers; i++)
		buf_printf(dst, "%s%s", i ? "," : "", choice->workers[i]);
	return buf_error(dst) ? "" : dst->data;
}

void remote_environment_clear(void)
{
	extern char **environ;
	size_t i, kept = 0;

	for (i = 0; environ && environ[i]; i++)
		if (strncmp(environ[i], "BPFPROF_", 8))
			environ[kept++] = environ[i];
	if (environ)
		environ[kept] = NULL;
}

/* Writes a sentence for the client where its dump would write messages. */
static void command_refuse(const struct remote_profile_job *job, const struct buf *why, int err)
{
	const char *text = why->len && !buf_error(why) ? why->data : strerror(-err);

	if (write(job->said_fd, text, strlen(text)) < 0)
		_exit(EXIT_FAILED);
	_exit(err == -EACCES   ? REMOTE_TARGET_REFUSED
	      : err == -ENOENT ? EXIT_NO_TARGET
			       : EXIT_USAGE);
}

/* The words that choose processes. */
static void add_processes(struct words *words, struct remote_profile_job *job)
{
	struct buf pids = { .max = ARGUMENTS_BYTES }, workers = { .max = ARGUMENTS_BYTES };
	struct buf why = { .max = ARGUMENTS_BYTES };
	struct process_choice *choice = &job->query.choice;
	struct remote_target target;
	size_t i;
	int err;

	if (job->right.bound || job->right.by_socket || job->query.start_ticks) {
		err = remote_target_find(&target, job, &why);
		if (err)
			command_refuse(job, &why, err);
		choice->pids[0] = target.pid;
		number_add(words, "--pid-start=", target.start_ticks);
		word_add(words, "--pod-pids", "");
		choice->containers.nr_pods = 0;
	}
	if (choice->nr_pids)
		word_add(words, "--pid=", pids_text(&pids, choice));
	for (i = 0; i < choice->containers.nr_pods; i++)
		word_add(words, "--pod=", choice->containers.pods[i]);
	if (choice->nr_workers)
		word_add(words, "--worker=", workers_text(&workers, choice));
}

static void add_dump(struct words *words, const struct remote_profile_query *query)
{
	uint64_t i;

	if (query->subprocesses)
		word_add(words, "--subprocesses", "");
	if (query->json)
		word_add(words, "--json", "");
	for (i = 0; i < query->locals; i++)
		word_add(words, "--locals", "");
}

static void seconds_add(struct words *words, const char *flag, uint64_t ns)
{
	char text[32];

	snprintf(text, sizeof(text), "%.9f", (double)ns / 1e9);
	word_add(words, flag, text);
}

static void add_samples(struct words *words, const struct remote_profile_query *query)
{
	seconds_add(words, "--duration=", query->duration_ns);
	number_add(words, "--rate=", query->rate);
	if (!query->subprocesses)
		word_add(words, "--no-subprocesses", "");
	if (query->idle)
		word_add(words, "--wall", "");
	if (query->idle)
		word_add(words, "--parked", "");
	if (query->gil)
		word_add(words, "--gil", "");
}

static void add_top(struct words *words, const struct remote_profile_query *query)
{
	word_add(words, "--batch", "");
	seconds_add(words, "--delay=", query->delay_ns);
	add_samples(words, query);
}

static void add_record(struct words *words, const struct remote_profile_query *query)
{
	add_samples(words, query);
	word_add(words, "--format=", output_name(query->format));
	word_add(words, "--output=-", "");
	word_add(words, "--py-spy", "");
	if (query->threads || query->format == OUTPUT_SPEEDSCOPE)
		word_add(words, "--threads", "");
	if (query->first_lines)
		word_add(words, "--function", "");
	if (query->no_lines)
		word_add(words, "--nolineno", "");
}

/* Executes this program anew, with its own sampler and none of the memory of the daemon. */
static void command_exec(struct remote_profile_job *job, int fd)
{
	const struct remote_profile_query *query = &job->query;
	struct rlimit said = { .rlim_cur = SAID_BYTES, .rlim_max = SAID_BYTES };
	struct words words = { 0 };
	sigset_t none;

	word_add(&words, "bpfprof", "");
	word_add(&words, remote_profile_kinds[job->kind].name, "");
	add_processes(&words, job);
	if (query->native)
		word_add(&words, "--native", "");
	if (query->full_filenames)
		word_add(&words, "--full-filenames", "");
	if (job->kind == REMOTE_PROFILE_DUMP)
		add_dump(&words, query);
	else if (job->kind == REMOTE_PROFILE_TOP)
		add_top(&words, query);
	else
		add_record(&words, query);
	if (job->daemon->options->capture.host_root)
		word_add(&words, "--host-root=", job->daemon->options->capture.host_root);
	remote_environment_clear();
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	/*
	 * The few messages of the command go to a file in memory. Its output goes through a pipe,
	 * without a limit.
	 */
	setrlimit(RLIMIT_FSIZE, &said);
	if (dup2(fd, STDOUT_FILENO) < 0 || dup2(job->said_fd, STDERR_FILENO) < 0)
		_exit(1);
	execv("/proc/self/exe", words.list);
	_exit(1);
}

static void child_main(struct remote_profile_job *job, int fd, pid_t parent)
{
	bool whole;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (getppid() != parent)
		_exit(1);
	daemon_child_begin(job->daemon, fd);
	if (remote_profile_kinds[job->kind].is_command)
		command_exec(job, fd);
	whole = job->kind == REMOTE_PROFILE_FILES ? remote_profile_files_write(job, fd)
		: job->kind == REMOTE_PROFILE_ATTACH || job->kind == REMOTE_PROFILE_DETACH
			? attach_write(job, fd)
			: profile_write(job, fd);
	_exit(whole ? 0 : 1);
}

int remote_profile_child_start(struct remote_profile_job *job)
{
	int fds[2], err = 0;
	pid_t parent = getpid();

	if (remote_profile_kinds[job->kind].is_command) {
		job->said_fd = memfd_create("bpfprof-messages", MFD_CLOEXEC);
		if (job->said_fd < 0)
			return -errno;
	}
	if (pipe2(fds, O_CLOEXEC))
		return -errno;
	if (fcntl(fds[0], F_SETFL, O_NONBLOCK) < 0)
		err = -errno;
	background_pause(job->daemon->sampler.background);
	job->pid = err ? -1 : fork();
	if (!job->pid)
		child_main(job, fds[1], parent);
	if (!err && job->pid < 0)
		err = -errno;
	background_resume(job->daemon->sampler.background);
	close(fds[1]);
	if (err) {
		job->pid = 0;
		close(fds[0]);
		return err;
	}
	job->fd = fds[0];
	return 0;
}

void remote_profile_child_said(const struct remote_profile_job *job, struct buf *dst)
{
	char text[SAID_SHOWN];
	ssize_t len, i;

	len = job->said_fd < 0 ? 0 : pread(job->said_fd, text, sizeof(text), 0);
	for (i = 0; i < len; i++)
		buf_add_char(dst, text[i] == '\n' || (unsigned char)text[i] >= ' ' ? text[i] : '?');
}
