// SPDX-License-Identifier: Apache-2.0
#include "watch/death.h"

#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>

#include "base/buf.h"
#include "base/strtab.h"
#include "base/text.h"
#include "base/time.h"
#include "base/units.h"
#include "formats/profile_text.h"
#include "proc/title.h"
#include "profile/aggregate.h"
#include "profile/profile.h"
#include "watch/folder_name.h"
#include "watch/place.h"
#include "watch/samples_row.h"

#define PAGE_BYTES (768U << 10) /* of a summary; the frames after that are counted */
#define SAME_FRAMES 3

void death_free(struct death *death)
{
	if (!death)
		return;
	aggregate_free(death->aggregate);
	free(death);
}

const char *death_signal_name(char dst[DEATH_SIGNAL_BYTES], uint32_t number)
{
	const char *name = number ? sigabbrev_np((int)number) : NULL;

	if (name)
		snprintf(dst, DEATH_SIGNAL_BYTES, "SIG%s", name);
	else if ((int)number >= SIGRTMIN && (int)number <= SIGRTMAX)
		snprintf(dst, DEATH_SIGNAL_BYTES, "SIGRTMIN+%d", (int)number - SIGRTMIN);
	else
		snprintf(dst, DEATH_SIGNAL_BYTES, "SIG%u", number & 0x7f);
	return dst;
}

const char *death_reason(char dst[DEATH_SIGNAL_BYTES], const struct death *death)
{
	if (WTERMSIG(death->status))
		return death_signal_name(dst, WTERMSIG(death->status));
	snprintf(dst, DEATH_SIGNAL_BYTES, "exit");
	return dst;
}

void death_label_clean(char *label)
{
	for (; *label; label++)
		if (*label < ' ' || *label > '~' || *label == '"' || *label == '\\')
			*label = '_';
}

/* Text that a program chose becomes a label, and never one that has a meaning of its own. */
static void label_make(char dst[BPFPROF_COMM_LEN + 1], const char comm[BPFPROF_COMM_LEN])
{
	static const char *const taken[] = { "self", "kernel", "other" };
	size_t i;

	snprintf(dst, BPFPROF_COMM_LEN + 1, "%.*s", BPFPROF_COMM_LEN, comm);
	death_label_clean(dst);
	for (i = 0; i < sizeof(taken) / sizeof(taken[0]); i++)
		if (!strcmp(dst, taken[i]))
			snprintf(dst, BPFPROF_COMM_LEN + 1, "%s (process)", taken[i]);
}

void death_by(char dst[BPFPROF_COMM_LEN + 1], const struct death *death)
{
	if (death->kind == DEATH_KILLED)
		label_make(dst, death->by.comm);
	else
		snprintf(dst, BPFPROF_COMM_LEN + 1, "%s",
			 death->kind == DEATH_OOM ? "kernel" : "self");
}

/* The sample of a stack; NULL: it has none. */
static const struct profile_sample *sample_of(const struct profile *profile, uint64_t kind)
{
	size_t i;

	for (i = 0; i < profile->nr_samples; i++)
		if (profile->samples[i].value_ns >> kind & 1)
			return &profile->samples[i];
	return NULL;
}

static const char *path_of(const struct profile *profile, const struct profile_location *loc)
{
	return loc->mapping ? strtab_get(profile->strings, profile->mappings[loc->mapping - 1].path)
			    : "";
}

static bool is_of_system(const struct profile *profile, const struct profile_location *loc)
{
	return loc->kind == LOCATION_PYTHON
		       ? place_is_of_system(strtab_get(profile->strings, loc->file), true)
		       : place_is_of_system(path_of(profile, loc), false);
}

/*
 * The frame that a colleague would name: the innermost line of Python of the program itself, else of any Python,
 * else the innermost function of the program's own code, else the leaf. If code without a name lies further in, the line
 * that the program died in may be there, so no line of Python further out is named. NULL: the stack has no frame.
 */
