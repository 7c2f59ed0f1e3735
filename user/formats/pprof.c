// SPDX-License-Identifier: Apache-2.0
/*
 * Writes pprof's profile.proto, gzipped. The outermost message has no length in front and its
 * fields may come in any order, so each sample, location and function is encoded, compressed and
 * forgotten, and the string table comes last. Encoding:
 * https://protobuf.dev/programming-guides/encoding/
 */
#include "formats/output.h"

#include "base/buf.h"
#include "base/strtab.h"
#include "base/text.h"
#include "base/varint.h"
#include "formats/pprof_fields.h"
#include "formats/zip.h"
#include "profile/profile.h"
#include "profile/stats.h"
#include "profile/wakers.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#define WAKER_BYTES 512 /* longer wakers are cut */
#define XXH_INLINE_ALL
#include <xxhash.h>

#define MAX_MESSAGE_BYTES (16U << 20)
#define MAX_STRING_BYTES (64U << 20)
#define NO_NAME "[unknown]"

#define WIRE_VARINT 0
#define WIRE_BYTES 2

/* Many locations have equal functions: each function is written once. */
struct function {
	uint32_t name, system_name, filename, start_line; /* strings of the output */
};

/* A label; both are strings of the output. */
struct label {
	uint32_t key, str;
};

#define NR_CONTAINER_LABELS 8

struct pprof {
	struct zip zip;
	const struct profile *profile;
	struct strtab *strings; /* string table of the output */
	struct buf text;
	struct buf message; /* one field of the outermost message */
	struct buf part; /* one message inside of it */
	struct function *functions; /* ids are index + 1 */
	uint32_t nr_functions;
	uint32_t *slots; /* open addressing: function id, 0 = free */
	uint32_t nr_slots; /* power of two */
	struct label *container_labels; /* NR_CONTAINER_LABELS per container */
	uint32_t pod_pid_key;
	struct label *ranks_labels; /* RANKS_NR per process */
};

/* Writes a number; 0 is the default and left out. */
static void add_number(struct buf *dst, unsigned int field, uint64_t value)
{
	if (!value)
		return;
	varint_add(dst, field << 3 | WIRE_VARINT);
	varint_add(dst, value);
}

static void add_bytes(struct buf *dst, unsigned int field, const void *data, size_t len)
{
	varint_add(dst, field << 3 | WIRE_BYTES);
	varint_add(dst, len);
	buf_add(dst, data, len);
}

static void write_bytes(struct pprof *w, unsigned int field, const void *data, size_t len)
{
	unsigned char head[20];
	size_t head_len = varint_put(head, field << 3 | WIRE_BYTES);

	head_len += varint_put(head + head_len, len);
	zip_add(&w->zip, head, head_len);
	zip_add(&w->zip, data, len);
}

/* Writes w->message as one field of the outermost message, and empties it. */
static void write_message(struct pprof *w, unsigned int field)
{
	if (buf_error(&w->message) && !w->zip.error)
		w->zip.error = buf_error(&w->message);
	write_bytes(w, field, w->message.data, w->message.len);
	buf_reset(&w->message);
}

static void write_number(struct pprof *w, unsigned int field, uint64_t value)
{
	unsigned char bytes[20];
	size_t len;

	if (!value)
		return;
	len = varint_put(bytes, field << 3 | WIRE_VARINT);
	len += varint_put(bytes + len, value);
	zip_add(&w->zip, bytes, len);
}

/* Index in the output's string table; protobuf strings must be UTF-8. */
static uint32_t string_index(struct pprof *w, const char *str, const char *suffix)
{
	buf_reset(&w->text);
	text_add(&w->text, str);
	buf_add_str(&w->text, suffix);
	if (buf_error(&w->text) && !w->zip.error)
		w->zip.error = buf_error(&w->text);
	return w->zip.error ? 0 : strtab_add_len(w->strings, w->text.data, w->text.len);
}

static uint32_t profile_string(struct pprof *w, uint32_t id)
{
	return id ? string_index(w, strtab_get(w->profile->strings, id), "") : 0;
}

static void write_value_type(struct pprof *w, unsigned int field, const char *type,
			     const char *unit)
{
	add_number(&w->message, VALUE_TYPE_TYPE, string_index(w, type, ""));
	add_number(&w->message, VALUE_TYPE_UNIT, string_index(w, unit, ""));
	write_message(w, field);
}

static void write_comment(struct pprof *w, const char *text, size_t len)
{
	write_number(w, PROFILE_COMMENT, strtab_add_len(w->strings, text, len));
}

