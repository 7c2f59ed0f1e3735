// SPDX-License-Identifier: Apache-2.0
#include "findings/record_findings.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/log.h"
#include "base/strtab.h"
#include "base/text.h"
#include "base/time.h"
#include "capture/sampler.h"
#include "findings/finding_facts.h"
#include "findings/findings.h"
#include "findings/loader_wait.h"
#include "findings/process_watch.h"
#include "findings/wait_place.h"
#include "formats/output.h"
#include "formats/profile_text.h"
#include "kernel/titles.h"
#include "proc/processes.h"
#include "proc/title.h"
#include "profile/profile.h"
#include "profile/stats.h"
#include "profile/wakers.h"
#include "ray/calls.h"
#include "tasks/task_calls.h"
#include "tasks/task_times.h"

#define NAME_MAX_BYTES 2048
#define DRIVER "driver" /* Ray roles of drivers begin so */
#define IDLE_WORKER "ray::IDLE"

struct record_findings {
	struct sampler *sampler;
	bool chosen, judges;
	struct process_watch *watch;
	struct task_times *times;
	struct findings found;
};

int record_findings_new(struct record_findings **ret, struct sampler *sampler,
			const char *host_root, bool chosen, bool judges)
{
	struct record_findings *findings = calloc(1, sizeof(*findings));

	if (!findings)
		return -ENOMEM;
	findings->sampler = sampler;
	findings->chosen = chosen;
	findings->judges = judges;
	if (process_watch_new(&findings->watch, sampler, host_root) ||
	    task_times_new(&findings->times)) {
		record_findings_free(findings);
		return -ENOMEM;
	}
	*ret = findings;
	return 0;
}

void record_findings_free(struct record_findings *findings)
{
	if (!findings)
		return;
	process_watch_free(findings->watch);
	task_times_free(findings->times);
	free(findings);
}

void record_findings_sample(struct record_findings *findings, const struct aggregate_input *input)
{
	if (findings)
		process_watch_sample(findings->watch, input);
}

void record_findings_forget(struct record_findings *findings, const struct bpfprof_task_id *task)
{
	if (findings)
		process_watch_forget(findings->watch, task);
}

/* Is the worker recorded? */
static bool is_recorded(const struct record_findings *findings, const struct bpfprof_task_id *task)
{
	const struct session *session = &findings->sampler->reader.session;

	if (findings->chosen)
		return process_watch_has(findings->watch, task->pid, task->start_ns) ||
		       session_is_target(session, (pid_t)task->pid);
	return !session->options.filter || session_is_target(session, (pid_t)task->pid);
}

static void judge(const struct record_findings *findings, const struct bpfprof_title_event *event,
		  bool wanted)
{
	if (findings->judges)
		titles_judge(&findings->sampler->reader.session, event, wanted);
}

void record_findings_title(struct record_findings *findings,
			   const struct bpfprof_title_event *event)
{
	struct task_change_texts texts;
	struct task_change change;

	if (!findings)
		return;
	if (task_change_read(&change, &texts, &findings->sampler->reader.session, event))
		judge(findings, event, false);
	else if (!is_recorded(findings, &event->task))
		/* Bpfprof need not be woken for it. */
		judge(findings, event, !calls_is_idle(change.title));
	else
		judge(findings, event, task_times_see(findings->times, &change));
}

/* The next change would report lost ones, but it does not come. */
static void on_lost(void *arg, const struct bpfprof_task_id *task, uint32_t lost)
{
	struct record_findings *findings = arg;

	task_times_lose(findings->times, task->pid, task->start_ns, lost);
}

void record_findings_exit(struct record_findings *findings, const struct bpfprof_task_id *task,
			  uint64_t ts_ns)
{
	if (!findings)
		return;
	process_watch_exit(findings->watch, task);
	on_lost(findings, task, titles_lost(&findings->sampler->reader.session, task));
	task_times_exit(findings->times, task->pid, task->start_ns, ts_ns);
	if (findings->judges) /* no other module judges titles */
		titles_forget(&findings->sampler->reader.session, task->pid);
}