static const struct profile_location *place_of(const struct profile *profile,
					       const struct profile_sample *sample)
{
	const struct profile_location *python = NULL, *native = NULL, *leaf = NULL, *loc;
	bool nameless = false;
	uint32_t at;

	stack_each(at, profile->stack_callers, sample->stack) {
		loc = profile_frame(profile, at);
		nameless |= loc->kind == LOCATION_PYTHON && !loc->file;
		if (loc->kind == LOCATION_PYTHON && !nameless && !is_of_system(profile, loc))
			return loc;
		if (loc->kind == LOCATION_PYTHON && !nameless && !python)
			python = loc;
		if (loc->kind != LOCATION_NATIVE)
			continue;
		leaf = leaf ?: loc;
		if (!native && loc->has_symbol && !is_of_system(profile, loc))
			native = loc;
	}
	return python ?: native ?: leaf;
}

static void frame_add(struct buf *dst, const struct profile *profile,
		      const struct profile_location *loc)
{
	frame_text(dst, profile, loc);
	if (loc->kind != LOCATION_NATIVE || !loc->has_symbol || !loc->mapping)
		return;
	buf_add_str(dst, " (");
	text_add_part(dst, text_base_name(path_of(profile, loc)));
	buf_add_char(dst, ')');
}

/* The stack where it began: a handler raises the signal again elsewhere. */
static const struct profile_location *place_of_death(const struct death *death,
						     const struct profile *profile)
{
	static const enum death_stack_kind order[] = { DEATH_STACK_FIRST, DEATH_STACK_LAST,
						       DEATH_STACK_RECENT };
	const struct profile_location *loc;
	size_t i;

	for (i = 0; i < DEATH_NR_STACKS; i++) {
		const struct profile_sample *sample = sample_of(profile, order[i]);

		loc = death->stacks[order[i]].present && sample ? place_of(profile, sample) : NULL;
		if (loc)
			return loc;
	}
	return NULL;
}

const struct profile_process *death_process(const struct profile *profile)
{
	return profile->nr_samples ? &profile->processes[profile->samples[0].process] : NULL;
}

static void subject_add(struct buf *dst, const struct death *death, const struct profile *profile)
{
	const struct profile_process *process = death_process(profile);
	const char *task = process ? strtab_get(profile->strings, process->task) : "";
	const char *role = process ? strtab_get(profile->strings, process->ray_role) : "";
	const char *rank = process ? strtab_get(profile->strings, process->ranks.rank) : "";

	/* The title of a Ray worker is written over its arguments. */
	text_add_part(dst, *task ? task + strlen(TITLE_PREFIX) : death->name);
	buf_printf(dst, " (pid %u", death->pid);
	if (*task || *role) {
		buf_add_str(dst, ", Ray ");
		text_add_part(dst, *role ? role : "worker");
	}
	if (*rank) {
		buf_add_str(dst, ", rank ");
		text_add_part(dst, rank);
	}
	if (process && process->container) {
		buf_add_str(dst, ", ");
		container_text(dst, profile, process);
	}
	buf_add_char(dst, ')');
}

static void mib_add(struct buf *dst, uint64_t bytes)
{
	buf_printf(dst, "%.4g MiB", (double)bytes / (1 << 20));
}

static void oom_add(struct buf *dst, const struct bpfprof_kill_event *by)
{
	buf_add_str(dst, " was killed by the kernel: ");
	if (!by->cgroup_max_bytes) {
		buf_add_str(dst, "the machine had no memory left");
		return;
	}
	buf_add_str(dst, by->cgroup_above ? "limit of a cgroup above its own " : "cgroup limit ");
	mib_add(dst, by->cgroup_max_bytes);
	buf_add_str(dst, ", used ");
	mib_add(dst, by->cgroup_used_bytes);
}

static void killer_add(struct buf *dst, const struct death *death)
{
	char name[BPFPROF_COMM_LEN + 1];

	snprintf(name, sizeof(name), "%.*s", BPFPROF_COMM_LEN, death->by.comm);
	buf_add_str(dst, " by ");
	text_add_part(dst, name);
	buf_printf(dst, " (pid %u)", death->by.sender);
}

static void end_add(struct buf *dst, const struct death *death)
{
	uint32_t signal = WTERMSIG(death->status), code = WEXITSTATUS(death->status);
	char name[DEATH_SIGNAL_BYTES];

	if (death->kind == DEATH_OOM) {
		oom_add(dst, &death->by);
	} else if (death->kind == DEATH_KILLED && signal) {
		buf_printf(dst, " was killed with %s", death_signal_name(name, signal));
		killer_add(dst, death);
	} else if (death->kind == DEATH_KILLED) {
		buf_printf(dst, " exited with code %u after %s", code,
			   death_signal_name(name, death->by.signal));
		killer_add(dst, death);
	} else if (signal == SIGKILL) {
		buf_add_str(dst, " was killed with SIGKILL");
	} else if (signal) {
		buf_printf(dst, " died of %s", death_signal_name(name, signal));
	} else {
		buf_printf(dst, " exited with code %u", code);
	}
}

