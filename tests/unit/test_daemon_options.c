// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "daemon/daemon.h"
#include "options/options.h"
#include "options/values.h"

static char folder[] = "/tmp/bpfprof-config-XXXXXX";
static struct buf error;

static void setup(void)
{
	cr_assert(mkdtemp(folder));
	cr_assert_eq(chdir(folder), 0);
	buf_init(&error, 4096);
}

static void teardown(void)
{
	unlink("conf");
	rmdir(folder);
	buf_fini(&error);
}

TestSuite(daemon_options, .init = setup, .fini = teardown);

static void conf(const char *text)
{
	FILE *file = fopen("conf", "w");

	cr_assert(file);
	fputs(text, file);
	fclose(file);
}

#define CONFIGURE(options, config, ...)                                                            \
	daemon_configure(options, config,                                                          \
			 (int)(sizeof((char *[]){ "daemon", __VA_ARGS__ }) / sizeof(char *)),      \
			 (char *[]){ "daemon", __VA_ARGS__ }, &error)

Test(daemon_options, defaults)
{
	struct daemon_options options;
	struct config config;

	cr_assert_eq(CONFIGURE(&options, &config, "-o", "x"), 0);
	cr_expect_str_eq(options.output, "x");
	cr_expect_eq(options.interval_seconds, 60);
	cr_expect_eq(options.limits.age_seconds, 86400);
	cr_expect_eq(options.limits.bytes, 1ULL << 30);
	cr_expect_eq(options.max_memory, 0);
	cr_expect_eq(options.capture.session.hz, 99);
	cr_expect_eq(options.log_format, LOG_LOGFMT);
	cr_expect_eq(options.log_level, LOG_INFO);
	cr_expect_eq(options.split, DAEMON_SPLIT_NODE);
	cr_expect_null(options.push.url);
	cr_expect_eq(options.push.timeout_ms, 10000);
	cr_expect_eq(options.push.queue, 1000);
	options_fini(&daemon_flags, &options);
}

Test(daemon_options, wrong)
{
	static const struct {
		const char *flag, *value, *says;
	} cases[] = {
		{ "--interval", "1.5", "whole seconds" },
		{ "--interval", "0", "whole seconds" },
		{ "--interval", "25h", "whole seconds" },
		{ "--retain-age", "0.5", "duration" },
		{ "--retain-bytes", "0", "bytes" },
		{ "--retain-bytes", "-1", "bytes" },
		{ "--retain-bytes", "1X", "bytes" },
		{ "--retain-bytes", "99999999999T", "bytes" },
		{ "--max-memory", "47M", "at least 48M" },
		{ "--file-mode", "", "0600, 0640 or 0644" },
		{ "--file-mode", "0666", "0600, 0640 or 0644" },
		{ "--file-mode", "0400", "0600, 0640 or 0644" },
		{ "--file-mode", "0750", "0600, 0640 or 0644" },
		{ "--file-mode", "648", "0600, 0640 or 0644" },
		{ "--file-mode", "u=rw", "0600, 0640 or 0644" },
		{ "--group", "", "no such group" },
		{ "--group", "no-such-group", "no such group" },
		{ "--group", "12x", "no such group" },
		{ "--group", "-1", "no such group" },
		{ "--group", "4294967295", "no number of a group" },
		{ "--group", "4294967296", "no number of a group" },
		{ "--output", "", "folder" },
		{ "--output", "-", "folder" },
		{ "--output", "%q", "understood" },
		{ "--log-level", "loud", "error, warn" },
		{ "--log-format", "xml", "logfmt or json" },
		{ "--rate", "0", "between 1 and 10000" },
		{ "--config", "none", "No such file" },
		{ "--config", ".", "not a text file" },
		{ "--split", "process", "node or pod" },
		{ "--push-label", "a", "NAME=VALUE" },
		{ "--push-label", "pod=x", "NAME=VALUE" },
		{ "--push-timeout", "0", "up to 10 minutes" },
		{ "--push-timeout", "11m", "up to 10 minutes" },
		{ "--push-queue", "0", "1 to 100000" },
		{ "--push-queue", "100001", "1 to 100000" },
		{ "--push-tenant-file", "", "file name" },
		{ "--push-tenant-file", "x", "--push is missing" },
		{ "--push", "localhost", "must begin with http" },
	};
	struct daemon_options options;
	struct config config;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		buf_reset(&error);
		cr_expect_lt(CONFIGURE(&options, &config, "-o", "x", (char *)cases[i].flag,
				       (char *)cases[i].value),
			     0);
		cr_expect(error.data && strstr(error.data, cases[i].says), "%s %s: %s",
			  cases[i].flag, cases[i].value, error.data);
	}
	buf_reset(&error);
	cr_expect_eq(CONFIGURE(&options, &config, "--interval", "5m"), -EINVAL);
	cr_expect(strstr(error.data, "--output is missing"));
}

