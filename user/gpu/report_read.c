// SPDX-License-Identifier: Apache-2.0
#include "gpu/report_read.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/strtab.h"
#include "base/wiped_json.h"

/* A value takes up to 15 times the bytes of its text. */
#define MAX_PARSED_BYTES ((size_t)1 << 30)
#define MAX_STRING_BYTES (128U << 20)
/* In all: 8,192 processes of a large job with many communicators each. */
#define MAX_PROCESSES 65536
#define MAX_COMMS (1U << 18)
#define MAX_OPERATIONS (1U << 20)
#define MAX_OPEN (1U << 18)
#define MAX_GROUPED (1U << 19)
#define MAX_WHERE (1U << 17)
#define MAX_FRAMES (1U << 19)
/* Of one process: who looks through these looks at each of them. */
#define MAX_COMMS_EACH 1024
#define MAX_OPERATIONS_EACH 4096
#define MAX_OPEN_EACH 1024
#define MAX_GROUPED_EACH 512 /* of one call */
#define MAX_WHERE_EACH 16
#define MAX_FRAMES_EACH 1024
#define MAX_SECONDS 1e9

int gpu_read_init(struct gpu_read *read)
{
	*read = (struct gpu_read){ 0 };
	return strtab_new(&read->strings, MAX_STRING_BYTES);
}

void gpu_read_fini(struct gpu_read *read)
{
	free(read->files);
	free(read->processes);
	free(read->comms);
	free(read->operations);
	free(read->completions);
	free(read->open);
	free(read->grouped);
	free(read->where);
	free(read->frames);
	strtab_free(read->strings);
}

/* The array with room for one more, or NULL: it is as it was. */
static void *grown(void *array, size_t nr, size_t *cap, size_t bytes)
{
	size_t more = *cap ? *cap * 2 : 16;

	if (nr < *cap)
		return array;
	array = reallocarray(array, more, bytes);
	if (array)
		*cap = more;
	return array;
}

/* 0 or -ENOMEM. */
#define GROW(read, what)                                                                           \
	({                                                                                         \
		void *array = grown((read)->what, (read)->nr_##what, &(read)->cap_##what,          \
				    sizeof(*(read)->what));                                        \
		if (array)                                                                         \
			(read)->what = array;                                                      \
		array ? 0 : -ENOMEM;                                                               \
	})

static const char *keep(struct gpu_read *read, const char *text)
{
	return strtab_get(read->strings, strtab_add(read->strings, text));
}

/* Anything else than a string counts, but for null, which is what is not known, and for nothing. */
static const char *text_of(struct gpu_read *read, const json_t *object, const char *key)
{
	const json_t *value = json_object_get(object, key);

	if (json_is_string(value))
		return keep(read, json_string_value(value));
	read->nr_not_understood += value && !json_is_null(value);
	return "";
}

static double real_of(struct gpu_read *read, const json_t *object, const char *key, double max)
{
	const json_t *value = json_object_get(object, key);

	if (json_is_real(value) && json_real_value(value) >= 0)
		return json_real_value(value) < max ? json_real_value(value) : max;
	read->nr_not_understood += value && !json_is_null(value);
	return 0;
}

static uint64_t number_of(struct gpu_read *read, const json_t *object, const char *key)
{
	/* Less than UINT64_MAX, so that sums of a few do not wrap; nothing real comes near it. */
	return (uint64_t)real_of(read, object, key, 0x1p60);
}

/* "0x1f". False if there is none, which counts, unless it is null or missing. */
static bool hex_of(struct gpu_read *read, const json_t *object, const char *key, uint64_t *ret)
{
	const json_t *value = json_object_get(object, key);
	const char *text = json_string_value(value);
	size_t len = text ? strlen(text) : 0;

	if (len > 2 && len <= 18 && !strncmp(text, "0x", 2) &&
	    strspn(text + 2, "0123456789abcdef") == len - 2) {
		*ret = strtoull(text, NULL, 16);
		return true;
	}
	read->nr_not_understood += value && !json_is_null(value);
	return false;
}

/* Its array of that name; none is empty. */
static const json_t *array_of(struct gpu_read *read, const json_t *object, const char *key)
{
	const json_t *value = json_object_get(object, key);

	if (json_is_array(value))
		return value;
	read->nr_not_understood += value && !json_is_null(value);
	return NULL;
}

static bool is_object(struct gpu_read *read, const json_t *value)
{
	read->nr_not_understood += !json_is_object(value);
	return json_is_object(value);
}

