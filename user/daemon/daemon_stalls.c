// SPDX-License-Identifier: Apache-2.0
/*
 * --watch: a folder stall-<UTC>-<who>-<pid> for each stall of watched processes, below the folder of the daemon, and
 * suspect-... where the evidence is not enough. The dumps are made by children (watch/stall_check.h); another child writes
 * them, while the loop goes on. Stalls and deaths share the folders of an hour.
 */
#include "daemon/daemon.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <signal.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/background.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/log.h"
#include "base/time.h"
#include "capture/process_owner.h"
#include "container/containers.h"
#include "proc/processes.h"
#include "proc/ranks.h"
#include "ray/ray_role.h"
#include "watch/notification.h"

/* A stall is not reported later than this because its folder cannot be written. */
#define CHILD_NS (20 * NS_PER_SECOND)
#define END_NS NS_PER_SECOND
#define END_POLL_US 10000
#define MAX_TEXT (1U << 20)
#define TEMPORARY ".stall.tmp"

/* Do the processes of that role serve all jobs of the cluster? */
static bool is_of_cluster(const char *role)
{
	static const enum ray_role roles[] = { RAY_ROLE_RAYLET, RAY_ROLE_GCS, RAY_ROLE_DASHBOARD,
					       RAY_ROLE_AGENT };
	size_t i;

	for (i = 0; role && i < sizeof(roles) / sizeof(roles[0]); i++)
		if (!strcmp(role, ray_role_name(roles[i])))
			return true;
	return false;
}

static bool owner_of(void *arg, uint32_t pid, struct stall_owner *ret)
{
	const struct daemon *daemon = arg;
	const struct process *process = processes_find(daemon->sampler.reader.processes, pid);

	if (!process || is_of_cluster(process->owner->role))
		return false;
	ret->tenant = process->tenant;
	ret->of_ray = process->title || process->owner->role;
	return true;
}

void daemon_stalls_open(struct daemon *daemon)
{
	if (!daemon->options->capture.session.deaths)
		return;
	stalls_init(&daemon->stalls.seen, &daemon->sampler, &daemon->deaths.seen.watched,
		    &daemon->options->stall);
	daemon->stalls.seen.owner = owner_of;
	daemon->stalls.seen.arg = daemon;
}

void daemon_stalls_close(struct daemon *daemon)
{
	/* The child goes on by itself. */
	stall_fini(&daemon->stalls.stall);
	buf_fini(&daemon->stalls.folder);
	stalls_fini(&daemon->stalls.seen);
}

static void over_log(const struct stall *stall)
{
	const struct log_field fields[] = { { .key = "pid", .number = stall->pid } };

	log_event(LOG_INFO, "stall is over: the process goes on, or has ended", fields,
		  sizeof(fields) / sizeof(fields[0]));
}

static void stall_log(const struct stall *stall, const struct buf *folder)
{
	const struct log_field fields[] = {
		{ .key = "why", .text = stall->sentence },
		{ .key = "reason", .text = wait_reasons[stall->reason] },
		{ .key = "pid", .number = stall->pid },
		{ .key = "folder", .text = folder->data },
	};

	log_event(LOG_INFO,
		  stall->verdict == WAIT_VERDICT_SUSPECT ? "process may be stalled"
							 : "process stalled",
		  fields, sizeof(fields) / sizeof(fields[0]) - (folder->len ? 0 : 1));
}

/* The process of the stall, if it has not ended. */
static struct process *process_of(const struct daemon *daemon, const struct stall *stall)
{
	struct process *process = processes_find(daemon->sampler.reader.processes, stall->key.pid);

	return process && process->start_ns == stall->key.start_ns ? process : NULL;
}

static void labels_add(struct buf *dst, struct daemon *daemon, struct process *process)
{
	const struct container *container = sampler_container(&daemon->sampler, process);
	size_t i;

	if (container) {
		notification_text(dst, "namespace", container->namespace);
		notification_text(dst, "pod", container->pod);
		notification_text(dst, "container", container->name);
		notification_text(dst, "container_id", container->id);
	}
	notification_text(dst, "ray_task", process->title);
	for (i = 0; process->ranks && i < RANKS_NR; i++)
		notification_text(dst, ranks_variables[i].label, process->ranks->texts[i]);
}

