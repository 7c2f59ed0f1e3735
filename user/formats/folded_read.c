// SPDX-License-Identifier: Apache-2.0
/*
 * Reads lines `FRAME;FRAME;... COUNT`, root first, in two dialects. Lines of bpfprof (and of perf's
 * stackcollapse) begin with [NAMESPACE/POD/CONTAINER;]PROCESS;[THREAD-TID;]. py-spy's raw has only
 * frames, or `process PID:"CMDLINE"` and `thread (TID): NAME` before them.
 */
#include <ctype.h>
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/strtab.h"
#include "base/text.h"
#include "formats/profile_reading.h"

#define MAX_DEPTH 65536
#define MAX_TEXT_BYTES (128U << 20)
#define MAX_DIGITS 19
#define NO_LOCATION UINT32_MAX

struct text {
	const char *at;
	size_t len;
};

struct folded {
	struct profile_read *read;
	const char *path;
	struct buf *why;
	bool is_raw; /* frames without a process */
	bool is_ours;
	bool threads; /* a frame of the thread follows the process */
	struct strtab *texts; /* of frames */
	struct vec locations; /* uint32_t, by the text's number */
	struct vec frames; /* struct text, of one line, root first */
	struct vec stack; /* uint32_t */
	uint64_t line; /* number of the current line */
	uint64_t duration_ns;
};

static bool starts_with(struct text text, const char *word)
{
	return text.len >= strlen(word) && !memcmp(text.at, word, strlen(word));
}

static bool ends_with(struct text text, const char *word)
{
	size_t len = strlen(word);

	return text.len >= len && !memcmp(text.at + text.len - len, word, len);
}

/* Takes the next line, without its end. False: there is none. */
static bool line_next(struct text *rest, struct text *ret)
{
	const char *end;

	if (!rest->len)
		return false;
	end = memchr(rest->at, '\n', rest->len);
	*ret = (struct text){ rest->at, end ? (size_t)(end - rest->at) : rest->len };
	rest->len -= ret->len + (end != NULL);
	rest->at += ret->len + (end != NULL);
	while (ret->len && (ret->at[ret->len - 1] == '\r' || ret->at[ret->len - 1] == ' '))
		ret->len--;
	return true;
}

/* Removes the number from the end of a line. 0 or -EBADMSG. */
static int count_take(struct text *line, uint64_t *ret)
{
	size_t digits = 0, i;
	uint64_t count = 0;

	while (digits < line->len && isdigit((unsigned char)line->at[line->len - 1 - digits]))
		digits++;
	if (!digits || digits > MAX_DIGITS)
		return -EBADMSG;
	for (i = line->len - digits; i < line->len; i++)
		count = count * 10 + (uint64_t)(line->at[i] - '0');
	line->len -= digits;
	if (!line->len ||
	    /* A blank comes before the count, even without frames. */
	    line->at[line->len - 1] != ' ')
		return -EBADMSG;
	while (line->len && line->at[line->len - 1] == ' ')
		line->len--;
	if (count > INT64_MAX)
		return -EBADMSG;
	*ret = count;
	return 0;
}

static struct text frame_take(struct text *line)
{
	const char *end = memchr(line->at, ';', line->len);
	struct text frame = { line->at, end ? (size_t)(end - line->at) : line->len };

	line->len -= frame.len + (end != NULL);
	line->at += frame.len + (end != NULL);
	return frame;
}

static bool is_pod(struct text frame)
{
	size_t i, slashes = 0;

	for (i = 0; i < frame.len; i++)
		slashes += frame.at[i] == '/';
	return slashes == 2;
}

