// SPDX-License-Identifier: Apache-2.0
#include "output/text.h"

#include "base/buf.h"
#include "base/strtab.h"
#include "output/output.h"
#include "profile/profile.h"

#include <stdbool.h>
#include <stdint.h>
#include <string.h>
#include <time.h>

#define SHORT_ID 12 /* characters that people know a container by */
#define REPLACEMENT "\xef\xbf\xbd"
#define ELLIPSIS "\xe2\x80\xa6"

/* One character of str; *ret_len bytes. False if they are not UTF-8 (then *ret_len is 1). */
static bool utf8_next(const unsigned char *str, uint32_t *ret, size_t *ret_len)
{
	static const uint32_t smallest[] = { 0, 0, 0x80, 0x800, 0x10000 };
	size_t len, i;
	uint32_t c;

	*ret_len = 1;
	if (str[0] < 0x80) {
		*ret = str[0];
		return true;
	}
	len = str[0] >= 0xf0 ? 4 : str[0] >= 0xe0 ? 3 : 2;
	if (str[0] < 0xc2 || str[0] > 0xf4)
		return false;
	c = str[0] & (0x7fU >> len);
	for (i = 1; i < len; i++) {
		if ((str[i] & 0xc0) != 0x80)
			return false;
		c = c << 6 | (str[i] & 0x3f);
	}
	if (c < smallest[len] || c > 0x10ffff || (c >= 0xd800 && c <= 0xdfff) || c == 0xfffe ||
	    c == 0xffff)
		return false;
	*ret = c;
	*ret_len = len;
	return true;
}

/* Controls, line and paragraph separators, overrides of the text's direction. */
static bool is_control(uint32_t c)
{
	return c < 0x20 || (c >= 0x7f && c <= 0x9f) || c == 0x61c || c == 0x200e || c == 0x200f ||
	       (c >= 0x2028 && c <= 0x202e) || (c >= 0x2066 && c <= 0x2069) || c == 0xfeff;
}

/* The next character, made safe: its bytes and their number; 0 at the end of str. */
static size_t safe_next(const char **str, const char *control, const char **ret_bytes)
{
	uint32_t c;
	size_t len;

	if (!**str)
		return 0;
	*ret_bytes = *str;
	if (!utf8_next((const unsigned char *)*str, &c, &len)) {
		*ret_bytes = REPLACEMENT;
		*str += 1;
		return sizeof(REPLACEMENT) - 1;
	}
	*str += len;
	if (is_control(c)) {
		*ret_bytes = control;
		return 1;
	}
	return len;
}

static void add_safe(struct buf *dst, const char *str, char semicolon, const char *control)
{
	const char *bytes;
	size_t len, total = 0;

	while ((len = safe_next(&str, control, &bytes))) {
		total += len;
		if (total > TEXT_MAX) {
			buf_add_str(dst, "...");
			return;
		}
		if (*bytes == ';')
			buf_add_char(dst, semicolon);
		else
			buf_add(dst, bytes, len);
	}
}

void text_add(struct buf *dst, const char *str)
{
	add_safe(dst, str, ';', " ");
}

void text_add_part(struct buf *dst, const char *str)
{
	add_safe(dst, str, ':', " ");
}

void text_add_shown(struct buf *dst, const char *str)
{
	add_safe(dst, str, ';', "?");
}

void text_add_json(struct buf *dst, const char *str)
{
	const unsigned char *at = (const unsigned char *)str;
	uint32_t c;
	size_t len;

	buf_add_char(dst, '"');
	for (; *at; at += len) {
		if (!utf8_next(at, &c, &len))
			buf_add_str(dst, REPLACEMENT);
		else if (c == '"' || c == '\\')
			buf_printf(dst, "\\%c", (char)c);
		else if (is_control(c))
			buf_printf(dst, "\\u%04x", c);
		else
			buf_add(dst, at, len);
	}
	buf_add_char(dst, '"');
}

void text_json(FILE *out, const char *str)
{
	const char *bytes;
	size_t len;

	putc('"', out);
	while ((len = safe_next(&str, " ", &bytes))) {
		if (*bytes == '"' || *bytes == '\\')
			fprintf(out, "\\%c", *bytes);
		else if (*bytes == '<' || *bytes == '>' || *bytes == '&')
			fprintf(out, "\\u%04x", (unsigned int)*bytes);
		else
			fwrite(bytes, 1, len, out);
	}
	putc('"', out);
}

void text_xml(FILE *out, const char *str)
{
	const char *bytes;
	size_t len;

	while ((len = safe_next(&str, " ", &bytes))) {
		switch (*bytes) {
		case '<':
			fputs("&lt;", out);
			break;
		case '>':
			fputs("&gt;", out);
			break;
		case '&':
			fputs("&amp;", out);
			break;
		case '"':
			fputs("&quot;", out);
			break;
		case '\'':
			fputs("&#39;", out);
			break;
		default:
			fwrite(bytes, 1, len, out);
		}
	}
}

size_t text_columns(const char *text)
{
	size_t columns = 0;

	for (; *text; text++)
		columns += ((unsigned char)*text & 0xc0) != 0x80;
	return columns;
}

static const char *skip_columns(const char *text, size_t columns)
{
	for (; *text && columns; columns--) {
		text++;
		while (((unsigned char)*text & 0xc0) == 0x80)
			text++;
	}
	return text;
}

void text_add_cut(struct buf *dst, const char *text, size_t columns)
{
	size_t have = text_columns(text), head;
	const char *end;

	if (have <= columns) {
		buf_add_str(dst, text);
		return;
	}
	head = (columns - 1) / 2;
	end = skip_columns(text, head);
	buf_add(dst, text, (size_t)(end - text));
	buf_add_str(dst, ELLIPSIS);
	buf_add_str(dst, skip_columns(text, have - (columns - 1 - head)));
}