Test(daemon_options, access)
{
	struct daemon_options options;
	struct config config;

	cr_assert_eq(CONFIGURE(&options, &config, "-o", "x"), 0);
	cr_expect_eq(options.access.file_mode, 0);
	cr_expect(!options.access.has_group);
	options_fini(&daemon_flags, &options);
	cr_assert_eq(
		CONFIGURE(&options, &config, "-o", "x", "--file-mode", "644", "--group", "root"),
		0);
	cr_expect_eq(options.access.file_mode, 0644);
	cr_expect(options.access.has_group && options.access.group == 0);
	options_fini(&daemon_flags, &options);
	cr_assert_eq(CONFIGURE(&options, &config, "-o", "x", "--file-mode", "0600", "--group",
			       "4294967294"),
		     0);
	cr_expect_eq(options.access.file_mode, 0600);
	cr_expect(options.access.has_group && options.access.group == 4294967294);
	options_fini(&daemon_flags, &options);
}

/* Options for hooked libraries; the file may have them, too. */
Test(daemon_options, parts)
{
	struct daemon_options options;
	struct config config;

	cr_expect_eq(CONFIGURE(&options, &config, "-o", "x", "--tensors"), -EINVAL);
	cr_expect(strstr(error.data, "--tensors: ") && strstr(error.data, "add --gpu"));
	buf_reset(&error);
	conf("BPFPROF_GC=1\n");
	cr_expect_eq(CONFIGURE(&options, &config, "-o", "x", "--config", "conf"), -EINVAL);
	cr_expect(strstr(error.data, "--gc: ") && strstr(error.data, "add --gpu"));
	buf_reset(&error);
	cr_assert_eq(
		CONFIGURE(&options, &config, "-o", "x", "--config", "conf", "--gpu", "--tensors"),
		0, "%s", error.data);
	cr_expect(options.capture.session.gpu && options.capture.session.gpu_tensors &&
		  options.capture.session.gpu_gc);
	config_unload(&config);
	options_fini(&daemon_flags, &options);
}

/* The wrong part of a URL may be a password: messages do not repeat it. */
Test(daemon_options, push)
{
	struct daemon_options options;
	struct config config;

	cr_assert_eq(CONFIGURE(&options, &config, "-o", "x", "--push", "http://h:4040",
			       "--push-label", "a=b", "--push-label", "c=d",
			       "--push-bearer-token-file", "t", "--push-timeout", "1.5",
			       "--push-queue", "7"),
		     0, "%s", error.data);
	cr_expect_str_eq(options.push.url, "http://h:4040");
	cr_expect_eq(options.push.nr_labels, 2);
	cr_expect_str_eq(options.push.labels[1], "c=d");
	cr_expect_str_eq(options.push.bearer_file, "t");
	cr_expect_eq(options.push.timeout_ms, 1500);
	cr_expect_eq(options.push.queue, 7);
	options_fini(&daemon_flags, &options);
	cr_expect_eq(CONFIGURE(&options, &config, "-o", "x", "--push", "http://u:hidden@h"),
		     -EINVAL);
	cr_expect(strstr(error.data, "--push-basic-auth-file"), "%s", error.data);
	cr_expect_null(strstr(error.data, "hidden"));
	buf_reset(&error);
	cr_expect_eq(CONFIGURE(&options, &config, "-o", "x", "--push", "http://h",
			       "--push-bearer-token-file", "t", "--push-basic-auth-file", "u"),
		     -EINVAL);
	cr_expect(strstr(error.data, "only one of them"), "%s", error.data);
}

