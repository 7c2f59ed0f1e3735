// SPDX-License-Identifier: Apache-2.0
#include "formats/output.h"

#include "base/buf.h"
#include "base/strtab.h"
#include "base/text.h"
#include "formats/profile_text.h"
#include "profile/profile.h"
#include "profile/stats.h"

#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#define COLUMNS 80
#define FUNCTION_INDENT 37
#define PROCESS_INDENT 50
#define CONTAINER_INDENT 9
#define CONTAINER_REST 22 /* "in ", ", pid 4194304 there" */
#define MAX_TEXT_BYTES (16U << 20)
/* A process of -p that ran less than this share of the time is waiting for something. */
#define WAITING_SHARE 0.05

struct function {
	uint32_t name; /* in top.names */
	uint32_t last_sample; /* index + 1 of the last sample that counted for total_ns */
	uint64_t own_ns, total_ns;
	uint64_t python_ns; /* time as the innermost Python function */
};

struct top {
	const struct profile *profile;
	struct strtab *names;
	struct function *functions; /* indexed by name until sorted */
	uint32_t *locations; /* function per location, 0 = none */
	uint64_t *process_ns; /* sampled time per process */
	uint64_t total_ns;
	bool tasks; /* of asyncio, not of threads */
	bool has_tasks; /* there are samples of these */
};

static int name_functions(struct top *top)
{
	const struct profile *profile = top->profile;
	struct buf text;
	size_t i;

	buf_init(&text, MAX_TEXT_BYTES);
	for (i = 0; i < profile->nr_locations; i++) {
		if (profile->locations[i].kind == LOCATION_MARKER)
			continue;
		buf_reset(&text);
		function_text(&text, profile, &profile->locations[i]);
		if (!buf_error(&text) && text.len)
			top->locations[i] = strtab_add_len(top->names, text.data, text.len);
	}
	buf_fini(&text);
	top->functions = calloc(strtab_count(top->names), sizeof(*top->functions));
	if (!top->functions)
		return -1;
	for (i = 0; i < strtab_count(top->names); i++)
		top->functions[i].name = (uint32_t)i;
	return 0;
}

static void add_samples(struct top *top)
{
	const struct profile *profile = top->profile;
	const struct profile_sample *sample;
	struct function *function;
	uint32_t i, at, id, location;
	bool in_python, of_tasks;

	for (i = 0; i < profile->nr_samples; i++) {
		sample = &profile->samples[i];
		in_python = false;
		of_tasks = profile_stack_is_of_tasks(profile, sample->stack);
		top->has_tasks |= of_tasks;
		if (of_tasks != top->tasks)
			continue;
		top->total_ns += sample->value_ns;
		top->process_ns[sample->process] += sample->value_ns;
		stack_each(at, profile->stack_callers, sample->stack) {
			location = profile->stack_locations[at];
			id = top->locations[location];
			if (!id)
				continue;
			function = &top->functions[id];
			if (at == sample->stack)
				function->own_ns += sample->value_ns;
			if (!in_python && profile->locations[location].kind == LOCATION_PYTHON) {
				function->python_ns += sample->value_ns;
				in_python = true;
			}
			/* Counts once per stack, even with recursion. */
			if (function->last_sample != i + 1)
				function->total_ns += sample->value_ns;
			function->last_sample = i + 1;
		}
	}
}

static int compare_functions(const void *a, const void *b, void *arg)
{
	const struct function *fn_a = a, *fn_b = b;
	const struct top *top = arg;

	if (fn_a->own_ns != fn_b->own_ns)
		return fn_a->own_ns > fn_b->own_ns ? -1 : 1;
	if (fn_a->total_ns != fn_b->total_ns)
		return fn_a->total_ns > fn_b->total_ns ? -1 : 1;
	return strcmp(strtab_get(top->names, fn_a->name), strtab_get(top->names, fn_b->name));
}

static int compare_python(const void *a, const void *b, void *arg)
{
	const struct function *fn_a = a, *fn_b = b;

	if (fn_a->python_ns != fn_b->python_ns)
		return fn_a->python_ns > fn_b->python_ns ? -1 : 1;
	return compare_functions(a, b, arg);
}