/* Parses `process 42:"python3 train.py"`. */
static bool process_frame(struct text frame, uint64_t *ret_pid, struct text *ret_cmdline)
{
	uint64_t pid = 0;
	size_t i = strlen("process ");

	if (!starts_with(frame, "process "))
		return false;
	for (; i < frame.len && isdigit((unsigned char)frame.at[i]) && pid < UINT32_MAX; i++)
		pid = pid * 10 + (uint64_t)(frame.at[i] - '0');
	if (i + 1 >= frame.len || frame.at[i] != ':' || frame.at[i + 1] != '"')
		return false;
	*ret_pid = pid <= UINT32_MAX ? pid : 0;
	*ret_cmdline = (struct text){ frame.at + i + 2, frame.len - i - 2 };
	if (ret_cmdline->len && ret_cmdline->at[ret_cmdline->len - 1] == '"')
		ret_cmdline->len--;
	return true;
}

/* Is it `thread (42): NAME` or `thread (0x7F12)`? */
static bool thread_frame(struct text frame)
{
	return starts_with(frame, "thread (") && memchr(frame.at, ')', frame.len);
}

/* Parses `NAME-42`. */
static bool own_thread_frame(struct text frame, size_t *ret_name_len, uint64_t *ret_tid)
{
	size_t i = frame.len;
	uint64_t tid = 0, scale = 1;

	for (; i && isdigit((unsigned char)frame.at[i - 1]) && frame.len - i < 10; i--) {
		tid += (uint64_t)(frame.at[i - 1] - '0') * scale;
		scale *= 10;
	}
	if (i < 2 || i == frame.len || frame.at[i - 1] != '-' || memchr(frame.at, '(', frame.len))
		return false;
	*ret_name_len = i - 1;
	*ret_tid = tid;
	return true;
}

/* Finds the file in `NAME (FILE:LINE)` or `NAME (FILE)`, and the line if there is one. */
static bool place_find(struct text frame, struct text *ret_name, struct text *ret_file,
		       uint32_t *ret_line, bool *ret_has_line)
{
	size_t open, end = frame.len, i;
	uint64_t line = 0;

	if (frame.len < 5 || frame.at[frame.len - 1] != ')')
		return false;
	for (open = frame.len - 1; open > 0; open--)
		if (frame.at[open] == '(' && frame.at[open - 1] == ' ')
			break;
	if (open < 2)
		return false;
	for (i = --end; i > open && isdigit((unsigned char)frame.at[i - 1]); i--)
		;
	*ret_has_line = i > open && i < end && end - i < 10 && frame.at[i - 1] == ':';
	if (*ret_has_line) {
		for (end = i - 1; isdigit((unsigned char)frame.at[i]); i++)
			line = line * 10 + (uint64_t)(frame.at[i] - '0');
	}
	if (end <= open + 1)
		return false;
	*ret_name = (struct text){ frame.at, open - 1 };
	*ret_file = (struct text){ frame.at + open + 1, end - open - 1 };
	*ret_line = (uint32_t)line;
	return true;
}

