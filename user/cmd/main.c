// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/exit_status.h"
#include "base/log.h"
#include "base/text.h"
#include "capture/requirements.h"
#include "cmd/command.h"
#include "cmd/report_options.h"
#include "daemon/daemon_options.h"
#include "options/config.h"
#include "options/flags.h"
#include "options/gpu_options.h"
#include "options/options.h"

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))
#define MESSAGE_MAX 4096
#define HELP_MAX 65536

static const char usage[] =
	"Usage: bpfprof record|top|dump|gpu|report|daemon|doctor [FLAG]..., bpfprof "
	"--help, bpfprof --version\n";

/* Writes to standard output; EXIT_FAILED and one sentence if that fails. */
static int print(const char *text)
{
	if (fputs(text, stdout) >= 0 && fflush(stdout) == 0)
		return EXIT_DONE;
	log_error("standard output: %s", strerror(errno));
	return EXIT_FAILED;
}

static int print_help(void (*help)(struct buf *dst))
{
	__cleanup(buf_fini) struct buf text;

	buf_init(&text, HELP_MAX);
	help(&text);
	if (buf_error(&text)) {
		log_error("out of memory");
		return EXIT_FAILED;
	}
	return print(text.data);
}

/* The exit status for a parser's result other than OPTIONS_RUN. */
static int refuse(const char *command, int result, const struct buf *message,
		  void (*help)(struct buf *dst))
{
	if (result == OPTIONS_HELP)
		return print_help(help);
	if (result == -ENOMEM || buf_error(message)) {
		log_error("out of memory");
		return EXIT_FAILED;
	}
	fprintf(stderr, "bpfprof %s: %s\n", command, message->data);
	return EXIT_USAGE;
}

/* Once is for people, twice for who looks into the loading of BPF programs. */
static void set_verbose(unsigned int times)
{
	if (times)
		log_set_level(LOG_DEBUG);
	if (times > 1)
		libbpf_log_all();
}

static int run_record(int argc, char *argv[])
{
	__cleanup(buf_fini) struct buf message;
	struct record_options options;
	int err;

	buf_init(&message, MESSAGE_MAX);
	err = record_options_parse(&options, argc, argv, &message);
	if (err)
		return refuse("record", err, &message, record_help);
	set_verbose(options.verbose);
	err = record_run(&options);
	record_options_fini(&options);
	return err;
}

static int run_dump(int argc, char *argv[])
{
	__cleanup(buf_fini) struct buf message;
	struct dump_options options;
	int err;

	buf_init(&message, MESSAGE_MAX);
	err = dump_options_parse(&options, argc, argv, &message);
	if (err)
		return refuse("dump", err, &message, dump_help);
	set_verbose(options.verbose);
	err = dump_run(&options);
	dump_options_fini(&options);
	return err;
}

static int run_top(int argc, char *argv[])
{
	__cleanup(buf_fini) struct buf message;
	struct top_options options;
	int err;

	buf_init(&message, MESSAGE_MAX);
	err = top_options_parse(&options, argc, argv, &message);
	if (err)
		return refuse("top", err, &message, top_help);
	set_verbose(options.record.verbose);
	err = top_run(&options);
	top_options_fini(&options);
	return err;
}

static int run_gpu(int argc, char *argv[])
{
	__cleanup(buf_fini) struct buf message;
	struct gpu_options options;
	int err;

	buf_init(&message, MESSAGE_MAX);
	err = gpu_options_parse(&options, argc, argv, &message);
	if (err)
		return refuse("gpu", err, &message, gpu_help);
	set_verbose(options.record.verbose);
	err = gpu_run(&options);
	gpu_options_fini(&options);
	return err;
}

static int run_report(int argc, char *argv[])
{
	__cleanup(buf_fini) struct buf message;
	struct report_options options;
	int err;

	buf_init(&message, MESSAGE_MAX);
	err = report_options_parse(&options, argc, argv, &message);
	if (err)
		return refuse("report", err, &message, report_help);
	err = report_run(&options);
	report_options_fini(&options);
	return err;
}

static int run_doctor(int argc, char *argv[])
{
	__cleanup(buf_fini) struct buf message;
	struct doctor_options options;
	int err;

	buf_init(&message, MESSAGE_MAX);
	err = doctor_options_parse(&options, argc, argv, &message);
	if (err)
		return refuse("doctor", err, &message, doctor_help);
	set_verbose(options.verbose);
	err = doctor_run(&options);
	doctor_options_fini(&options);
	return err;
}