static void write_rows(const struct top *top, struct buf *dst, bool python, size_t rows)
{
	uint32_t nr = strtab_count(top->names), i;
	const struct function *function;
	double scale = top->total_ns ? 100.0 / (double)top->total_ns : 0;
	size_t shown = 0, left = 0;
	uint64_t own_ns;

	for (i = 0; i < nr; i++) {
		function = &top->functions[i];
		own_ns = python ? function->python_ns : function->own_ns;
		if (!function->total_ns || (python && !own_ns))
			continue;
		if (shown == rows) {
			left++;
			continue;
		}
		shown++;
		buf_printf(dst, "%5.1f%%  %5.1f%%  %7.2fs  %8.2fs  ", (double)own_ns * scale,
			   (double)function->total_ns * scale, (double)own_ns / 1e9,
			   (double)function->total_ns / 1e9);
		text_add_cut(dst, strtab_get(top->names, function->name),
			     COLUMNS - FUNCTION_INDENT);
		buf_add_char(dst, '\n');
	}
	if (left)
		buf_printf(dst, "%*s%zu more %sfunction%s\n", FUNCTION_INDENT, "", left,
			   python ? "Python " : "", left == 1 ? "" : "s");
}

/*
 * Writes the functions by their time. If some of it was in Python, it then writes Python functions;
 * C functions count for their callers.
 */
static void write_functions(struct top *top, struct buf *dst, size_t rows)
{
	uint32_t nr = strtab_count(top->names);

	qsort_r(top->functions, nr, sizeof(*top->functions), compare_functions, top);
	buf_add_str(dst, "  %Own  %Total       Own      Total  Function\n");
	write_rows(top, dst, false, rows);
	qsort_r(top->functions, nr, sizeof(*top->functions), compare_python, top);
	if (!nr || !top->functions[0].python_ns)
		return;
	buf_add_str(dst,
		    "\n  %Own  %Total       Own      Total  Python function, C in it included\n");
	write_rows(top, dst, true, (rows + 1) / 2);
}

/* Prints the objects that tasks waited for, then the functions by the time of the tasks in them. */
static void write_tasks(struct top *top, struct buf *dst, size_t rows)
{
	uint32_t nr = strtab_count(top->names);

	qsort_r(top->functions, nr, sizeof(*top->functions), compare_functions, top);
	buf_printf(dst, "\n  Tasks of asyncio: %.2f s in all\n", (double)top->total_ns / 1e9);
	buf_add_str(dst, "  %Own  %Total       Own      Total  Function\n");
	write_rows(top, dst, false, rows);
}

/* The CPU time as the kernel counts it, else the sampled time. */
static uint64_t process_cpu_ns(const struct top *top, uint32_t index)
{
	uint64_t cpu_ns = top->profile->processes[index].cpu_ns;

	return cpu_ns || top->profile->time != PROFILE_TIME_CPU ? cpu_ns : top->process_ns[index];
}

/* The sum over all names and titles of the process. */
static uint64_t whole_cpu_ns(const struct top *top, uint32_t index)
{
	const struct profile_process *processes = top->profile->processes;
	uint64_t cpu_ns = 0;
	uint32_t i;

	for (i = 0; i < top->profile->nr_processes; i++)
		if (processes[i].kernel_pid == processes[index].kernel_pid)
			cpu_ns += process_cpu_ns(top, i);
	return cpu_ns;
}

static bool is_first_entry(const struct top *top, uint32_t index)
{
	const struct profile_process *processes = top->profile->processes;
	uint32_t i;

	for (i = 0; i < index; i++)
		if (processes[i].kernel_pid == processes[index].kernel_pid)
			return false;
	return true;
}

static int compare_processes(const void *a, const void *b, void *arg)
{
	const struct top *top = arg;
	uint32_t index_a = *(const uint32_t *)a, index_b = *(const uint32_t *)b;
	uint64_t ns_a = process_cpu_ns(top, index_a), ns_b = process_cpu_ns(top, index_b);

	if (top->profile->processes[index_a].asked_for !=
	    top->profile->processes[index_b].asked_for)
		return top->profile->processes[index_a].asked_for ? -1 : 1;
	if (ns_a != ns_b)
		return ns_a > ns_b ? -1 : 1;
	return index_a < index_b ? -1 : index_a > index_b;
}

static void add_growth(struct buf *dst, int64_t bytes)
{
	double size = (double)bytes;

	if (bytes > -1024 && bytes < 1024)
		buf_printf(dst, "  %8s", "+0");
	else if (bytes > -(1 << 20) && bytes < 1 << 20)
		buf_printf(dst, "  %+4.0f KiB", size / 1024);
	else if (bytes > -(1LL << 30) && bytes < 1LL << 30)
		buf_printf(dst, "  %+4.0f MiB", size / (1 << 20));
	else
		buf_printf(dst, "  %+4.1f GiB", size / (1 << 30));
}

