// SPDX-License-Identifier: Apache-2.0
#include "watch/deaths.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/background.h"
#include "base/process_map.h"
#include "base/text.h"
#include "base/time.h"
#include "capture/process_owner.h"
#include "capture/sampler.h"
#include "proc/processes.h"
#include "proc/ranks.h"
#include "proc/title.h"
#include "proc/usage.h"
#include "profile/aggregate.h"
#include "profile/stats.h"
#include "python/pythons.h"
#include "ray/ray_role.h"

#define AGGREGATE_BYTES (512U << 10) /* of one death, at most */
#define STACKS_BYTES (4U << 20) /* of all stacks that are kept, for a sweep */
/* A handled signal that came this long before the end has nothing to do with it; torch prints for seconds. */
#define FIRST_NS (60 * NS_PER_SECOND)
#define OTHER_THREAD_NS (5 * NS_PER_SECOND)

struct death_stack {
	struct bpfprof_sample sample;
	uint32_t stop, unmerged;
	size_t nr;
	uint64_t frames[];
};

struct watched {
	struct hash_node node;
	struct process_key key;
	char program[DEATH_NAME_BYTES]; /* the base name of its first argument; "": not known */
	char script[RAY_ROLE_TEXT_MAX]; /* the script, if it is an interpreter */
	struct death_facts *facts; /* signals of others; NULL: none */
	struct death_stack *stacks[DEATH_NR_STACKS];
};

static void stack_free(struct deaths *deaths, struct watched *w, enum death_stack_kind kind)
{
	deaths->nr_stacks -= w->stacks[kind] != NULL;
	free(w->stacks[kind]);
	w->stacks[kind] = NULL;
}

static void watched_clear(struct deaths *deaths, struct watched *w)
{
	for (int kind = 0; kind < DEATH_NR_STACKS; kind++)
		stack_free(deaths, w, kind);
	free(w->facts);
	w->facts = NULL;
}

static void watched_remove(struct deaths *deaths, struct watched *w)
{
	watched_clear(deaths, w);
	hash_table_remove(&deaths->processes, w);
}

/* The oldest process without anything to explain its end makes room. */
static void make_room(struct deaths *deaths)
{
	struct watched *w;

	if (deaths->processes.nr < DEATHS_MAX_PROCESSES)
		return;
	deaths->nr_processes_full++;
	hash_table_each(&deaths->processes, w) {
		if (w->facts || w->stacks[DEATH_STACK_FIRST] || w->stacks[DEATH_STACK_LAST])
			continue;
		watched_remove(deaths, w);
		return;
	}
}

/* Reads the arguments: after the end they are gone. */
static void names_read(struct deaths *deaths, struct watched *w, uint32_t own_pid)
{
	struct sampler *sampler = deaths->sampler;
	char argv[PROC_CMDLINE_MAX];
	ssize_t len;

	if (!own_pid || !background_may_wait(sampler->background))
		return;
	len = proc_argv_read(sampler->reader.runner, argv, sizeof(argv), (pid_t)own_pid);
	if (len <= 0)
		return;
	title_cut(w->program, sizeof(w->program), text_base_name(argv),
		  strlen(text_base_name(argv)));
	if (ray_role_script(w->script, sizeof(w->script), argv, (size_t)len))
		w->script[0] = '\0';
}

static uint32_t own_pid_of(const struct deaths *deaths, uint32_t pid)
{
	const struct process *process = processes_find(deaths->sampler->reader.processes, pid);

	return session_own_pid(&deaths->sampler->reader.session, pid,
			       process ? process->ns_context.agent_pid : 0);
}

static struct watched *watched_get(struct deaths *deaths, const struct bpfprof_task_id *task)
{
	struct watched *w = process_map_find(&deaths->processes, task->pid, task->start_ns);

	if (w)
		return w;
	make_room(deaths);
	w = process_map_add(&deaths->processes, task->pid, task->start_ns);
	if (w)
		names_read(deaths, w, own_pid_of(deaths, task->pid));
	return w;
}

/* The facts of a process that has no sample at hand. False: it is not watched. */
static bool input_make(struct deaths *deaths, const struct bpfprof_task_id *task, const char *comm,
		       struct bpfprof_sample *sample, struct aggregate_input *ret)
{
	struct sample_view view = { .sample = sample, .stop = BPFPROF_STOP_NO_USER };
	struct process *process = processes_find(deaths->sampler->reader.processes, task->pid);

