// SPDX-License-Identifier: Apache-2.0
/* The files of a recording. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/exit_status.h"
#include "base/log.h"
#include "base/print.h"
#include "base/strtab.h"
#include "cmd/output_files.h"
#include "cmd/record_timeline.h"
#include "cmd/recording.h"
#include "daemon/tree.h"
#include "findings/record_findings.h"
#include "formats/output.h"
#include "options/options.h"
#include "proc/title.h"
#include "profile/parts.h"
#include "profile/stats.h"
#include "ray/worker_match.h"

#define TOP_ROWS 15
#define TEXT_MAX (1U << 20)
/* The class in a file name, which may have 255 bytes; a longer class is cut. */
#define CLASS_BYTES 128

static bool has_pid(const char *pattern)
{
	const char *at;

	for (at = strchr(pattern, '%'); at; at = strchr(at + 2, '%')) {
		if (at[1] == 'p')
			return true;
		if (!at[1])
			break;
	}
	return false;
}

/* The parts of a file name; names.worker is NULL for several workers. */
struct file_of {
	struct output_names names;
	bool with_pid_always;
	const char *infix; /* of a file beside another; NULL: none */
};

static int path_make(struct buf *dst, const char *pattern, const struct file_of *of)
{
	__cleanup(buf_fini) struct buf with_pid = { .max = PATH_MAX };
	__cleanup(buf_fini) struct buf beside = { .max = PATH_MAX };
	bool standard = !strcmp(pattern, "-");

	if (of->with_pid_always && !has_pid(pattern) && !standard) {
		output_path_insert(&with_pid, pattern, ".%p");
		if (buf_error(&with_pid))
			return buf_error(&with_pid);
		pattern = with_pid.data;
	}
	if (of->infix && !standard) {
		output_path_insert(&beside, pattern, of->infix);
		if (buf_error(&beside))
			return buf_error(&beside);
		pattern = beside.data;
	}
	return output_expand_path(dst, pattern, &of->names);
}

static int check_one(const char *pattern, const struct file_of *of)
{
	__cleanup(buf_fini) struct buf path = { .max = PATH_MAX };
	int err = path_make(&path, pattern, of);

	if (!err)
		err = output_check(path.data);
	if (err)
		output_files_report(pattern, path.data, err);
	return err;
}

int recording_check_outputs(const struct record_options *options)
{
	struct file_of of = { .names = output_files_names(options, 0),
			      .with_pid_always = options->split == RECORD_SPLIT_PROCESS };
	size_t i;

	for (i = 0; i < options->nr_outputs; i++) {
		of.infix = NULL;
		if (check_one(options->outputs[i].path, &of))
			return EXIT_FAILED;
		of.infix = RECORD_CALLS_INFIX;
		if (options->capture.session.gpu && check_one(options->outputs[i].path, &of))
			return EXIT_FAILED;
		of.infix = RECORD_MEMORY_INFIX;
		if (options->capture.session.pages && check_one(options->outputs[i].path, &of))
			return EXIT_FAILED;
	}
	of.with_pid_always = false;
	of.infix = NULL;
	if (options->stats_path && check_one(options->stats_path, &of))
		return EXIT_FAILED;
	return EXIT_DONE;
}

/*
 * Adds the class of a Ray worker, from all its titles, or the name of another process; "": there is
 * no process.
 */
static void worker_of(struct buf *dst, const struct profile *profile)
{
	char class[CLASS_BYTES];
	const char *name = NULL, *task;
	size_t i, len = 0;

	for (i = 0; i < profile->nr_processes; i++) {
		if (!profile->processes[i].task)
			continue;
		task = strtab_get(profile->strings, profile->processes[i].task) +
		       strlen(TITLE_PREFIX);
		if (name && task[worker_class_length(task)] != '.')
			continue; /* a title without a class: `IDLE`, or a function */
		name = task;
		len = worker_class_length(task);
	}
	if (name) {
		title_cut(class, sizeof(class), name, len);
		buf_add_str(dst, class);
	} else if (profile->nr_processes) {
		buf_add_str(dst, strtab_get(profile->strings, profile->processes[0].comm));
	}
}

