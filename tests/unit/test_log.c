// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "base/log.h"

static int read_fd;

/* Standard error becomes a pipe. */
static void setup(void)
{
	int fds[2];

	cr_assert_eq(pipe2(fds, O_NONBLOCK), 0);
	read_fd = fds[0];
	dup2(fds[1], STDERR_FILENO);
	close(fds[1]);
}

TestSuite(log, .init = setup);

static const char *said(void)
{
	static char text[1 << 17];
	ssize_t n = read(read_fd, text, sizeof(text) - 1);

	text[n > 0 ? n : 0] = 0;
	return text;
}

static size_t lines(const char *text)
{
	size_t nr = 0;

	for (; *text; text++)
		nr += *text == '\n';
	return nr;
}

Test(log, plain)
{
	struct log_field fields[] = { { .key = "file", .text = "a b" },
				      { .key = "bytes", .number = 12 } };

	log_warn("%s: %d", "x", 3);
	cr_expect_str_eq(said(), "bpfprof: warning: x: 3\n");
	log_event(LOG_INFO, "wrote", fields, 2);
	cr_expect_str_eq(said(), "bpfprof: wrote file=\"a b\" bytes=12\n");
	log_debug("not at this level");
	cr_expect_str_eq(said(), "");
	for (int i = 0; i < 3 * LOG_BURST; i++)
		log_error("again");
	cr_expect_eq(lines(said()), 3 * LOG_BURST);
}

Test(log, logfmt)
{
	struct log_field fields[] = { { .key = "file", .text = "cpu-1.pb.gz" },
				      { .key = "why", .text = "a \"b\"\\\n\x1b[31m\xff=" },
				      { .key = "none", .text = "" },
				      { .key = "bytes", .number = 12 } };
	const char *text, *rest;

	log_set_format(LOG_LOGFMT);
	log_event(LOG_WARN, "not written", fields, 4);
	text = said();
	cr_assert_eq(strncmp(text, "time=20", 7), 0, "%s", text);
	rest = strchr(text, ' ');
	cr_assert(rest);
	cr_expect_str_eq(
		rest,
		" level=warn msg=\"not written\" file=cpu-1.pb.gz "
		"why=\"a \\\"b\\\"\\\\\\u000a\\u001b[31m\xef\xbf\xbd=\" none=\"\" bytes=12\n");
	cr_expect_eq(rest - text, (long)strlen("time=2026-11-21T14:46:20.123Z"));
}

Test(log, json)
{
	struct log_field fields[] = { { .key = "why", .text = "\"\\\t" },
				      { .key = "bytes", .number = 12 } };
	const char *rest;

	log_set_format(LOG_JSON);
	log_event(LOG_ERROR, "failed", fields, 2);
	rest = strstr(said(), "\"level\"");
	cr_assert(rest);
	cr_expect_str_eq(rest, "\"level\":\"error\",\"msg\":\"failed\",\"why\":\"\\\"\\\\\\u0009\","
			       "\"bytes\":12}\n");
}

/* A target chose it: it ends a line, begins one that looks like ours, and controls a terminal. */
#define EVIL                                                                                       \
	"a\nbpfprof: all is "                                                                      \
	"well\r\t\x1b]0;t\x07\x7f\x9b\xc2\x85\xe2\x80\xa8\xe2\x80\xae\xff\xc3\xa9z"
#define PLAIN "a?bpfprof: all is well???]0;t????????????\xc3\xa9z"
#define QUOTED                                                                                     \
	"a\\u000abpfprof: all is well\\u000d\\u0009\\u001b]0;t\\u0007\\u007f\xef\xbf\xbd\\u0085"   \
	"\\u2028\\u202e\xef\xbf\xbd\xc3\xa9z"

Test(log, text_of_a_target_is_one_line_without_controls)
{
	struct log_field field = { .key = "file", .text = EVIL };

	log_warn("%s: odd", EVIL);
	cr_expect_str_eq(said(), "bpfprof: warning: " PLAIN ": odd\n");
	log_event(LOG_INFO, EVIL, &field, 1);
	cr_expect_str_eq(said(), "bpfprof: " PLAIN " file=\"" QUOTED "\"\n");
	log_set_format(LOG_LOGFMT);
	log_warn("%s: odd", EVIL);
	cr_expect_str_eq(strstr(said(), " level="), " level=warn msg=\"" QUOTED ": odd\"\n");
	log_set_format(LOG_JSON);
	log_warn("%s: odd", EVIL);
	cr_expect_str_eq(strstr(said(), "\"level"),
			 "\"level\":\"warn\",\"msg\":\"" QUOTED ": odd\"}\n");
}

Test(log, a_long_message_is_cut_visibly)
{
	static char text[10000];
	const char *line;

	memset(text, 'x', sizeof(text) - 1);
	log_info("%s", text);
	line = said();
	cr_expect_eq(lines(line), 1);
	cr_expect(strlen(line) > 8000 && strlen(line) < sizeof(text));
	cr_expect_str_eq(line + strlen(line) - 5, "x...\n");
}

Test(log, limited)
{
	log_set_format(LOG_LOGFMT);
	for (int i = 0; i < 100; i++)
		log_error("one %d", i);
	cr_expect_eq(lines(said()), LOG_BURST);
	/* Other messages have their own limit, and progress has none. */
	log_error("two");
	for (int i = 0; i < 100; i++)
		log_event(LOG_INFO, "written", NULL, 0);
	cr_expect_eq(lines(said()), 101);
}

Test(log, nobody_reads, .timeout = 20)
{
	char *rest;

	fcntl(STDERR_FILENO, F_SETFL, 0); /* would block now */
	log_set_format(LOG_LOGFMT);
	for (int i = 0; i < 5000; i++)
		log_event(LOG_INFO, "written", NULL, 0);
	while (*said())
		;
	log_event(LOG_INFO, "written", NULL, 0);
	rest = strstr(said(), "unwritten=");
	cr_expect(rest);
}