	*sample = (struct bpfprof_sample){ .task = *task };
	memcpy(sample->comm, comm, BPFPROF_COMM_LEN);
	memcpy(sample->leader_comm, comm, BPFPROF_COMM_LEN);
	if (process && process->start_ns == task->start_ns) {
		view.process = process;
		view.ns_context = process->ns_context;
		view.title = process->title;
	}
	return sampler_input(deaths->sampler, &view, ret) &&
	       (!deaths->wants || deaths->wants(deaths->arg, ret));
}

static void stack_keep(struct deaths *deaths, struct watched *w, enum death_stack_kind kind,
		       const struct aggregate_input *input)
{
	struct death_stack *stack = malloc(sizeof(*stack) + input->nr_user * sizeof(uint64_t));

	stack_free(deaths, w, kind);
	if (!stack || (kind != DEATH_STACK_RECENT && deaths->nr_stacks >= DEATHS_MAX_STACKS)) {
		deaths->nr_stacks_full++;
		free(stack);
		return;
	}
	*stack = (struct death_stack){ .sample = *input->sample,
				       .stop = input->stop,
				       .unmerged = input->unmerged,
				       .nr = input->nr_user };
	if (input->nr_user)
		memcpy(stack->frames, input->user, input->nr_user * sizeof(uint64_t));
	w->stacks[kind] = stack;
	deaths->nr_stacks++;
}

/* Does the new stack stand on the kept one? Then a handler runs, or raises the signal again. */
static bool stands_on(const struct aggregate_input *input, const struct death_stack *kept)
{
	return kept->nr && input->sample->task.tid == kept->sample.task.tid &&
	       input->nr_user > kept->nr &&
	       !memcmp(input->user + (input->nr_user - kept->nr), kept->frames,
		       kept->nr * sizeof(uint64_t));
}

static void on_signal(struct deaths *deaths, const struct aggregate_input *input)
{
	struct watched *w;

	if (deaths->wants && !deaths->wants(deaths->arg, input))
		return;
	w = watched_get(deaths, &input->sample->task);
	if (!w)
		return;
	if (!(input->sample->flags & BPFPROF_SAMPLE_HANDLED))
		stack_keep(deaths, w, DEATH_STACK_LAST, input);
	else if (!w->stacks[DEATH_STACK_FIRST] || !stands_on(input, w->stacks[DEATH_STACK_FIRST]))
		stack_keep(deaths, w, DEATH_STACK_FIRST, input);
}

static void on_sample(struct deaths *deaths, const struct aggregate_input *input)
{
	struct watched *w;

	if (!deaths->keep_recent || input->sample->flags & BPFPROF_SAMPLE_KTHREAD ||
	    (deaths->wants && !deaths->wants(deaths->arg, input)))
		return;
	w = watched_get(deaths, &input->sample->task);
	if (w && input->nr_user)
		stack_keep(deaths, w, DEATH_STACK_RECENT, input);
}

static void on_exec(struct deaths *deaths, const struct process *process)
{
	const struct bpfprof_task_id task = { .pid = process->pid,
					      .tid = process->pid,
					      .start_ns = process->start_ns,
					      .exec_id = process->exec_id };
	struct watched *w = process_map_find(&deaths->processes, task.pid, task.start_ns);

	if (!w) {
		watched_get(deaths, &task);
		return;
	}
	watched_clear(deaths, w);
	names_read(deaths, w, own_pid_of(deaths, task.pid));
}

static void on_kill(struct deaths *deaths, const struct bpfprof_kill_event *event)
{
	struct process *process = processes_find(deaths->sampler->reader.processes, event->pid);
	struct bpfprof_kill_event *to;
	struct bpfprof_task_id task;
	struct watched *w;

	if (!process)
		return;
	task = (struct bpfprof_task_id){ .pid = process->pid, .start_ns = process->start_ns };
	w = watched_get(deaths, &task);
	if (w && !w->facts)
		w->facts = calloc(1, sizeof(*w->facts));
	if (!w || !w->facts)
		return;
	if (event->signal == SIGKILL)
		to = &w->facts->kill;
	else if (event->signal == SIGTERM || event->signal == SIGINT || event->signal == SIGHUP ||
		 event->signal == SIGQUIT)
		to = &w->facts->asked;
	else
		to = &w->facts->fault;
	/* The OOM killer sends two events of one kill. */
	if (to->rec.ts_ns && event->flags & BPFPROF_KILL_OOM)
		to->flags |= event->flags;
	else
		*to = *event;
}

