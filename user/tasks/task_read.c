// SPDX-License-Identifier: Apache-2.0
#include "tasks/task_read.h"

#include <errno.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include <jansson.h>
#include <uthash.h>

#include "base/buf.h"
#include "base/sorted.h"
#include "base/vec.h"
#include "proc/title.h"

#define PREFIX_LEN (sizeof(TITLE_PREFIX) - 1)
#define MAX_LINE_BYTES 65536 /* formats/chrome_trace.c writes lines up to this length */
#define MAX_US 1e15
#define HEAD "{\"displayTimeUnit\":"
#define TAIL "],"
#define ROWS_OPEN "\"tasks\":["
#define ROWS_CLOSE "]}}"

struct name {
	UT_hash_handle hh;
	uint64_t *calls_ns;
	size_t nr, cap;
	uint64_t nr_part, total_ns, cpu_ns;
	bool actor;
	char text[]; /* without prefix */
};

struct task_read {
	struct name *names;
	struct buf line; /* the part of the line that was read */
	bool too_long; /* the line is too long and is skipped */
	bool begun, rows,
		/*
		 * The first line was read; the row before the CPU times was read; the last line was
		 * read.
		 */
		ended;
	uint64_t nr_calls;
	struct task_read_totals totals;
};

int task_read_new(struct task_read **ret)
{
	struct task_read *read = calloc(1, sizeof(*read));

	if (!read)
		return -ENOMEM;
	buf_init(&read->line, MAX_LINE_BYTES + sizeof(ROWS_CLOSE));
	read->totals.cpu_known = true;
	*ret = read;
	return 0;
}

void task_read_free(struct task_read *read)
{
	struct name *name, *next;

	if (!read)
		return;
	HASH_ITER(hh, read->names, name, next) {
		HASH_DEL(read->names, name);
		free(name->calls_ns);
		free(name);
	}
	buf_fini(&read->line);
	free(read);
}

/* Adds without overflow: a file may have any number. */
static void sum_add(uint64_t *sum, uint64_t value)
{
	if (__builtin_add_overflow(*sum, value, sum))
		*sum = UINT64_MAX;
}

/* NULL: there is no room, which is counted, or no memory. */
static struct name *name_get(struct task_read *read, const char *text)
{
	struct name *name;
	size_t len;

	if (!strncmp(text, TITLE_PREFIX, PREFIX_LEN))
		text += PREFIX_LEN;
	len = strnlen(text, TITLE_MAX);
	HASH_FIND(hh, read->names, text, len, name);
	if (name)
		return name;
	if (HASH_COUNT(read->names) < TASK_READ_MAX_NAMES)
		name = calloc(1, sizeof(*name) + len + 1);
	if (!name) {
		read->totals.nr_left_out++;
		return NULL;
	}
	memcpy(name->text, text, len);
	HASH_ADD(hh, read->names, text, len, name);
	return name;
}

static void call_add(struct task_read *read, const char *text, bool actor, uint64_t ns, bool part)
{
	struct name *name = name_get(read, text);

	if (!name)
		return;
	if (read->nr_calls == TASK_READ_MAX_CALLS ||
	    vec_grow(name->calls_ns, name->nr + 1, name->cap, TASK_READ_MAX_CALLS)) {
		read->totals.nr_left_out++;
		return;
	}
	read->nr_calls++;
	name->calls_ns[name->nr++] = ns;
	name->nr_part += part;
	sum_add(&name->total_ns, ns);
	name->actor = actor;
}

/* A number as a time, in units of ns; false: it is no time. */
static bool time_of(const json_t *json, double unit_ns, uint64_t *ret_ns)
{
	double value = json_number_value(json) * unit_ns;

	if (!json_is_number(json) || !(value >= 0 && value <= MAX_US * 1000))
		return false;
	*ret_ns = (uint64_t)llround(value);
	return true;
}

static void event_take(struct task_read *read, const json_t *event)
{
	const char *phase = json_string_value(json_object_get(event, "ph"));
	const char *name = json_string_value(json_object_get(event, "name"));
	const char *category = json_string_value(json_object_get(event, "cat"));
	const json_t *args = json_object_get(event, "args");
	bool part = json_is_true(json_object_get(args, "begun_before")) ||
		    json_is_false(json_object_get(args, "ended"));
	uint64_t ns;

	if (phase && !strcmp(phase, "M"))
		return;
	if (!phase || strcmp(phase, "X") || !name || !category ||
	    !time_of(json_object_get(event, "dur"), 1000, &ns))
		read->totals.nr_not_understood++;
	else if (!strcmp(category, "unclear"))
		read->totals.nr_unclear++;
	else
		call_add(read, name, !strcmp(category, "actor"), ns, part);
}

