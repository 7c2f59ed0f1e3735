// SPDX-License-Identifier: Apache-2.0
/*
 * --watch: a folder death-<UTC>-<who>-<pid> for each death of a watched process, below the folder of the daemon. A child
 * names the frames and writes, while the loop goes on. A tenant (base/tenant.h) that is in a crash loop has some
 * folders an hour (watch_folders.c), and leaves those of others alone; its other deaths are counted.
 */
#include "daemon/daemon.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/background.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/log.h"
#include "base/text.h"
#include "base/time.h"
#include "proc/images.h"
#include "proc/processes.h"
#include "proc/ranks.h"
#include "profile/aggregate.h"
#include "profile/profile.h"
#include "watch/notification.h"

#define LEARN_NS (NS_PER_SECOND / 20) /* of a job that learns processes */
#define CHILD_NS (60 * NS_PER_SECOND) /* the limit of a child */
#define SUM_NS (60 * NS_PER_SECOND) /* between two lines about deaths that were not written */
#define MAX_TEXT (1U << 20)
#define END_NS (5 * NS_PER_SECOND) /* for the deaths that are left when the daemon ends */
#define TEMPORARY ".death.tmp"
#define CUDA "libcuda.so"

static bool maps_cuda(const struct daemon *daemon, uint32_t pid)
{
	const struct process *process = processes_find(daemon->sampler.reader.processes, pid);
	const struct image *image;
	size_t i;

	for (i = 0; process && i < process->nr_mappings; i++) {
		image = images_get(daemon->sampler.reader.images,
				   (uint32_t)process->mappings[i].image);
		if (image && image->path && text_begins(text_base_name(image->path), CUDA))
			return true;
	}
	return false;
}

/* Without a filter: processes of Ray, of jobs with ranks, and users of CUDA. */
static bool wants(void *arg, const struct aggregate_input *input)
{
	struct daemon *daemon = arg;

	if (process_choice_is_set(&daemon->choice))
		return process_filter_wants(&daemon->filter, &daemon->sampler, input);
	return input->title || input->role || (input->ranks && ranks_any(input->ranks)) ||
	       maps_cuda(daemon, input->sample->task.pid);
}