static void reason_count(struct deaths *deaths, const struct death *death)
{
	struct deaths_count count = { .nr = 1 };
	size_t i;

	death_reason(count.reason, death);
	death_by(count.by, death);
	deaths->nr_deaths++;
	for (i = 0; i < deaths->nr_counts; i++)
		if (!strcmp(deaths->counts[i].reason, count.reason) &&
		    !strcmp(deaths->counts[i].by, count.by)) {
			deaths->counts[i].nr++;
			return;
		}
	/* A killer chooses its name: past the limit the last row has all other names. */
	if (deaths->nr_counts == DEATHS_MAX_REASONS) {
		deaths->counts[DEATHS_MAX_REASONS - 1].nr++;
		return;
	}
	if (deaths->nr_counts == DEATHS_MAX_REASONS - 1)
		count = (struct deaths_count){ .reason = "other", .by = "other", .nr = 1 };
	deaths->counts[deaths->nr_counts++] = count;
}

/* Is this child only a tool of its watched parent: another program, which no filter names? */
static bool is_helper(const struct deaths *deaths, const struct bpfprof_task_id *task,
		      const struct process_end *end, const struct process *process)
{
	const struct sampler *sampler = deaths->sampler;
	const struct process *parent = processes_find(sampler->reader.processes, end->parent);
	size_t i;

	if (!parent || !process_map_find(&deaths->processes, parent->pid, parent->start_ns))
		return false;
	for (i = 0; i < sampler->options->nr_pids; i++)
		if (sampler->target_pids && sampler->target_pids[i] == task->pid)
			return false;
	if (sampler_comm_matches(sampler->options, end->comm))
		return false;
	if (!process)
		return true;
	if (process->pythons->nr || process->title || process->owner->role)
		return false;
	return !process->program || process->program != parent->program;
}

static void names_set(const struct deaths *deaths, struct death *death, const struct watched *w,
		      const struct process *process, const char *comm)
{
	const struct process *parent;
	bool python = process && process->pythons->nr;

	/* A child that has executed no program has the arguments of its parent. */
	if (!w || !w->program[0]) {
		parent = processes_find(deaths->sampler->reader.processes, death->parent);
		if (parent && process && process->program == parent->program)
			w = process_map_find(&deaths->processes, parent->pid, parent->start_ns);
	}
	if (w && python && w->script[0] && strcmp(w->script, "-c"))
		title_cut(death->name, sizeof(death->name), w->script, strlen(w->script));
	else if (w && w->program[0])
		title_cut(death->name, sizeof(death->name), w->program, strlen(w->program));
	else
		title_cut(death->name, sizeof(death->name), comm, strnlen(comm, BPFPROF_COMM_LEN));
}

static void note_fill(struct death_stack_note *note, const struct bpfprof_sample *sample)
{
	*note = (struct death_stack_note){ .present = true,
					   .ts_ns = sample->rec.ts_ns,
					   .tid = sample->task.tid };
	memcpy(note->thread, sample->comm, BPFPROF_COMM_LEN);
	if (!(sample->flags & BPFPROF_SAMPLE_SIGNAL))
		return;
	note->signal = sample->signal.number;
	note->code = sample->signal.code;
	note->fault_va = sample->fault_va;
	note->handled = sample->flags & BPFPROF_SAMPLE_HANDLED;
}

/* Has the stack to do with the end? */
static bool is_shown(const struct watched *w, enum death_stack_kind kind, uint64_t end_ns)
{
	const struct death_stack *stack = w->stacks[kind], *last = w->stacks[DEATH_STACK_LAST];
	uint64_t age_ns;

	if (!stack || kind == DEATH_STACK_LAST)
		return stack;
	age_ns = (last ? last->sample.rec.ts_ns : end_ns) - stack->sample.rec.ts_ns;
	if (kind == DEATH_STACK_RECENT)
		return !last;
	if (last && last->sample.task.tid == stack->sample.task.tid)
		return age_ns < FIRST_NS;
	return !last && age_ns < OTHER_THREAD_NS;
}