/*
 * Writes the comments. Readers print the first one above every table, so it is short. The second
 * has all counters as JSON.
 */
static void write_comments(struct pprof *w)
{
	const char *line, *end;
	struct buf text;

	if (!w->profile->stats)
		return;
	buf_init(&text, MAX_MESSAGE_BYTES);
	stats_lines(&text, w->profile->stats);
	for (line = text.data; line && (end = strchr(line, '\n')); line = end + 1)
		write_comment(w, line, (size_t)(end - line));
	buf_reset(&text);
	stats_json(&text, w->profile->stats);
	if (!buf_error(&text))
		write_comment(w, text.data, text.len);
	else if (!w->zip.error)
		w->zip.error = buf_error(&text);
	buf_fini(&text);
}

/* A text of the profile, or `otherwise` if there is none. */
static const char *text_or(const struct profile *profile, uint32_t id, const char *otherwise)
{
	return id ? strtab_get(profile->strings, id) : otherwise;
}

/* Writes the types of a stored profile, whose rate is not known. */
static void write_stored_types(struct pprof *w)
{
	const struct profile_value *value = &w->profile->value;
	const char *count = text_or(w->profile, value->count_type, "samples");
	const char *type = text_or(w->profile, value->type, "cpu");
	const struct profile_value *beside = &w->profile->beside_value;

	if (w->profile->beside) {
		write_value_type(w, PROFILE_SAMPLE_TYPE,
				 text_or(w->profile, beside->count_type, ""), "count");
		write_value_type(w, PROFILE_SAMPLE_TYPE, text_or(w->profile, beside->type, ""),
				 text_or(w->profile, beside->unit, ""));
	}
	write_value_type(w, PROFILE_SAMPLE_TYPE, count, "count");
	if (!value->only_counts)
		write_value_type(w, PROFILE_SAMPLE_TYPE, type,
				 text_or(w->profile, value->unit, "nanoseconds"));
	write_number(w, PROFILE_DEFAULT_SAMPLE_TYPE,
		     string_index(w, value->only_counts ? count : type, ""));
}

static void write_time_types(struct pprof *w)
{
	static const char *const names[] = { [PROFILE_TIME_CPU] = "cpu",
					     [PROFILE_TIME_OFF_CPU] = "off_cpu",
					     [PROFILE_TIME_WALL] = "wall" };
	const char *name = names[w->profile->time];

	write_value_type(w, PROFILE_SAMPLE_TYPE, "samples", "count");
	write_value_type(w, PROFILE_SAMPLE_TYPE, name, "nanoseconds");
	write_value_type(w, PROFILE_PERIOD_TYPE, name, "nanoseconds");
	write_number(w, PROFILE_PERIOD, w->profile->hz ? 1000000000 / w->profile->hz : 0);
	write_number(w, PROFILE_DEFAULT_SAMPLE_TYPE, string_index(w, name, ""));
}

/* Writes the types of calls. There is no period, as each call is counted. */
static void write_call_types(struct pprof *w)
{
	size_t i;

	for (i = 0; i < PROFILE_NR_CALL_VALUES; i++)
		write_value_type(w, PROFILE_SAMPLE_TYPE, profile_call_types[i].type,
				 profile_call_types[i].unit);
	write_number(w, PROFILE_DEFAULT_SAMPLE_TYPE, string_index(w, "calls", ""));
}

static void write_head(struct pprof *w)
{
	const struct profile *profile = w->profile;

	if (profile->call_values)
		write_call_types(w);
	else if (profile->value.type || profile->value.only_counts)
		write_stored_types(w);
	else
		write_time_types(w);
	write_number(w, PROFILE_TIME_NANOS, profile->time_ns);
	write_number(w, PROFILE_DURATION_NANOS, profile->duration_ns);
	write_comments(w);
}

static void write_mappings(struct pprof *w)
{
	const struct profile_mapping *mapping;
	size_t i;

	for (i = 0; i < w->profile->nr_mappings; i++) {
		mapping = &w->profile->mappings[i];
		add_number(&w->message, MAPPING_ID, i + 1);
		add_number(&w->message, MAPPING_START, mapping->start);
		add_number(&w->message, MAPPING_LIMIT, mapping->limit);
		add_number(&w->message, MAPPING_OFFSET, mapping->off);
		add_number(&w->message, MAPPING_FILENAME, profile_string(w, mapping->path));
		add_number(&w->message, MAPPING_BUILD_ID, profile_string(w, mapping->build_id));
		add_number(&w->message, MAPPING_HAS_FUNCTIONS, mapping->has_functions);
		write_message(w, PROFILE_MAPPING);
	}
}