/* The same; the query of a URL may be wanted by its server. */
Test(daemon_options, notify)
{
	static const struct {
		const char *url, *says; /* says NULL: it is right */
	} cases[] = {
		{ "https://h/hook?key=hidden", NULL },
		{ "localhost", "--notify: the URL must begin with http" },
		{ "http://u:hidden@h", "--notify-token-file" },
		{ "http://h/#hidden", "before a #" },
		{ "http://?hidden", "no host" },
	};
	struct daemon_options options;
	struct config config;

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		buf_reset(&error);
		cr_expect_eq(CONFIGURE(&options, &config, "-o", "x", "--watch", "--notify",
				       (char *)cases[i].url, "--notify-token-file", "t"),
			     cases[i].says ? -EINVAL : 0, "%s", cases[i].url);
		if (cases[i].says) {
			cr_expect(strstr(error.data, cases[i].says), "%s", error.data);
			cr_expect_null(strstr(error.data, "hidden"), "%s", error.data);
			continue;
		}
		cr_expect_str_eq(options.notify.url, cases[i].url);
		cr_expect_str_eq(options.notify.bearer_file, "t");
		cr_expect_null(options.push.url);
		cr_expect_null(options.push.bearer_file);
		options_fini(&daemon_flags, &options);
	}
	buf_reset(&error);
	cr_expect_eq(CONFIGURE(&options, &config, "-o", "x", "--notify", "http://h"), -EINVAL);
	cr_expect(strstr(error.data, "add --watch"), "%s", error.data);
	buf_reset(&error);
	cr_expect_eq(CONFIGURE(&options, &config, "-o", "x", "--push", "http://h", "--watch",
			       "--notify-ca-file", "c"),
		     -EINVAL);
	cr_expect(strstr(error.data, "--notify is missing"), "%s", error.data);
}

#define TOKEN "a.B/c==89abcdef0" /* as short as can be */

Test(daemon_options, token)
{
	static const struct {
		const char *text, *says; /* says NULL: it is TOKEN */
	} cases[] = {
		{ TOKEN, NULL },
		{ " \n\t" TOKEN "\r\n\n", NULL },
		{ "", "no token" },
		{ "\n", "no token" },
		{ TOKEN " b c", "a line is TOKEN" },
		{ TOKEN "\nb", "at least 16" },
		{ TOKEN "\303\251", "one word" },
		{ TOKEN "\033[m", "one word" },
		{ "0123456789abcde", "at least 16 characters" },
		{ "  0123456789abcde  \n", "at least 16 characters" },
	};
	struct daemon_options options;
	struct config config;

	umask(077);
	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		conf(cases[i].text);
		buf_reset(&error);
		if (CONFIGURE(&options, &config, "-o", "x", "--allow-remote-profiling", "conf")) {
			cr_expect(cases[i].says && strstr(error.data, cases[i].says), "%zu: %s", i,
				  error.data);
			continue;
		}
		cr_expect_null(cases[i].says, "%zu", i);
		cr_assert_eq(options.tokens.nr, 1);
		cr_expect_str_eq(options.tokens.all[0].text, TOKEN);
		options_fini(&daemon_flags, &options);
	}
	buf_reset(&error);
	cr_expect_eq(CONFIGURE(&options, &config, "-o", "x", "--allow-remote-profiling"), -EINVAL);
	buf_reset(&error);
	cr_expect_eq(CONFIGURE(&options, &config, "-o", "x", "--allow-remote-profiling="), -EINVAL);
	buf_reset(&error);
	cr_expect_eq(CONFIGURE(&options, &config, "-o", "x", "--allow-remote-profiling", "."),
		     -EINVAL);
}

/* The group may read it, all users may not; a link to it has no mode of its own. */
Test(daemon_options, token_modes)
{
	static const struct {
		mode_t mode;
		bool right;
	} cases[] = {
		{ 0400, true },	 { 0600, true },  { 0640, true },  { 0440, true },
		{ 0660, true },	 { 0644, false }, { 0604, false }, { 0444, false },
		{ 0666, false }, { 0602, false }, { 0750, true },
	};
	struct daemon_options options;
	struct config config;
	char mode[8];

	conf(TOKEN);
	cr_assert_eq(symlink("conf", "link"), 0);
	for (size_t i = 0; i < 2 * sizeof(cases) / sizeof(cases[0]); i++) {
		cr_assert_eq(chmod("conf", cases[i / 2].mode), 0);
		buf_reset(&error);
		if (CONFIGURE(&options, &config, "-o", "x", "--allow-remote-profiling",
			      i % 2 ? "link" : "conf")) {
			snprintf(mode, sizeof(mode), "%04o", cases[i / 2].mode);
			cr_expect(!cases[i / 2].right && strstr(error.data, mode) &&
					  strstr(error.data, "chmod 0640"),
				  "%zu: %s", i, error.data);
			continue;
		}
		cr_expect(cases[i / 2].right, "mode %04o", cases[i / 2].mode);
		options_fini(&daemon_flags, &options);
	}
	unlink("link");
}

