// SPDX-License-Identifier: Apache-2.0
/* bpfprof report --compare: which rank, pod or node differs from the others, and in which functions. */
#include "cmd/report_job.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/exit_status.h"
#include "base/log.h"
#include "base/strtab.h"
#include "base/text.h"
#include "cmd/report_options.h"
#include "formats/profile_reading.h"
#include "report/profile_diff.h"

#define MAX_PARTS 4096
#define SAME_TIME 0.95
#define MAX_MISSING 20 /* lines */

/* Strings of the profile. */
struct part_key {
	uint32_t text; /* 0: it belongs to no part */
	uint32_t of[2]; /* a rank's job; the namespace of a pod */
};

/* One rank, pod or node. */
struct part {
	struct part_key key;
	uint32_t process; /* one of it, for its name */
	double distance; /* from the mean of the others */
	double all; /* its time */
};

struct comparison {
	const struct profile *profile;
	enum report_compare by;
	bool pods_are_jobs; /* one rank is in several pods: of several jobs */
	bool several_jobs; /* of Slurm */
	struct part parts[MAX_PARTS];
	size_t nr;
	struct profile_sample *samples; /* room for one side, then for the other */
};

static const char *const names[][2] = {
	[REPORT_COMPARE_RANK] = { "rank", "ranks" },
	[REPORT_COMPARE_POD] = { "pod", "pods" },
	[REPORT_COMPARE_NODE] = { "node", "nodes" },
};

static struct part_key pod_of(const struct profile *profile, uint32_t process)
{
	uint32_t index = profile->processes[process].container;
	const struct profile_container *container;

	if (!index)
		return (struct part_key){ 0 };
	container = &profile->containers[index - 1];
	return (struct part_key){ container->pod, { container->namespace } };
}

static struct part_key key_of(const struct comparison *c, uint32_t index)
{
	const struct profile_process *process = &c->profile->processes[index];
	struct part_key pod = pod_of(c->profile, index);
	uint32_t rank = process->ranks.rank;

	if (c->by == REPORT_COMPARE_POD)
		return pod;
	if (c->by == REPORT_COMPARE_NODE)
		return (struct part_key){ process->host ?: c->profile->host, { 0 } };
	if (rank && c->pods_are_jobs)
		return (struct part_key){ rank, { pod.text, pod.of[0] } };
	return (struct part_key){ rank, { rank ? process->ranks.slurm_job : 0 } };
}

static bool is_same(struct part_key a, struct part_key b)
{
	return !memcmp(&a, &b, sizeof(a));
}

static struct part *part_find(struct comparison *c, struct part_key key)
{
	size_t i;

	for (i = 0; i < c->nr; i++)
		if (is_same(c->parts[i].key, key))
			return &c->parts[i];
	return NULL;
}

/* Is one rank in several pods? */
static bool parts_fill(struct comparison *c)
{
	const struct profile *profile = c->profile;
	struct part_key key, pod, first;
	struct part *part;
	bool several = false;
	uint32_t process;
	size_t i;

	c->nr = 0;
	for (i = 0; i < profile->nr_samples && c->nr < MAX_PARTS; i++) {
		process = profile->samples[i].process;
		key = key_of(c, process);
		part = part_find(c, key);
		if (key.text && !part)
			c->parts[c->nr++] = (struct part){ .key = key, .process = process };
		if (!key.text || !part)
			continue;
		pod = pod_of(profile, process);
		first = pod_of(profile, part->process);
		several |= pod.text && first.text && !is_same(pod, first);
	}
	return several;
}

static void parts_find(struct comparison *c, enum report_compare by)
{
	size_t i;

	c->by = by;
	c->pods_are_jobs = false;
	c->several_jobs = false;
	if (parts_fill(c) && by == REPORT_COMPARE_RANK) {
		c->pods_are_jobs = true;
		parts_fill(c);
	}
	for (i = 1; i < c->nr && by == REPORT_COMPARE_RANK && !c->pods_are_jobs; i++)
		c->several_jobs |= c->parts[i].key.of[0] != c->parts[0].key.of[0];
}

