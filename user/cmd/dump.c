// SPDX-License-Identifier: Apache-2.0
/* bpfprof dump: shows once what every thread of some processes is doing. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/deadline.h"
#include "base/exit_status.h"
#include "base/log.h"
#include "base/print.h"
#include "base/strtab.h"
#include "base/time.h"
#include "capture/container_filter.h"
#include "capture/dump_burst.h"
#include "capture/pod_processes.h"
#include "capture/reader_open.h"
#include "capture/root_check.h"
#include "capture/sampler.h"
#include "capture/target.h"
#include "capture/worker_processes.h"
#include "cmd/command.h"
#include "cmd/dump_tree.h"
#include "container/containers.h"
#include "kernel/remote.h"
#include "kernel/tasks.h"
#include "options/options.h"
#include "proc/pids.h"
#include "proc/title.h"
#include "profile/stats.h"
#include "profile/symbolize.h"
#include "threads/dump.h"
#include "threads/thread_call.h"
#include "threads/stack_names.h"
#include "threads/thread_reader.h"
#include "threads/wait_reason.h"
#include "threads/thread_dump.h"
#include "watch/wait_facts.h"
#include "watch/wait_text.h"

#define MAX_OUTPUT_BYTES (256U << 20)
#define MESSAGE_MAX 1024
#define BURST_NS 20000000ULL
#define WAIT_TEXT 160
/* A call may take longer here than elsewhere, as a person waits for the answer. */
#define READY_MS 10000
#define ASLEEP_MS 2000

/* One `bpfprof dump`. */
struct dumping {
	const struct dump_options *options;
	struct thread_reader reader;
	const pid_t *pids; /* the chosen processes, in bpfprof's pid namespace */
	size_t nr_pids;
	struct pids found; /* processes of the chosen pods */
	struct pids workers; /* processes of --worker and of -p */
	bool only_python; /* processes without Python are left out */
	struct dump dump;
	struct wait_facts waits;
};

static int no_target(pid_t pid, const char *why)
{
	log_error("pid %d: %s", pid, why);
	return EXIT_NO_TARGET;
}

/* Refuses ids of threads. A zombie may still have threads: thread_read() sees that. */
static int check_target(pid_t pid)
{
	struct target target;
	int err = target_probe(pid, &target);

	if (err == -ESRCH)
		return no_target(pid, "no such process");
	if (!err && target.leader && target.leader != target.pid) {
		log_error("pid %d: is a thread of process %d, which is what -p takes", pid,
			  target.leader);
		return EXIT_NO_TARGET;
	}
	return EXIT_DONE;
}

/*
 * The reason why a call that hung has waited. The iterator over mappings only sleeps for the lock
 * of the process's memory; a read may need this lock, too.
 */
static const char *wait_text(char text[WAIT_TEXT], const struct deadline_wait *wait)
{
	const char *lock = "";

	if (!wait->known)
		return "what they waited for is not known";
	if (wait->ready)
		return "this machine had no CPU time for bpfprof (nice -n -10 helps)";
	if (!wait->in[0])
		return "the kernel did not answer";
	if (!strncmp(wait->in, "task_vma", 8) || strstr(wait->in, "rwsem") ||
	    strstr(wait->in, "mmap_read_lock") || strstr(wait->in, "mmap_lock"))
		lock = ": something holds the lock of its memory (mmap_lock)";
	snprintf(text, WAIT_TEXT, "the kernel waits in %s()%s", wait->in, lock);
	return text;
}