static uint64_t count_of(const json_t *json)
{
	json_int_t value = json_integer_value(json);

	return value > 0 ? (uint64_t)value : 0;
}

static void cpu_take(struct task_read *read, const json_t *row)
{
	const char *text = json_string_value(json_object_get(row, "name"));
	struct name *name;
	uint64_t ns;

	if (!text || !time_of(json_object_get(row, "cpu_seconds"), 1e9, &ns)) {
		read->totals.nr_not_understood++;
		return;
	}
	name = name_get(read, text);
	if (name)
		sum_add(&name->cpu_ns, ns);
}

static void lost_add(struct task_read_totals *totals, const char *reason, uint64_t count)
{
	struct task_lost *lost = totals->lost;
	size_t max = sizeof(lost->name) - 1;

	if (!count)
		return;
	while (lost < totals->lost + totals->nr_lost && strncmp(lost->name, reason, max) != 0)
		lost++;
	if (lost == totals->lost + TASK_READ_MAX_REASONS)
		lost--;
	else if (lost == totals->lost + totals->nr_lost)
		strncpy(totals->lost[totals->nr_lost++].name, reason, max);
	sum_add(&lost->count, count);
}

/* Reads `otherData`: 0, or -EBADMSG for another kind of trace. */
static int other_take(struct task_read *read, const json_t *other)
{
	const char *of = json_string_value(json_object_get(other, "of"));
	double seconds = json_number_value(json_object_get(other, "seconds"));
	const char *reason;
	json_t *count, *tasks = json_object_get(other, "tasks"), *row;
	size_t i;

	if (!of || strcmp(of, "ray"))
		return -EBADMSG;
	read->totals.nr_files++;
	if (seconds > 0 && seconds < MAX_US)
		read->totals.seconds += seconds;
	sum_add(&read->totals.nr_dropped, count_of(json_object_get(other, "calls_dropped")));
	json_object_foreach(json_object_get(other, "lost"), reason, count)
		lost_add(&read->totals, reason, count_of(count));
	sum_add(&read->totals.nr_cpus_dropped, count_of(json_object_get(other, "tasks_dropped")));
	read->totals.cpu_known &= json_is_array(tasks);
	json_array_foreach(tasks, i, row) cpu_take(read, row);
	return 0;
}

static bool ends_with_rows(const struct buf *line)
{
	size_t len = sizeof(ROWS_OPEN) - 1;

	return line->len > len && !memcmp(line->data + line->len - len, ROWS_OPEN, len);
}

/*
 * Reads the tail. Without its first two characters, `],"otherData":{...}}` lacks one bracket to be
 * JSON. A longer form is `],"otherData":{...,"tasks":[`, followed by rows in lines of their own and
 * `]}}`.
 */
static int tail_take(struct task_read *read)
{
	struct buf *line = &read->line;
	bool rows = ends_with_rows(line);
	json_t *json;
	int err;

	if (rows)
		buf_add_str(line, ROWS_CLOSE);
	err = buf_error(line);
	if (err)
		return err;
	line->data[1] = '{';
	json = json_loadb(line->data + 1, line->len - 1, 0, NULL);
	err = json ? other_take(read, json_object_get(json, "otherData")) : -EBADMSG;
	json_decref(json);
	read->rows = !err && rows;
	read->ended = !err && !rows;
	return err;
}

static int line_take(struct task_read *read)
{
	const char *line = read->line.data;
	size_t len = read->line.len;
	json_t *json;

	if (!read->begun) {
		read->begun = len >= sizeof(HEAD) && !memcmp(line, HEAD, sizeof(HEAD) - 1);
		return read->begun ? 0 : -EBADMSG;
	}
	if (!len)
		return 0;
	if (read->ended)
		return -EBADMSG;
	if (len > sizeof(TAIL) && !memcmp(line, TAIL, sizeof(TAIL) - 1))
		return read->rows ? -EBADMSG : tail_take(read);
	if (read->rows && len == sizeof(ROWS_CLOSE) - 1 && !memcmp(line, ROWS_CLOSE, len)) {
		read->ended = true;
		return 0;
	}
	json = json_loadb(line, len - (line[len - 1] == ','), 0, NULL);
	if (!json_is_object(json))
		read->totals.nr_not_understood++;
	else if (read->rows)
		cpu_take(read, json);
	else
		event_take(read, json);
	json_decref(json);
	return 0;
}

static int line_end(struct task_read *read)
{
	int err = 0;

	if (!read->too_long)
		err = line_take(read);
	else if (read->begun)
		read->totals.nr_not_understood++;
	else
		err = -EBADMSG;
	read->too_long = false;
	buf_reset(&read->line);
	return err;
}