/* How many of nr more may be kept; what is past that counts. */
static size_t take(struct gpu_read *read, size_t nr, size_t have, size_t max, size_t max_each)
{
	size_t room = max - have < max_each ? max - have : max_each;

	if (nr <= room)
		return nr;
	read->nr_left_out += nr - room;
	return room;
}

static int comm_add(struct gpu_read *read, const json_t *from, uint32_t process)
{
	struct gpu_read_comm to = { .process = process };
	const json_t *value;
	double rank, size;

	if (GROW(read, comms))
		return -ENOMEM;
	if (!hex_of(read, from, "comm", &to.comm)) {
		read->nr_not_understood += !json_object_get(from, "comm");
		return 0;
	}
	to.calls = number_of(read, from, "calls");
	to.last = text_of(read, from, "last");
	if (hex_of(read, from, "hash", &to.hash)) {
		value = json_object_get(from, "rank");
		rank = json_is_real(value) ? json_real_value(value) : -1;
		size = real_of(read, from, "size", UINT32_MAX);
		to.known = rank >= 0 && rank < size;
		read->nr_not_understood += !to.known;
		to.rank = to.known ? (uint32_t)rank : 0;
		to.size = to.known ? (uint32_t)size : 0;
	}
	read->comms[read->nr_comms++] = to;
	return 0;
}

static int operation_add(struct gpu_read *read, const json_t *from, uint32_t process)
{
	struct gpu_read_operation to = { .process = process };

	if (GROW(read, operations))
		return -ENOMEM;
	to.operation = text_of(read, from, "operation");
	to.datatype = text_of(read, from, "datatype");
	hex_of(read, from, "comm", &to.comm);
	hex_of(read, from, "stream", &to.stream);
	to.calls = number_of(read, from, "calls");
	to.bytes = number_of(read, from, "bytes");
	to.ns = number_of(read, from, "ns");
	to.max_ns = number_of(read, from, "max_ns");
	to.captured = json_is_true(json_object_get(from, "captured"));
	if (*to.operation && to.calls)
		read->operations[read->nr_operations++] = to;
	else
		read->nr_not_understood++;
	return 0;
}

static int completion_add(struct gpu_read *read, const json_t *from, uint32_t process)
{
	struct gpu_read_completion to = { .process = process };

	if (GROW(read, completions))
		return -ENOMEM;
	to.operation = text_of(read, from, "operation");
	to.datatype = text_of(read, from, "datatype");
	hex_of(read, from, "comm", &to.comm);
	to.bytes = number_of(read, from, "bytes");
	to.count = number_of(read, from, "count");
	to.ns = number_of(read, from, "ns");
	to.max_ns = number_of(read, from, "max_ns");
	to.within_ns = number_of(read, from, "within_ns");
	to.pending = number_of(read, from, "pending");
	to.pending_seconds = real_of(read, from, "pending_seconds", MAX_SECONDS);
	hex_of(read, from, "pending_stream", &to.pending_stream);
	if (!*to.operation)
		read->nr_not_understood++;
	else if (to.count || to.pending)
		read->completions[read->nr_completions++] = to;
	return 0;
}

static int frames_add(struct gpu_read *read, const json_t *stack, struct gpu_read_range *ret)
{
	size_t nr =
		take(read, json_array_size(stack), read->nr_frames, MAX_FRAMES, MAX_FRAMES_EACH);
	const json_t *frame;
	size_t i;

	ret->first = read->nr_frames;
	for (i = 0; i < nr; i++) {
		frame = json_array_get(stack, i);
		if (GROW(read, frames))
			return -ENOMEM;
		if (json_is_string(frame))
			read->frames[read->nr_frames++] = keep(read, json_string_value(frame));
		else
			read->nr_not_understood++;
	}
	ret->nr = read->nr_frames - ret->first;
	return 0;
}

const struct gpu_read_comm *gpu_read_comm_of(const struct gpu_read *read, uint32_t process,
					     uint64_t comm)
{
	const struct gpu_read_range *range = &read->processes[process].comms;
	size_t i;

	for (i = 0; i < range->nr; i++)
		if (read->comms[range->first + i].comm == comm)
			return &read->comms[range->first + i];
	return NULL;
}

bool gpu_read_is_between_two(const char *operation)
{
	return !strcmp(operation, "ncclSend") || !strcmp(operation, "ncclRecv");
}

/* Is it told with whom a send or receive is? */
static bool peer_of(struct gpu_read *read, const json_t *object, uint32_t *ret)
{
	const json_t *value = json_object_get(object, "peer");

	*ret = (uint32_t)real_of(read, object, "peer", UINT32_MAX);
	return json_is_real(value) && json_real_value(value) >= 0;
}

