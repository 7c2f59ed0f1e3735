// SPDX-License-Identifier: Apache-2.0
/* Where the results of a recording go. */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/log.h"
#include "cli/command.h"
#include "cli/options.h"
#include "cli/recording.h"
#include "output/output.h"
#include "profile/stats.h"

#define TOP_ROWS 15
#define TEXT_MAX (1U << 20)

static void host_name(char *dst, size_t cap)
{
	if (gethostname(dst, cap))
		snprintf(dst, cap, "localhost");
	dst[cap - 1] = 0;
}

/* The place of the pid in a name without %p: before the suffix. */
static size_t suffix_at(const char *path)
{
	static const char *const suffixes[] = { ".pb.gz", ".folded",	      ".html",
						".svg",	  ".speedscope.json", ".raw" };
	size_t len = strlen(path), i, n;

	for (i = 0; i < sizeof(suffixes) / sizeof(suffixes[0]); i++) {
		n = strlen(suffixes[i]);
		if (len > n && !strcmp(path + len - n, suffixes[i]))
			return len - n;
	}
	return len;
}

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

static int path_make(struct buf *dst, const char *pattern, uint64_t time_ns, uint32_t pid,
		     bool split)
{
	char host[HOST_NAME_MAX + 1];
	struct output_names names = { .host = host, .pid = pid, .time_ns = time_ns, .worker = "" };
	struct buf with_pid;
	size_t at;
	int err;

	host_name(host, sizeof(host));
	if (!split || has_pid(pattern) || !strcmp(pattern, "-"))
		return output_expand_path(dst, pattern, &names);
	buf_init(&with_pid, PATH_MAX);
	at = suffix_at(pattern);
	buf_add(&with_pid, pattern, at);
	buf_add_str(&with_pid, ".%p");
	buf_add_str(&with_pid, pattern + at);
	err = buf_error(&with_pid);
	if (!err)
		err = output_expand_path(dst, with_pid.data, &names);
	buf_fini(&with_pid);
	return err;
}

static int check_one(const char *pattern, uint32_t pid, bool split)
{
	struct buf path;
	int err;

	buf_init(&path, PATH_MAX);
	err = path_make(&path, pattern, 0, pid, split);
	if (!err)
		err = output_check(path.data);
	if (err)
		log_error("%s: cannot be written: %s", pattern, strerror(-err));
	buf_fini(&path);
	return err ? EXIT_FAILED : EXIT_DONE;
}

int recording_check_outputs(const struct record_options *options)
{
	bool split = options->split == RECORD_SPLIT_PROCESS;
	size_t i;

	for (i = 0; i < options->nr_outputs; i++)
		if (check_one(options->outputs[i].path, (uint32_t)getpid(), split))
			return EXIT_FAILED;
	if (options->stats_path && check_one(options->stats_path, (uint32_t)getpid(), false))
		return EXIT_FAILED;
	return EXIT_DONE;
}

static int write_one(const struct recording *rec, const struct profile *profile,
		     const struct record_output *output, uint32_t pid, bool split)
{
	struct output_options options = {
		.threads = rec->options->threads,
		.native = rec->options->native,
		.several = profile->nr_processes > 1 && !split,
	};
	struct buf path;
	int err;

	buf_init(&path, PATH_MAX);
	err = path_make(&path, output->path, rec->start_wall_ns, pid, split);
	if (!err)
		err = output_write(path.data, output->format, profile, &options);
	if (err)
		log_error("%s: cannot be written: %s", path.data ? path.data : output->path,
			  strerror(-err));
	else if (strcmp(output->path, "-"))
		log_info("wrote %s", path.data);
	buf_fini(&path);
	return err;
}

/* The samples of one process, as a profile that borrows everything else. */
static int profile_of(struct profile *ret, const struct profile *profile, uint32_t pid)
{
	struct profile_sample *samples = malloc((profile->nr_samples + 1) * sizeof(*samples));
	size_t i, nr = 0;

	if (!samples)
		return -ENOMEM;
	for (i = 0; i < profile->nr_samples; i++)
		if (profile->processes[profile->samples[i].process].pid == pid)
			samples[nr++] = profile->samples[i];
	*ret = *profile;
	ret->samples = samples;
	ret->nr_samples = nr;
	return 0;
}

static int write_split(const struct recording *rec, const struct profile *profile,
		       const struct record_output *output)
{
	struct profile one;
	size_t i, k;
	int err = 0;

	for (i = 0; i < profile->nr_processes && !err; i++) {
		for (k = 0; k < i; k++) /* an exec made it a new entry under the same pid */
			if (profile->processes[k].pid == profile->processes[i].pid)
				break;
		if (k < i)
			continue;
		err = profile_of(&one, profile, profile->processes[i].pid);
		if (!err && one.nr_samples)
			err = write_one(rec, &one, output, profile->processes[i].pid, true);
		free(one.samples);
	}
	return err;
}

static int write_stats(const struct recording *rec)
{
	struct buf json, path;
	int err;

	if (!rec->options->stats_path)
		return 0;
	buf_init(&json, TEXT_MAX);
	buf_init(&path, PATH_MAX);
	stats_json(&json, &rec->stats);
	buf_add_char(&json, '\n');
	err = buf_error(&json);
	if (!err)
		err = path_make(&path, rec->options->stats_path, rec->start_wall_ns,
				(uint32_t)getpid(), false);
	if (!err)
		err = output_write_bytes(path.data, json.data, json.len);
	if (err)
		log_error("%s: cannot be written: %s", rec->options->stats_path, strerror(-err));
	buf_fini(&path);
	buf_fini(&json);
	return err;
}

/* The top functions and the counters: to standard output unless a result goes there. */
static void print_summary(const struct recording *rec, const struct profile *profile)
{
	const struct record_options *options = rec->options;
	FILE *out = stdout;
	struct buf text;
	size_t i;

	for (i = 0; i < options->nr_outputs; i++)
		if (!strcmp(options->outputs[i].path, "-"))
			out = stderr;
	if (options->stats_path && !strcmp(options->stats_path, "-"))
		out = stderr;
	buf_init(&text, TEXT_MAX);
	top_text(&text, profile, TOP_ROWS);
	buf_add_char(&text, '\n');
	stats_text(&text, &rec->stats);
	if (!buf_error(&text))
		fputs(text.data, out);
	fflush(out);
	buf_fini(&text);
}

int recording_write(struct recording *rec, const struct profile *profile)
{
	bool split = rec->options->split == RECORD_SPLIT_PROCESS;
	int failed = 0;
	size_t i;

	print_summary(rec, profile);
	for (i = 0; i < rec->options->nr_outputs; i++) {
		if (split)
			failed |= write_split(rec, profile, &rec->options->outputs[i]) != 0;
		else
			failed |= write_one(rec, profile, &rec->options->outputs[i],
					    (uint32_t)getpid(), false) != 0;
	}
	failed |= write_stats(rec) != 0;
	return failed ? EXIT_FAILED : EXIT_DONE;
}
