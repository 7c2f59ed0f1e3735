// SPDX-License-Identifier: Apache-2.0
#include "options/outputs.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/text.h"
#include "options/values.h"

#define OUTPUTS_MAX 1024
#define TRACE_BYTES_DEFAULT (256ULL << 20)

/* The next part of a path, without "" and "."; NULL at the end. */
static const char *path_part(const char **path, size_t *ret_len)
{
	while (**path) {
		const char *part = *path;

		*ret_len = strcspn(part, "/");
		*path += *ret_len + (part[*ret_len] == '/');
		if (*ret_len && !(*ret_len == 1 && part[0] == '.'))
			return part;
	}
	*ret_len = 0;
	return NULL;
}

bool outputs_same_path(const char *a, const char *b)
{
	size_t len_a, len_b;

	if ((*a == '/') != (*b == '/'))
		return false;
	for (;;) {
		const char *part_a = path_part(&a, &len_a), *part_b = path_part(&b, &len_b);

		if (len_a != len_b)
			return false;
		if (!part_a || !part_b)
			return true;
		if (memcmp(part_a, part_b, len_a))
			return false;
	}
}

int outputs_check_path(const char *path, struct buf *why)
{
	const struct output_names names = { .host = "h", .worker = "w" };
	__cleanup(buf_fini) struct buf expanded = { .max = PATH_MAX };
	const char *rest;
	size_t len;
	int err;

	if (!*path)
		return value_refuse(why, "must be a file name, or - for standard output");
	err = output_expand_path(&expanded, path, &names);
	if (err == -EINVAL)
		return value_refuse(why, "after % only h, p, t, w, {NAME} and % are understood");
	if (err == -ENOENT)
		return value_refuse(why, "names an environment variable that is not set");
	if (err == -ENOMEM)
		return err;
	if (err)
		return value_refuse(why, "the file name is too long");
	for (rest = expanded.data; path_part(&rest, &len);) {
		if (len > NAME_MAX)
			return value_refuse(why, "the file name is too long");
	}
	return 0;
}

int outputs_take(void *object, const char *value, struct buf *why)
{
	struct record_options *options = object;
	struct record_output *outputs;
	int err;

	err = outputs_check_path(value, why);
	if (err)
		return err;
	for (size_t i = 0; i < options->nr_outputs; i++) {
		if (outputs_same_path(options->outputs[i].path, value))
			return value_refuse(why,
					    !strcmp(value, "-")
						    ? "standard output can be written once only"
						    : "this file is already named by another -o");
	}
	if (options->nr_outputs == OUTPUTS_MAX)
		return value_refuse(why, "at most 1024 files can be written");
	outputs = reallocarray(options->outputs, options->nr_outputs + 1, sizeof(*outputs));
	if (!outputs)
		return -ENOMEM;
	options->outputs = outputs;
	outputs[options->nr_outputs] = (struct record_output){ .path = strdup(value) };
	if (!outputs[options->nr_outputs].path)
		return -ENOMEM;
	options->nr_outputs++;
	return 0;
}

void outputs_release(void *object)
{
	struct record_options *options = object;

	for (size_t i = 0; i < options->nr_outputs; i++)
		free(options->outputs[i].path);
	free(options->outputs);
}

int outputs_take_format(void *object, const char *value, struct buf *why)
{
	struct record_options *options = object;

	(void)why;
	if (!strcmp(value, "trace"))
		options->format = OUTPUT_TRACE;
	else if (!strcmp(value, "pickle"))
		options->format = OUTPUT_PICKLE;
	else
		options->format = output_format_by_name(value);
	return options->format != OUTPUT_INVALID ? 0 : -EINVAL;
}

/* A .pickle is known everywhere, for a clear refusal. */
static enum output_format format_by_path(const char *path, unsigned int more)
{
	enum output_format format = output_format_by_path(path);

	if (format != OUTPUT_INVALID)
		return format;
	if (more & OUTPUTS_TRACES && output_has_suffix(path, output_suffix(OUTPUT_TRACE)))
		return OUTPUT_TRACE;
	if (output_has_suffix(path, output_suffix(OUTPUT_PICKLE)))
		return OUTPUT_PICKLE;
	return OUTPUT_INVALID;
}

/* A % form may expand to the suffix. */
static enum output_format format_by_pattern(const char *path, unsigned int more)
{
	const struct output_names names = { .host = "h", .worker = "w" };
	enum output_format format = format_by_path(path, more);
	__cleanup(buf_fini) struct buf expanded = { .max = PATH_MAX };

	if (format != OUTPUT_INVALID)
		return format;
	if (output_expand_path(&expanded, path, &names) || buf_error(&expanded) || !expanded.data)
		return OUTPUT_INVALID;
	return format_by_path(expanded.data, more);
}

/* Adds the sentence that refuses a file without a format. */
static void refuse_unknown(const char *path, unsigned int more, struct buf *error)
{
	bool standard = !strcmp(path, "-");

	buf_add_str(error, "-o ");
	text_add_typed(error, path);
	buf_add_str(error, standard ? ": standard output needs --format " OUTPUT_NAMES
				    : ": the name must end in " OUTPUT_SUFFIXES);
	if (more & OUTPUTS_TRACES)
		buf_add_str(error, standard ? ", or trace" : ", in .json for a trace");
	if (more & OUTPUTS_PICKLES)
		buf_add_str(error, standard ? ", or pickle" : ", in .pickle for memory over time");
	if (!standard)
		buf_add_str(error, ", or --format must say which is meant");
}

int outputs_choose_formats(struct record_options *options, unsigned int more, struct buf *error)
{
	enum output_format format = options->format;

	options->trace = options->html = false;
	for (size_t i = 0; i < options->nr_outputs; i++) {
		struct record_output *output = &options->outputs[i];
		bool standard = !strcmp(output->path, "-");

		output->format = standard ? OUTPUT_INVALID : format_by_pattern(output->path, more);
		if (format != OUTPUT_INVALID &&
		    (options->nr_outputs == 1 || output->format == OUTPUT_INVALID))
			output->format = format;
		options->trace |= output->format == OUTPUT_TRACE;
		options->html |= output->format == OUTPUT_HTML;
		if (output->format == OUTPUT_PICKLE && !(more & OUTPUTS_PICKLES)) {
			buf_add_str(error, "-o ");
			text_add_typed(error, output->path);
			return value_refuse(error, ": only bpfprof gpu writes a .pickle, memory "
						   "of GPUs over time");
		}
		if (output->format != OUTPUT_INVALID)
			continue;
		refuse_unknown(output->path, more, error);
		return -EINVAL;
	}
	if (options->max_trace_bytes && !options->trace)
		return value_refuse(error, "--max-trace-bytes: goes with -o FILE.json");
	if (!options->max_trace_bytes)
		options->max_trace_bytes = TRACE_BYTES_DEFAULT;
	return 0;
}