Test(daemon_options, choice)
{
	struct daemon_options options;
	struct config config;

	conf("BPFPROF_PID=7,8\nBPFPROF_POD=ml/*,web\n");
	cr_assert_eq(CONFIGURE(&options, &config, "-o", "x", "--config", "conf", "--worker",
			       "A, b*", "--container", "containerd://abc"),
		     0, "%s", error.data);
	cr_expect_eq(options.tokens.nr, 0);
	cr_expect_eq(options.choice.nr_pids, 2);
	cr_expect_eq(options.choice.pids[1], 8);
	cr_expect_eq(options.choice.containers.nr_pods, 2);
	cr_expect_str_eq(options.choice.containers.pods[1], "web");
	cr_expect_str_eq(options.choice.containers.ids[0], "abc");
	cr_expect_eq(options.choice.nr_workers, 2);
	cr_expect(process_choice_is_set(&options.choice));
	options_fini(&daemon_flags, &options);
	config_unload(&config);
	cr_assert_eq(CONFIGURE(&options, &config, "-o", "x"), 0);
	cr_expect(!process_choice_is_set(&options.choice));
	options_fini(&daemon_flags, &options);
}

/* The command line wins, then the environment, then the file. */
Test(daemon_options, config)
{
	struct daemon_options options;
	struct config config;

	conf("# nothing\n\n  BPFPROF_OUTPUT=\"a b\" \nBPFPROF_INTERVAL=5m\r\n"
	     "BPFPROF_RETAIN_AGE=2h\nBPFPROF_RETAIN_BYTES='3G'");
	setenv("BPFPROF_INTERVAL", "7s", 1);
	cr_assert_eq(CONFIGURE(&options, &config, "--config", "conf", "--retain-age", "3h"), 0,
		     "%s", error.data);
	cr_expect_str_eq(options.output, "a b");
	cr_expect_eq(options.interval_seconds, 7);
	cr_expect_eq(options.limits.age_seconds, 3 * 3600);
	cr_expect_eq(options.limits.bytes, 3ULL << 30);
	cr_expect_null(getenv("BPFPROF_OUTPUT"), "other threads read the environment");
	options_fini(&daemon_flags, &options);
	config_unload(&config);
	cr_expect_str_eq(getenv("BPFPROF_INTERVAL"), "7s");
}

Test(daemon_options, config_wrong)
{
	static const char *const texts[] = { "BPFPROF_OUTPUT\n", "PATH=x\n", "BPFPROF_a=b\n",
					     "=x\n", "BPFPROF_OUTPUT =x\n" };
	struct daemon_options options;
	struct config config;
	char text[128];

	for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++) {
		snprintf(text, sizeof(text), "BPFPROF_RATE=50\n%s", texts[i]);
		conf(text);
		buf_reset(&error);
		cr_expect_eq(CONFIGURE(&options, &config, "-o", "x", "--config", "conf"), -EINVAL);
		cr_expect(strstr(error.data, "line 2"), "%s", error.data);
		cr_expect_null(getenv("BPFPROF_RATE"));
	}
	unlink("conf");
	cr_assert_eq(mkfifo("conf", 0644), 0);
	buf_reset(&error);
	cr_expect_lt(CONFIGURE(&options, &config, "-o", "x", "--config", "conf"), 0);
	cr_expect(strstr(error.data, "not a text file"));
}

Test(daemon_options, bytes)
{
	static const struct {
		const char *text;
		uint64_t bytes;
		int err;
	} cases[] = {
		{ "1000", 1000, 0 },
		{ "1K", 1024, 0 },
		{ "2k", 2048, 0 },
		{ "3M", 3 << 20, 0 },
		{ "1G", 1 << 30, 0 },
		{ "1GiB", 1 << 30, 0 },
		{ "1GB", 1 << 30, 0 },
		{ "1Gi", 1 << 30, 0 },
		{ "5B", 5, 0 },
		{ "2T", 2ULL << 40, 0 },
		{ "", 0, -EINVAL },
		{ "G", 0, -EINVAL },
		{ "1.5G", 0, -EINVAL },
		{ "1 G", 0, -EINVAL },
		{ "1GG", 0, -EINVAL },
		{ "+1", 0, -EINVAL },
		{ "0", 0, -ERANGE },
		{ "99999999999999999999", 0, -ERANGE },
		{ "9999999T", 0, -ERANGE },
	};

	for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		uint64_t bytes = 0;

		cr_expect_eq(value_bytes(cases[i].text, &bytes), cases[i].err, "%s", cases[i].text);
		cr_expect_eq(bytes, cases[i].bytes, "%s: %llu", cases[i].text,
			     (unsigned long long)bytes);
	}
}