void daemon_deaths_open(struct daemon *daemon)
{
	if (!daemon->options->capture.session.deaths)
		return;
	daemon->deaths.done = mmap(NULL, sizeof(*daemon->deaths.done), PROT_READ | PROT_WRITE,
				   MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	deaths_init(&daemon->deaths.seen, &daemon->sampler);
	daemon->deaths.seen.wants = wants;
	daemon->deaths.seen.arg = daemon;
	deaths_observe(&daemon->deaths.seen);
}

void daemon_deaths_start(struct daemon *daemon)
{
	if (daemon->options->capture.session.deaths && deaths_start(&daemon->deaths.seen))
		log_warn("not all processes could be looked at");
}

static void learn_job(void *arg, const void *data, size_t bytes, bool late)
{
	struct daemon_deaths *deaths = arg;

	if (!late) /* a job that is late may read nothing: the next one will */
		deaths_learn(&deaths->seen, LEARN_NS);
	deaths->learns = false;
	(void)data;
	(void)bytes;
}

/* The processes that ran at the start are learned by jobs, some at a time. */
static void learn_some(struct daemon *daemon)
{
	const struct background_job job = { .fn = learn_job, .arg = &daemon->deaths };

	if (!daemon->deaths.seen.nr_pids || daemon->deaths.learns)
		return;
	if (!daemon->sampler.background)
		deaths_learn(&daemon->deaths.seen, LEARN_NS);
	else
		daemon->deaths.learns = !background_post(daemon->sampler.background, &job);
}

/* folder: its name; NULL: it has none. */
static void death_log(const struct death *death, const struct buf *sentence, const char *folder)
{
	char reason[DEATH_SIGNAL_BYTES], by[BPFPROF_COMM_LEN + 1];
	const struct log_field fields[] = {
		{ .key = "why", .text = sentence->data },
		{ .key = "signal", .text = death_reason(reason, death) },
		{ .key = "by", .text = by },
		{ .key = "pid", .number = death->pid },
		{ .key = "folder", .text = folder },
	};

	death_by(by, death);
	log_event(LOG_INFO, "process died", fields,
		  sizeof(fields) / sizeof(fields[0]) - (folder ? 0 : 1));
}

static void death_notify(struct daemon *daemon, const struct death *death,
			 const struct profile *profile, const struct buf *sentence,
			 const struct buf *summary, const char *folder)
{
	char reason[DEATH_SIGNAL_BYTES], by[BPFPROF_COMM_LEN + 1];
	struct buf text;

	if (!daemon->options->notify.url)
		return;
	death_by(by, death);
	notify_begin(daemon, &text, "death", sentence->data, death->wall_ns);
	notification_text(&text, "signal", death_reason(reason, death));
	notification_text(&text, "by", by);
	json_key_number(&text, "pid", death->pid);
	notification_process(&text, profile, death_process(profile));
	notification_text(&text, "folder", folder);
	notification_end(&text, summary->data);
	notify_child_put(daemon, &text);
}

static int death_write(struct daemon *daemon, const struct death *death)
{
	struct buf sentence = { .max = MAX_TEXT }, summary = { .max = MAX_TEXT },
		   name = { .max = NAME_MAX };
	struct stats_reasons problems = { 0 };
	struct profile profile = { 0 };
	const struct folder_file list[] = { { "summary.txt", &profile, &summary },
					    { "stacks.folded", &profile, NULL } };
	int hidden = 0, err;

	err = sampler_profile(&daemon->sampler, death->aggregate, false, &profile, &problems,
			      &hidden);
	if (err)
		return err;
	profile.time_ns = death->wall_ns;
	death_sentence(&sentence, death, &profile);
	death_summary(&summary, death, &profile, daemon->output);
	death_folder_name(&name, death, &profile);
	err = buf_error(&summary) ?: buf_error(&name);
	if (!err)
		err = watch_folder_write(daemon, TEMPORARY, list, sizeof(list) / sizeof(list[0]),
					 &name);
	if (!buf_error(&sentence)) {
		death_log(death, &sentence, err ? NULL : name.data);
		daemon->deaths.done->nr_logged++;
		death_notify(daemon, death, &profile, &sentence, &summary, err ? NULL : name.data);
	}
	buf_fini(&sentence);
	buf_fini(&summary);
	buf_fini(&name);
	profile_fini(&profile);
	return err;
}

static void child_main(struct daemon *daemon, struct death *const deaths[], size_t nr)
{
	size_t i;
	int err;

	daemon_child_begin(daemon, -1);
	for (i = 0; i < nr; i++) {
		err = death_write(daemon, deaths[i]);
		if (err)
			log_warn("%s: the death of pid %u is not written: %s", daemon->output,
				 deaths[i]->pid, strerror(-err));
		else
			daemon->deaths.done->nr_written++;
	}
	watch_folders_prune(daemon);
	_exit(0);
}

/* Whatever has ended it, the deaths that it has not written are counted. */
static void child_ended(struct daemon *daemon)
{
	struct daemon_deaths *deaths = &daemon->deaths;

	deaths->pid = 0;
	deaths->nr_not_written += deaths->nr_given - deaths->done->nr_written;
	notify_child_close(daemon, deaths->done->nr_logged);
}

static void child_watch(struct daemon *daemon, uint64_t now_ns)
{
	struct daemon_deaths *deaths = &daemon->deaths;

	if (!deaths->pid)
		return;
	notify_child_take(daemon);
	if (waitpid(deaths->pid, NULL, WNOHANG))
		child_ended(daemon);
	else if (now_ns > deaths->child_ns + CHILD_NS)
		kill(deaths->pid, SIGKILL);
}

static uint64_t without_folder(const struct daemon_deaths *deaths)
{
	return deaths->nr_not_written + deaths->seen.nr_not_written;
}

static void sum_notify(struct daemon *daemon, uint64_t nr, uint64_t all)
{
	struct buf text;
	char why[64];

	if (!daemon->options->notify.url)
		return;
	snprintf(why, sizeof(why), "%" PRIu64 " more processes died, without a folder", nr);
	notify_begin(daemon, &text, "more_deaths", why, time_wall_ns());
	json_key_number(&text, "deaths", nr);
	json_key_number(&text, "all_deaths", all);
	notification_end(&text, NULL);
	notify_send(daemon, &text);
}

/* One line for all deaths without a folder since the last such line. */
static void sum_log(struct daemon *daemon, uint64_t now_ns, bool at_once)
{
	struct daemon_deaths *deaths = &daemon->deaths;
	uint64_t nr = without_folder(deaths) - deaths->nr_summed;
	const struct log_field fields[] = {
		{ .key = "deaths", .number = nr },
		{ .key = "all_deaths", .number = deaths->seen.nr_deaths },
	};

	if (!nr || (!at_once && now_ns < deaths->sum_ns + SUM_NS))
		return;
	deaths->sum_ns = now_ns;
	deaths->nr_summed += nr;
	log_event(LOG_INFO, "more processes died, without a folder", fields,
		  sizeof(fields) / sizeof(fields[0]));
	sum_notify(daemon, nr, deaths->seen.nr_deaths);
}

/* The deaths that may be written now; the others are freed. */
static size_t deaths_choose(struct daemon *daemon, struct death *ret[DEATHS_MAX_WAITING],
			    uint64_t now_ns)
{
	struct daemon_deaths *deaths = &daemon->deaths;
	struct death *death;
	size_t nr = 0;
	bool may;

	while (deaths->seen.nr_waiting) {
		may = watch_folder_take(&daemon->folders, deaths_tenant(&deaths->seen), now_ns);
		death = deaths_take(&deaths->seen);
		if (may) {
			ret[nr++] = death;
			continue;
		}
		deaths->nr_not_written++;
		death_free(death);
	}
	return nr;
}

static void deaths_write(struct daemon *daemon, uint64_t now_ns)
{
	struct daemon_deaths *deaths = &daemon->deaths;
	struct death *list[DEATHS_MAX_WAITING];
	size_t nr = deaths_choose(daemon, list, now_ns), i;

	if (!nr)
		return;
	deaths->child_ns = now_ns;
	deaths->nr_given = nr;
	if (deaths->done == MAP_FAILED) {
		deaths->nr_not_written += nr;
	} else {
		*deaths->done = (struct deaths_done){ 0 };
		notify_child_open(daemon);
		deaths->pid = fork();
		if (!deaths->pid)
			child_main(daemon, list, nr);
		if (deaths->pid < 0)
			child_ended(daemon);
	}
	for (i = 0; i < nr; i++)
		death_free(list[i]);
}

void daemon_deaths_run(struct daemon *daemon, uint64_t now_ns)
{
	struct daemon_deaths *deaths = &daemon->deaths;

	if (!daemon->options->capture.session.deaths)
		return;
	child_watch(daemon, now_ns);
	sum_log(daemon, now_ns, false);
	learn_some(daemon);
	/* The child is a fork: no job may be half done. Beside the writer there would be a third copy of the memory. */
	if (deaths->pid || daemon->writer.pid || daemon->stalls.pid || !deaths->seen.nr_waiting ||
	    !background_try_pause(daemon->sampler.background))
		return;
	deaths_write(daemon, now_ns);
	background_resume(daemon->sampler.background);
}

bool daemon_deaths_last(struct daemon *daemon)
{
	struct daemon_deaths *deaths = &daemon->deaths;

	if (!daemon->options->capture.session.deaths)
		return false;
	child_watch(daemon, time_monotonic_ns());
	if (!deaths->pid && deaths->seen.nr_waiting)
		deaths_write(daemon, time_monotonic_ns());
	return deaths->pid;
}

void daemon_deaths_end(struct daemon *daemon, int signal_fd)
{
	uint64_t end_ns = time_monotonic_ns() + END_NS;
	struct daemon_deaths *deaths = &daemon->deaths;
	struct pollfd fd = { .fd = signal_fd, .events = POLLIN };

	while (!daemon->asked_again && daemon_deaths_last(daemon) && time_monotonic_ns() < end_ns) {
		poll(&fd, 1, 10);
		if (fd.revents)
			daemon_asked_again(daemon, signal_fd);
	}
	if (deaths->pid) {
		kill(deaths->pid, SIGKILL);
		child_ended(daemon);
	}
	deaths->nr_not_written += deaths->seen.nr_waiting;
	sum_log(daemon, time_monotonic_ns(), true);
}

void daemon_deaths_close(struct daemon *daemon)
{
	deaths_fini(&daemon->deaths.seen);
}

void daemon_deaths_metrics(struct buf *dst, const struct daemon *daemon)
{
	const struct death_counts *counts = &daemon->deaths.seen.counts;
	size_t i;

	if (!daemon->options->capture.session.deaths)
		return;
	buf_add_str(
		dst,
		"# HELP bpfprof_deaths_total Watched processes that died, by signal or "
		"exit, and by the process that ended them.\n# TYPE bpfprof_deaths_total counter\n");
	for (i = 0; i < counts->nr; i++)
		buf_printf(dst, "bpfprof_deaths_total{signal=\"%s\",by=\"%s\"} %" PRIu64 "\n",
			   counts->rows[i].reason, counts->rows[i].by, counts->rows[i].nr);
	pod_counts_metric(dst, &counts->pods, "bpfprof_pod_deaths_total",
			  "The same by pod, of the 128 pods with the last deaths.");
	buf_printf(dst,
		   "# HELP bpfprof_deaths_not_written_total Deaths without a folder.\n"
		   "# TYPE bpfprof_deaths_not_written_total counter\n"
		   "bpfprof_deaths_not_written_total %" PRIu64 "\n",
		   without_folder(&daemon->deaths));
}