/* DIR/FILE becomes DIR/NAMESPACE/POD/FILE. */
static int path_put_pod(struct buf *path, const struct profile_part *part)
{
	const char *slash = strrchr(path->data, '/'), *file = slash ? slash + 1 : path->data;
	struct tree_name name;
	struct buf with_pod;
	int err;

	tree_name_make(&name, part->namespace, part->pod);
	buf_init(&with_pod, PATH_MAX);
	buf_add(&with_pod, path->data, (size_t)(file - path->data));
	buf_printf(&with_pod, "%s/%s/%s", name.namespace, name.pod, file);
	err = buf_error(&with_pod);
	buf_fini(path);
	*path = with_pod;
	return err;
}

static struct file_of file_of(const struct recording *rec)
{
	return (struct file_of){ .names = output_files_names(rec->options, rec->start_wall_ns) };
}

/*
 * part: NULL for the whole profile. infix: the profile is one beside that of the CPU, and goes only into
 * files.
 */
static int write_one(const struct recording *rec, const struct profile *profile,
		     const struct profile_part *part, const struct record_output *output,
		     const char *infix)
{
	bool is_process = part && rec->options->split == RECORD_SPLIT_PROCESS;
	struct output_options options = {
		.threads = rec->options->threads,
		.native = rec->options->native,
		.py_spy = rec->options->py_spy,
		.title = rec->options->py_spy && rec->options->capture.session.waits
				 ? "Flame graph, with idle threads"
				 : NULL,
		.several = output_files_several(profile),
	};
	__cleanup(buf_fini) struct buf worker = { .max = NAME_MAX };
	__cleanup(buf_fini) struct buf path = { .max = PATH_MAX };
	struct file_of of = file_of(rec);
	int err;

	if (output->format == OUTPUT_TRACE || (infix && !strcmp(output->path, "-")))
		return 0;
	if (!options.several)
		worker_of(&worker, profile);
	if (is_process)
		of.names.pid = part->pid;
	of.names.worker = buf_error(&worker) ? NULL : worker.data;
	of.with_pid_always = is_process;
	of.infix = infix;
	err = path_make(&path, output->path, &of);
	if (!err && part && part->pod)
		err = path_put_pod(&path, part);
	if (!err)
		err = output_write(path.data, output->format, profile, &options);
	return output_files_report(output->path, path.data, err);
}

static int write_parts(const struct recording *rec, const struct profile *profile,
		       const char *infix)
{
	enum profile_cut by =
		rec->options->split == RECORD_SPLIT_POD ? PROFILE_CUT_PODS : PROFILE_CUT_PROCESSES;
	struct profile_parts *parts = NULL;
	struct profile_part part;
	size_t i, k, nr = 0;
	int err, failed = 0;

	err = profile_parts_new(&parts, profile, by);
	if (!err)
		nr = profile_parts_count(parts);
	for (i = 0; i < nr && !err; i++) {
		err = profile_part_make(parts, i, &part);
		if (err)
			break;
		/* An empty part gets a file only if there is no other part. */
		for (k = 0; k < rec->options->nr_outputs; k++)
			if (part.profile.nr_samples || nr == 1)
				failed |= write_one(rec, &part.profile, &part,
						    &rec->options->outputs[k], infix) != 0;
		profile_part_fini(&part);
	}
	if (err)
		log_error("the profile cannot be cut into parts: %s", strerror(-err));
	profile_parts_free(parts);
	return err || failed;
}