static void say_counts(pid_t pid, const struct thread_read_counts *counts)
{
	char why[WAIT_TEXT];

	if (counts->mappings_error == -ETIMEDOUT)
		log_warn("pid %d: its mappings cannot be read: %s: kernel frames only", pid,
			 wait_text(why, &counts->mappings_wait));
	else if (counts->mappings_error && counts->mappings_error != -ESRCH)
		log_warn("pid %d: its mappings cannot be read: %s", pid,
			 strerror(-counts->mappings_error));
	if (counts->other_python)
		log_warn("pid %d: it runs %s, not CPython: native stacks only", pid,
			 counts->other_python);
	if (counts->python_error == -ENODATA)
		log_warn("pid %d: no Python runs in it: its interpreter has not begun yet, has "
			 "ended, or is only loaded",
			 pid);
	else if (counts->python_error)
		log_warn("pid %d: its Python interpreter cannot be read in full: %s", pid,
			 strerror(-counts->python_error));
	if (counts->nr_beyond)
		log_warn("pid %d: it has %llu more places where a Python may run than the %d that "
			 "are read",
			 pid, (unsigned long long)counts->nr_beyond, BPFPROF_MAX_RUNTIMES);
	if (counts->too_many_threads)
		log_warn("pid %d: it has more than %d threads: the others are left out", pid,
			 TASKS_MAX);
	if (counts->ended)
		log_warn("pid %d: the process ended during the dump, which is incomplete", pid);
	if (counts->nr_hung)
		log_warn("pid %d: %llu reads of its memory hung and were given up: %s", pid,
			 (unsigned long long)counts->nr_hung, wait_text(why, &counts->hung));
	if (counts->nr_refused)
		log_warn("pid %d: %llu pages of its memory were not read, beyond %u MiB or after "
			 "reads hung: frames and values are missing",
			 pid, (unsigned long long)counts->nr_refused,
			 REMOTE_MAX_PAGES / (1048576 / BPFPROF_READ_BYTES));
	if (counts->nr_inconsistent && !counts->ended)
		log_warn("pid %d: %llu threads ran each time they were read: their frames may not "
			 "belong together",
			 pid, (unsigned long long)counts->nr_inconsistent);
	if (counts->nr_cut)
		log_warn("pid %d: %llu stacks or lists of variables were left out: at most %u "
			 "frames, %u of the tasks of a process, and %u variables are kept",
			 pid, (unsigned long long)counts->nr_cut, DUMP_MAX_FRAMES,
			 DUMP_MAX_PROCESS_TASK_FRAMES, DUMP_MAX_VARIABLES);
	if (counts->nr_bad)
		log_warn("pid %d: %llu objects of its interpreter contradict themselves, since the "
			 "process ran meanwhile or is damaged: frames may be missing",
			 pid, (unsigned long long)counts->nr_bad);
	log_debug("pid %d: read in %.1f ms, %llu rounds, %llu passes, %llu pages; %llu objects "
		  "unreadable",
		  pid, (double)counts->read_ns / 1e6, (unsigned long long)counts->nr_rounds,
		  (unsigned long long)counts->nr_passes, (unsigned long long)counts->nr_pages,
		  (unsigned long long)counts->nr_unreadable);
}

static void say_task_counts(const struct process_dump *process)
{
	const struct task_counts *counts = &process->task_counts;

	if (counts->undescribed)
		log_warn(
			"pid %u: this build of Python does not describe its tasks of asyncio: they "
			"are not shown",
			process->pid);
	if (counts->torn)
		log_warn("pid %u: its tasks of asyncio came and went while they were listed: some "
			 "are missing",
			 process->pid);
	if (counts->nr_over)
		log_warn("pid %u: %llu tasks of asyncio were left out: there are too many, or "
			 "reading them took too long",
			 process->pid, (unsigned long long)counts->nr_over);
	if (counts->nr_bad)
		log_warn("pid %u: %llu objects that asyncio lists are no tasks that can be read",
			 process->pid, (unsigned long long)counts->nr_bad);
	if (counts->nr_idle)
		log_info("pid %u: %llu tasks of asyncio are not shown: their loop does not run",
			 process->pid, (unsigned long long)counts->nr_idle);
}

static int process_read(struct dumping *dumping, struct dump *dump, uint32_t pid,
			struct thread_read_counts *ret_counts)
{
	const struct dump_options *options = dumping->options;
	const struct thread_request request = { .owner = THREAD_OWNER_DUMP,
						.pid = pid,
						.native = options->native,
						.waits = options->verbose || options->json ||
							 options->waits,
						.tasks = true,
						.locals = options->locals };

	return thread_read(&dumping->reader, &request, dump, ret_counts);
}

static void parent_set(const struct dump *dump, struct process_dump *process, uint32_t parent)
{
	size_t i;

	process->parent = parent;
	for (i = 0; i < dump->nr_processes; i++)
		if (dump->processes[i].pid == parent)
			process->parent_cmdline = dump->processes[i].cmdline;
}

static void container_set(struct dumping *dumping, struct process_dump *process)
{
	const struct container *container =
		containers_of(dumping->reader.containers, process->pid, 0, time_monotonic_ns());
	struct strtab *strings = dumping->dump.strings;

	if (!container)
		return;
	process->container = strtab_add(strings, container->name);
	process->container_id = strtab_add(strings, container->id);
	process->pod = strtab_add(strings, container->pod);
	process->namespace = strtab_add(strings, container->namespace);
	process->pod_pid = (uint32_t)target_pod_pid((pid_t)process->pid);
}

static void task_set(struct strtab *strings, struct process_dump *process)
{
	const char *cmdline = strtab_get(strings, process->cmdline);
	char title[TITLE_MAX + 1];

	if (!title_parse(title, cmdline, strlen(cmdline)))
		process->ray_task = strtab_add(strings, title);
}