/* Is it told what it waits for? Of sends and receives that is a peer, too. */
static bool grouped_take(struct gpu_read *read, const json_t *from, struct gpu_read_grouped *to)
{
	bool known;

	*to = (struct gpu_read_grouped){ .operation = text_of(read, from, "operation"),
					 .datatype = text_of(read, from, "datatype"),
					 .bytes = number_of(read, from, "bytes"),
					 .count = number_of(read, from, "count") };
	known = hex_of(read, from, "comm", &to->comm);
	hex_of(read, from, "stream", &to->stream);
	to->between_two = gpu_read_is_between_two(to->operation);
	return (!to->between_two || peer_of(read, from, &to->peer)) && known;
}

static int group_add(struct gpu_read *read, const json_t *from, struct gpu_read_open *to)
{
	const json_t *rows = array_of(read, from, "group"), *entry;
	size_t nr =
		take(read, json_array_size(rows), read->nr_grouped, MAX_GROUPED, MAX_GROUPED_EACH);
	struct gpu_read_grouped grouped;
	uint64_t told = 0;
	size_t i;

	to->group.first = read->nr_grouped;
	to->group_calls = number_of(read, from, "group_calls");
	to->group_complete = json_is_true(json_object_get(from, "group_complete"));
	for (i = 0; i < nr; i++) {
		entry = json_array_get(rows, i);
		if (!is_object(read, entry)) {
			to->group_complete = false;
			continue;
		}
		to->group_complete &= grouped_take(read, entry, &grouped);
		if (!*grouped.operation || !grouped.count) {
			read->nr_not_understood++;
			continue;
		}
		if (GROW(read, grouped))
			return -ENOMEM;
		told += grouped.count;
		read->grouped[read->nr_grouped++] = grouped;
	}
	to->group.nr = read->nr_grouped - to->group.first;
	to->group_complete &= to->group.nr && told == to->group_calls;
	return 0;
}

static int open_add(struct gpu_read *read, const json_t *from, uint32_t process)
{
	struct gpu_read_open to = { .process = process };
	int err;

	if (GROW(read, open))
		return -ENOMEM;
	to.tid = number_of(read, from, "tid");
	to.thread = text_of(read, from, "thread");
	to.function = text_of(read, from, "function");
	to.seconds = real_of(read, from, "seconds", MAX_SECONDS);
	to.since_before = json_is_true(json_object_get(from, "since_before"));
	hex_of(read, from, "stream", &to.stream);
	hex_of(read, from, "comm", &to.comm);
	to.bytes = number_of(read, from, "bytes");
	if (!*to.function) {
		read->nr_not_understood++;
		return 0;
	}
	to.peer_known = gpu_read_is_between_two(to.function) && peer_of(read, from, &to.peer);
	err = group_add(read, from, &to);
	if (!err)
		err = frames_add(read, array_of(read, from, "stack"), &to.frames);
	if (!err)
		read->open[read->nr_open++] = to;
	return err;
}

static int where_add(struct gpu_read *read, const json_t *from, uint32_t process)
{
	struct gpu_read_where to = {
		.process = process,
		.tid = number_of(read, from, "tid"),
		.thread = text_of(read, from, "thread"),
		.was_in_nccl = json_is_true(json_object_get(from, "last_in_nccl")),
		.running = json_is_true(json_object_get(from, "running")),
	};
	int err;

	if (GROW(read, where))
		return -ENOMEM;
	err = frames_add(read, array_of(read, from, "stack"), &to.frames);
	if (!err)
		read->where[read->nr_where++] = to;
	return err;
}

/* All entries of an array. */
static int entries_add(struct gpu_read *read, const json_t *array, size_t nr, uint32_t process,
		       int (*add)(struct gpu_read *read, const json_t *from, uint32_t process))
{
	const json_t *entry;
	size_t i;
	int err = 0;

	for (i = 0; i < nr && !err; i++) {
		entry = json_array_get(array, i);
		if (is_object(read, entry))
			err = add(read, entry, process);
	}
	return err;
}

/* Of what a process has lists of: which, how many are kept, and what keeps one of them. */
struct list {
	const char *key;
	size_t max, max_each;
	size_t *nr;
	struct gpu_read_range *range;
	int (*add)(struct gpu_read *read, const json_t *from, uint32_t process);
};