static int run_daemon(int argc, char *argv[])
{
	__cleanup(buf_fini) struct buf message;
	struct daemon_options options = { 0 };
	struct config config = { 0 };
	const char *host;
	int err;

	buf_init(&message, MESSAGE_MAX);
	err = daemon_configure(&options, &config, argc, argv, &message);
	if (err)
		return refuse("daemon", err, &message, daemon_help);
	/* No flag's twin, so nobody else looks for it in the file; there is only one thread yet. */
	host = config_get(&config, "BPFPROF_HOST");
	if (host && setenv("BPFPROF_HOST", host, 1))
		log_error("BPFPROF_HOST: %s", strerror(errno));
	log_set_level(options.log_level);
	log_set_format(options.log_format);
	err = daemon_run(&options, &config, argc, argv);
	daemon_options_fini(&options);
	config_unload(&config);
	return err;
}

static const struct {
	const char *name;
	int (*run)(int argc, char *argv[]);
	const char *help;
} commands[] = {
	{ "record", run_record,
	  "sample the machine, some processes or a program; write a profile" },
	{ "top", run_top, "show the functions that use the CPU right now" },
	{ "dump", run_dump, "say what every thread of a process is doing, without stopping it" },
	{ "gpu", run_gpu, "show CUDA and NCCL calls: launches, bytes, waiting, memory" },
	{ "report", run_report,
	  "tables of stored profiles; merge and convert them; which NCCL rank is slow" },
	{ "daemon", run_daemon, "write a profile of the machine per minute, for ever" },
	{ "doctor", run_doctor, "say what this machine lacks for that, and how to get it" },
};

static void main_help(struct buf *dst)
{
	buf_add_str(
		dst,
		"Usage: bpfprof COMMAND [FLAG]...\n"
		"Profiles a whole Linux machine from outside, without ptrace: kernel, native and\n"
		"Python stacks, unwound in the kernel by BPF, no frame pointers needed.\n\n"
		"Commands (each has --help):\n");
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		buf_printf(dst, "  %-9s%s\n", commands[i].name, commands[i].help);
	buf_add_str(
		dst,
		"\n"
		"  --version          say which version this is\n"
		"  -h, --help         show this\n"
		"\n"
		"Examples:\n"
		"  bpfprof doctor\n"
		"  bpfprof record -d 10\n"
		"  bpfprof top -p 1234\n"
		"  bpfprof dump -p 1234\n"
		"  bpfprof gpu -p 1234\n"
		"  bpfprof daemon --output /var/lib/bpfprof\n"
		"\n"
		"Exit status: 0 done, 1 failed, 2 wrong command, flag or value, 3 a privilege or\n"
		"a kernel feature is missing, 4 no such process.\n");
}

static int unknown_command(const char *word)
{
	static const char *const helps[] = { "help", "usage" };
	static const char *const versions[] = { "version" };
	const char *names[ARRAY_SIZE(commands)], *nearest;
	__cleanup(buf_fini) struct buf typed;

	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		names[i] = commands[i].name;
	nearest = word_nearest(word, names, ARRAY_SIZE(names));
	if (!nearest && word_nearest(word, helps, ARRAY_SIZE(helps)))
		nearest = "--help";
	if (!nearest && word_nearest(word, versions, ARRAY_SIZE(versions)))
		nearest = "--version";
	buf_init(&typed, MESSAGE_MAX);
	text_add_typed(&typed, word);
	if (nearest)
		log_error("%s: no such command, did you mean bpfprof %s?", typed.data, nearest);
	else
		log_error("%s: no such command, bpfprof --help lists them", typed.data);
	return EXIT_USAGE;
}

int main(int argc, char *argv[])
{
	/* A file-size limit or a closed pipe is an error of write(2), not our end. */
	signal(SIGXFSZ, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	if (argc < 2) {
		fputs(usage, stderr);
		for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
			fprintf(stderr, "  %-9s%s\n", commands[i].name, commands[i].help);
		return EXIT_USAGE;
	}
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		if (!strcmp(argv[1], commands[i].name))
			return commands[i].run(argc - 1, argv + 1);
	}
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))
		return print_help(main_help);
	if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V"))
		return print("bpfprof " BPFPROF_VERSION "\n");
	return unknown_command(argv[1]);
}