const char *text_base_name(const char *path)
{
	const char *slash = strrchr(path, '/');

	return slash && slash[1] ? slash + 1 : path;
}

static void add_python(struct buf *dst, const struct profile *profile,
		       const struct profile_location *location)
{
	const char *file = strtab_get(profile->strings, location->short_file);

	if (!*file)
		file = text_base_name(strtab_get(profile->strings, location->file));
	text_add_part(dst, strtab_get(profile->strings, location->name));
	if (!*file)
		return;
	buf_add_str(dst, " (");
	text_add_part(dst, file);
	if (location->line)
		buf_printf(dst, ":%u", location->line);
	buf_add_char(dst, ')');
}

void frame_text(struct buf *dst, const struct profile *profile,
		const struct profile_location *location)
{
	if (location->kind == LOCATION_PYTHON) {
		add_python(dst, profile, location);
		return;
	}
	text_add_part(dst, strtab_get(profile->strings, location->name));
	if (location->kind == LOCATION_KERNEL)
		buf_add_str(dst, "_[k]");
}

void function_text(struct buf *dst, const struct profile *profile,
		   const struct profile_location *location)
{
	struct profile_location without_line = *location;
	const char *file = "anon";

	if (location->kind == LOCATION_NATIVE && !location->has_symbol && !location->has_start) {
		if (location->mapping)
			file = strtab_get(profile->strings,
					  profile->mappings[location->mapping - 1].path);
		buf_add_char(dst, '[');
		text_add_part(dst, *file ? text_base_name(file) : "anon");
		buf_add_char(dst, ']');
		return;
	}
	without_line.line = 0;
	frame_text(dst, profile, &without_line);
}

/* A part of a path that is read from the left: it must not look like two. */
static void add_path_part(struct buf *dst, const char *name)
{
	size_t at = dst->len;

	text_add_part(dst, name);
	for (; at < dst->len; at++)
		if (dst->data[at] == '/')
			dst->data[at] = '_';
}

void container_text(struct buf *dst, const struct profile *profile,
		    const struct profile_process *process)
{
	const struct profile_container *container;
	char id[SHORT_ID + 1];

	if (!process->container)
		return;
	container = &profile->containers[process->container - 1];
	if (container->pod) {
		add_path_part(dst, strtab_get(profile->strings, container->namespace));
		buf_add_char(dst, '/');
		add_path_part(dst, strtab_get(profile->strings, container->pod));
		buf_add_char(dst, '/');
	}
	snprintf(id, sizeof(id), "%s", strtab_get(profile->strings, container->id));
	add_path_part(dst, container->name ? strtab_get(profile->strings, container->name) : id);
}

bool containers_differ(const struct profile *profile)
{
	uint32_t first =
		profile->nr_samples ? profile->processes[profile->samples[0].process].container : 0;
	size_t i;

	for (i = 0; i < profile->nr_samples; i++)
		if (profile->processes[profile->samples[i].process].container != first)
			return true;
	return false;
}

void process_text(struct buf *dst, const struct profile *profile,
		  const struct profile_process *process)
{
	const char *name = strtab_get(profile->strings, process->title);

	if (!*name)
		name = strtab_get(profile->strings, process->comm);
	if (*name)
		text_add_part(dst, name);
	else
		buf_printf(dst, "process-%u", process->pid);
}

void thread_text(struct buf *dst, const char *name, unsigned int tid)
{
	text_add_part(dst, *name ? name : "thread");
	buf_printf(dst, "-%u", tid);
}

const char *flame_title(const struct profile *profile)
{
	static const char *const titles[] = { [PROFILE_TIME_CPU] = "CPU flame graph",
					      [PROFILE_TIME_OFF_CPU] = "Off-CPU flame graph",
					      [PROFILE_TIME_WALL] = "Wall-clock flame graph" };

	if (profile->call_values)
		return "GPU calls";
	return profile->value.type || profile->value.only_counts ? "Flame graph"
								 : titles[profile->time];
}

const char *flame_unit(const struct profile *profile)
{
	const char *unit = strtab_get(profile->strings, profile->value.unit);

	if (profile->call_values)
		return "call";
	if (profile->value.only_counts)
		return profile_counts_calls(profile) ? "call" : "sample";
	if (!profile->value.type && profile->time == PROFILE_TIME_CPU)
		return NULL;
	if (profile_is_time(profile))
		return "microsecond";
	return !strcmp(unit, "bytes") ? "byte" : "unit";
}

static void add_dot(struct buf *dst, size_t from)
{
	if (dst->len > from)
		buf_add_str(dst, " \xc2\xb7 ");
}

void profile_caption(struct buf *dst, const struct profile *profile)
{
	time_t seconds = (time_t)(profile->time_ns / 1000000000);
	size_t from = dst->len;
	char when[32];
	struct tm tm;

	text_add(dst, strtab_get(profile->strings, profile->host));
	if (profile->time_ns && gmtime_r(&seconds, &tm) &&
	    strftime(when, sizeof(when), "%Y-%m-%d %H:%M:%S UTC", &tm)) {
		add_dot(dst, from);
		buf_add_str(dst, when);
	}
	if (!profile->duration_ns) { /* a stored one that does not say */
		add_dot(dst, from);
		buf_add_str(dst, "how long is not known");
		return;
	}
	add_dot(dst, from);
	buf_printf(dst, "%.1f s", (double)profile->duration_ns / 1e9);
	if (profile->hz)
		buf_printf(dst, " at %u Hz", profile->hz);
}
