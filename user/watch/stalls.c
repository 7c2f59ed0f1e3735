// SPDX-License-Identifier: Apache-2.0
#include "watch/stalls.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/text.h"
#include "base/time.h"
#include "capture/sampler.h"
#include "kernel/tasks.h"
#include "options/options.h"
#include "proc/processes.h"
#include "profile/stats.h"
#include "watch/watched.h"

#define PERIODS 20 /* looks at the processes in stall_ns */
#define PERIOD_MIN_NS NS_PER_SECOND
#define PERIOD_MAX_NS (15 * NS_PER_SECOND)
#define AGAIN_NS (10 * NS_PER_SECOND)
#define PAUSE_MAX_NS (3600 * NS_PER_SECOND)
#define MAX_DEPTH 16 /* of watched processes, from one to its ancestor */
#define OF_RAY UINT32_MAX /* no pid */
#define CHECKS 2 /* that have to agree */
#define BUSY_LINES 2 /* a place of further checks is so far from the first one at most */
#define BUSY_CHECKS 4 /* the same of a process that is busy: it may pass one line often */
#define PID " (pid "

void stalls_init(struct stalls *stalls, struct sampler *sampler,
		 const struct watched_table *watched, const struct stall_options *options)
{
	*stalls = (struct stalls){ .sampler = sampler, .watched = watched, .options = options };
	hash_table_init(&stalls->processes, STALLS_MAX, struct stall_process, key);
}

void stall_fini(struct stall *stall)
{
	size_t i;

	for (i = 0; i < sizeof(stall->dumps) / sizeof(stall->dumps[0]); i++)
		if (stall->dumps[i])
			close(stall->dumps[i]);
	*stall = (struct stall){ 0 };
}

static void found_drop(struct stalls *stalls, struct stall_process *p)
{
	if (!p->found)
		return;
	stall_fini(p->found);
	free(p->found);
	p->found = NULL;
	stalls->nr_found--;
}

void stalls_fini(struct stalls *stalls)
{
	struct stall_process *p;

	stall_check_fini(&stalls->check);
	hash_table_each(&stalls->processes, p)
		found_drop(stalls, p);
	while (stalls->nr_ready)
		stall_fini(&stalls->ready[--stalls->nr_ready]);
	hash_table_clear(&stalls->processes);
}

/* The process that the sentence names first; 0: none. */
static uint32_t sentence_pid(const char *sentence)
{
	const char *at = strstr(sentence, PID);

	return at ? (uint32_t)strtoul(at + strlen(PID), NULL, 10) : 0;
}

static struct stall_process *of_pid(const struct stalls *stalls, uint32_t own_pid)
{
	struct stall_process *p;

	hash_table_each(&stalls->processes, p)
		if (p->own_pid == own_pid)
			return p;
	return NULL;
}

/* The process that the sentence is about, or, if that is not watched, the one that was silent. */
static struct stall_process *subject_find(const struct stalls *stalls, const char *line)
{
	uint32_t pid = sentence_pid(line);
	struct stall_process *p = pid ? of_pid(stalls, pid) : NULL;

	return p ? p
		 : process_map_find(&stalls->processes, stalls->check_of.pid,
				    stalls->check_of.start_ns);
}

static struct stall_process *process_add(struct stalls *stalls, const struct process_key *key,
					 uint64_t now_ns)
{
	struct sampler *sampler = stalls->sampler;
	const struct process *process = processes_find(sampler->reader.processes, key->pid);
	struct stall_process *p = process_map_add(&stalls->processes, key->pid, key->start_ns);

	if (!p) {
		stalls->nr_full++;
		return NULL;
	}
	p->own_pid = session_own_pid(&sampler->reader.session, key->pid,
				     process ? process->ns_context.agent_pid : 0);
	p->since_ns = now_ns;
	p->pause_ns = stalls->options->after_ns;
	return p;
}

/* Takes it over. */
static void ready_add(struct stalls *stalls, struct stall *stall)
{
	if (stalls->nr_ready < STALLS_READY) {
		stalls->ready[stalls->nr_ready++] = *stall;
	} else {
		stalls->nr_dropped++;
		stall_fini(stall);
	}
	*stall = (struct stall){ 0 };
}

static void stall_end(struct stalls *stalls, struct stall_process *p)
{
	struct stall end = { .over = true,
			     .verdict = p->subject,
			     .pid = p->own_pid,
			     .key = p->key,
			     .tenant = p->owner.tenant,
			     .since_ns = p->since_ns };

	p->subject = WAIT_VERDICT_ALIVE;
	ready_add(stalls, &end);
}