/* Divides the samples: those of the part, and those of the others. */
static void sides_fill(const struct comparison *c, const struct part *part, struct profile sides[2])
{
	const struct profile *profile = c->profile;
	const struct profile_sample *sample;
	struct profile *side;
	struct part_key key;
	size_t i;

	for (i = 0; i < 2; i++) {
		sides[i] = *profile;
		sides[i].samples = c->samples + i * profile->nr_samples;
		sides[i].nr_samples = 0;
	}
	for (i = 0; i < profile->nr_samples; i++) {
		sample = &profile->samples[i];
		key = key_of(c, sample->process);
		side = &sides[is_same(key, part->key)];
		if (key.text)
			side->samples[side->nr_samples++] = *sample;
	}
}

static int diff_init(const struct comparison *c, const struct part *part, struct profile sides[2],
		     struct profile_diff *ret)
{
	static const char *const words[] = { "others", "this one" };
	int err;

	sides_fill(c, part, sides);
	err = profile_diff_init(ret, &sides[0], &sides[1], words,
				c->profile->duration_ns ? DIFF_PER_SECOND : DIFF_PER_SHARE);
	if (!err && ret->per == DIFF_PER_SECOND)
		profile_diff_mean(ret, c->nr - 1);
	return err;
}

static int compare_parts(const void *a, const void *b)
{
	const struct part *x = a, *y = b;

	return x->distance > y->distance ? -1 : x->distance < y->distance;
}

/* "rank 2 in ml/worker-2 on node-c" */
static void part_name(struct buf *dst, const struct comparison *c, const struct part *part)
{
	const struct profile *profile = c->profile;
	const struct profile_process *process = &profile->processes[part->process];
	const struct profile_container *container =
		process->container ? &profile->containers[process->container - 1] : NULL;
	const char *host = strtab_get(profile->strings, process->host ?: profile->host);

	if (c->by == REPORT_COMPARE_RANK) {
		buf_add_str(dst, "rank ");
		text_add_shown(dst, strtab_get(profile->strings, part->key.text));
	}
	if (c->several_jobs && part->key.of[0]) {
		buf_add_str(dst, " of job ");
		text_add_shown(dst, strtab_get(profile->strings, part->key.of[0]));
	}
	if (c->by != REPORT_COMPARE_NODE && container && container->pod) {
		buf_add_str(dst, c->by == REPORT_COMPARE_RANK ? " in " : "pod ");
		text_add_shown(dst, strtab_get(profile->strings, container->namespace));
		buf_add_char(dst, '/');
		text_add_shown(dst, strtab_get(profile->strings, container->pod));
	}
	if (*host) {
		buf_add_str(dst, c->by == REPORT_COMPARE_NODE ? "node " : " on ");
		text_add_shown(dst, host);
	}
}

static int distances_fill(struct comparison *c)
{
	struct profile sides[2];
	struct profile_diff diff;
	size_t i, k;
	int err = 0;

	for (i = 0; i < c->nr && !err; i++) {
		err = diff_init(c, &c->parts[i], sides, &diff);
		if (!err)
			err = profile_diff_distance(&diff, &c->parts[i].distance);
		for (k = 0; k < sides[1].nr_samples && !err; k++)
			c->parts[i].all += diff.numbers.scale[1] *
					   (double)(c->profile->value.only_counts
							    ? sides[1].samples[k].count
							    : sides[1].samples[k].value_ns);
	}
	if (!err)
		qsort(c->parts, c->nr, sizeof(*c->parts), compare_parts);
	return err;
}

