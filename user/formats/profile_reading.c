// SPDX-License-Identifier: Apache-2.0
#include "formats/profile_reading.h"

#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/strtab.h"
#include "formats/output.h"
#include "python/text.h"

#define MAX_DURATION_NS (1ULL << 62)

static bool same_value(const struct profile_value *a, const struct profile_value *b)
{
	return a->type == b->type && a->unit == b->unit;
}

static bool is_of_calls(const struct profile_read *read, const struct profile_value *value)
{
	return !strcmp(strtab_get(read->builder.strings, value->count_type),
		       profile_call_types[PROFILE_CALLS].type);
}

static void value_text(struct buf *dst, const struct profile_read *read,
		       const struct profile_value *value)
{
	const struct strtab *strings = read->builder.strings;

	const char *unit = strtab_get(strings, value->unit);

	if (value->type)
		buf_printf(dst, "%.64s", strtab_get(strings, value->type));
	else if (value->only_counts)
		buf_add_str(dst, is_of_calls(read, value) ? "calls" : "samples");
	else
		buf_add_str(dst, "CPU time");
	if (value->type && strcmp(unit, "count"))
		buf_printf(dst, " in %.64s", unit);
}

static int refuse_value(const struct profile_read *read, const struct profile_value *value,
			struct buf *why)
{
	buf_add_str(why, "it counts ");
	value_text(why, read, value);
	buf_add_str(why, ", the files before it ");
	value_text(why, read, &read->value);
	if (is_of_calls(read, value) != is_of_calls(read, &read->value))
		buf_add_str(why, "; give files of calls (cuda-*, *.cuda.*) or those of samples "
				 "(cpu-*) alone");
	return -EINVAL;
}

int profile_read_file_add(struct profile_read *read, const struct profile_read_file *file,
			  struct buf *why)
{
	struct profile_read_interval *interval;
	bool first = !read->nr_files;
	int err;

	/* Calls are no samples, even if a file has only calls. */
	if (!first && is_of_calls(read, &read->value) != is_of_calls(read, &file->value))
		return refuse_value(read, &file->value, why);
	/* Files with samples alone do not name their type: they count as equal. */
	if (first || (read->value.only_counts && !read->value.type)) {
		bool only_counts = !first || file->value.only_counts;

		read->value = file->value;
		read->value.only_counts = only_counts;
	} else if (file->value.only_counts) {
		read->value.only_counts = true;
	} else if (!same_value(&read->value, &file->value)) {
		return refuse_value(read, &file->value, why);
	}
	if (first)
		read->host = file->host;
	else if (read->host != file->host)
		read->hosts_differ = true;
	read->nr_files++;
	if (!file->duration_ns || file->duration_ns > MAX_DURATION_NS) {
		read->nr_untimed++;
		return 0;
	}
	if (!file->time_ns || file->time_ns > MAX_DURATION_NS) {
		read->untimed_ns += file->duration_ns;
		return 0;
	}
	err = vec_reserve(&read->builder.budget, &read->intervals, 1, sizeof(*interval));
	if (err)
		return err;
	interval = (struct profile_read_interval *)read->intervals.data + read->intervals.nr++;
	*interval =
		(struct profile_read_interval){ file->time_ns, file->time_ns + file->duration_ns };
	return 0;
}

/* Identifies a process: by its pid, or by its name without one. */
struct identity {
	uint32_t host, pid, title;
};

int profile_read_process(struct profile_read *read, struct profile_process *process, uint32_t *ret)
{
	struct identity who = { process->host, process->pid, 0 };
	uint32_t index;
	int err;

	if (!process->title)
		process->title = process->task ? process->task : process->comm;
	if (!process->pid)
		who.title = process->title;
	err = profile_builder_piece(&read->builder, &read->identities, &who, sizeof(who), &index);
	process->kernel_pid = index + 1;
	return err ? err : profile_builder_process(&read->builder, process, ret);
}

uint32_t profile_read_name(struct profile_read *read, const char *path)
{
	const char *slash = strrchr(path, '/'), *name = slash && slash[1] ? slash + 1 : path;
	size_t len = strcspn(name, ".");

	return strtab_add_len(read->builder.strings, name, len ? len : strlen(name));
}

/* Is it like `libfoo.so.1+0x1f2e`? */
static bool is_place(const char *name)
{
	const char *plus = strrchr(name, '+');

	return plus && plus > name && !strncmp(plus, "+0x", 3) && plus[3] &&
	       strspn(plus + 3, "0123456789abcdef") == strlen(plus + 3);
}

static bool is_memory(const char *name)
{
	return !strcmp(name, MEMORY_BEFORE) || !strcmp(name, MEMORY_SHARED) ||
	       !strcmp(name, MEMORY_LOST) || !strcmp(name, MEMORY_SWAPPED) ||
	       !strcmp(name, MEMORY_DRIFT);
}

void profile_read_kind(struct profile_read *read, struct profile_location *location)
{
	struct strtab *strings = read->builder.strings;
	const char *name = strtab_get(strings, location->name);
	const char *file = strtab_get(strings, location->file);
	size_t len = strlen(name);

	location->has_symbol = true;
	if (output_has_suffix(name, "_[k]")) {
		location->kind = LOCATION_KERNEL;
		location->has_symbol = name[0] != '[';
		location->name = strtab_add_len(strings, name, len - strlen("_[k]"));
	} else if (!location->mapping && *file) {
		location->kind = LOCATION_PYTHON;
	} else if (!location->mapping && len > 2 && name[0] == '[' && name[len - 1] == ']') {
		location->kind = is_memory(name) ? LOCATION_CALL : LOCATION_MARKER;
	} else {
		location->kind = LOCATION_NATIVE;
		location->has_symbol = !is_place(name);
		location->has_start = !location->has_symbol && name[0] != '[';
	}
	if (location->kind == LOCATION_PYTHON)
		location->short_file = strtab_add(strings, python_short_file(file, NULL, NULL));
}