static void progress(struct stalls *stalls, struct stall_process *p, uint64_t now_ns)
{
	if (p->subject)
		stall_end(stalls, p);
	p->since_ns = now_ns;
	p->ask_ns = 0;
	p->pause_ns = stalls->options->after_ns;
}

/* Looks at the first thread of the process. */
static void process_look(struct stalls *stalls, struct stall_process *p, uint64_t now_ns)
{
	const struct tasks_choice choice = { .kernel_pid = p->key.pid,
					     .tids = &p->own_pid,
					     .nr = 1 };
	struct tasks tasks = { 0 };
	const struct bpfprof_task_state *state;

	if (!p->own_pid ||
	    tasks_read(&tasks, &stalls->sampler->reader.session, p->own_pid, &choice))
		return;
	state = tasks.states;
	p->parent = state->parent;
	if (state->faults != p->faults || state->io_bytes != p->io_bytes) {
		p->faults = state->faults;
		p->io_bytes = state->io_bytes;
		progress(stalls, p, now_ns);
		if (state->asleep_ns < now_ns && p->since_ns > now_ns - state->asleep_ns)
			p->since_ns = now_ns - state->asleep_ns;
	}
	tasks_fini(&tasks);
}

static void processes_look(struct stalls *stalls, uint64_t now_ns)
{
	struct stall_process *p;
	const struct watched *w;

	stalls->round++;
	hash_table_each(&stalls->watched->kept, w) {
		p = process_map_find(&stalls->processes, w->key.pid, w->key.start_ns);
		if (!p)
			p = process_add(stalls, &w->key, now_ns);
		if (!p)
			continue;
		p->round = stalls->round;
		process_look(stalls, p, now_ns);
	}
	hash_table_each(&stalls->processes, p) {
		if (p->round == stalls->round)
			continue;
		if (p->subject)
			stall_end(stalls, p);
		found_drop(stalls, p);
		hash_table_remove(&stalls->processes, p);
	}
}

static bool is_due(const struct stalls *stalls, const struct stall_process *p, uint64_t now_ns)
{
	if (p->found)
		return now_ns >= p->again_ns && stalls->nr_ready < STALLS_WRITING;
	return p->own_pid && stalls->nr_found < STALLS_FOUND &&
	       now_ns >= p->since_ns + stalls->options->after_ns && now_ns >= p->ask_ns;
}

/* Further checks come first, then the process that has been silent for the longest time. */
static struct stall_process *candidate(const struct stalls *stalls, uint64_t now_ns)
{
	struct stall_process *p, *found = NULL;

	hash_table_each(&stalls->processes, p)
		if (is_due(stalls, p, now_ns) &&
		    (!found || (p->found && !found->found) ||
		     (!p->found == !found->found && p->since_ns < found->since_ns)))
			found = p;
	return found;
}

static int by_pid(const void *a, const void *b)
{
	const struct stall_process *const *p = a, *const *q = b;

	return ((*p)->key.pid > (*q)->key.pid) - ((*p)->key.pid < (*q)->key.pid);
}

static uint64_t job_of(const struct stall_process *p, struct stall_process *const *sorted,
		       size_t nr)
{
	uint64_t tenant = (uint64_t)p->owner.tenant << 32;
	struct stall_process key, *wanted = &key, **parent;
	int i;

	if (p->owner.of_ray)
		return tenant | OF_RAY;
	for (i = 0; i < MAX_DEPTH; i++) {
		key.key.pid = p->parent;
		parent = bsearch(&wanted, sorted, nr, sizeof(struct stall_process *), by_pid);
		if (!parent || (*parent)->ignored || (*parent)->owner.tenant != p->owner.tenant)
			break;
		p = *parent;
	}
	return tenant | p->parent;
}

/* Without memory the jobs stay as they are. */
static void jobs_find(struct stalls *stalls)
{
	__cleanup(free_mem) struct stall_process **sorted =
		calloc(stalls->processes.nr + 1, sizeof(*sorted));
	struct stall_process *p;
	size_t nr = 0, i;

	if (!sorted || !stalls->owner)
		return;
	hash_table_each(&stalls->processes, p) {
		/* The role and the container of a process may become known late. */
		p->ignored = !stalls->owner(stalls->arg, p->key.pid, &p->owner);
		sorted[nr++] = p;
	}
	qsort(sorted, nr, sizeof(*sorted), by_pid);
	for (i = 0; i < nr; i++)
		sorted[i]->job = job_of(sorted[i], sorted, nr);
}