/* The share of samples of no part, and ranks that the job has and the samples do not. */
static void missing_add(struct buf *dst, struct comparison *c)
{
	const struct strtab *strings = c->profile->strings;
	const struct profile_sample *sample;
	double all = 0, without = 0;
	unsigned long size, rank, shown = 0;
	char text[24];
	size_t i;

	for (i = 0; i < c->profile->nr_samples; i++) {
		sample = &c->profile->samples[i];
		all += (double)sample->count;
		without += key_of(c, sample->process).text ? 0 : (double)sample->count;
	}
	if (without > 0)
		buf_printf(dst, "not in it: %.1f%% of all %s, which have no %s\n",
			   100 * without / all, profile_counted(c->profile), names[c->by][0]);
	if (c->by != REPORT_COMPARE_RANK || c->pods_are_jobs || c->several_jobs)
		return;
	size = strtoul(
		strtab_get(strings, c->profile->processes[c->parts[0].process].ranks.world_size),
		NULL, 10);
	for (rank = 0; rank < size && rank < MAX_PARTS && shown < MAX_MISSING; rank++) {
		snprintf(text, sizeof(text), "%lu", rank);
		for (i = 0; i < c->nr; i++)
			if (!strcmp(strtab_get(strings, c->parts[i].key.text), text))
				break;
		if (i == c->nr && ++shown)
			buf_printf(dst, "not in it: rank %lu of %lu (no samples)\n", rank, size);
	}
}

static int text_make(struct buf *dst, struct comparison *c, const struct report_options *options)
{
	const struct profile_diff_options how = { .by = TALLY_PYTHON,
						  .by_total = options->by_total,
						  .rows = options->rows,
						  .beside = true };
	struct profile sides[2];
	struct profile_diff diff;
	size_t i;
	int err = distances_fill(c);

	if (!err)
		err = diff_init(c, &c->parts[0], sides, &diff);
	if (err)
		return err;
	buf_printf(dst, "%zu %s, each beside the mean of the others, in %s\n\n%10s  %10s\n", c->nr,
		   names[c->by][1], diff.unit, "all", "differs by");
	for (i = 0; i < c->nr && (!options->rows || i < options->rows); i++) {
		buf_printf(dst, "%10.4f  %10.4f  ", c->parts[i].all, c->parts[i].distance);
		part_name(dst, c, &c->parts[i]);
		buf_add_char(dst, '\n');
	}
	missing_add(dst, c);
	if (c->parts[0].distance <= 0) {
		buf_printf(dst, "\nNo %s differs by more than the chance of sampling.\n",
			   names[c->by][0]);
		return 0;
	}
	buf_add_char(dst, '\n');
	part_name(dst, c, &c->parts[0]);
	if (c->nr == 2) {
		buf_add_str(dst, " beside ");
		part_name(dst, c, &c->parts[1]);
	}
	buf_add_str(dst, c->nr == 2 ? ":\n" : " differs most:\n");
	return profile_diff_text(dst, &diff, &how);
}

/* Parts are divided by the time of all: are all files of this time? */
static void warn_times(const struct profile_read *read, uint64_t duration_ns)
{
	const struct profile_read_interval *all = read->intervals.data;
	size_t i;

	for (i = 0; i < read->intervals.nr; i++)
		if ((double)(all[i].end - all[i].start) < SAME_TIME * (double)duration_ns)
			break;
	if (i < read->intervals.nr)
		log_warn(
			"--compare: these recordings are not of the same time, and a part that was "
			"recorded for less of it shows less");
}

int report_compare(const struct report_options *options, const struct report_input *input)
{
	const struct profile *profile = &input->profile;
	__cleanup(buf_fini) struct buf text;
	struct comparison *c = calloc(1, sizeof(*c));
	enum report_compare by;
	int err = c ? 0 : -ENOMEM, status;

	buf_init(&text, REPORT_TEXT_BYTES);
	if (c) {
		c->profile = profile;
		c->samples = calloc(2 * profile->nr_samples + 1, sizeof(*c->samples));
		err = c->samples ? 0 : -ENOMEM;
	}
	for (by = REPORT_COMPARE_RANK; !err && by <= REPORT_COMPARE_NODE && c->nr < 2; by++)
		if (options->compare == REPORT_COMPARE_AUTO || options->compare == by)
			parts_find(c, by);
	if (!err && c->nr >= 2)
		err = text_make(&text, c, options);
	if (!err && c->nr >= 2)
		warn_times(&input->read, profile->duration_ns);
	else if (!err)
		err = -ENOENT;
	if (err == -ENOENT && options->compare != REPORT_COMPARE_AUTO)
		log_error("--compare: these files do not have several %s",
			  names[options->compare][1]);
	status = err == -ENOENT ? REPORT_NOT_COMPARED : report_print(&text, err);
	if (c)
		free(c->samples);
	free(c);
	return status;
}