static void stack_add(struct deaths *deaths, struct death *death, const struct death_stack *stack,
		      enum death_stack_kind kind, const struct aggregate_input *labels)
{
	struct aggregate_input input = *labels;
	struct bpfprof_sample sample = stack->sample;

	/* The stack would else count as waiting, or as running, time. */
	sample.flags &= ~(BPFPROF_SAMPLE_WAIT | BPFPROF_SAMPLE_GAP);
	sample.period_ns = 1ULL << kind;
	note_fill(&death->stacks[kind], &stack->sample);
	input.sample = &sample;
	input.user = stack->frames;
	input.nr_user = stack->nr;
	input.stop = stack->stop;
	input.unmerged = stack->unmerged;
	aggregate_add(death->aggregate, &input);
	(void)deaths;
}

/* NULL: no memory. */
static struct death *death_new(struct deaths *deaths, const struct bpfprof_task_id *task,
			       const struct process_end *end, const struct watched *w,
			       const struct aggregate_input *labels)
{
	const struct process *process =
		processes_find(deaths->sampler->reader.processes, task->pid);
	struct death *death = calloc(1, sizeof(*death));
	struct bpfprof_sample none = *labels->sample;
	struct aggregate_input input = *labels;
	bool any = false;

	if (!death || aggregate_new(&death->aggregate, true, AGGREGATE_BYTES)) {
		free(death);
		return NULL;
	}
	death->status = end->status;
	death->kernel_pid = task->pid;
	death->pid = labels->own_pid ?: task->pid;
	death->pod_pid = labels->ns_context.pod_pid;
	death->parent = end->parent;
	death->ts_ns = end->ts_ns;
	death->wall_ns = end->ts_ns + time_wall_ns() - time_monotonic_ns();
	names_set(deaths, death, w, process, end->comm);
	for (int kind = 0; w && kind < DEATH_NR_STACKS; kind++) {
		if (!is_shown(w, kind, end->ts_ns))
			continue;
		any = true;
		stack_add(deaths, death, w->stacks[kind], kind, labels);
	}
	if (!any) { /* its sample has the labels of the process */
		none.period_ns = 1ULL << DEATH_NR_STACKS;
		input.sample = &none;
		aggregate_add(death->aggregate, &input);
	}
	return death;
}

static void death_keep(struct deaths *deaths, struct death *death)
{
	if (deaths->nr_waiting == DEATHS_MAX_WAITING) {
		deaths->nr_not_written++;
		death_free(death);
		return;
	}
	deaths->waiting[(deaths->first + deaths->nr_waiting++) % DEATHS_MAX_WAITING] = death;
}

static void ended(struct deaths *deaths, const struct bpfprof_task_id *task,
		  const struct process_end *end, const struct watched *w)
{
	const struct process *process =
		processes_find(deaths->sampler->reader.processes, task->pid);
	struct death_facts facts = { 0 };
	const struct bpfprof_kill_event *by;
	struct bpfprof_sample sample;
	struct aggregate_input labels;
	enum death_kind kind;
	struct death *death;

	if (w && w->facts)
		facts = *w->facts;
	facts.pid = task->pid;
	facts.status = end->status;
	facts.ts_ns = end->ts_ns;
	facts.helper = is_helper(deaths, task, end, process);
	kind = death_judge(&facts, &by);
	if (!input_make(deaths, task, end->comm, &sample, &labels))
		return;
	if (kind == DEATH_NONE) {
		deaths->nr_ended++;
		return;
	}
	death = death_new(deaths, task, end, w, &labels);
	if (!death) {
		deaths->nr_not_written++;
		deaths->nr_deaths++;
		return;
	}
	death->kind = kind;
	if (by) {
		death->by = *by;
		death->by.sender = own_pid_of(deaths, by->sender) ?: by->sender;
	}
	reason_count(deaths, death);
	death_keep(deaths, death);
}