static int read_one(struct dumping *dumping, pid_t pid, pid_t parent)
{
	struct thread_read_counts counts;
	struct process_dump *process;
	int err = process_read(dumping, &dumping->dump, (uint32_t)pid, &counts);
	int status;

	if (err == -ESRCH) {
		status = check_target(pid);
		return status ? status
			      : no_target(pid, "the kernel does not show it to BPF programs");
	}
	if (err == -ENODATA)
		return no_target(pid, "it has exited and only waits for its parent (zombie)");
	if (err) {
		log_error("pid %d: %s", pid, strerror(-err));
		return err == -EPERM || err == -EACCES ? EXIT_PRIVILEGE : EXIT_FAILED;
	}
	process = &dumping->dump.processes[dumping->dump.nr_processes - 1];
	if (dumping->only_python && !process->python_version) {
		dump_drop(&dumping->dump);
		if (counts.other_python)
			say_counts(pid, &counts);
		return EXIT_DONE;
	}
	parent_set(&dumping->dump, process, (uint32_t)parent);
	container_set(dumping, process);
	task_set(dumping->dump.strings, process);
	if (process->threads_cut)
		log_warn("pid %d: its Python threads came and went while they were listed: some "
			 "have no Python frames here",
			 pid);
	say_counts(pid, &counts);
	return EXIT_DONE;
}

/* Reads all processes. A descendant or a process of a pod may end meanwhile: that is no failure. */
static int read_all(struct dumping *dumping)
{
	__cleanup(free_mem) struct dump_target *targets = NULL;
	const struct dump_options *options = dumping->options;
	size_t nr = 0, i;
	int err, status = EXIT_DONE, one;

	err = dump_tree(&targets, &nr, dumping->pids, dumping->nr_pids, options->subprocesses);
	if (err) {
		log_error("processes: %s", strerror(-err));
		return EXIT_FAILED;
	}
	for (i = 0; i < nr; i++) {
		one = targets[i].parent ? EXIT_DONE : check_target(targets[i].pid);
		if (!one)
			one = read_one(dumping, targets[i].pid, targets[i].parent);
		if (one && !targets[i].parent &&
		    (pids_have(options->pids, options->nr_pids, targets[i].pid) ||
		     (options->nr_pids && options->containers.nr_pods) || one == EXIT_PRIVILEGE))
			status = one;
		if (one == EXIT_PRIVILEGE)
			break;
	}
	return status;
}

static int name_all(struct dumping *dumping)
{
	struct stats_reasons files = { 0 };
	int err, hidden = 0;
	const struct stack_names_options options = {
		.kernel = dumping->options->kernel || dumping->options->json ||
			  dumping->options->verbose || dumping->options->waits ||
			  wait_reasons_need_kernel(&dumping->dump),
		.files = &files,
		.kernel_hidden = &hidden,
	};
	size_t i;

	err = stack_names_find(&dumping->dump, &dumping->reader, &options);
	if (err) {
		log_error("symbols: %s", strerror(-err));
		return EXIT_FAILED;
	}
	if (hidden)
		sampler_warn_kernel_names();
	if (symbolize_problem(&files))
		log_warn("functions of some files have no names: %s", symbolize_problem(&files));
	for (i = 0; i < files.nr; i++)
		log_debug("%s: %llu", files.reasons[i].name,
			  (unsigned long long)files.reasons[i].count);
	wait_reasons_find(&dumping->dump);
	thread_calls_find(&dumping->dump);
	return EXIT_DONE;
}

static uint32_t pod_pid(uint32_t pid)
{
	return (uint32_t)target_pod_pid((pid_t)pid) ?: pid;
}

/* A thread that has ended keeps the number by which we see it. */
static void use_pod_pids(struct dump *dump)
{
	struct process_dump *process;
	size_t i, k;

	for (i = 0; i < dump->nr_processes; i++) {
		process = &dump->processes[i];
		process->pid = pod_pid(process->pid);
		process->parent = process->parent ? pod_pid(process->parent) : 0;
		for (k = 0; k < process->nr_threads; k++)
			process->threads[k].tid = pod_pid(process->threads[k].tid);
	}
}

