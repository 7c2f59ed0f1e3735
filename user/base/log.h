/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_BASE_LOG_H
#define BPFPROF_BASE_LOG_H

/*
 * Messages to stderr, one line each, written at once. Text of targets may be in them: a byte of a
 * control character or of invalid UTF-8 becomes '?', in a quoted value an escape. A message has at most
 * 8 KiB. Rooms below capture return errors and leave messages to their callers. The default form is for
 * people; a daemon chooses one that machines read too, which rate-limits repeated messages
 * (log_set_format()).
 */

#include <stddef.h>
#include <stdint.h>

enum log_level { LOG_ERROR, LOG_WARN, LOG_INFO, LOG_DEBUG };
enum log_format { LOG_PLAIN, LOG_LOGFMT, LOG_JSON };

/* The rate limit for messages of one format string: a burst, then one message in so many seconds. */
#define LOG_BURST 10
#define LOG_EVERY_SECONDS 10

void log_set_level(enum log_level level); /* default LOG_INFO */
enum log_level log_get_level(void);
/*
 * With LOG_LOGFMT and LOG_JSON lines have a time, and errors and warnings are rate-limited; the next
 * message has the number of those left out (suppressed). If standard error has no room for a line, the
 * program does not wait but counts the line (unwritten).
 */
void log_set_format(enum log_format format);
void log_msg(enum log_level level, const char *fmt, ...) __attribute__((format(printf, 2, 3)));

struct log_field {
	const char *key;
	const char *text; /* NULL: the number */
	uint64_t number;
};

/* A message (a constant) with named values. */
void log_event(enum log_level level, const char *message, const struct log_field *fields,
	       size_t nr);

#define log_error(...) log_msg(LOG_ERROR, __VA_ARGS__)
#define log_warn(...) log_msg(LOG_WARN, __VA_ARGS__)
#define log_info(...) log_msg(LOG_INFO, __VA_ARGS__)
#define log_debug(...) log_msg(LOG_DEBUG, __VA_ARGS__)

#endif
