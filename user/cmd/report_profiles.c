// SPDX-License-Identifier: Apache-2.0
/*
 * bpfprof report FILE...: joins stored profiles, and shows them as a table or writes another file.
 */
#include "cmd/report_job.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/exit_status.h"
#include "base/log.h"
#include "base/strtab.h"
#include "cmd/output_files.h"
#include "cmd/report_bundle.h"
#include "cmd/report_options.h"
#include "cmd/report_store.h"
#include "formats/output.h"
#include "formats/profile_read.h"
#include "formats/seconds_file.h"
#include "profile/grouping.h"
#include "report/leaf_report.h"
#include "report/profile_report.h"

#define NAME_BYTES 1024

static int add_one(struct profile_read *read, const char *path, const char *data, size_t len)
{
	__cleanup(buf_fini) struct buf why, name;
	int err;

	buf_init(&why, NAME_BYTES);
	buf_init(&name, NAME_BYTES);
	report_file_name(&name, path);
	err = profile_read_add(read, strcmp(path, "-") ? path : "standard input", len ? data : "",
			       len, &why);
	if (err)
		log_error("%s: %s", name.data, why.len ? why.data : strerror(-err));
	return err;
}

static int add_of_bundle(void *arg, const struct report_bundle_file *file)
{
	return add_one(arg, file->name, file->data, file->len);
}

static int add_path(struct profile_read *read, struct report_paths *paths,
		    const struct report_path *path, const struct buf *data)
{
	struct seconds_cut cut = { 0 };
	int err;

	read->cut = report_cut_begin(paths, path, &cut) ? &cut : NULL;
	err = add_one(read, path->path, data->data, data->len);
	read->cut = NULL;
	report_cut_end(paths, path, &cut);
	return err;
}

static int read_one(struct report_input *input, struct report_paths *paths,
		    const struct report_path *of, struct report_seen *seen)
{
	struct profile_read *read = &input->read;
	const char *path = of->path;
	__cleanup(close_fd) int fd = report_open(path);
	__cleanup(buf_fini) struct buf data, name;
	int err;

	buf_init(&data, PROFILE_READ_FILE_BYTES);
	buf_init(&name, NAME_BYTES);
	report_file_name(&name, path);
	if (fd >= 0 && report_is_seen(seen, fd, path))
		return 0;
	err = fd < 0 ? fd : report_load_fd(&data, fd);
	if (err == -E2BIG)
		log_error("%s: larger than can be read, %u MiB", name.data,
			  PROFILE_READ_FILE_BYTES >> 20);
	else if (err)
		log_error("%s: %s", name.data, strerror(-err));
	if (err)
		return err;
	if (!report_bundle_is(data.data, data.len))
		return add_path(read, paths, of, &data);
	err = report_bundle_read(data.data, data.len, add_of_bundle, read, &input->partial);
	if (err == -EBADMSG)
		log_error("%s: the bundle of files is cut off or malformed", name.data);
	return err;
}

int report_input_read(struct report_input *input, char *const *files, size_t nr,
		      const struct report_options *options)
{
	struct profile_read *read = &input->read;
	int err = profile_read_init(read, options->sample_type);
	struct report_paths paths = { 0 };
	struct report_seen seen = { 0 };
	size_t i;

	input->profile = (struct profile){ 0 };
	input->partial = false;
	if (!err)
		err = report_paths_expand(&paths, files, nr, &options->window);
	if (err == -ENOMEM)
		log_error("%s", strerror(-err));
	for (i = 0; i < paths.nr && !err; i++)
		err = read_one(input, &paths, &paths.list[i], &seen);
	if (!err)
		report_paths_end(&paths);
	report_seen_fini(&seen);
	report_paths_fini(&paths);
	if (err)
		return err;
	profile_read_finish(read, &input->profile);
	if (strtab_nr_lost(input->profile.strings))
		log_warn("names over %zu MiB in all become " STRTAB_OVERFLOW,
			 PROFILE_READ_BYTES / 4 >> 20);
	return report_samples_choose(&input->profile, &options->choice);
}

void report_input_fini(struct report_input *input)
{
	if (input->profile.strings)
		profile_fini(&input->profile);
	profile_read_fini(&input->read);
}