static int waits_write(struct dumping *dumping, struct buf *out)
{
	struct wait_facts *facts = &dumping->waits;
	uint32_t root;
	enum wait_verdict verdict;
	int err = wait_facts_read(facts, &dumping->reader, &dumping->dump,
				  dumping->options->stall.after_ns);

	if (err) {
		log_error("open files: %s", strerror(-err));
		return err;
	}
	verdict = wait_judge(facts, dumping->options->stall.busy, &root);
	wait_sentence(out, facts, verdict, root);
	buf_add_char(out, '\n');
	wait_reason_line(out, facts, root);
	buf_add_char(out, '\n');
	wait_lines(out, facts);
	buf_add_char(out, '\n');
	return 0;
}

static int write_all(struct dumping *dumping)
{
	const struct dump_options *options = dumping->options;
	const struct dump_format format = {
		.native = options->native,
		.kernel = options->kernel,
		.full_filenames = options->full_filenames,
		.waits = options->verbose,
		.containers = options->verbose || container_filter_is_set(&options->containers),
	};
	__cleanup(buf_fini) struct buf out;
	int err;

	buf_init(&out, MAX_OUTPUT_BYTES);
	if (options->waits && waits_write(dumping, &out))
		return EXIT_FAILED;
	if (options->json)
		dump_json(&out, &dumping->dump, &format);
	else
		dump_text(&out, &dumping->dump, &format);
	if (buf_error(&out)) {
		log_error("the dump is too large: %s", strerror(-buf_error(&out)));
		return EXIT_FAILED;
	}
	err = print_lines(stdout, out.data, out.len);
	if (err)
		log_error("standard output: %s", strerror(-err));
	return err ? EXIT_FAILED : EXIT_DONE;
}

static bool has_unsampled(const struct process_dump *process)
{
	size_t i;

	for (i = 0; i < process->nr_threads; i++)
		if (process->threads[i].running && !process->threads[i].sampled)
			return true;
	return false;
}

/* Reads the running threads that got no sample again: most of them sleep by now. */
static void read_again(struct dumping *dumping)
{
	struct thread_read_counts counts;
	struct dump dump;
	size_t i;

	for (i = 0; i < dumping->dump.nr_processes; i++) {
		if (!has_unsampled(&dumping->dump.processes[i]))
			continue;
		dump = (struct dump){ .strings = dumping->dump.strings };
		if (!process_read(dumping, &dump, dumping->dump.processes[i].pid, &counts)) {
			process_dump_take(&dumping->dump.processes[i], &dump.processes[0]);
			dump_drop(&dump);
		}
		free(dump.processes);
	}
}

/* Samples threads that were on a CPU. If that fails, the dump still has all other threads. */
static void read_running(struct dumping *dumping)
{
	const struct dump_options *options = dumping->options;
	const struct dump_burst_options burst = { .host_root = options->host_root,
						  .kernel = options->kernel || options->json,
						  .ns = BURST_NS };
	struct process_dump *process;
	size_t i, k;

	if (!dump_burst_wanted(&dumping->dump))
		return;
	if (dump_burst(&dumping->dump, &burst))
		log_warn("running threads cannot be sampled: some have no frames here");
	read_again(dumping);
	for (i = 0; i < dumping->dump.nr_processes; i++) {
		process = &dumping->dump.processes[i];
		for (k = 0; k < process->nr_threads; k++)
			if (process->threads[k].running && !process->threads[k].sampled)
				process->threads[k].consistent = false;
	}
}

/*
 * Chooses the workers that --worker matches, in the chosen pods if there are any, and the pids of
 * -p.
 */
static int choose_workers(struct dumping *dumping)
{
	const struct dump_options *options = dumping->options;
	const struct container_filter *filter = &options->containers;
	struct pids pods = { 0 }, workers = { 0 }, *all = &dumping->workers;
	size_t i;
	int err;

	err = worker_processes_find(&workers, dumping->reader.runner, options->workers,
				    options->nr_workers);
	if (!err && container_filter_is_set(filter))
		err = pod_processes_find(&pods, dumping->reader.containers, filter, NULL, 0);
	for (i = 0; i < workers.nr && !err; i++)
		if ((!container_filter_is_set(filter) ||
		     pids_have(pods.list, pods.nr, workers.list[i])) &&
		    !pids_have(dumping->pids, dumping->nr_pids, workers.list[i]))
			err = pids_add(all, workers.list[i]);
	for (i = 0; i < dumping->nr_pids && !err; i++)
		err = pids_add(all, dumping->pids[i]);
	pids_fini(&pods);
	pids_fini(&workers);
	if (err) {
		log_error("processes: %s", strerror(-err));
		return EXIT_FAILED;
	}
	dumping->pids = all->list;
	dumping->nr_pids = all->nr;
	return EXIT_DONE;
}