void record_findings_tick(struct record_findings *findings, uint64_t now_ns)
{
	if (findings)
		process_watch_tick(findings->watch, now_ns);
}

/* The values that the rows read. */
struct left_out {
	uint64_t limits, titles, samples;
};

#define AT(field) offsetof(struct left_out, field)

const struct counter record_findings_counters[] = {
	{ COUNTER_WALK, "cgroup_limits_not_visible", AT(limits),
	  .help = "processes whose limit of CPU time cannot be read" },
	{ COUNTER_WALK, "title_changes_not_timed", AT(titles),
	  .help = "changes of titles that were too many to be timed" },
	{ COUNTER_WALK, "samples_not_watched", AT(samples),
	  .help = "samples of processes that were too many to be watched" },
	{ 0 },
};

void record_findings_stats(const struct record_findings *findings, struct stats_reasons *dst)
{
	struct left_out left_out;

	if (!findings)
		return;
	left_out = (struct left_out){ process_watch_nr_limits_hidden(findings->watch),
				      task_times_nr_left_out(findings->times),
				      process_watch_nr_left_out(findings->watch) };
	stats_add_rows(dst, record_findings_counters, &left_out, false);
}

void record_findings_end(struct record_findings *findings, uint64_t now_ns)
{
	if (!findings)
		return;
	process_watch_finish(findings->watch, now_ns);
	titles_each_lost(&findings->sampler->reader.session, on_lost, findings);
	task_times_close(findings->times, now_ns);
}

void record_findings_make(struct record_findings *findings, uint64_t duration_ns)
{
	struct task_time *tasks;
	size_t nr, i;

	if (!findings)
		return;
	tasks = task_times_list(findings->times, &nr);
	for (i = 0; i < nr; i++)
		findings_of_task(&findings->found, &tasks[i], duration_ns);
	free(tasks);
	finding_facts(&findings->found, findings->watch, duration_ns);
}

/*
 * Should the process make progress? Only a chosen process, a driver, or a worker with a task
 * should. Other processes of a machine wait in one place most of the time, and are healthy.
 */
static bool should_work(const struct profile *profile, const struct profile_process *process)
{
	const char *role = strtab_get(profile->strings, process->ray_role);

	if (process->asked_for || !strncmp(role, DRIVER, strlen(DRIVER)))
		return true;
	return process->task &&
	       strcmp(strtab_get(profile->strings, process->task), IDLE_WORKER) != 0;
}

static bool is_first_entry(const struct profile *profile, size_t index)
{
	size_t i;

	for (i = 0; i < index; i++)
		if (profile->processes[i].kernel_pid == profile->processes[index].kernel_pid)
			return false;
	return true;
}

static void wait_report(struct record_findings *findings, const struct profile *profile,
			const struct profile_process *process)
{
	__cleanup(buf_fini) struct buf name = { .max = NAME_MAX_BYTES };
	__cleanup(buf_fini) struct buf function = { .max = NAME_MAX_BYTES };
	__cleanup(buf_fini) struct buf line = { .max = NAME_MAX_BYTES };
	struct wait_place place;

	if (wait_place_find(profile, process->kernel_pid, &place) || !place.ns)
		return;
	process_text(&name, profile, process);
	frame_text(&function, profile, &profile->locations[place.function]);
	frame_text(&line, profile, &profile->locations[place.line]);
	if (buf_error(&name) || buf_error(&function) || buf_error(&line) || !name.data ||
	    !function.data || !line.data)
		return;
	findings_of_wait(&findings->found,
			 &(struct wait_fact){
				 .name = name.data,
				 .pid = process->pid ? process->pid : process->kernel_pid,
				 .waited_ns = place.ns,
				 .function = function.data,
				 .line = line.data,
			 },
			 profile->duration_ns);
}

struct child_search {
	const struct profile *profile;
	uint32_t parent;
};