static int list_add(struct gpu_read *read, const json_t *from, const struct list *list, uint32_t nr)
{
	const json_t *array = array_of(read, from, list->key);
	size_t taken = take(read, json_array_size(array), *list->nr, list->max, list->max_each);
	int err;

	list->range->first = *list->nr;
	err = entries_add(read, array, taken, nr, list->add);
	list->range->nr = *list->nr - list->range->first;
	return err;
}

static int lists_add(struct gpu_read *read, const json_t *from, struct gpu_read_process *to,
		     uint32_t nr)
{
	const struct list lists[] = {
		{ "communicators", MAX_COMMS, MAX_COMMS_EACH, &read->nr_comms, &to->comms,
		  comm_add },
		{ "collectives", MAX_OPERATIONS, MAX_OPERATIONS_EACH, &read->nr_operations,
		  &to->operations, operation_add },
		{ "completions", MAX_OPERATIONS, MAX_OPERATIONS_EACH, &read->nr_completions,
		  &to->completions, completion_add },
		{ "open", MAX_OPEN, MAX_OPEN_EACH, &read->nr_open, &to->open, open_add },
		{ "where", MAX_WHERE, MAX_WHERE_EACH, &read->nr_where, &to->where, where_add },
	};
	size_t i;
	int err = 0;

	for (i = 0; i < sizeof(lists) / sizeof(lists[0]) && !err; i++)
		err = list_add(read, from, &lists[i], nr);
	return err;
}

static void memory_take(struct gpu_read *read, const json_t *memory, struct gpu_read_process *to)
{
	if (!memory || json_is_null(memory))
		return;
	if (!is_object(read, memory))
		return;
	to->live_bytes = number_of(read, memory, "live_bytes");
	to->device_free = number_of(read, memory, "device_free");
	to->device_total = number_of(read, memory, "device_total");
	to->device_known = to->device_total && to->device_free <= to->device_total &&
			   json_is_real(json_object_get(memory, "device_free"));
	read->nr_not_understood += to->device_total && !to->device_known;
}

static int process_add(struct gpu_read *read, const json_t *from, uint32_t file)
{
	struct gpu_read_process to = { .file = file };
	int err;

	if (GROW(read, processes))
		return -ENOMEM;
	to.pid = number_of(read, from, "pid");
	to.name = text_of(read, from, "name");
	to.container = text_of(read, from, "container");
	to.pod = text_of(read, from, "pod");
	to.namespace = text_of(read, from, "namespace");
	to.ray_task = text_of(read, from, "ray_task");
	to.rank = text_of(read, from, "rank");
	memory_take(read, json_object_get(from, "memory"), &to);
	err = lists_add(read, from, &to, (uint32_t)read->nr_processes);
	if (!err)
		read->processes[read->nr_processes++] = to;
	return err;
}

static int file_add(struct gpu_read *read, const char *path, const json_t *json)
{
	const json_t *processes = json_object_get(json, "processes"), *silent;
	size_t before = read->nr_processes, nr, i;
	struct gpu_read_file *to;
	int err;

	if (!json_is_array(processes) || !json_is_string(json_object_get(json, "host")))
		return -EBADMSG;
	if (GROW(read, files))
		return -ENOMEM;
	to = &read->files[read->nr_files++];
	*to = (struct gpu_read_file){ .path = keep(read, path),
				      .host = text_of(read, json, "host"),
				      .seconds = real_of(read, json, "seconds", MAX_SECONDS) };
	nr = take(read, json_array_size(processes), read->nr_processes, MAX_PROCESSES,
		  MAX_PROCESSES);
	err = entries_add(read, processes, nr, (uint32_t)(read->nr_files - 1), process_add);
	i = read->nr_processes;
	if (!err) {
		silent = array_of(read, json, "without_calls");
		nr = take(read, json_array_size(silent), read->nr_processes, MAX_PROCESSES,
			  MAX_PROCESSES);
		err = entries_add(read, silent, nr, (uint32_t)(read->nr_files - 1), process_add);
	}
	for (; i < read->nr_processes; i++)
		read->processes[i].silent = true;
	to->nr_processes = read->nr_processes - before;
	return err;
}

int gpu_read_add(struct gpu_read *read, const char *path, const char *text, size_t len)
{
	json_t *json;
	int err;

	if (len > GPU_READ_FILE_BYTES || read->nr_files >= GPU_READ_FILES)
		return -E2BIG;
	err = wiped_json_load_reals(&json, text, len, MAX_PARSED_BYTES);
	if (err)
		return err;
	err = file_add(read, path, json);
	json_decref(json);
	return err;
}