/* Chooses the pids of -p, those of them in the chosen pods, or all processes of the pods. */
static int choose_pids(struct dumping *dumping)
{
	const struct dump_options *options = dumping->options;
	const struct container_filter *filter = &options->containers;
	/* With filters of containers only, the pids of -p are those of bpfprof's namespace. */
	size_t nr_pod_pids = filter->nr_pods ? options->nr_pids : 0, i;
	int err;

	dumping->pids = options->pids;
	dumping->nr_pids = options->nr_pids;
	if (!container_filter_is_set(filter))
		return EXIT_DONE;
	err = pod_processes_find(&dumping->found, dumping->reader.containers, filter, options->pids,
				 nr_pod_pids);
	if (err) {
		log_error("processes: %s", strerror(-err));
		return EXIT_FAILED;
	}
	for (i = 0; i < options->nr_pids && !nr_pod_pids; i++)
		if (!pids_have(dumping->found.list, dumping->found.nr, options->pids[i]))
			return no_target(options->pids[i], "does not live in that container");
	if (options->nr_pids && !nr_pod_pids)
		return EXIT_DONE;
	if (nr_pod_pids && !dumping->found.nr)
		return pod_processes_none(dumping->reader.containers, filter, options->pids,
					  nr_pod_pids);
	dumping->pids = dumping->found.list;
	dumping->nr_pids = dumping->found.nr;
	dumping->only_python = !options->nr_pids && !options->waits;
	return EXIT_DONE;
}

static int choose_processes(struct dumping *dumping)
{
	const struct dump_options *options = dumping->options;
	int status = EXIT_DONE;

	if (options->nr_pids || !options->nr_workers)
		status = choose_pids(dumping);
	if (!status && options->nr_workers)
		status = choose_workers(dumping);
	if (!status && options->nr_workers && !dumping->nr_pids)
		log_info("--worker: no process on this node matches");
	return status;
}

static void say_no_python(const struct dumping *dumping)
{
	__cleanup(buf_fini) struct buf text = { .max = MESSAGE_MAX };

	container_filter_text(&text, &dumping->options->containers);
	log_info("%s: %s", buf_error(&text) ? "--pod" : text.data,
		 dumping->found.nr ? "no Python process lives there; dump -p shows others"
				   : "no process on this node lives there");
}

/* Before and after the reading, since a pid may be reused. */
static int check_starts(const struct dumping *dumping)
{
	size_t i;

	for (i = 0; i < dumping->nr_pids; i++)
		if (!target_has_start(dumping->pids[i], dumping->options->pid_start))
			return no_target(dumping->pids[i], "no such process");
	return EXIT_DONE;
}

static int run(struct dumping *dumping)
{
	struct root_check check = { 0 };
	int status, named;
	size_t i;

	status =
		reader_open(&dumping->reader, dumping->options->waits ? &thread_reader_waits : NULL,
			    dumping->options->host_root);
	if (status)
		return status;
	deadline_patience(dumping->reader.runner, READY_MS, ASLEEP_MS);
	dumping->reader.ready_ms = READY_MS;
	if (dump_init(&dumping->dump)) {
		log_error("%s", strerror(ENOMEM));
		return EXIT_FAILED;
	}
	status = choose_processes(dumping);
	if (!status)
		status = check_starts(dumping);
	if (!status)
		status = read_all(dumping);
	if (status == EXIT_PRIVILEGE || (status && !dumping->dump.nr_processes))
		return status;
	if (dumping->only_python && !dumping->dump.nr_processes)
		say_no_python(dumping);
	root_check(&check, dumping->reader.images, dumping->options->host_root);
	read_running(dumping);
	for (i = 0; i < dumping->dump.nr_processes; i++)
		say_task_counts(&dumping->dump.processes[i]);
	named = name_all(dumping);
	if (dumping->options->pod_pids)
		use_pod_pids(&dumping->dump);
	if (!named)
		named = check_starts(dumping);
	if (!named)
		named = write_all(dumping);
	return named ? named : status;
}

int dump_run(const struct dump_options *options)
{
	struct dumping dumping = { .options = options };
	int status = sampler_check();
	size_t i;

	/*
	 * This check comes before all the work. With pods the pids may be numbers inside of a pod.
	 */
	for (i = 0; i < options->nr_pids && !status && !options->containers.nr_pods; i++)
		status = options->nr_pids == 1 ? check_target(options->pids[i]) : EXIT_DONE;
	if (!status)
		status = run(&dumping);
	pids_fini(&dumping.found);
	pids_fini(&dumping.workers);
	wait_facts_fini(&dumping.waits);
	dump_fini(&dumping.dump);
	thread_reader_close(&dumping.reader);
	return status;
}