/* Does a check or a stall of the job exist already? A suspicion of one process hides no stall of others. */
static bool job_has_stall(const struct stalls *stalls, uint64_t job)
{
	const struct stall_process *p;

	hash_table_each(&stalls->processes, p)
		if (p->job == job && (p->found || (p->subject != WAIT_VERDICT_ALIVE &&
						   p->subject != WAIT_VERDICT_SUSPECT)))
			return true;
	return false;
}

/*
 * Silent processes of the job are not asked for again soon. A check says of one of them alone whether it is busy, so
 * others are still to be asked for.
 */
static void job_pause(struct stalls *stalls, const struct stall_process *of, uint64_t now_ns)
{
	struct stall_process *p;

	hash_table_each(&stalls->processes, p) {
		if (p->job != stalls->check_job || (stalls->options->busy && p != of) ||
		    now_ns < p->since_ns + stalls->options->after_ns)
			continue;
		p->ask_ns = now_ns + p->pause_ns;
		p->pause_ns = p->pause_ns < PAUSE_MAX_NS / 2 ? 2 * p->pause_ns : PAUSE_MAX_NS;
	}
}

/* The check found no stall. of: NULL: it has ended meanwhile. */
static void check_end(struct stalls *stalls, struct stall_process *of, uint64_t now_ns)
{
	if (of)
		found_drop(stalls, of);
	job_pause(stalls, of, now_ns);
}

static void check_start(struct stalls *stalls, struct stall_process *of, uint64_t now_ns)
{
	const char *host_root = stalls->sampler->options->host_root;
	uint32_t pids[STALL_CHECK_PIDS];
	const struct stall_process *p;
	size_t nr = 0;

	jobs_find(stalls);
	if (of->ignored || (!of->found && job_has_stall(stalls, of->job))) {
		of->ask_ns = now_ns + stalls->options->after_ns;
		return;
	}
	stalls->check_job = of->job;
	stalls->check_of = of->key;
	pids[nr++] = of->own_pid;
	hash_table_each(&stalls->processes, p)
		if (p->job == of->job && p != of && p->own_pid && !p->ignored &&
		    nr < STALL_CHECK_PIDS)
			pids[nr++] = p->own_pid;
	if (stall_check_start(&stalls->check, pids, nr, stalls->options, host_root)) {
		stalls->nr_failed++;
		check_end(stalls, of, now_ns);
	}
}

/*
 * The stall of a silent process, by the first two lines that the check wrote. Of these, the sentence stays in text.
 * False: there is no stall.
 */
static bool text_read(const struct stalls *stalls, char *text, uint64_t now_ns, struct stall *ret,
		      struct stall_process **ret_subject)
{
	struct stall_process *p;
	const char *sentence;

	*ret = (struct stall){ .reason = wait_reason_of(text),
			       .verdict = wait_verdict_of(text, &sentence),
			       .found_ns = now_ns };
	text[strcspn(text, "\n")] = '\0';
	p = subject_find(stalls, text);
	*ret_subject = p;
	if (ret->verdict == WAIT_VERDICT_ALIVE || !p || p->job != stalls->check_job ||
	    now_ns < p->since_ns + stalls->options->after_ns)
		return false;
	snprintf(ret->sentence, sizeof(ret->sentence), "%s", sentence);
	ret->pid = p->own_pid;
	ret->key = p->key;
	ret->tenant = p->owner.tenant;
	ret->since_ns = p->since_ns;
	return true;
}

/*
 * Do two sentences name the same place of a process that is busy: the function, and almost the line? A loop that does
 * nothing has two or three. Of native functions the sentences have no line.
 */
static bool is_same_place(const char *first, const char *next)
{
	const char *line = strrchr(first, ':');
	size_t before = line ? (size_t)(line + 1 - first) : 0;
	char *rest, *next_rest;
	unsigned long number, next_number;

	if (!line || strncmp(first, next, before) != 0)
		return !strcmp(first, next);
	number = strtoul(first + before, &rest, 10);
	next_number = strtoul(next + before, &next_rest, 10);
	return (number > next_number ? number - next_number : next_number - number) <= BUSY_LINES &&
	       !strcmp(rest, next_rest);
}

static bool is_same(const struct stall *first, const struct stall *next)
{
	return first->verdict == next->verdict &&
	       !memcmp(&first->key, &next->key, sizeof(next->key)) &&
	       /* The sentences of other verdicts have times, which change. */
	       (next->verdict != WAIT_VERDICT_BUSY ||
		is_same_place(first->sentence, next->sentence));
}