static void write_function(struct pprof *w, const struct function *function, uint32_t id)
{
	add_number(&w->message, FUNCTION_ID, id);
	add_number(&w->message, FUNCTION_NAME, function->name);
	add_number(&w->message, FUNCTION_SYSTEM_NAME, function->system_name);
	add_number(&w->message, FUNCTION_FILENAME, function->filename);
	add_number(&w->message, FUNCTION_START_LINE, function->start_line);
	write_message(w, PROFILE_FUNCTION);
}

/*
 * pprof demangles a name that equals its system name and, if it looks like C++, drops the text in
 * brackets: `<module>` would vanish.
 */
static bool is_spoiled_by_demangler(const char *name)
{
	return strpbrk(name, "<>()[]") || strstr(name, "::");
}

/* The id of the location's function; a new function is written. */
static uint32_t function_id(struct pprof *w, const struct profile_location *location)
{
	const char *name = strtab_get(w->profile->strings, location->name);
	struct function function = {
		.name = string_index(w, *name ? name : NO_NAME,
				     location->kind == LOCATION_KERNEL ? "_[k]" : ""),
		.system_name = profile_string(w, location->system_name ? location->system_name
								       : location->name),
		.filename = profile_string(w, location->file),
		.start_line = location->start_line,
	};
	uint32_t slot, id;

	if (function.system_name == function.name && is_spoiled_by_demangler(name))
		function.system_name = 0;
	slot = (uint32_t)XXH3_64bits(&function, sizeof(function));
	for (slot &= w->nr_slots - 1; w->slots[slot]; slot = (slot + 1) & (w->nr_slots - 1)) {
		id = w->slots[slot];
		if (!memcmp(&w->functions[id - 1], &function, sizeof(function)))
			return id;
	}
	w->functions[w->nr_functions++] = function;
	w->slots[slot] = w->nr_functions;
	write_function(w, &function, w->nr_functions);
	return w->nr_functions;
}

static void write_location(struct pprof *w, const struct profile_location *location, uint64_t id)
{
	const uint32_t function = function_id(w, location);

	buf_reset(&w->part);
	add_number(&w->part, LINE_FUNCTION_ID, function);
	add_number(&w->part, LINE_LINE, location->line);
	add_number(&w->message, LOCATION_ID, id);
	add_number(&w->message, LOCATION_MAPPING_ID, location->mapping);
	add_number(&w->message, LOCATION_ADDRESS, location->address);
	add_bytes(&w->message, LOCATION_LINE, w->part.data, w->part.len);
	write_message(w, PROFILE_LOCATION);
}

/*
 * Writes the locations. The last one is the frame of a stack without frames, since pprof would drop
 * the sample.
 */
static void write_locations(struct pprof *w)
{
	const struct profile_location no_frames = { .kind = LOCATION_MARKER };
	size_t i;

	for (i = 0; i < w->profile->nr_locations; i++)
		write_location(w, &w->profile->locations[i], i + 1);
	for (i = 0; i < w->profile->nr_samples; i++) {
		if (w->profile->samples[i].stack)
			continue;
		write_location(w, &no_frames, w->profile->nr_locations + 1);
		break;
	}
}

static void add_label(struct pprof *w, uint32_t key, uint32_t str, uint64_t num)
{
	if (!str && !num)
		return;
	buf_reset(&w->part);
	add_number(&w->part, LABEL_KEY, key);
	add_number(&w->part, LABEL_STR, str);
	add_number(&w->part, LABEL_NUM, num);
	add_bytes(&w->message, SAMPLE_LABEL, w->part.data, w->part.len);
}

/* A thread without the GIL waits for it if CPython's function for that is on its stack. */
static const char *gil_word(const struct profile *profile, const struct profile_sample *sample)
{
	const struct profile_location *location;
	uint32_t at;

	if (sample->gil == PROFILE_GIL_HELD)
		return "held";
	stack_each(at, profile->stack_callers, sample->stack) {
		location = profile_frame(profile, at);
		if (location->kind == LOCATION_PYTHON)
			break;
		if (!strcmp(strtab_get(profile->strings, location->system_name), "take_gil"))
			return "waiting";
	}
	return "released";
}