static const struct profile_process *entry_of(const struct profile *profile, uint32_t kernel_pid)
{
	size_t i;

	for (i = 0; i < profile->nr_processes; i++)
		if (profile->processes[i].kernel_pid == kernel_pid)
			return &profile->processes[i];
	return NULL;
}

static bool is_child(void *arg, uint32_t kernel_pid)
{
	const struct child_search *search = arg;
	const struct profile_process *process = entry_of(search->profile, kernel_pid);

	return process && process->parent && process->parent == search->parent;
}

/* Time of the process's threads in that state (enum profile_sleeper). */
static uint64_t state_ns(const struct profile *profile, uint32_t kernel_pid, uint32_t sleeper)
{
	const struct profile_sample *s;
	uint64_t ns = 0;
	size_t i;

	for (i = 0; i < profile->nr_samples; i++) {
		s = &profile->samples[i];
		if (s->sleeper == sleeper && !profile_stack_is_of_tasks(profile, s->stack) &&
		    profile->processes[s->process].kernel_pid == kernel_pid)
			ns += s->value_ns;
	}
	return ns;
}

static bool starved_report(struct record_findings *findings, const struct profile *profile,
			   const struct profile_process *process, const struct waker_link *links,
			   size_t nr)
{
	struct child_search search = { .profile = profile, .parent = process->pid };
	__cleanup(buf_fini) struct buf name = { .max = NAME_MAX_BYTES };
	struct starved_fact fact = { .pid = process->pid };
	uint32_t i, children[LOADER_WAIT_MAX_CHILDREN];
	uint64_t run_ns;
	struct loader_wait loader;

	if (!process->pid || profile->time != PROFILE_TIME_WALL)
		return false;
	loader_wait_find(&loader, links, nr, process->kernel_pid, is_child, &search);
	process_text(&name, profile, process);
	if (!loader.nr || buf_error(&name) || !name.data)
		return false;
	for (i = 0; i < loader.nr_children; i++) {
		children[i] = entry_of(profile, loader.children[i])->pid;
		fact.child_asleep_ns += state_ns(profile, loader.children[i], PROFILE_FIRST_SLEEPS);
		run_ns = state_ns(profile, loader.children[i], PROFILE_FIRST_RUNS);
		fact.child_run_ns += run_ns;
		fact.child_awake_ns +=
			run_ns + state_ns(profile, loader.children[i], PROFILE_NOT_ASLEEP);
	}
	fact.name = name.data;
	fact.waited_ns = loader.ns;
	fact.nr_waits = loader.nr;
	fact.run_ns = state_ns(profile, process->kernel_pid, PROFILE_FIRST_RUNS);
	fact.children = children;
	fact.nr_children = loader.nr_children;
	return findings_of_starved(&findings->found, &fact, profile->duration_ns);
}

void record_findings_waits(struct record_findings *findings, const struct profile *profile)
{
	__cleanup(free_mem) struct waker_link *links = NULL;
	const struct profile_process *process;
	size_t nr = 0, i;

	if (!findings || profile->time == PROFILE_TIME_CPU)
		return;
	if (findings->sampler->wakers && wakers_links(findings->sampler->wakers, &links, &nr))
		log_debug("findings: out of memory");
	for (i = 0; i < profile->nr_processes; i++) {
		process = &profile->processes[i];
		if (is_first_entry(profile, i) &&
		    !starved_report(findings, profile, process, links, nr) &&
		    should_work(profile, process))
			wait_report(findings, profile, process);
	}
}

void record_findings_replace(struct record_findings *findings, enum finding_kind kind,
			     const struct findings *by)
{
	if (findings)
		findings_replace(&findings->found, kind, by);
}

void record_findings_report(const struct record_findings *findings)
{
	if (findings)
		findings_report(&findings->found);
}

void record_findings_json(struct buf *json, const struct record_findings *findings)
{
	if (findings)
		findings_json(json, &findings->found);
}
