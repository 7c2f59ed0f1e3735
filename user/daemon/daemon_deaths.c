// SPDX-License-Identifier: Apache-2.0
/*
 * --watch: a folder death-<UTC>-<who>-<pid> for each death of a watched process, below the folder of the daemon. A child
 * names the frames and writes, while the loop goes on. A tenant (base/tenant.h) that is in a crash loop has PER_TENANT
 * folders an hour, and leaves those of others alone; its other deaths are counted.
 */
#include "daemon/daemon.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/background.h"
#include "base/buf.h"
#include "base/json.h"
#include "base/log.h"
#include "base/text.h"
#include "base/time.h"
#include "formats/output.h"
#include "proc/images.h"
#include "proc/processes.h"
#include "proc/ranks.h"
#include "profile/aggregate.h"
#include "profile/profile.h"
#include "watch/notification.h"

#define MAX_FOLDERS 256 /* that are kept */
/* Deaths that are written in an hour. The first one of a tenant is written whatever the others have used. */
#define PER_TENANT 40
#define PER_HOUR 120
#define MAX_TENANTS 512
#define HOUR_NS (3600 * NS_PER_SECOND)
#define LEARN_NS (NS_PER_SECOND / 20) /* of a job that learns processes */
#define CHILD_NS (60 * NS_PER_SECOND) /* the limit of a child */
#define SUM_NS (60 * NS_PER_SECOND) /* between two lines about deaths that were not written */
#define MAX_TEXT (1U << 20)
#define END_NS (5 * NS_PER_SECOND) /* for the deaths that are left when the daemon ends */
#define MAX_TRIES 100 /* names for deaths in the same second */
#define TEMPORARY ".death.tmp"
#define CUDA "libcuda.so"

struct tenant {
	struct hash_node node;
	uint32_t tenant;
	uint32_t nr; /* deaths of this hour that were given to a child */
};

static const char *const files[] = { "summary.txt", "stacks.folded" };

bool deaths_is_file(const char *name)
{
	for (size_t i = 0; i < sizeof(files) / sizeof(files[0]); i++)
		if (!strcmp(name, files[i]))
			return true;
	return false;
}

bool deaths_is_path(const char *path)
{
	const char *slash = strchr(path, '/');
	char name[NAME_MAX + 1];

	if (!slash || (size_t)(slash - path) > NAME_MAX || (slash[1] && !deaths_is_file(slash + 1)))
		return false;
	memcpy(name, path, (size_t)(slash - path));
	name[slash - path] = 0;
	return death_is_folder(name);
}

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
	hash_table_init(&daemon->deaths.tenants, MAX_TENANTS, struct tenant, tenant);
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

	deaths_learn(&deaths->seen, LEARN_NS);
	deaths->learns = false;
	(void)data;
	(void)bytes;
	(void)late;
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

static int file_write(const struct daemon *daemon, int folder, const char *name,
		      const struct profile *profile, const struct buf *text)
{
	const struct store_access *access = &daemon->options->access;
	const struct output_options options = { .threads = true };
	int fd = openat(folder, name, O_WRONLY | O_CREAT | O_EXCL | O_NOFOLLOW | O_CLOEXEC,
			store_file_mode(access));
	int err;

	if (fd < 0)
		return -errno;
	err = store_access_file(access, fd) ?: file_fill(fd, name, profile, text, &options);
	if (!err && fsync(fd) && errno != EINVAL)
		err = -errno;
	close(fd);
	return err;
}

static void folder_remove(int parent, const char *name)
{
	int fd = openat(parent, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);

	for (size_t i = 0; fd >= 0 && i < sizeof(files) / sizeof(files[0]); i++)
		unlinkat(fd, files[i], 0);
	if (fd >= 0)
		close(fd);
	unlinkat(parent, name, AT_REMOVEDIR);
}

/* Gives the finished folder its name, or that name and a number. */
static int folder_name(int parent, struct buf *name)
{
	size_t len = name->len;
	int i;

	for (i = 1; i < MAX_TRIES; i++) {
		/* A folder with files is not replaced. */
		if (!renameat(parent, TEMPORARY, parent, name->data))
			return 0;
		if (errno != EEXIST && errno != ENOTEMPTY)
			return -errno;
		name->len = len;
		buf_printf(name, "-%d", i);
		if (buf_error(name))
			return buf_error(name);
	}
	return -EEXIST;
}