/* Nothing is sent for a suspicion. */
static void stall_send(struct daemon *daemon, const struct stall *stall, uint64_t wall_ns,
		       const struct buf *folder)
{
	struct process *process = process_of(daemon, stall);
	struct buf text, summary = { .max = MAX_TEXT };

	if (!daemon->options->notify.url || stall->verdict == WAIT_VERDICT_SUSPECT)
		return;
	notify_begin(daemon, &text, stall->over ? "stall_over" : "stall", stall->sentence, wall_ns);
	if (!stall->over)
		notification_text(&text, "reason", wait_reasons[stall->reason]);
	json_key_number(&text, "pid", stall->pid);
	if (process)
		labels_add(&text, daemon, process);
	notification_text(&text, "folder", folder ? folder->data : NULL);
	if (!stall->over)
		stall_summary(&summary, stall, wall_ns, daemon->output);
	notification_end(&text, buf_error(&summary) ? NULL : summary.data);
	notify_send(daemon, &text);
	buf_fini(&summary);
}

static int stall_write(struct daemon *daemon)
{
	struct daemon_stalls *stalls = &daemon->stalls;
	const struct stall *stall = &stalls->stall;
	struct buf summary = { .max = MAX_TEXT },
		   dumps[2] = { { .max = STALL_DUMP_BYTES }, { .max = STALL_DUMP_BYTES } };
	const struct folder_file list[] = { { "summary.txt", NULL, &summary },
					    { "dump-1.txt", NULL, &dumps[0] },
					    { "dump-2.txt", NULL, &dumps[1] } };
	int err = stall_dump(&dumps[0], stall->dumps[0]) ?: stall_dump(&dumps[1], stall->dumps[1]);

	stall_summary(&summary, stall, stalls->wall_ns, daemon->output);
	return err ?: buf_error(&summary) ?: watch_folder_write(daemon, TEMPORARY, list,
								sizeof(list) / sizeof(list[0]),
								&stalls->folder);
}

static void child_main(struct daemon *daemon)
{
	int err;

	daemon_child_begin(daemon, -1);
	err = stall_write(daemon);
	if (err)
		log_warn("%s: the stall of pid %u is not written: %s", daemon->output,
			 daemon->stalls.stall.pid, strerror(-err));
	watch_folders_prune(daemon);
	_exit(err ? 1 : 0);
}

/* Its folder is complete, or will never be. */
static void stall_report(struct daemon *daemon, bool written)
{
	struct daemon_stalls *stalls = &daemon->stalls;

	stalls->pid = 0;
	if (!written) {
		stalls->nr_not_written++;
		buf_reset(&stalls->folder);
	}
	stall_log(&stalls->stall, &stalls->folder);
	stall_send(daemon, &stalls->stall, stalls->wall_ns, &stalls->folder);
	stall_fini(&stalls->stall);
	buf_fini(&stalls->folder);
}

static void child_watch(struct daemon *daemon, uint64_t now_ns, uint64_t limit_ns)
{
	struct daemon_stalls *stalls = &daemon->stalls;
	int status;

	if (stalls->stuck && waitpid(stalls->stuck, &status, WNOHANG))
		stalls->stuck = 0;
	if (!stalls->pid)
		return;
	if (waitpid(stalls->pid, &status, WNOHANG)) {
		stall_report(daemon, !status);
	} else if (now_ns > stalls->child_ns + limit_ns) {
		kill(stalls->pid, SIGKILL);
		stalls->stuck = stalls->pid;
		stall_report(daemon, false);
	}
}