/* py-spy's native frames look like Python frames; only the suffix of the file differs. */
static bool is_python_file(struct text file, bool has_line, uint32_t line)
{
	static const char *const others[] = { ".c",  ".cc", ".cpp", ".cxx", ".h", ".hpp",
					      ".rs", ".cu", ".S",   ".go",  ".so" };
	size_t i;

	if (ends_with(file, ".py") || starts_with(file, "<"))
		return true;
	for (i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		if (ends_with(file, others[i]))
			return false;
	return has_line && line && !memmem(file.at, file.len, ".so.", 4);
}

static uint32_t keep(struct folded *f, struct text text)
{
	return strtab_add_len(f->read->builder.strings, text.at, text.len);
}

/* Finds the library of `libfoo.so.1+0x1f2e`. */
static int library_of(struct folded *f, struct text frame, struct profile_location *location)
{
	struct profile_mapping mapping;
	size_t i;

	memset(&mapping, 0, sizeof(mapping));
	for (i = frame.len; i && frame.at[i - 1] != '+'; i--)
		;
	mapping.path = keep(f, (struct text){ frame.at, i ? i - 1 : 0 });
	return profile_builder_mapping(&f->read->builder, &mapping, &location->mapping);
}

static int location_make(struct folded *f, struct text frame, uint32_t *ret)
{
	struct profile_location location;
	struct text name, file;
	bool has_line = false;
	uint32_t line = 0;
	int err = 0;

	memset(&location, 0, sizeof(location));
	location.name = keep(f, frame);
	if (place_find(frame, &name, &file, &line, &has_line) &&
	    (f->is_raw || is_python_file(file, has_line, line) || (f->is_ours && has_line))) {
		location.name = keep(f, name);
		location.file = keep(f, file);
		location.line = line;
		location.kind = LOCATION_PYTHON;
		location.short_file = location.file;
		location.has_symbol = true;
		if (!(f->is_ours || is_python_file(file, has_line, line))) {
			location.kind = LOCATION_NATIVE;
			location.short_file = 0;
		}
	} else {
		profile_read_kind(f->read, &location);
		if (!location.has_symbol && location.kind == LOCATION_NATIVE)
			err = library_of(f, frame, &location);
	}
	location.system_name = location.name;
	return err ? err : profile_builder_location(&f->read->builder, &location, ret);
}

static int location_of(struct folded *f, struct text frame, uint32_t *ret)
{
	uint32_t text = strtab_add_len(f->texts, frame.at, frame.len), *all;
	size_t nr = f->locations.nr;
	int err;

	if (strtab_nr_lost(f->texts)) {
		buf_printf(f->why, "it has more than %u MiB of different frames",
			   MAX_TEXT_BYTES >> 20);
		return -E2BIG;
	}
	if (text >= nr) {
		err = vec_reserve(&f->read->builder.budget, &f->locations, text + 1 - nr,
				  sizeof(*all));
		if (err)
			return err;
		all = f->locations.data;
		for (; nr <= text; nr++)
			all[nr] = NO_LOCATION;
		f->locations.nr = nr;
	}
	all = f->locations.data;
	if (all[text] == NO_LOCATION) {
		err = location_make(f, frame, &all[text]);
		if (err)
			return err;
	}
	*ret = all[text];
	return 0;
}

/* Reads a pod's frame, which comes before bpfprof's other frames. */
static int pod_take(struct folded *f, struct text frame, struct profile_process *process)
{
	struct profile_container container;
	const char *slash = memchr(frame.at, '/', frame.len), *end = frame.at + frame.len;
	const char *second = memchr(slash + 1, '/', (size_t)(end - slash - 1));

	memset(&container, 0, sizeof(container));
	container.namespace = keep(f, (struct text){ frame.at, (size_t)(slash - frame.at) });
	container.pod = keep(f, (struct text){ slash + 1, (size_t)(second - slash - 1) });
	container.name = keep(f, (struct text){ second + 1, (size_t)(end - second - 1) });
	return profile_builder_container(&f->read->builder, &container, &process->container);
}

static const struct text *frame_at(const struct folded *f, size_t index)
{
	return (const struct text *)f->frames.data + index;
}

/* Reads the process and the thread before the frames: *ret_nr parts. */
static int own_head(struct folded *f, struct profile_process *process,
		    struct profile_sample *sample, size_t *ret_nr)
{
	size_t nr = 0, len;
	uint64_t tid;
	int err;

	if (f->frames.nr > 1 && is_pod(*frame_at(f, 0))) {
		err = pod_take(f, *frame_at(f, nr++), process);
		if (err)
			return err;
	}
	if (nr < f->frames.nr && starts_with(*frame_at(f, nr), "ray::"))
		process->task = keep(f, *frame_at(f, nr++));
	else if (nr < f->frames.nr)
		process->comm = keep(f, *frame_at(f, nr++));
	if (f->threads && nr < f->frames.nr && own_thread_frame(*frame_at(f, nr), &len, &tid)) {
		sample->thread = keep(f, (struct text){ frame_at(f, nr)->at, len });
		sample->tid = (uint32_t)tid;
		nr++;
	}
	*ret_nr = nr;
	return 0;
}

/* The program's name in a command line. */
static uint32_t command_name(struct folded *f, struct text cmdline)
{
	const char *end = memchr(cmdline.at, ' ', cmdline.len), *slash;
	struct text first = { cmdline.at, end ? (size_t)(end - cmdline.at) : cmdline.len };

	slash = memrchr(first.at, '/', first.len);
	if (slash)
		first = (struct text){ slash + 1, first.len - (size_t)(slash + 1 - first.at) };
	return keep(f, first);
}

/* Reads `thread (42): "NAME"`. Without a name the text in parentheses is the name. */
static void thread_take(struct folded *f, struct text frame, struct profile_sample *sample)
{
	const char *at = frame.at + strlen("thread ("), *end = frame.at + frame.len;
	const char *close = memchr(at, ')', (size_t)(end - at));
	struct text name = { at, (size_t)(close - at) };
	uint64_t tid = 0;

	for (; at < close && isdigit((unsigned char)*at) && tid <= UINT32_MAX; at++)
		tid = tid * 10 + (uint64_t)(*at - '0');
	sample->tid = at == close && tid <= UINT32_MAX ? (uint32_t)tid : 0;
	if (end - close > 3) {
		name = (struct text){ close + 3, (size_t)(end - close) - 3 };
		if (name.len > 1 && name.at[0] == '"' && name.at[name.len - 1] == '"')
			name = (struct text){ name.at + 1, name.len - 2 };
	}
	sample->thread = keep(f, name);
}

static void raw_head(struct folded *f, struct profile_process *process,
		     struct profile_sample *sample, size_t *ret_nr)
{
	struct text cmdline = { "", 0 };
	uint64_t pid = 0;
	size_t nr = 0;

	/* Parents come before their children: the last process counts. */
	while (nr < f->frames.nr && process_frame(*frame_at(f, nr), &pid, &cmdline))
		nr++;
	process->pid = (uint32_t)pid;
	process->cmdline = keep(f, cmdline);
	process->comm =
		cmdline.len ? command_name(f, cmdline) : profile_read_name(f->read, f->path);
	if (nr < f->frames.nr && thread_frame(*frame_at(f, nr)))
		thread_take(f, *frame_at(f, nr++), sample);
	*ret_nr = nr;
}

static int stack_take(struct folded *f, size_t head, uint32_t *ret)
{
	size_t nr = f->frames.nr - head, i;
	int err;

	err = vec_reserve(&f->read->builder.budget, &f->stack, nr + 1, sizeof(uint32_t));
	for (i = 0; i < nr && !err; i++)
		err = location_of(f, *frame_at(f, f->frames.nr - 1 - i),
				  (uint32_t *)f->stack.data + i);
	return err ? err
		   : profile_builder_stack(&f->read->builder, f->stack.data, (uint32_t)nr, ret);
}

static int frames_split(struct folded *f, struct text line)
{
	struct text frame;

	f->frames.nr = 0;
	while (line.len) {
		frame = frame_take(&line);
		if (!frame.len)
			continue;
		if (f->frames.nr == MAX_DEPTH) {
			buf_printf(f->why, "line %" PRIu64 ": more than %u frames", f->line,
				   MAX_DEPTH);
			return -E2BIG;
		}
		if (vec_reserve(&f->read->builder.budget, &f->frames, 1, sizeof(frame)))
			return -E2BIG;
		((struct text *)f->frames.data)[f->frames.nr++] = frame;
	}
	return 0;
}

static int line_put(struct folded *f, struct text line)
{
	struct profile_process process;
	struct profile_sample sample;
	size_t head = 0;
	int err;

	memset(&process, 0, sizeof(process));
	memset(&sample, 0, sizeof(sample));
	err = count_take(&line, &sample.count);
	if (err) {
		buf_printf(f->why,
			   "line %" PRIu64 ": no collapsed stack: FRAME;FRAME COUNT is wanted",
			   f->line);
		return err;
	}
	err = frames_split(f, line);
	if (!err && f->is_raw)
		raw_head(f, &process, &sample, &head);
	else if (!err)
		err = own_head(f, &process, &sample, &head);
	if (!err)
		err = profile_read_process(f->read, &process, &sample.process);
	if (!err)
		err = stack_take(f, head, &sample.stack);
	if (sample.tid || sample.thread)
		f->read->threads = true;
	return err ? err : profile_builder_sample(&f->read->builder, &sample, NULL);
}

/* Reads bpfprof's counters; other comments are skipped. */
static bool comment_take(struct folded *f, struct text line)
{
	if (!starts_with(line, "#"))
		return !line.len;
	if (f->line == 1 && starts_with(line, "# {"))
		f->duration_ns = profile_read_stats(f->read, line.at + 2, line.len - 2);
	return true;
}

/*
 * Finds the dialect from all lines. A file with bpfprof's counters or suffix is bpfprof's. In a
 * file of py-spy all first frames are Python functions, or processes in py-spy's form.
 */
static void dialect_find(struct folded *f, const char *text, size_t len)
{
	struct text rest = { text, len }, line, first, name, file, second;
	size_t name_len;
	bool py_spy = true, threads = true, has_line, any = false;
	uint64_t number;
	uint32_t number32;

	while (line_next(&rest, &line)) {
		if (!any && starts_with(line, "# {"))
			f->is_ours = true;
		if (!line.len || line.at[0] == '#' || count_take(&line, &number))
			continue;
		any = true;
		first = frame_take(&line);
		py_spy &= process_frame(first, &number, &file) || thread_frame(first) ||
			  (place_find(first, &name, &file, &number32, &has_line));
		if (is_pod(first) && line.len)
			frame_take(&line);
		second = frame_take(&line);
		threads &= own_thread_frame(second, &name_len, &number);
	}
	f->is_raw = !f->is_ours && (py_spy || !text_ends(f->path, "folded"));
	f->threads = any && threads && !f->is_raw;
}

/*
 * Does the name belong to a file of CUDA and NCCL calls? The text itself looks like that of
 * samples.
 */
static bool is_of_calls(const char *path)
{
	const char *slash = strrchr(path, '/'), *name = slash ? slash + 1 : path;

	return !strncmp(name, "cuda-", strlen("cuda-")) || strstr(name, ".cuda.");
}

static int lines_read(struct folded *f, const char *text, size_t len)
{
	struct profile_read_file file = { .value.only_counts = true };
	struct strtab *strings = f->read->builder.strings;
	struct text rest = { text, len }, line;
	int err = 0;

	dialect_find(f, text, len);
	while (!err && line_next(&rest, &line)) {
		f->line++;
		if (!comment_take(f, line))
			err = line_put(f, line);
	}
	if (err)
		return err;
	file.duration_ns = f->duration_ns;
	f->read->raw_only &= f->is_raw;
	f->read->process_taken |= !f->is_raw && !f->is_ours;
	if (is_of_calls(f->path))
		file.value.count_type = strtab_add(strings, profile_call_types[PROFILE_CALLS].type);
	return profile_read_file_add(f->read, &file, f->why);
}

static void vec_drop(struct folded *f, struct vec *vec, size_t size)
{
	f->read->builder.budget.bytes -= vec->cap * size;
	free(vec->data);
}

int folded_read(struct profile_read *read, const char *path, const char *text, size_t len,
		struct buf *why)
{
	struct folded f = { .read = read, .path = path, .why = why };
	int err = strtab_new(&f.texts, MAX_TEXT_BYTES);

	if (err)
		return err;
	err = lines_read(&f, text, len);
	strtab_free(f.texts);
	vec_drop(&f, &f.locations, sizeof(uint32_t));
	vec_drop(&f, &f.frames, sizeof(struct text));
	vec_drop(&f, &f.stack, sizeof(uint32_t));
	return err;
}
