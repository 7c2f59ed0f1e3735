// SPDX-License-Identifier: Apache-2.0
/* bpfprof report --diff BEFORE AFTER */
#include "cmd/report_job.h"

#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/exit_status.h"
#include "base/log.h"
#include "cmd/report_options.h"
#include "report/profile_diff.h"

#define NAME_BYTES 4096

static void say(const struct report_options *options, int err)
{
	static const char *const missing[] = {
		[DIFF_PER_SECOND] = "do not both say how long they took",
		[DIFF_PER_RANK] = "do not both know ranks, and how long they took",
		[DIFF_PER_PROCESS] = "do not both keep processes apart by pid, and say how long "
				     "they took",
	};

	if (err == -EINVAL)
		log_error("--diff: the two files count different things");
	else if (err == -EDOM)
		log_error("--diff: one of the two files has no values to compare");
	else if (err == -ENODATA)
		log_error("--per: these files %s; --per share compares shares",
			  missing[options->per]);
	else
		log_error("%s", strerror(-err));
}

/* Reports an empty file: an idle machine is a valid result, but it cannot be drawn. */
static int say_empty(const struct report_options *options, const char *path)
{
	__cleanup(buf_fini) struct buf text;

	buf_init(&text, NAME_BYTES + 64);
	report_file_name(&text, path);
	buf_add_str(&text, ": no samples, so there is nothing to compare");
	if (options->record.nr_outputs) {
		log_error("--diff: %s", text.data ? text.data : "out of memory");
		return EXIT_FAILED;
	}
	buf_add_char(&text, '\n');
	return report_print(&text, 0);
}

static int print_diff(const struct report_options *options, struct profile_diff *diff)
{
	const struct profile_diff_options how = { .by = options->by,
						  .by_total = options->by_total,
						  .rows = options->rows };
	__cleanup(buf_fini) struct buf text;

	buf_init(&text, REPORT_TEXT_BYTES);
	return report_print(&text, profile_diff_text(&text, diff, &how));
}

static int write_diff(const struct report_options *options, const struct profile_diff *diff)
{
	__cleanup(buf_fini) struct buf caption = { .max = (size_t)2 * NAME_BYTES };
	struct output_options how = { .title = "What changed", .diff = &diff->numbers };
	struct profile joined;
	int err = profile_diff_join(diff, &joined), status;

	if (err) {
		log_error("%s", err == -E2BIG ? "the two profiles together are too large to draw"
					      : strerror(-err));
		return EXIT_FAILED;
	}
	report_file_name(&caption, options->files[0]);
	buf_add_str(&caption, " \xe2\x86\x92 ");
	report_file_name(&caption, options->files[1]);
	how.caption = buf_error(&caption) ? "" : caption.data;
	status = report_write(options, &joined, &how);
	profile_fini(&joined);
	return status;
}

static int run(const struct report_options *options, struct report_input inputs[2])
{
	const char *const names[] = { options->files[0], options->files[1] };
	struct profile_diff diff;
	int err = 0, status;
	size_t i;

	for (i = 0; i < 2 && !err; i++)
		err = report_input_read(&inputs[i], &options->files[i], 1, options);
	for (i = 0; i < 2 && !err; i++)
		err = report_input_group(&inputs[i], options->by);
	if (err)
		return EXIT_FAILED;
	for (i = 0; i < 2; i++)
		if (!inputs[i].profile.nr_samples)
			return say_empty(options, options->files[i]);
	err = profile_diff_init(&diff, &inputs[0].profile, &inputs[1].profile, names, options->per);
	if (err) {
		say(options, err);
		return EXIT_FAILED;
	}
	status = options->record.nr_outputs ? write_diff(options, &diff)
					    : print_diff(options, &diff);
	return status == EXIT_DONE && (inputs[0].partial || inputs[1].partial) ? EXIT_PARTIAL
									       : status;
}

int report_diff_run(const struct report_options *options)
{
	struct report_input inputs[2] = { 0 };
	int status = run(options, inputs);

	report_input_fini(&inputs[0]);
	report_input_fini(&inputs[1]);
	return status;
}