static void container_labels(struct pprof *w, const struct profile_container *container,
			     struct label labels[NR_CONTAINER_LABELS])
{
	const struct {
		const char *key;
		uint32_t text;
	} all[NR_CONTAINER_LABELS] = {
		{ "container", container->name },
		{ "container_id", container->id },
		{ "pod", container->pod },
		{ "namespace", container->namespace },
		{ "image", container->image },
		{ "ray_cluster", container->ray_cluster },
		{ "ray_group", container->ray_group },
		{ "ray_node_type", container->ray_node_type },
	};
	size_t i;

	for (i = 0; i < NR_CONTAINER_LABELS; i++) {
		labels[i].str = profile_string(w, all[i].text);
		labels[i].key = labels[i].str ? string_index(w, all[i].key, "") : 0;
	}
}

/* Makes labels once per container, as very many samples share them. */
static void make_container_labels(struct pprof *w)
{
	const struct profile *profile = w->profile;
	size_t i;

	if (!profile->nr_containers)
		return;
	w->pod_pid_key = string_index(w, "pod_pid", "");
	for (i = 0; i < profile->nr_containers; i++)
		container_labels(w, &profile->containers[i],
				 w->container_labels + i * NR_CONTAINER_LABELS);
}

/* Adds the labels of a container; an unknown value has none. */
static void add_container(struct pprof *w, const struct profile_process *process)
{
	const struct label *labels;
	size_t i;

	if (!process->container)
		return;
	labels = w->container_labels + (process->container - 1) * (size_t)NR_CONTAINER_LABELS;
	for (i = 0; i < NR_CONTAINER_LABELS; i++)
		add_label(w, labels[i].key, labels[i].str, 0);
	add_label(w, w->pod_pid_key, 0, process->pod_pid);
}

static void ranks_labels(struct pprof *w, const struct profile_ranks *ranks,
			 struct label labels[RANKS_NR])
{
	size_t i;

	for (i = 0; i < RANKS_NR; i++) {
		labels[i].str = profile_string(w, ranks->texts[i]);
		labels[i].key = labels[i].str ? string_index(w, ranks_variables[i].label, "") : 0;
	}
}

/* Makes labels once per process. */
static void make_ranks_labels(struct pprof *w)
{
	size_t i;

	for (i = 0; i < w->profile->nr_processes; i++)
		ranks_labels(w, &w->profile->processes[i].ranks, w->ranks_labels + i * RANKS_NR);
}

static void add_ranks(struct pprof *w, uint32_t process)
{
	const struct label *labels = w->ranks_labels + process * (size_t)RANKS_NR;
	size_t i;

	for (i = 0; i < RANKS_NR; i++)
		add_label(w, labels[i].key, labels[i].str, 0);
}

static void add_text(struct pprof *w, const char *key, uint32_t text)
{
	if (text)
		add_label(w, string_index(w, key, ""), profile_string(w, text), 0);
}

/* Adds the thread that ended the wait, as the leaf names it. */
static void add_waker(struct pprof *w, uint32_t stack)
{
	const struct profile *profile = w->profile;
	const size_t begin = sizeof(WAKERS_BEGIN) - 1;
	char waker[WAKER_BYTES];
	const char *leaf;
	size_t len;

	if (profile_wait_part(profile, stack) == stack)
		return;
	leaf = strtab_get(profile->strings, profile_frame(profile, stack)->name);
	len = strlen(leaf);
	if (len <= begin || strncmp(leaf, WAKERS_BEGIN, begin) || len > INT_MAX ||
	    leaf[len - 1] != ']')
		return;
	snprintf(waker, sizeof(waker), "%.*s", (int)(len - begin - 1), leaf + begin);
	add_label(w, string_index(w, "waker", ""), string_index(w, waker, ""), 0);
}

/*
 * Adds the labels of a call. No key may occur twice in a sample: `comm` is the process's name, and
 * `rank` is its rank in the job if it has one; its rank in the communicator may differ.
 */
static void add_call(struct pprof *w, const struct profile_sample *sample)
{
	const struct profile_process *process = &w->profile->processes[sample->process];
	const struct profile_call *call;

	if (!sample->call)
		return;
	call = &w->profile->calls[sample->call - 1];
	add_text(w, "kernel", call->kernel);
	add_text(w, "stream", call->stream);
	add_text(w, "communicator", call->comm);
	add_text(w, process->ranks.rank ? "nccl_rank" : "rank", call->rank);
	add_text(w, "op", call->op);
}