static void write_container(const struct top *top, struct buf *dst,
			    const struct profile_process *process)
{
	struct buf text;

	buf_init(&text, MAX_TEXT_BYTES);
	container_text(&text, top->profile, process);
	buf_printf(dst, "%*sin ", CONTAINER_INDENT, "");
	text_add_cut(dst, buf_error(&text) || !text.len ? "?" : text.data,
		     COLUMNS - CONTAINER_INDENT - CONTAINER_REST);
	if (process->pod_pid)
		buf_printf(dst, ", pid %u there", process->pod_pid);
	buf_add_char(dst, '\n');
	buf_fini(&text);
}

static void write_process(const struct top *top, struct buf *dst, uint32_t index)
{
	const struct profile_process *process = &top->profile->processes[index];
	struct profile_process named = *process;
	double seconds = (double)top->profile->duration_ns / 1e9;
	double cpu = (double)process_cpu_ns(top, index) / 1e9;
	struct buf name;

	buf_init(&name, MAX_TEXT_BYTES);
	named.title = process->task ? process->task : process->comm; /* in any grouping */
	process_text(&name, top->profile, &named);
	buf_printf(dst, "%7u  %8.2fs  %6.1f%%  %7u", process->pid, cpu,
		   seconds > 0 ? 100 * cpu / seconds : 0, process->nr_threads);
	if (process->rss_known)
		add_growth(dst, process->rss_growth_bytes);
	else
		buf_printf(dst, "  %8s", "-");
	buf_add_str(dst, "  ");
	text_add_cut(dst, buf_error(&name) ? "?" : name.data, COLUMNS - PROCESS_INDENT);
	buf_add_char(dst, '\n');
	if (process->container)
		write_container(top, dst, process);
	buf_fini(&name);
	if (!process->asked_for || !is_first_entry(top, index))
		return;
	cpu = (double)whole_cpu_ns(top, index) / 1e9;
	if (cpu < seconds * WAITING_SHARE)
		buf_printf(dst,
			   "         %.2f s on CPU in %.0f s: dump -p %u shows where it waits\n",
			   cpu, seconds, process->pid);
}

static void write_processes(struct top *top, struct buf *dst, size_t rows)
{
	size_t nr = top->profile->nr_processes, shown = 0, left = 0, i;
	uint32_t *order = calloc(nr + 1, sizeof(*order));

	if (!order)
		return;
	for (i = 0; i < nr; i++)
		order[i] = (uint32_t)i;
	qsort_r(order, nr, sizeof(*order), compare_processes, top);
	if (nr)
		buf_add_str(dst, "\n    PID       CPU     %CPU  Threads    Memory  Process\n");
	for (i = 0; i < nr; i++) {
		if (shown == rows && !top->profile->processes[order[i]].asked_for) {
			left++;
			continue;
		}
		shown += shown < rows;
		write_process(top, dst, order[i]);
	}
	if (left)
		buf_printf(dst, "%*s%zu more process%s\n", PROCESS_INDENT, "", left,
			   left == 1 ? "" : "es");
	free(order);
}

/* The numbers of tasks, whose samples add_samples() leaves out. */
static void tasks_text(const struct top *top, struct buf *dst, size_t rows)
{
	struct top tasks = *top;
	uint32_t i, nr = strtab_count(top->names);

	tasks.tasks = true;
	tasks.total_ns = 0;
	tasks.functions = calloc(nr, sizeof(*tasks.functions));
	tasks.process_ns = calloc(top->profile->nr_processes + 1, sizeof(*tasks.process_ns));
	for (i = 0; tasks.functions && i < nr; i++)
		tasks.functions[i].name = i;
	if (tasks.functions && tasks.process_ns)
		add_samples(&tasks);
	if (tasks.total_ns)
		write_tasks(&tasks, dst, rows);
	free(tasks.functions);
	free(tasks.process_ns);
}

void top_text(struct buf *dst, const struct profile *profile, size_t rows)
{
	struct top top = { .profile = profile };

	top.locations = calloc(profile->nr_locations + 1, sizeof(*top.locations));
	top.process_ns = calloc(profile->nr_processes + 1, sizeof(*top.process_ns));
	if (!top.locations || !top.process_ns || strtab_new(&top.names, MAX_TEXT_BYTES))
		goto out;
	if (name_functions(&top))
		goto out;
	add_samples(&top);
	if (top.total_ns)
		write_functions(&top, dst, rows);
	else if (profile->stats && stats_total(&profile->stats->lost))
		buf_add_str(dst, "No samples: all that were taken were lost, see below.\n");
	else
		buf_printf(dst, "No samples: nothing that was watched %s.\n",
			   profile->time == PROFILE_TIME_CPU ? "ran on a CPU" : "waited");
	if (top.has_tasks)
		tasks_text(&top, dst, rows);
	write_processes(&top, dst, rows);
out:
	strtab_free(top.names);
	free(top.functions);
	free(top.locations);
	free(top.process_ns);
}