static int folder_write(const struct daemon *daemon, const struct profile *profile,
			const struct buf *summary, struct buf *name)
{
	const struct store_access *access = &daemon->options->access;
	int parent = store_fd(daemon->store), folder, err;

	folder_remove(parent, TEMPORARY); /* of a child that was killed */
	if (mkdirat(parent, TEMPORARY, store_folder_mode(access)))
		return -errno;
	folder = openat(parent, TEMPORARY, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC);
	if (folder < 0)
		return -errno;
	err = store_access_folder(access, folder);
	if (!err)
		err = file_write(daemon, folder, files[0], profile, summary);
	if (!err)
		err = file_write(daemon, folder, files[1], profile, NULL);
	close(folder);
	if (!err)
		err = folder_name(parent, name);
	if (err)
		folder_remove(parent, TEMPORARY);
	return err;
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
	int hidden = 0, err;

	err = sampler_profile(&daemon->sampler, death->aggregate, false, &profile, &problems,
			      &hidden);
	if (err)
		return err;
	profile.time_ns = death->wall_ns;
	death_sentence(&sentence, death, &profile);
	death_summary(&summary, death, &profile);
	death_folder_name(&name, death, &profile);
	err = buf_error(&summary) ?: buf_error(&name);
	if (!err)
		err = folder_write(daemon, &profile, &summary, &name);
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

static int is_folder(const struct dirent *entry)
{
	return death_is_folder(entry->d_name);
}

/* The <who> of the name of a folder: a pod or a program. */
static size_t owner_of(const char *folder, const char **ret)
{
	const char *end = strrchr(folder, '-');

	*ret = strchr(strchr(folder, '-') + 1, '-') + 1; /* death_is_folder() has seen both */
	return end > *ret ? (size_t)(end - *ret) : 0;
}

static bool is_same_owner(const char *a, const char *b)
{
	const char *of_a, *of_b;
	size_t len = owner_of(a, &of_a);

	return len == owner_of(b, &of_b) && !memcmp(of_a, of_b, len);
}

/* The oldest folder of the owner that has the most of them; the list is sorted. */
static size_t folder_choose(struct dirent *const *list, size_t nr)
{
	size_t i, j, of_owner, most = 0, chosen = 0;

	for (i = 0; i < nr; i++) {
		for (j = i, of_owner = 0; j < nr; j++)
			of_owner += is_same_owner(list[i]->d_name, list[j]->d_name);
		if (of_owner > most) {
			most = of_owner;
			chosen = i;
		}
	}
	return chosen;
}

static bool is_too_old(const struct daemon *daemon, const char *folder)
{
	struct stat st;

	return !fstatat(store_fd(daemon->store), folder, &st, AT_SYMLINK_NOFOLLOW) &&
	       (uint64_t)st.st_mtime + daemon->options->limits.age_seconds <
		       time_wall_ns() / NS_PER_SECOND;
}

/* Removes the folder, and its entry in the list. */
static void entry_remove(int parent, struct dirent **list, size_t *nr, size_t i)
{
	folder_remove(parent, list[i]->d_name);
	free(list[i]);
	memmove(list + i, list + i + 1, (--*nr - i) * sizeof(*list));
}

/* scandirat() has sorted them: the oldest come first. */
static void folders_prune(const struct daemon *daemon)
{
	int parent = store_fd(daemon->store), found;
	struct dirent **list;
	size_t nr, i;

	found = scandirat(parent, ".", &list, is_folder, alphasort);
	if (found < 0)
		return;
	nr = (size_t)found;
	for (i = 0; i < nr;)
		if (is_too_old(daemon, list[i]->d_name))
			entry_remove(parent, list, &nr, i);
		else
			i++;
	while (nr > MAX_FOLDERS)
		entry_remove(parent, list, &nr, folder_choose(list, nr));
	for (i = 0; i < nr; i++)
		free(list[i]);
	free(list);
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
	folders_prune(daemon);
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

static bool may_write(struct daemon_deaths *deaths, uint32_t number)
{
	struct tenant *tenant = hash_table_get(&deaths->tenants, &number);

	if (!tenant || (tenant->nr && (tenant->nr >= PER_TENANT || deaths->nr_hour >= PER_HOUR)))
		return false;
	tenant->nr++;
	deaths->nr_hour++;
	return true;
}

/* The deaths that may be written now; the others are freed. */
static size_t deaths_choose(struct daemon_deaths *deaths, struct death *ret[DEATHS_MAX_WAITING],
			    uint64_t now_ns)
{
	struct death *death;
	size_t nr = 0;
	bool may;

	if (!deaths->hour_ns || now_ns > deaths->hour_ns + HOUR_NS) {
		deaths->hour_ns = now_ns;
		deaths->nr_hour = 0;
		hash_table_clear(&deaths->tenants);
	}
	while (deaths->seen.nr_waiting) {
		may = may_write(deaths, deaths_tenant(&deaths->seen));
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
	size_t nr = deaths_choose(deaths, list, now_ns), i;

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
	if (deaths->pid || daemon->writer.pid || !deaths->seen.nr_waiting ||
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
	hash_table_clear(&daemon->deaths.tenants);
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
	buf_add_str(dst,
		    "# HELP bpfprof_pod_deaths_total The same by pod, of the 128 pods with the "
		    "last deaths.\n# TYPE bpfprof_pod_deaths_total counter\n");
	for (i = 0; i < counts->nr_pods; i++)
		buf_printf(dst, "bpfprof_pod_deaths_total{watched_pod=\"%s\"} %" PRIu64 "\n",
			   counts->pods[i].pod, counts->pods[i].nr);
	buf_printf(dst,
		   "# HELP bpfprof_deaths_not_written_total Deaths without a folder.\n"
		   "# TYPE bpfprof_deaths_not_written_total counter\n"
		   "bpfprof_deaths_not_written_total %" PRIu64 "\n",
		   without_folder(&daemon->deaths));
}