static void add_values(struct pprof *w, size_t sample)
{
	const struct profile *profile = w->profile;
	size_t i;

	buf_reset(&w->part);
	if (profile->call_values) {
		for (i = 0; i < PROFILE_NR_CALL_VALUES; i++)
			varint_add(&w->part, profile->call_values[sample][i]);
	} else {
		if (profile->beside) {
			varint_add(&w->part, profile->beside[sample].count);
			varint_add(&w->part, profile->beside[sample].value);
		}
		varint_add(&w->part, profile->samples[sample].count);
		if (!profile->value.only_counts)
			varint_add(&w->part, profile->samples[sample].value_ns);
	}
	add_bytes(&w->message, SAMPLE_VALUE, w->part.data, w->part.len);
}

static void write_samples(struct pprof *w)
{
	const struct profile *profile = w->profile;
	const uint32_t comm_key = string_index(w, "comm", ""), pid_key = string_index(w, "pid", "");
	const uint32_t host_key = string_index(w, "host", ""),
		       host = profile_string(w, profile->host);
	const uint32_t tid_key = profile->threads ? string_index(w, "tid", "") : 0;
	const struct profile_process *process;
	const struct profile_sample *sample;
	uint32_t at;
	size_t i;

	make_container_labels(w);
	make_ranks_labels(w);
	for (i = 0; i < profile->nr_samples; i++) {
		sample = &profile->samples[i];
		process = &profile->processes[sample->process];
		buf_reset(&w->part);
		stack_each(at, profile->stack_callers, sample->stack)
			varint_add(&w->part, profile->stack_locations[at] + 1ULL);
		if (!sample->stack)
			varint_add(&w->part, profile->nr_locations + 1);
		add_bytes(&w->message, SAMPLE_LOCATION_ID, w->part.data, w->part.len);
		add_values(w, i);
		add_label(w, comm_key, profile_string(w, process->comm), 0);
		add_label(w, pid_key, 0, process->pid);
		add_label(w, host_key, process->host ? profile_string(w, process->host) : host, 0);
		add_container(w, process);
		add_ranks(w, sample->process);
		add_call(w, sample);
		add_waker(w, sample->stack);
		add_text(w, "ray_task", process->task);
		add_text(w, "ray_role", process->ray_role);
		if (sample->gil)
			add_label(w, string_index(w, "gil", ""),
				  string_index(w, gil_word(profile, sample), ""), 0);
		add_text(w, "thread", sample->thread);
		if (profile->threads)
			add_label(w, tid_key, 0, sample->tid);
		write_message(w, PROFILE_SAMPLE);
	}
}

static void write_strings(struct pprof *w)
{
	uint32_t nr = strtab_count(w->strings), i;
	const char *str;

	for (i = 0; i < nr; i++) {
		str = strtab_get(w->strings, i);
		write_bytes(w, PROFILE_STRING_TABLE, str, strlen(str));
	}
}

static int pprof_init(struct pprof *w, FILE *out, const struct profile *profile)
{
	*w = (struct pprof){ .profile = profile, .nr_slots = 64 };
	buf_init(&w->text, MAX_MESSAGE_BYTES);
	buf_init(&w->message, MAX_MESSAGE_BYTES);
	buf_init(&w->part, MAX_MESSAGE_BYTES);
	while (w->nr_slots < 2 * (profile->nr_locations + 1))
		w->nr_slots *= 2;
	w->functions = calloc(profile->nr_locations + 1, sizeof(*w->functions));
	w->slots = calloc(w->nr_slots, sizeof(*w->slots));
	w->container_labels = calloc(profile->nr_containers + 1,
				     NR_CONTAINER_LABELS * sizeof(*w->container_labels));
	w->ranks_labels = calloc(profile->nr_processes + 1, RANKS_NR * sizeof(*w->ranks_labels));
	if (!w->functions || !w->slots || !w->container_labels || !w->ranks_labels ||
	    strtab_new(&w->strings, MAX_STRING_BYTES))
		return -ENOMEM;
	return zip_init(&w->zip, out);
}

static void pprof_fini(struct pprof *w)
{
	zip_fini(&w->zip);
	strtab_free(w->strings);
	free(w->functions);
	free(w->slots);
	free(w->container_labels);
	free(w->ranks_labels);
	buf_fini(&w->text);
	buf_fini(&w->message);
	buf_fini(&w->part);
}

int pprof_write(FILE *out, const struct profile *profile, const struct output_options *options)
{
	struct pprof w;
	int err;

	(void)options;
	err = pprof_init(&w, out, profile);
	if (!err) {
		write_head(&w);
		write_mappings(&w);
		write_locations(&w);
		write_samples(&w);
		write_strings(&w);
		zip_end(&w.zip);
		err = w.zip.error;
	}
	pprof_fini(&w);
	return err;
}
