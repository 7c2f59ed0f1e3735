// SPDX-License-Identifier: Apache-2.0
#include "watch/deaths.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/background.h"
#include "base/text.h"
#include "base/time.h"
#include "base/vec.h"
#include "capture/process_owner.h"
#include "capture/sampler.h"
#include "kernel/walk.h"
#include "proc/pids.h"
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
#define LEARN_TRIES 100 /* to read a process that ran at the start */
#define OTHER_THREAD_NS (5 * NS_PER_SECOND)

struct names {
	char program[sizeof(((struct watched *)NULL)->program)];
	char script[sizeof(((struct watched *)NULL)->script)];
	bool ray_worker;
};

static uint32_t own_pid_of(const struct deaths *deaths, uint32_t pid)
{
	const struct process *process = processes_find(deaths->sampler->reader.processes, pid);

	return session_own_pid(&deaths->sampler->reader.session, pid,
			       process ? process->ns_context.agent_pid : 0);
}

/* Reads the arguments: after the end they are gone. A job that waits here must hold no pointer into a table. */
static struct names names_read(const struct deaths *deaths, uint32_t pid)
{
	const struct sampler *sampler = deaths->sampler;
	uint32_t own_pid = own_pid_of(deaths, pid);
	struct names names = { 0 };
	char argv[PROC_CMDLINE_MAX];
	const char *program;
	ssize_t len;

	if (!own_pid || !background_may_wait(sampler->background))
		return names;
	len = proc_argv_read(sampler->reader.runner, argv, sizeof(argv), (pid_t)own_pid);
	if (len <= 0)
		return names;
	program = text_base_name(argv);
	title_cut(names.program, sizeof(names.program), program, strlen(program));
	if (ray_role_script(names.script, sizeof(names.script), argv, (size_t)len))
		names.script[0] = '\0';
	names.ray_worker = ray_role_of_argv(argv, (size_t)len) == RAY_ROLE_WORKER;
	return names;
}

static struct watched *named(struct deaths *deaths, const struct bpfprof_task_id *task,
			     const struct names *names)
{
	struct watched *w = watched_get(&deaths->watched, task->pid, task->start_ns);

	if (w && names->program[0]) {
		memcpy(w->program, names->program, sizeof(w->program));
		memcpy(w->script, names->script, sizeof(w->script));
		w->ray_worker = names->ray_worker;
	}
	return w;
}

static struct watched *found(const struct deaths *deaths, const struct bpfprof_task_id *task)
{
	return watched_find(&deaths->watched, task->pid, task->start_ns);
}

/* Beside a background, only starts and execs read names: other events have borrowed pointers. */
static struct watched *get(struct deaths *deaths, const struct bpfprof_task_id *task)
{
	struct watched *w = found(deaths, task);
	struct names names = { 0 };

	if (w)
		return w;
	if (!deaths->sampler->background)
		names = names_read(deaths, task->pid);
	return named(deaths, task, &names);
}

/*
 * With -p only the kernel knows which processes the filter wants: it reports the ends of no others, but any process may
 * be looked at.
 */