void death_sentence(struct buf *dst, const struct death *death, const struct profile *profile)
{
	const struct profile_location *place = place_of_death(death, profile);

	subject_add(dst, death, profile);
	end_add(dst, death);
	if (!place)
		return;
	if (death->kind == DEATH_EXIT)
		buf_add_str(dst, death->stacks[DEATH_STACK_RECENT].present
					 ? ", last seen in "
					 : ", after a signal in ");
	else
		buf_add_str(dst, death->kind == DEATH_SIGNAL ? " in " : ", while in ");
	frame_add(dst, profile, place);
}

#define TIME_DIGITS 19 /* of TIME_OF_PEOPLE, before the zone */

static void time_add(struct buf *dst, uint64_t wall_ns)
{
	char text[TIME_TEXT_BYTES];

	time_text(text, wall_ns / NS_PER_SECOND, TIME_OF_PEOPLE);
	buf_printf(dst, "%.*s.%03u UTC", TIME_DIGITS, text,
		   (unsigned int)(wall_ns % NS_PER_SECOND / 1000000));
}

static void row(struct buf *dst, const char *key, const char *value)
{
	if (!*value)
		return;
	buf_printf(dst, "%-14s", key);
	text_add_part(dst, value);
	buf_add_char(dst, '\n');
}

static void labels_add(struct buf *dst, const struct profile *profile)
{
	const struct profile_process *process = death_process(profile);
	const struct profile_container *container;

	if (!process)
		return;
	row(dst, "Ray task", strtab_get(profile->strings, process->task));
	row(dst, "Ray role", strtab_get(profile->strings, process->ray_role));
	row(dst, "rank", strtab_get(profile->strings, process->ranks.rank));
	row(dst, "Slurm job", strtab_get(profile->strings, process->ranks.slurm_job));
	if (!process->container)
		return;
	container = &profile->containers[process->container - 1];
	row(dst, "namespace", strtab_get(profile->strings, container->namespace));
	row(dst, "pod", strtab_get(profile->strings, container->pod));
	row(dst, "container", strtab_get(profile->strings, container->name));
	row(dst, "container id", strtab_get(profile->strings, container->id));
	row(dst, "image", strtab_get(profile->strings, container->image));
}

static void facts_add(struct buf *dst, const struct death *death, const struct profile *profile)
{
	const struct profile_process *process = death_process(profile);
	char name[DEATH_SIGNAL_BYTES];

	buf_add_str(dst, "ended         ");
	time_add(dst, death->wall_ns);
	buf_printf(dst, "\nprocess       pid %u, parent %u", death->pid, death->parent);
	if (death->pod_pid && death->pod_pid != death->pid)
		buf_printf(dst, ", pid %u in its container", death->pod_pid);
	buf_add_char(dst, '\n');
	if (process)
		row(dst, "name", strtab_get(profile->strings, process->comm));
	if (WTERMSIG(death->status))
		buf_printf(dst, "status        %s, %s core file, 128 + %u in a shell\n",
			   death_signal_name(name, WTERMSIG(death->status)),
			   WCOREDUMP(death->status) ? "with a" : "without a",
			   WTERMSIG(death->status));
	else
		buf_printf(dst, "status        exit code %u\n", WEXITSTATUS(death->status));
	labels_add(dst, profile);
}

static void note_add(struct buf *dst, const struct death *death, enum death_stack_kind kind)
{
	const struct death_stack_note *note = &death->stacks[kind];
	char name[DEATH_SIGNAL_BYTES], ago[UNITS_TEXT];
	uint64_t age_ns = death->ts_ns > note->ts_ns ? death->ts_ns - note->ts_ns : 0;

	buf_printf(dst, "\nThread %u \"", note->tid);
	text_add_part(dst, note->thread);
	buf_add_str(dst, "\" ");
	if (note->signal)
		buf_printf(dst, "%s %s", kind == DEATH_STACK_FIRST ? "first took" : "took",
			   death_signal_name(name, note->signal));
	else
		buf_add_str(dst, "ran here at its last sample");
	if (note->fault_va)
		buf_printf(dst, " at address 0x%" PRIx64, note->fault_va);
	buf_printf(dst, ", %s before the end%s:\n", units_ns(ago, age_ns),
		   note->handled ? " (the program has a handler for it)" : "");
}