/* Without a folder left for the tenant, or a child, the stall is only logged, sent and counted. */
static void child_start(struct daemon *daemon, uint64_t now_ns, bool write)
{
	struct daemon_stalls *stalls = &daemon->stalls;
	struct process *process = process_of(daemon, &stalls->stall);
	const struct container *container =
		process ? sampler_container(&daemon->sampler, process) : NULL;

	stalls->wall_ns = time_wall_ns() - (now_ns - stalls->stall.found_ns);
	if (container && stalls->stall.verdict != WAIT_VERDICT_SUSPECT)
		pod_counts_add(&stalls->pods, container->namespace, container->pod);
	stalls->folder = (struct buf){ .max = NAME_MAX };
	stall_folder_name(&stalls->folder, &stalls->stall, container ? container->pod : NULL,
			  stalls->wall_ns);
	if (write && !buf_error(&stalls->folder) &&
	    watch_folder_take(&daemon->folders, stalls->stall.tenant, now_ns)) {
		stalls->child_ns = now_ns;
		stalls->pid = fork();
		if (!stalls->pid)
			child_main(daemon);
	}
	if (stalls->pid <= 0)
		stall_report(daemon, false);
}

static void stall_take(struct daemon *daemon, uint64_t now_ns, bool write)
{
	struct daemon_stalls *stalls = &daemon->stalls;
	struct stall *stall = &stalls->stall;

	if (!stalls_take(&stalls->seen, stall))
		return;
	if (!stall->over) {
		child_start(daemon, now_ns, write && !stalls->stuck);
		return;
	}
	over_log(stall);
	stall_send(daemon, stall, time_wall_ns(), NULL);
	stall_fini(stall);
}

void daemon_stalls_run(struct daemon *daemon, uint64_t now_ns)
{
	struct daemon_stalls *stalls = &daemon->stalls;

	if (!daemon->options->capture.session.deaths || !daemon->options->stall.after_ns)
		return;
	child_watch(daemon, now_ns, CHILD_NS);
	stalls_poll(&stalls->seen, now_ns);
	/* As for deaths: the child is a fork, and no third copy of the memory. */
	if (stalls->pid || daemon->deaths.pid || daemon->writer.pid || !stalls->seen.nr_ready ||
	    !background_try_pause(daemon->sampler.background))
		return;
	stall_take(daemon, now_ns, true);
	background_resume(daemon->sampler.background);
}

void daemon_stalls_end(struct daemon *daemon)
{
	struct daemon_stalls *stalls = &daemon->stalls;

	while (stalls->pid) {
		child_watch(daemon, time_monotonic_ns(), END_NS);
		usleep(END_POLL_US);
	}
	while (stalls->seen.nr_ready)
		stall_take(daemon, time_monotonic_ns(), false);
}

void daemon_stalls_metrics(struct buf *dst, const struct daemon *daemon)
{
	const struct daemon_stalls *stalls = &daemon->stalls;
	unsigned int i;

	if (!daemon->options->capture.session.deaths)
		return;
	buf_add_str(dst, "# HELP bpfprof_stalls_total Stalls of watched processes, by what they "
			 "wait for.\n# TYPE bpfprof_stalls_total counter\n");
	for (i = 0; i < WAIT_NR_REASONS; i++)
		buf_printf(dst, "bpfprof_stalls_total{reason=\"%s\"} %" PRIu64 "\n",
			   wait_reasons[i], stalls->seen.nr_of_reason[i]);
	buf_printf(
		dst,
		"# HELP bpfprof_stalls_suspected_total Processes that may be stalled.\n"
		"# TYPE bpfprof_stalls_suspected_total counter\n"
		"bpfprof_stalls_suspected_total %" PRIu64 "\n"
		"# HELP bpfprof_stalls_active Stalls, also suspected ones, that have not ended.\n"
		"# TYPE bpfprof_stalls_active gauge\n"
		"bpfprof_stalls_active %zu\n"
		"# HELP bpfprof_stalls_not_written_total Stalls without a folder.\n"
		"# TYPE bpfprof_stalls_not_written_total counter\n"
		"bpfprof_stalls_not_written_total %" PRIu64 "\n",
		stalls->seen.nr_suspects, stalls_active(&stalls->seen), stalls->nr_not_written);
	pod_counts_metric(dst, &stalls->pods, "bpfprof_pod_stalls_total",
			  "Stalls by pod, of the 128 pods with the last ones.");
}