/* The last check confirms the others. Takes the stall of the process over. */
static void stall_report(struct stalls *stalls, struct stall_process *of,
			 struct stall_process *subject)
{
	subject->subject = of->found->verdict;
	if (of->found->verdict == WAIT_VERDICT_SUSPECT) {
		stalls->nr_suspects++;
	} else {
		stalls->nr_stalls++;
		stalls->nr_of_reason[of->found->reason]++;
	}
	ready_add(stalls, of->found);
	found_drop(stalls, of);
}

/* Takes over next, which one more check has found, with its dump. Of the dumps, the first and the last one stay. */
static bool found_add(struct stalls *stalls, struct stall_process *of, struct stall *next, int fd)
{
	struct stall *found = of->found;

	if (!found) {
		found = calloc(1, sizeof(*found));
		if (!found)
			return false;
		of->found = found;
		stalls->nr_found++;
	}
	if (found->dumps[1])
		close(found->dumps[1]);
	next->nr_seen = found->nr_seen + 1;
	next->dumps[0] = found->dumps[0] ?: fd;
	next->dumps[1] = found->dumps[0] ? fd : 0;
	*found = *next;
	return true;
}

static void check_take(struct stalls *stalls, uint64_t now_ns)
{
	struct stall_process *of = process_map_find(&stalls->processes, stalls->check_of.pid,
						    stalls->check_of.start_ns),
			     *subject;
	char text[STALL_SENTENCE_BYTES];
	struct stall next;
	unsigned int nr_checks;
	bool read;
	int fd;

	if (stall_check_take(&stalls->check, text, &fd))
		return;
	stalls->nr_failed += !text[0];
	read = text_read(stalls, text, now_ns, &next, &subject);
	log_debug("stall check of pid %u: %s", stalls->check_of.pid, text);
	if (!of || !read || subject->subject == next.verdict ||
	    (of->found && !is_same(of->found, &next)) || !found_add(stalls, of, &next, fd)) {
		close(fd);
		check_end(stalls, of, now_ns);
		return;
	}
	nr_checks = next.verdict == WAIT_VERDICT_BUSY ? BUSY_CHECKS : CHECKS;
	if (next.nr_seen == nr_checks)
		stall_report(stalls, of, subject);
	else
		of->again_ns = now_ns + AGAIN_NS / (nr_checks - 1);
}

void stalls_poll(struct stalls *stalls, uint64_t now_ns)
{
	uint64_t period_ns = stalls->options->after_ns / PERIODS;
	struct stall_process *p;

	if (!stalls->options->after_ns)
		return;
	if (now_ns >= stalls->next_ns) {
		period_ns = period_ns < PERIOD_MIN_NS ? PERIOD_MIN_NS : period_ns;
		stalls->next_ns = now_ns + (period_ns < PERIOD_MAX_NS ? period_ns : PERIOD_MAX_NS);
		processes_look(stalls, now_ns);
	}
	if (stalls->check.child)
		check_take(stalls, now_ns);
	if (stalls->check.child)
		return;
	p = candidate(stalls, now_ns);
	if (p)
		check_start(stalls, p, now_ns);
}

size_t stalls_active(const struct stalls *stalls)
{
	const struct stall_process *p;
	size_t nr = 0;

	hash_table_each(&stalls->processes, p)
		nr += p->subject != WAIT_VERDICT_ALIVE;
	return nr;
}

bool stalls_take(struct stalls *stalls, struct stall *ret)
{
	if (!stalls->nr_ready)
		return false;
	*ret = stalls->ready[0];
	memmove(stalls->ready, stalls->ready + 1, --stalls->nr_ready * sizeof(*stalls->ready));
	return true;
}

#define AT(field) offsetof(struct stalls, field)

const struct counter stalls_counters[] = {
	{ COUNTER_WALK, "stall_checks_failed", AT(nr_failed),
	  .help = "checks of silent processes that wrote nothing: the process had ended, or the "
		  "check took too long" },
	{ COUNTER_WALK, "stall_processes_no_room", AT(nr_full),
	  .help = "watched processes beyond 4,096 that are not checked for stalls" },
	{ COUNTER_WALK, "stalls_not_reported", AT(nr_dropped),
	  .help = "stalls and ends of stalls beyond 16 at once" },
	{ 0 },
};

void stalls_stats(const struct stalls *stalls, struct stats_reasons *dst)
{
	stats_add_rows(dst, stalls_counters, stalls, false);
}