int recording_timeline_start(struct recording *rec)
{
	const struct record_options *options = rec->options;
	const struct file_of of = file_of(rec);
	__cleanup(buf_fini) struct buf path = { .max = PATH_MAX };
	size_t i;
	int err;

	if (!options->trace)
		return EXIT_DONE;
	for (i = 0; options->outputs[i].format != OUTPUT_TRACE; i++)
		;
	err = path_make(&path, options->outputs[i].path, &of);
	if (!err)
		err = record_timeline_new(&rec->timeline, &rec->sampler, options, path.data,
					  rec->start_mono_ns);
	return err ? EXIT_FAILED : EXIT_DONE;
}

/* Writes the timelines. They show the whole node: --split does not cut them. */
static int write_timelines(const struct recording *rec, const struct profile *profile)
{
	const struct file_of of = file_of(rec);
	int err, failed = 0;
	size_t i;

	for (i = 0; i < rec->options->nr_outputs; i++) {
		const struct record_output *output = &rec->options->outputs[i];
		__cleanup(buf_fini) struct buf path = { .max = PATH_MAX };

		if (output->format != OUTPUT_TRACE)
			continue;
		err = path_make(&path, output->path, &of);
		if (!err)
			err = record_timeline_write(rec->timeline, path.data, profile);
		failed |= output_files_report(output->path, path.data, err) != 0;
	}
	return failed;
}

static int write_stats(const struct recording *rec)
{
	const struct file_of of = file_of(rec);
	__cleanup(buf_fini) struct buf json = { .max = TEXT_MAX }, path = { .max = PATH_MAX };
	int err;

	if (!rec->options->stats_path)
		return 0;
	stats_json(&json, &rec->stats);
	record_findings_json(&json, rec->findings);
	buf_add_char(&json, '\n');
	err = buf_error(&json);
	if (!err)
		err = path_make(&path, rec->options->stats_path, &of);
	if (!err)
		err = output_write_bytes(path.data, json.data, json.len);
	if (err)
		output_files_report(rec->options->stats_path, path.data, err);
	return err;
}

/* Prints the top functions and the counters: to standard output unless a result goes there. */
static int print_summary(const struct recording *rec, const struct profile *profile)
{
	const struct record_options *options = rec->options;
	FILE *out = output_files_have_standard(options) ? stderr : stdout;
	__cleanup(buf_fini) struct buf text = { .max = TEXT_MAX };
	int err;

	if (options->stats_path && !strcmp(options->stats_path, "-"))
		out = stderr;
	top_text(&text, profile, TOP_ROWS);
	buf_add_char(&text, '\n');
	stats_text(&text, &rec->stats, log_get_level() >= LOG_DEBUG);
	err = buf_error(&text);
	if (!err)
		err = print_lines(out, text.data, text.len);
	if (err)
		log_error("the summary cannot be written: %s",
			  buf_error(&text) ? "out of memory" : strerror(-err));
	return err != 0;
}

static int write_all(const struct recording *rec, const struct profile *profile, const char *infix)
{
	int failed = 0;
	size_t i;

	if (rec->options->split != RECORD_SPLIT_NODE)
		return write_parts(rec, profile, infix);
	for (i = 0; i < rec->options->nr_outputs; i++)
		failed |= write_one(rec, profile, NULL, &rec->options->outputs[i], infix) != 0;
	return failed;
}

int recording_write(struct recording *rec, const struct profile *profile,
		    const struct profile *calls, const struct profile *memory)
{
	int failed = print_summary(rec, profile);

	failed |= write_all(rec, profile, NULL);
	failed |= write_timelines(rec, profile);
	if ((calls || memory) && output_files_have_standard(rec->options))
		log_info("standard output has the profile of the CPU: the profile of %s goes "
			 "into files alone",
			 calls ? "calls" : "memory");
	if (calls)
		failed |= write_all(rec, calls, RECORD_CALLS_INFIX);
	if (memory)
		failed |= write_all(rec, memory, RECORD_MEMORY_INFIX);
	failed |= write_stats(rec) != 0;
	return failed ? EXIT_FAILED : EXIT_DONE;
}