static bool is_target(const struct deaths *deaths, uint32_t pid)
{
	const struct session *session = &deaths->sampler->reader.session;

	return !session->options.filter || session_is_target(session, (pid_t)pid);
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

/* Does the new stack stand on the kept one? Then a handler runs, or raises the signal again. */
static bool stands_on(const struct aggregate_input *input, const struct watched_stack *kept)
{
	return kept && kept->nr && input->sample->task.tid == kept->sample.task.tid &&
	       input->nr_user > kept->nr &&
	       !memcmp(input->user + (input->nr_user - kept->nr), kept->frames,
		       kept->nr * sizeof(uint64_t));
}

/* The entry of a process that the filters want. NULL: they do not, or there is no memory. */
static struct watched *wanted(struct deaths *deaths, const struct aggregate_input *input)
{
	struct watched *w;

	if (deaths->wants && !deaths->wants(deaths->arg, input))
		return NULL;
	w = get(deaths, &input->sample->task);
	return w ? watched_want(&deaths->watched, w) : NULL;
}

static void on_signal(struct deaths *deaths, const struct aggregate_input *input)
{
	struct watched *w = wanted(deaths, input);

	if (!w)
		return;
	if (!(input->sample->flags & BPFPROF_SAMPLE_HANDLED))
		watched_stack_keep(&deaths->watched, w, DEATH_STACK_LAST, input);
	else if (!stands_on(input, watched_stack(&deaths->watched, w, DEATH_STACK_FIRST)))
		watched_stack_keep(&deaths->watched, w, DEATH_STACK_FIRST, input);
}

static void on_sample(struct deaths *deaths, const struct aggregate_input *input)
{
	struct watched *w;

	if (!deaths->keep_recent || input->sample->flags & BPFPROF_SAMPLE_KTHREAD)
		return;
	w = wanted(deaths, input);
	if (w && input->nr_user)
		watched_stack_keep(&deaths->watched, w, DEATH_STACK_RECENT, input);
}

/*
 * Reads the name, container, role and rank of a process that runs: one that sleeps never shows them by a sample. A
 * job may wait here. NULL: no memory.
 */
static struct watched *learn(struct deaths *deaths, const struct bpfprof_task_id *task)
{
	const char none[BPFPROF_COMM_LEN] = "";
	const struct names names = names_read(deaths, task->pid);
	struct aggregate_input labels;
	struct bpfprof_sample sample;
	bool wants =
		input_make(deaths, task, none, &sample, &labels) && is_target(deaths, task->pid);
	struct watched *w = named(deaths, task, &names);

	return w && wants ? watched_want(&deaths->watched, w) : w;
}

static void on_exec(struct deaths *deaths, const struct process *process)
{
	const struct bpfprof_task_id task = { .pid = process->pid,
					      .tid = process->pid,
					      .start_ns = process->start_ns,
					      .exec_id = process->exec_id };
	struct watched *w = learn(deaths, &task);

	/* Records of signals that came during the exec or after it may have overtaken that of the exec: they stay. */
	if (w)
		watched_forget_stacks(&deaths->watched, w);
}

static void on_kill(struct deaths *deaths, const struct bpfprof_kill_event *event)
{
	const struct bpfprof_task_id task = { .pid = event->pid, .start_ns = event->start_ns };
	struct bpfprof_kill_event *to;
	struct death_facts *facts;
	struct watched *w;

	if (!event->start_ns)
		return;
	w = get(deaths, &task);
	facts = w ? watched_facts(&deaths->watched, w) : NULL;
	if (!facts)
		return;
	if (event->signal == SIGKILL)
		to = &facts->kill;
	else if (event->signal == SIGTERM || event->signal == SIGINT || event->signal == SIGHUP ||
		 event->signal == SIGQUIT)
		to = &facts->asked;
	else
		to = &facts->fault;
	/* The OOM killer sends two events of one kill. */
	if (to->rec.ts_ns && event->flags & BPFPROF_KILL_OOM)
		to->flags |= event->flags;
	else
		*to = *event;
}

/* Do the filters want the parent of a process? It may never have had an event that shows it, such as a subshell. */
static bool is_parent_wanted(struct deaths *deaths, const struct process_end *end)
{
	const char none[BPFPROF_COMM_LEN] = "";
	const struct process *parent =
		processes_find(deaths->sampler->reader.processes, end->parent);
	struct aggregate_input labels;
	struct bpfprof_sample sample;
	struct bpfprof_task_id task;

	if (!parent || !is_target(deaths, parent->pid))
		return false;
	task = (struct bpfprof_task_id){ .pid = parent->pid,
					 .tid = parent->pid,
					 .start_ns = parent->start_ns };
	return input_make(deaths, &task, none, &sample, &labels);
}

/* Is this child of a watched parent only a tool: another program, which no filter names? */
static bool is_helper(const struct deaths *deaths, const struct bpfprof_task_id *task,
		      const struct process_end *end, const struct process *process)
{
	const struct sampler *sampler = deaths->sampler;
	const struct process *parent = processes_find(sampler->reader.processes, end->parent);
	size_t i;

	if (!parent)
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
			w = watched_find(&deaths->watched, parent->pid, parent->start_ns);
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
static bool is_shown(const struct watched_stack *stack, const struct watched_stack *last,
		     enum death_stack_kind kind, uint64_t end_ns)
{
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

static void stack_add(struct death *death, const struct watched_stack *stack,
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
	const struct watched_stack *stacks[DEATH_NR_STACKS] = { NULL };
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
	for (int kind = 0; w && kind < DEATH_NR_STACKS; kind++)
		stacks[kind] = watched_stack(&deaths->watched, w, kind);
	for (int kind = 0; kind < DEATH_NR_STACKS; kind++) {
		if (!is_shown(stacks[kind], stacks[DEATH_STACK_LAST], kind, end->ts_ns))
			continue;
		any = true;
		stack_add(death, stacks[kind], kind, labels);
	}
	if (!any) { /* its sample has the labels of the process */
		none.period_ns = 1ULL << DEATH_NR_STACKS;
		input.sample = &none;
		aggregate_add(death->aggregate, &input);
	}
	return death;
}

/* A tenant leaves room for the deaths of others. */
static void death_keep(struct deaths *deaths, struct death *death, uint32_t tenant)
{
	size_t at = (deaths->first + deaths->nr_waiting) % DEATHS_MAX_WAITING;

	if (!shares_take(&deaths->shares, tenant, 1)) {
		deaths->nr_not_written++;
		death_free(death);
		return;
	}
	deaths->waiting[at] = death;
	deaths->tenants[at] = tenant;
	deaths->nr_waiting++;
}

/* Does its raylet take the worker away from a running task? Agents and idle workers end with the raylet. */
static bool is_taken(const struct deaths *deaths, const struct process_end *end,
		     const struct aggregate_input *labels)
{
	const struct process *parent =
		processes_find(deaths->sampler->reader.processes, end->parent);
	const struct watched *w;

	if (!labels->title || !strcmp(labels->title, TITLE_PREFIX "IDLE") ||
	    (labels->role && strcmp(labels->role, ray_role_name(RAY_ROLE_WORKER)) != 0))
		return false;
	w = parent ? watched_find(&deaths->watched, parent->pid, parent->start_ns) : NULL;
	return !w || !w->facts || !death_is_asked(w->facts, end->ts_ns);
}

/* The user of a process becomes known with its mappings: one that lived too briefly counts for its parent's. */
static uint32_t tenant_of(const struct deaths *deaths, uint32_t pid, uint32_t parent)
{
	struct processes *processes = deaths->sampler->reader.processes;
	const struct process *process = processes_find(processes, pid);

	if (!process || !process->tenant)
		process = processes_find(processes, parent);
	return process ? process->tenant : 0;
}

static void ended(struct deaths *deaths, const struct bpfprof_task_id *task,
		  const struct process_end *end)
{
	struct death_facts facts = { 0 };
	const struct bpfprof_kill_event *by;
	const struct process *process;
	struct bpfprof_sample sample;
	struct aggregate_input labels;
	const struct watched *w;
	enum death_kind kind;
	struct death *death;
	bool parent_wanted = is_parent_wanted(deaths, end);

	/* Both may wait, so that pointers into tables come after them. */
	if (!input_make(deaths, task, end->comm, &sample, &labels))
		return;
	process = processes_find(deaths->sampler->reader.processes, task->pid);
	w = found(deaths, task);
	if (w && w->facts)
		facts = *w->facts;
	facts.pid = task->pid;
	facts.status = end->status;
	facts.ts_ns = end->ts_ns;
	facts.ray = labels.title || (w && w->ray_worker);
	facts.taken = is_taken(deaths, end, &labels);
	facts.helper = parent_wanted && is_helper(deaths, task, end, process);
	kind = death_judge(&facts, &by);
	if (kind == DEATH_NONE) {
		deaths->nr_ended++;
		return;
	}
	deaths->nr_deaths++;
	death = death_new(deaths, task, end, w, &labels);
	if (!death) {
		deaths->nr_not_written++;
		return;
	}
	death->kind = kind;
	if (by) {
		death->by = *by;
		death->by.sender = own_pid_of(deaths, by->sender) ?: by->sender;
	}
	death_counts_add(&deaths->counts, death);
	death_keep(deaths, death, tenant_of(deaths, task->pid, end->parent));
}

static void on_exit_event(struct deaths *deaths, const struct bpfprof_task_id *task,
			  const struct process_end *end)
{
	struct watched *w = found(deaths, task);

	if (!end->known) {
		/* The kernel reports no end of a process that the filters do not want. */
		deaths->nr_unknown_ends += w && w->wanted && !w->found_ended;
		if (w)
			watched_end(&deaths->watched, w);
		return;
	}
	if (w && w->wanted && w->found_ended && deaths->nr_unknown_ends)
		deaths->nr_unknown_ends--;
	if (end->status || (w && !deaths->wants))
		ended(deaths, task, end);
	w = found(deaths, task);
	if (w)
		watched_remove(&deaths->watched, w);
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
	watched_init(&deaths->watched);
	shares_init(&deaths->shares, DEATHS_MAX_WAITING);
}

void deaths_observe(struct deaths *deaths)
{
	sampler_observe(deaths->sampler, on_event, deaths);
}

static int pid_note(void *arg, pid_t pid, const struct proc_usage *usage)
{
	struct deaths *deaths = arg;

	if (usage->flags & PROC_PF_KTHREAD)
		return 0;
	if (vec_grow(deaths->pids, deaths->nr_pids + 1, deaths->cap_pids, VEC_BOUNDED))
		return -ENOMEM;
	deaths->pids[deaths->nr_pids++] = (uint32_t)pid;
	return 0;
}

int deaths_start(struct deaths *deaths)
{
	/* In a pid namespace the kernel has other pids, and processes become known by their samples. */
	return session_pids_are_the_nodes(&deaths->sampler->reader.session)
		       ? pids_each(pid_note, deaths)
		       : 0;
}

/* -EAGAIN: reading has used up its share of the time. Other errors: the process cannot be read. */
static int learn_pid(struct deaths *deaths, uint32_t pid)
{
	struct thread_reader *reader = &deaths->sampler->reader;
	const struct process *process;
	struct bpfprof_task_id task;
	int err = 0;

	if (!processes_find(reader->processes, pid))
		err = walker_learn(&reader->walker, pid, time_monotonic_ns(), NULL);
	process = processes_find(reader->processes, pid);
	if (!process || process->dead)
		return process || err == -ESRCH ? 0 : err;
	task = (struct bpfprof_task_id){
		.pid = pid, .tid = pid, .start_ns = process->start_ns, .exec_id = process->exec_id
	};
	learn(deaths, &task);
	process = processes_find(reader->processes, pid);
	return !process || sampler_ranks_are_settled(process) ? 0 : -EAGAIN;
}

bool deaths_learn(struct deaths *deaths, uint64_t limit_ns)
{
	struct processes *processes = deaths->sampler->reader.processes;
	uint64_t end_ns = time_monotonic_ns() + limit_ns;
	int err;

	/* The newest first. */
	while (deaths->nr_pids && time_monotonic_ns() < end_ns) {
		uint32_t pid = deaths->pids[deaths->nr_pids - 1];

		processes_pin(processes, pid); /* a job may wait for its files */
		err = learn_pid(deaths, pid);
		processes_pin(processes, 0);
		if (err == -EAGAIN && ++deaths->nr_tries < LEARN_TRIES)
			break;
		deaths->nr_not_learned += err != 0;
		deaths->nr_tries = 0;
		deaths->nr_pids--;
	}
	return deaths->nr_pids;
}

size_t deaths_waiting(const struct deaths *deaths, const struct aggregate *ret[DEATHS_MAX_WAITING])
{
	size_t i;

	for (i = 0; i < deaths->nr_waiting; i++)
		ret[i] = deaths->waiting[(deaths->first + i) % DEATHS_MAX_WAITING]->aggregate;
	return i;
}

uint32_t deaths_tenant(const struct deaths *deaths)
{
	return deaths->tenants[deaths->first];
}

struct death *deaths_take(struct deaths *deaths)
{
	struct death *death;

	if (!deaths->nr_waiting)
		return NULL;
	death = deaths->waiting[deaths->first];
	shares_give(&deaths->shares, deaths_tenant(deaths), 1);
	deaths->first = (deaths->first + 1) % DEATHS_MAX_WAITING;
	deaths->nr_waiting--;
	return death;
}

struct aggregate *deaths_stacks(const struct deaths *deaths)
{
	const struct watched_stack *stack;
	struct aggregate *aggregate;

	if (!deaths->watched.stacks.nr || aggregate_new(&aggregate, false, STACKS_BYTES))
		return NULL;
	hash_table_each(&deaths->watched.stacks, stack)
		aggregate_add(aggregate, &(struct aggregate_input){ .sample = &stack->sample,
								    .user = stack->frames,
								    .nr_user = stack->nr,
								    .stop = stack->stop });
	return aggregate;
}

void deaths_fini(struct deaths *deaths)
{
	struct death *death;

	while ((death = deaths_take(deaths)))
		death_free(death);
	shares_fini(&deaths->shares);
	watched_fini(&deaths->watched);
	free(deaths->pids);
}

#define AT(field) offsetof(struct deaths, field)

const struct counter deaths_counters[] = {
	{ COUNTER_WALK, "deaths_not_written", AT(nr_not_written),
	  .help = "deaths that were only counted: the share of their tenant of those that wait was "
		  "used up" },
	{ COUNTER_WALK, "deaths_end_not_seen", AT(nr_unknown_ends),
	  .help = "watched processes whose end raised no event, so that its cause is not known" },
	{ COUNTER_WALK, "deaths_processes_unread", AT(nr_not_learned),
	  .help = "processes of before the start whose ranks could not be read: they may not be "
		  "watched" },
	{ COUNTER_WALK, "deaths_processes_no_room", AT(watched.nr_full),
	  .help = "processes whose names and signals were forgotten, for others beyond 4,096" },
	{ COUNTER_WALK, "deaths_stacks_no_room", AT(watched.nr_stacks_full),
	  .help = "stacks of signals that were forgotten, for others beyond 2 MiB" },
	{ 0 },
};

void deaths_stats(const struct deaths *deaths, struct stats_reasons *dst)
{
	stats_add_rows(dst, deaths_counters, deaths, false);
}