static void on_exit_event(struct deaths *deaths, const struct bpfprof_task_id *task,
			  const struct process_end *end)
{
	struct watched *w = process_map_find(&deaths->processes, task->pid, task->start_ns);

	if (!end->known)
		deaths->nr_unknown_ends += w != NULL;
	else if (w || end->status)
		ended(deaths, task, end, w);
	if (w)
		watched_remove(deaths, w);
}

static void on_event(void *arg, const struct event *event)
{
	struct deaths *deaths = arg;

	switch (event->kind) {
	case EVENT_SAMPLE:
		on_sample(deaths, event->input);
		break;
	case EVENT_SIGNAL:
		on_signal(deaths, event->input);
		break;
	case EVENT_EXEC:
		on_exec(deaths, event->process);
		break;
	case EVENT_KILL:
		on_kill(deaths, event->kill);
		break;
	case EVENT_EXIT:
		on_exit_event(deaths, event->task, event->end);
		break;
	default:
		break;
	}
}

void deaths_init(struct deaths *deaths, struct sampler *sampler)
{
	*deaths = (struct deaths){ .sampler = sampler };
	hash_table_init(&deaths->processes, DEATHS_MAX_PROCESSES, struct watched, key);
}

void deaths_observe(struct deaths *deaths)
{
	sampler_observe(deaths->sampler, on_event, deaths);
}

void deaths_start(struct deaths *deaths)
{
	const char none[BPFPROF_COMM_LEN] = "";
	struct aggregate_input labels;
	struct bpfprof_sample sample;
	struct process *process;

	for (process = processes_first(deaths->sampler->reader.processes); process;
	     process = hash_table_next(process)) {
		const struct bpfprof_task_id task = { .pid = process->pid,
						      .start_ns = process->start_ns,
						      .exec_id = process->exec_id };

		if (deaths->processes.nr == DEATHS_MAX_PROCESSES)
			break;
		watched_get(deaths, &task);
		/* Finds its container, role and rank, which a process that sleeps never shows by a sample. */
		input_make(deaths, &task, none, &sample, &labels);
	}
}

struct death *deaths_take(struct deaths *deaths)
{
	struct death *death;

	if (!deaths->nr_waiting)
		return NULL;
	death = deaths->waiting[deaths->first];
	deaths->first = (deaths->first + 1) % DEATHS_MAX_WAITING;
	deaths->nr_waiting--;
	return death;
}

struct aggregate *deaths_stacks(const struct deaths *deaths)
{
	struct aggregate *aggregate;
	struct watched *w;

	if (!deaths->nr_stacks || aggregate_new(&aggregate, false, STACKS_BYTES))
		return NULL;
	hash_table_each(&deaths->processes, w) {
		for (int kind = 0; kind < DEATH_NR_STACKS; kind++) {
			const struct death_stack *stack = w->stacks[kind];
			const struct aggregate_input input = {
				.sample = stack ? &stack->sample : NULL,
				.user = stack ? stack->frames : NULL,
				.nr_user = stack ? stack->nr : 0,
				.stop = stack ? stack->stop : 0,
			};

			if (stack)
				aggregate_add(aggregate, &input);
		}
	}
	return aggregate;
}

void deaths_fini(struct deaths *deaths)
{
	struct death *death;
	struct watched *w;

	while ((death = deaths_take(deaths)))
		death_free(death);
	hash_table_each(&deaths->processes, w)
		watched_clear(deaths, w);
	hash_table_clear(&deaths->processes);
}

#define AT(field) offsetof(struct deaths, field)

const struct counter deaths_counters[] = {
	{ COUNTER_WALK, "deaths_not_written", AT(nr_not_written),
	  .help = "deaths that were only counted, because too many came at once" },
	{ COUNTER_WALK, "deaths_end_not_seen", AT(nr_unknown_ends),
	  .help = "watched processes whose end raised no event, so that its cause is not known" },
	{ COUNTER_WALK, "deaths_processes_no_room", AT(nr_processes_full),
	  .help = "processes over 8,192, whose names and signals are forgotten" },
	{ COUNTER_WALK, "deaths_stacks_no_room", AT(nr_stacks_full),
	  .help = "stacks of deadly signals over the limit" },
	{ 0 },
};

void deaths_stats(const struct deaths *deaths, struct stats_reasons *dst)
{
	stats_add_rows(dst, deaths_counters, deaths, false);
}