/* The leaf of the first stack, on which a handler's frames stand; UINT32_MAX: none. */
static uint32_t first_leaf(const struct death *death, const struct profile *profile)
{
	const struct profile_sample *sample = sample_of(profile, DEATH_STACK_FIRST);

	if (!death->stacks[DEATH_STACK_FIRST].present || !sample || !sample->stack)
		return UINT32_MAX;
	return profile->stack_locations[sample->stack];
}

/* A line of a stack. False: the page is full, and a line says so once. */
static bool frame_line(struct buf *dst, const struct profile *profile, uint32_t stack)
{
	if (dst->len > PAGE_BYTES)
		return false;
	buf_add_str(dst, "    ");
	frame_add(dst, profile, profile_frame(profile, stack));
	buf_add_char(dst, '\n');
	if (dst->len > PAGE_BYTES)
		buf_add_str(dst, "    ... no room for more frames: stacks.folded has them\n");
	return true;
}

/*
 * The frames of the last signal that stand on the first stack: those of the handler. Frames of Python are left out:
 * if the handler has a stack of its own, they are the interrupted ones, and are merged in between.
 */
static bool handler_add(struct buf *dst, const struct death *death, const struct profile *profile,
			uint32_t stack)
{
	uint32_t leaf = first_leaf(death, profile), at;
	bool found = false;

	stack_each(at, profile->stack_callers, stack)
		found |= profile->stack_locations[at] == leaf;
	if (!found)
		return false;
	for (at = stack; profile->stack_locations[at] != leaf; at = profile->stack_callers[at])
		if (profile_frame(profile, at)->kind != LOCATION_PYTHON &&
		    !frame_line(dst, profile, at))
			return true;
	buf_add_str(dst, "    ... the first stack, as above\n");
	return true;
}

static void more_line(struct buf *dst, uint32_t nr)
{
	if (nr > SAME_FRAMES)
		buf_printf(dst, "    ... %u more of it\n", nr - SAME_FRAMES);
}

/* A recursion without end has the same frame a thousand times: after three of it there is one line. */
static void frames_add(struct buf *dst, const struct profile *profile, uint32_t stack)
{
	uint32_t at, location = UINT32_MAX, nr = 0;

	stack_each(at, profile->stack_callers, stack) {
		if (profile->stack_locations[at] != location) {
			more_line(dst, nr);
			location = profile->stack_locations[at];
			nr = 0;
		}
		if (nr++ < SAME_FRAMES && !frame_line(dst, profile, at))
			return;
	}
	more_line(dst, nr);
}

static void stack_add(struct buf *dst, const struct death *death, const struct profile *profile,
		      enum death_stack_kind kind)
{
	const struct profile_sample *sample = sample_of(profile, kind);

	if (!death->stacks[kind].present || !sample)
		return;
	note_add(dst, death, kind);
	if (kind != DEATH_STACK_LAST || !handler_add(dst, death, profile, sample->stack))
		frames_add(dst, profile, sample->stack);
}

void death_summary(struct buf *dst, const struct death *death, const struct profile *profile,
		   const char *store)
{
	death_sentence(dst, death, profile);
	buf_add_str(dst, ".\n\n");
	facts_add(dst, death, profile);
	samples_row(dst, store, death->pid, death->wall_ns);
	stack_add(dst, death, profile, DEATH_STACK_FIRST);
	stack_add(dst, death, profile, DEATH_STACK_LAST);
	stack_add(dst, death, profile, DEATH_STACK_RECENT);
}

void death_folder_name(struct buf *dst, const struct death *death, const struct profile *profile)
{
	const struct profile_process *process = death_process(profile);
	const char *pod = "";

	if (process && process->container)
		pod = strtab_get(profile->strings, profile->containers[process->container - 1].pod);
	folder_name_make(dst, FOLDER_DEATH, death->wall_ns, *pod ? pod : death->name, death->pid);
}