/* Checks that the files have the facts that the table needs. */
static int check_group(const struct profile *profile, enum tally_by by)
{
	bool ranks = false, pods = false;
	size_t i;

	for (i = 0; i < profile->nr_processes; i++) {
		ranks |= profile_ranks_number(&profile->processes[i].ranks);
		pods |= profile->processes[i].container != 0;
	}
	if (by == TALLY_THREAD && !profile->threads)
		log_error("--by thread: these files do not keep threads apart, "
			  "record --threads does");
	else if (by == TALLY_RANK && !ranks)
		log_error("--by rank: these files have no ranks; a .pb.gz of a job with ranks "
			  "has them");
	else if (by == TALLY_POD && !pods)
		log_error("--by pod: these files have no pods");
	else
		return 0;
	return -ENOENT;
}

int report_input_group(struct report_input *input, enum tally_by by)
{
	static const enum profile_by groups[] = {
		[TALLY_PROCESS] = PROFILE_BY_PROCESS,
		[TALLY_RANK] = PROFILE_BY_RANK,
		[TALLY_POD] = PROFILE_BY_POD,
		[TALLY_THREAD] = PROFILE_BY_PROCESS,
	};
	int err;

	if (!tally_is_of_groups(by) || !input->profile.nr_samples)
		return 0;
	err = check_group(&input->profile, by);
	if (err || by == TALLY_TASK)
		return err;
	err = profile_group(&input->profile, groups[by]);
	if (err)
		log_error("%s", strerror(-err));
	return err;
}

static int write_one(const struct record_options *options, const struct record_output *output,
		     const struct profile *profile, const struct output_options *how)
{
	const struct output_names names = output_files_names(options, profile->time_ns);
	__cleanup(buf_fini) struct buf path = { .max = PATH_MAX };
	int err;

	err = output_expand_path(&path, output->path, &names);
	if (!err)
		err = output_write(path.data, output->format, profile, how);
	return output_files_report(output->path, path.data, err);
}

int report_write(const struct report_options *options, const struct profile *profile,
		 const struct output_options *how)
{
	int status = EXIT_DONE;
	size_t i;

	for (i = 0; i < options->record.nr_outputs; i++)
		if (write_one(&options->record, &options->record.outputs[i], profile, how))
			status = EXIT_FAILED;
	return status;
}

static int print_table(const struct report_options *options, const struct report_input *input)
{
	const struct profile_report_options how = { .by = options->by,
						    .by_total = options->by_total,
						    .rows = options->rows,
						    .process_taken = input->read.process_taken };
	__cleanup(buf_fini) struct buf text;

	buf_init(&text, REPORT_TEXT_BYTES);
	return report_print(&text, profile_report(&text, &input->profile, &how));
}

static int print_leaves(const struct report_options *options, const struct report_input *input)
{
	const struct leaf_report_options how = {
		.library = options->library,
		.aggregate = options->aggregate_leaf,
		.native = options->record.native || input->read.raw_only,
		.rows = options->rows,
	};
	__cleanup(buf_fini) struct buf text;

	buf_init(&text, REPORT_TEXT_BYTES);
	return report_print(&text, leaf_report(&text, &input->profile, &how));
}

static int write_files(const struct report_options *options, const struct profile *profile)
{
	const struct output_options how = {
		.threads = options->record.threads && profile->threads,
		.native = options->record.native,
		.several = output_files_several(profile),
	};

	return report_write(options, profile, &how);
}

static int print_or_write(const struct report_options *options, const struct report_input *input)
{
	if (options->library)
		return print_leaves(options, input);
	if (options->lines)
		return report_lines(options, &input->profile);
	if (options->compare) {
		int status = report_compare(options, input);

		if (status != REPORT_NOT_COMPARED)
			return status;
		if (options->compare != REPORT_COMPARE_AUTO)
			return EXIT_FAILED;
	}
	if (options->record.nr_outputs)
		return write_files(options, &input->profile);
	return print_table(options, input);
}

int report_profiles_run(const struct report_options *options)
{
	struct report_input input;
	int status = EXIT_FAILED, err;

	err = report_input_read(&input, options->files, options->nr_files, options);
	if (!err)
		err = report_input_group(&input, options->by);
	if (!err)
		status = print_or_write(options, &input);
	if (status == EXIT_DONE && input.partial)
		status = EXIT_PARTIAL;
	report_input_fini(&input);
	return status;
}
