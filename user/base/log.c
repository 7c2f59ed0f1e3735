// SPDX-License-Identifier: Apache-2.0
#include "base/log.h"

#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/clean_text.h"
#include "base/text.h"
#include "base/time.h"

#define LINE_MAX_BYTES 65536
#define MESSAGE_BYTES 8192
#define CUT "..." /* the end of a longer message */
#define NR_LIMITS 64 /* messages with a limit of their own; all other messages share one */

static const char *const prefix[] = { "bpfprof: ", "bpfprof: warning: ", "bpfprof: ",
				      "bpfprof: debug: " };

struct limit {
	const char *fmt;
	uint64_t tokens, earned_ns;
	uint64_t suppressed;
};

static enum log_level current_level = LOG_INFO;
static enum log_format current_format = LOG_PLAIN;
static struct limit limits[NR_LIMITS];
static uint64_t nr_unwritten; /* lines that were dropped, as standard error was full */

void log_set_level(enum log_level level)
{
	current_level = level;
}

enum log_level log_get_level(void)
{
	return current_level;
}

void log_set_format(enum log_format format)
{
	current_format = format;
}

/* May this message be written? *suppressed: number of messages dropped before it. */
static bool limit_allows(const char *fmt, uint64_t *suppressed)
{
	uint64_t now_ns = time_monotonic_ns(), earned;
	struct limit *limit;
	size_t i;

	for (i = 0; i < NR_LIMITS - 1 && limits[i].fmt && limits[i].fmt != fmt; i++)
		;
	limit = &limits[i];
	if (!limit->fmt)
		*limit = (struct limit){ .fmt = fmt, .tokens = LOG_BURST, .earned_ns = now_ns };
	earned = (now_ns - limit->earned_ns) / (LOG_EVERY_SECONDS * NS_PER_SECOND);
	limit->earned_ns += earned * LOG_EVERY_SECONDS * NS_PER_SECOND;
	limit->tokens = limit->tokens + earned < LOG_BURST ? limit->tokens + earned : LOG_BURST;
	if (!limit->tokens) {
		limit->suppressed++;
		return false;
	}
	limit->tokens--;
	*suppressed = limit->suppressed;
	limit->suppressed = 0;
	return true;
}

/* logfmt needs quotes only around special characters. */
static void add_value(struct buf *dst, const char *text)
{
	static const char plain[] = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
				    "-_./:+,%@";

	if (current_format == LOG_JSON || !*text || text[strspn(text, plain)])
		text_add_json(dst, text);
	else
		buf_add_str(dst, text);
}

static void add_field(struct buf *dst, const char *key, const char *text, uint64_t number)
{
	if (current_format == LOG_JSON)
		buf_printf(dst, "%c\"%s\":", dst->len ? ',' : '{', key);
	else
		buf_printf(dst, "%s%s=", dst->len ? " " : "", key);
	if (text)
		add_value(dst, text);
	else
		buf_printf(dst, "%" PRIu64, number);
}

static void add_time(struct buf *dst)
{
	char text[TIME_TEXT_BYTES];

	add_field(dst, "time", time_text_ms(text, time_wall_ns()), 0);
}

/* Names of targets are in a message: it is one line, whatever they hold. */
static void add_head(struct buf *dst, enum log_level level, const char *message)
{
	static const char *const names[] = { "error", "warn", "info", "debug" };
	char clean[MESSAGE_BYTES];

	if (current_format == LOG_PLAIN) {
		clean_text(clean, sizeof(clean), message, strlen(message));
		buf_add_str(dst, prefix[level]);
		buf_add_str(dst, clean);
		return;
	}
	add_time(dst);
	add_field(dst, "level", names[level], 0);
	add_field(dst, "msg", message, 0);
}

/* A daemon goes on if no process reads its messages. */
static bool can_write(void)
{
	struct pollfd fd = { .fd = STDERR_FILENO, .events = POLLOUT };

	return current_format == LOG_PLAIN || poll(&fd, 1, 0) > 0;
}

/* Writes the line at once, so that lines of several processes do not mix. */
static void line_write(const char *line, size_t len)
{
	size_t done = 0;
	ssize_t n;

	for (; done < len; done += (size_t)n) {
		n = write(STDERR_FILENO, line + done, len - done);
		if (n < 0 && errno == EINTR)
			n = 0;
		else if (n <= 0)
			break;
	}
}

static void say(enum log_level level, const char *message, const char *key,
		const struct log_field *fields, size_t nr)
{
	uint64_t suppressed = 0;
	struct buf line;
	size_t i;

	if (!can_write()) {
		nr_unwritten++;
		return;
	}
	if (current_format != LOG_PLAIN && level <= LOG_WARN && !limit_allows(key, &suppressed))
		return;
	buf_init(&line, LINE_MAX_BYTES);
	add_head(&line, level, message);
	for (i = 0; i < nr; i++)
		add_field(&line, fields[i].key, fields[i].text, fields[i].number);
	if (suppressed)
		add_field(&line, "suppressed", NULL, suppressed);
	if (nr_unwritten)
		add_field(&line, "unwritten", NULL, nr_unwritten);
	nr_unwritten = 0;
	if (current_format == LOG_JSON)
		buf_add_char(&line, '}');
	buf_add_char(&line, '\n');
	if (!buf_error(&line))
		line_write(line.data, line.len);
	buf_fini(&line);
}

/* Needs no memory, so that a lack of it can be reported. */
static void say_plain(enum log_level level, const char *message)
{
	char line[MESSAGE_BYTES + 32];
	size_t len = strlen(prefix[level]);

	memcpy(line, prefix[level], len);
	clean_text(line + len, sizeof(line) - len - 1, message, strlen(message));
	len = strlen(line);
	line[len++] = '\n';
	line_write(line, len);
}

void log_msg(enum log_level level, const char *fmt, ...)
{
	char message[MESSAGE_BYTES];
	int saved = errno, len;
	va_list ap;

	if (level > current_level)
		return;
	va_start(ap, fmt);
	len = vsnprintf(message, sizeof(message), fmt, ap);
	va_end(ap);
	if (len >= (int)sizeof(message))
		memcpy(message + sizeof(message) - sizeof(CUT), CUT, sizeof(CUT));
	if (current_format == LOG_PLAIN)
		say_plain(level, message);
	else
		say(level, message, fmt, NULL, 0);
	errno = saved;
}

void log_event(enum log_level level, const char *message, const struct log_field *fields, size_t nr)
{
	int saved = errno;

	if (level <= current_level)
		say(level, message, message, fields, nr);
	errno = saved;
}