int task_read_push(struct task_read *read, const char *data, size_t len)
{
	const char *end;
	size_t part;
	int err;

	while (len) {
		end = memchr(data, '\n', len);
		part = end ? (size_t)(end - data) : len;
		read->too_long |= read->line.len + part > MAX_LINE_BYTES;
		if (read->too_long && !read->begun)
			return -EBADMSG;
		if (!read->too_long)
			buf_add(&read->line, data, part);
		err = buf_error(&read->line);
		if (!err && end)
			err = line_end(read);
		if (err)
			return err;
		part += end != NULL;
		data += part;
		len -= part;
	}
	return 0;
}

int task_read_end(struct task_read *read)
{
	int err = read->line.len || read->too_long ? line_end(read) : 0;

	if (!err && !read->ended)
		err = read->begun ? -ENODATA : -EBADMSG;
	read->begun = read->rows = read->ended = false;
	return err;
}

static int compare_total(const void *a, const void *b)
{
	const struct task_row *x = a, *y = b;

	if (x->total_ns != y->total_ns)
		return x->total_ns < y->total_ns ? 1 : -1;
	if (x->cpu_ns != y->cpu_ns)
		return x->cpu_ns < y->cpu_ns ? 1 : -1;
	return strcmp(x->name, y->name);
}

/* Adds all calls of `from` to `to`. 0 or -ENOMEM. */
static int calls_join(struct name *to, struct name *from)
{
	if (!from->nr || to == from)
		return 0;
	if (!vec_fit(to->calls_ns, to->nr + from->nr))
		return -ENOMEM;
	memcpy(to->calls_ns + to->nr, from->calls_ns, from->nr * sizeof(*from->calls_ns));
	to->nr = to->cap = to->nr + from->nr;
	free(from->calls_ns);
	from->calls_ns = NULL;
	from->nr = from->cap = 0;
	return 0;
}

static uint64_t longest_of(const struct name *name)
{
	uint64_t longest_ns = 0;
	size_t i;

	for (i = 0; i < name->nr; i++)
		if (name->calls_ns[i] > longest_ns)
			longest_ns = name->calls_ns[i];
	return longest_ns;
}

/* Makes one row of a group; its calls go to its first name. 0 or -ENOMEM. */
static int row_make(struct task_row *row, const struct task_member *members, struct name **names)
{
	struct name *all = names[members->index], *name;
	uint64_t longest_ns;
	size_t i;

	*row = (struct task_row){ .numbers = members->numbers };
	for (i = 0; i < members->nr; i++) {
		name = names[members[i].index];
		longest_ns = longest_of(name);
		if (!row->name || longest_ns > row->longest_ns) {
			row->name = name->text;
			row->actor = name->actor;
			row->longest_ns = longest_ns;
		}
		row->nr_names += name->nr > 0;
		row->nr += name->nr;
		row->nr_part += name->nr_part;
		sum_add(&row->total_ns, name->total_ns);
		sum_add(&row->cpu_ns, name->cpu_ns);
		if (calls_join(all, name))
			return -ENOMEM;
	}
	if (!row->nr)
		return 0;
	/* The median of an even number is the lower one, as in findings. */
	qsort(all->calls_ns, all->nr, sizeof(*all->calls_ns), sorted_by_u64);
	row->median_ns = all->calls_ns[(all->nr - 1) / 2];
	return 0;
}

struct task_row *task_read_rows(struct task_read *read, size_t *ret_nr)
{
	size_t cap = HASH_COUNT(read->names) + 1, nr = 0, i;
	struct task_row *rows = calloc(cap, sizeof(*rows));
	struct task_member *members = calloc(cap, sizeof(*members));
	struct name **names = calloc(cap, sizeof(struct name *)), *name;
	int err = rows && members && names ? 0 : -ENOMEM;

	*ret_nr = 0;
	for (name = err ? NULL : read->names; name; name = name->hh.next, nr++) {
		names[nr] = name;
		members[nr] = (struct task_member){ .name = name->text, .index = nr };
	}
	if (!err)
		task_groups_find(members, nr);
	for (i = 0; i < nr && !err; i += members[i].nr)
		err = row_make(&rows[(*ret_nr)++], &members[i], names);
	free(members);
	free(names);
	if (err) {
		free(rows);
		return NULL;
	}
	qsort(rows, *ret_nr, sizeof(*rows), compare_total);
	return rows;
}

const struct task_read_totals *task_read_totals(const struct task_read *read)
{
	return &read->totals;
}
