// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/exit_status.h"
#include "base/log.h"
#include "base/print.h"
#include "base/text.h"
#include "capture/requirements.h"
#include "cmd/command.h"
#include "cmd/report_options.h"
#include "daemon/daemon_options.h"
#include "options/config.h"
#include "options/flags.h"
#include "options/gpu_options.h"
#include "options/memory_options.h"
#include "options/options.h"
#include "options/watch_options.h"

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))
#define MESSAGE_MAX 4096
#define HELP_MAX 65536

static const char usage[] =
	"Usage: bpfprof record|top|dump|gpu|memory|watch|report|daemon|doctor|clock|cluster "
	"[FLAG]..., "
	"bpfprof "
	"--help, bpfprof --version\n";

/* Writes to standard output; EXIT_FAILED and one sentence if that fails. */
static int print(const char *text)
{
	int err = print_lines(stdout, text, strlen(text));

	if (err)
		log_error("standard output: %s", strerror(-err));
	return err ? EXIT_FAILED : EXIT_DONE;
}

/* times: 1 prints more, 2 also the messages of libbpf. */
static void set_verbose(unsigned int times)
{
	if (times)
		log_set_level(LOG_DEBUG);
	if (times > 1)
		libbpf_log_all();
}

/* The options of every command but daemon. */
union any_options {
	struct record_options record;
	struct top_options top;
	struct dump_options dump;
	struct gpu_options gpu;
	struct memory_options memory;
	struct watch_options watch;
	struct report_options report;
	struct doctor_options doctor;
};

static int run_record(const union any_options *options)
{
	set_verbose(options->record.verbose);
	return record_run(&options->record);
}

static int run_dump(const union any_options *options)
{
	set_verbose(options->dump.verbose);
	return dump_run(&options->dump);
}

static int run_top(const union any_options *options)
{
	set_verbose(options->top.verbose);
	return top_run(&options->top);
}

static int run_gpu(const union any_options *options)
{
	set_verbose(options->gpu.record.verbose);
	return gpu_run(&options->gpu);
}

static int run_memory(const union any_options *options)
{
	set_verbose(options->memory.record.verbose);
	return memory_run(&options->memory);
}

static int run_watch(const union any_options *options)
{
	set_verbose(options->watch.verbose);
	return watch_run(&options->watch);
}

static int run_report(const union any_options *options)
{
	return report_run(&options->report);
}

static int run_doctor(const union any_options *options)
{
	set_verbose(options->doctor.verbose);
	return doctor_run(&options->doctor);
}

static int run_clock(const union any_options *options)
{
	(void)options;
	return clock_run();
}

static const struct command {
	const char *name;
	const struct flag_set *flags;
	int (*run)(const union any_options *options); /* NULL: run_daemon() */
	const char *help;
} commands[] = {
	{ "record", &record_flags, run_record,
	  "sample the machine, some processes or a program; write a profile" },
	{ "top", &top_flags, run_top, "show the functions that use the CPU right now" },
	{ "dump", &dump_flags, run_dump,
	  "say what every thread of a process is doing, without stopping it" },
	{ "gpu", &gpu_flags, run_gpu,
	  "show CUDA and NCCL calls: launches, bytes, waiting, memory" },
	{ "memory", &memory_flags, run_memory,
	  "show which functions hold the resident memory of processes" },
	{ "watch", &watch_flags, run_watch,
	  "say why processes die: the signal, the stack, and the killer" },
	{ "report", &report_flags, run_report,
	  "tables of stored profiles; merge and convert them; which NCCL rank is slow" },
	{ "daemon", &daemon_flags, NULL, "write a profile of the machine per minute, for ever" },
	{ "doctor", &doctor_flags, run_doctor, "show what this machine lacks, and how to get it" },
	{ "clock", &clock_flag_set, run_clock,
	  "print the time of this machine, for --start-at on several" },
};

#define CLUSTER_HELP "run a command on several machines by ssh or srun, as one"
#define CLUSTER_SCRIPT "bpfprof-cluster" /* deploy/k8s/kubectl-bpfprof, by another name */

/* Becomes the script beside this program, or else that of PATH. Returns only if there is none. */
static int run_cluster(char *argv[])
{
	char path[PATH_MAX + sizeof(CLUSTER_SCRIPT)];
	ssize_t len = readlink("/proc/self/exe", path, PATH_MAX - 1);
	char *slash;

	path[len > 0 ? len : 0] = 0;
	slash = strrchr(path, '/');
	signal(SIGPIPE, SIG_DFL);
	signal(SIGXFSZ, SIG_DFL);
	if (slash && !setenv("BPFPROF", path, 0)) { /* it merges with this program */
		memcpy(slash + 1, CLUSTER_SCRIPT, sizeof(CLUSTER_SCRIPT));
		argv[0] = path;
		execv(path, argv);
	}
	argv[0] = (char[]){ CLUSTER_SCRIPT };
	execvp(CLUSTER_SCRIPT, argv);
	log_error(CLUSTER_SCRIPT ": %s; make install puts it beside bpfprof", strerror(errno));
	return EXIT_FAILED;
}

static void commands_list(struct buf *dst)
{
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++)
		buf_printf(dst, "  %-9s%s\n", commands[i].name, commands[i].help);
	buf_printf(dst, "  %-9s%s\n", "cluster", CLUSTER_HELP);
}

static void main_help(struct buf *dst)
{
	buf_add_str(
		dst,
		"Usage: bpfprof COMMAND [FLAG]...\n"
		"Profiles a whole Linux machine from outside, without ptrace: kernel, native and\n"
		"Python stacks, unwound in the kernel by BPF, no frame pointers needed.\n\n"
		"Commands (each has --help):\n");
	commands_list(dst);
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
		"  bpfprof memory -p 1234 -d 60\n"
		"  bpfprof watch -p 1234\n"
		"  bpfprof daemon --output /var/lib/bpfprof\n"
		"\n"
		"Exit status: 0 done, 1 failed, 2 wrong command, flag or value, 3 a privilege or\n"
		"a kernel feature is missing, 4 no such process.\n");
}

/* flags: NULL for the help of the program. */
static int print_help(const struct flag_set *flags)
{
	__cleanup(buf_fini) struct buf text;

	buf_init(&text, HELP_MAX);
	if (flags)
		options_help(&text, flags);
	else
		main_help(&text);
	if (buf_error(&text)) {
		log_error("out of memory");
		return EXIT_FAILED;
	}
	return print(text.data);
}

/* The exit status for a parser's result other than OPTIONS_RUN. */
static int refuse(const struct command *command, int result, const struct buf *message)
{
	__cleanup(buf_fini) struct buf line = { .max = 2 * MESSAGE_MAX };

	if (result == OPTIONS_HELP)
		return print_help(command->flags);
	buf_printf(&line, "bpfprof %s: %s\n", command->name, message->data ? message->data : "");
	if (result == -ENOMEM || buf_error(message) || buf_error(&line)) {
		log_error("out of memory");
		return EXIT_FAILED;
	}
	print_lines(stderr, line.data, line.len);
	return EXIT_USAGE;
}

static int run_daemon(const struct command *command, int argc, char *argv[])
{
	__cleanup(buf_fini) struct buf message;
	struct daemon_options options = { 0 };
	struct config config = { 0 };
	const char *host;
	int err;

	buf_init(&message, MESSAGE_MAX);
	err = daemon_configure(&options, &config, argc, argv, &message);
	if (err)
		return refuse(command, err, &message);
	/*
	 * BPFPROF_HOST has no flag, so only this code reads it from the file. setenv() is safe, as
	 * there is only one thread yet.
	 */
	host = config_get(&config, "BPFPROF_HOST");
	if (host && setenv("BPFPROF_HOST", host, 1))
		log_error("BPFPROF_HOST: %s", strerror(errno));
	config_unload(&config);
	log_set_level(options.log_level);
	log_set_format(options.log_format);
	err = daemon_run(&options, argc, argv);
	options_fini(&daemon_flags, &options);
	return err;
}

static int run_command(const struct command *command, int argc, char *argv[])
{
	__cleanup(buf_fini) struct buf message;
	union any_options options;
	int err;

	if (!command->run)
		return run_daemon(command, argc, argv);
	buf_init(&message, MESSAGE_MAX);
	err = options_parse(command->flags, &options, NULL, argc, argv, &message);
	if (err)
		return refuse(command, err, &message);
	err = command->run(&options);
	options_fini(command->flags, &options);
	return err;
}

static int no_command(void)
{
	__cleanup(buf_fini) struct buf text = { .max = HELP_MAX };

	buf_add_str(&text, usage);
	commands_list(&text);
	if (!buf_error(&text))
		print_lines(stderr, text.data, text.len);
	return EXIT_USAGE;
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
	text_add_typed(&typed, *word ? word : "''");
	if (nearest)
		log_error("%s: no such command, did you mean bpfprof %s?", typed.data, nearest);
	else
		log_error("%s: no such command, bpfprof --help lists them", typed.data);
	return EXIT_USAGE;
}

int main(int argc, char *argv[])
{
	/* A file-size limit or a closed pipe makes write(2) fail, and must not end the process. */
	signal(SIGXFSZ, SIG_IGN);
	signal(SIGPIPE, SIG_IGN);
	if (argc < 2)
		return no_command();
	for (size_t i = 0; i < ARRAY_SIZE(commands); i++) {
		if (!strcmp(argv[1], commands[i].name))
			return run_command(&commands[i], argc - 1, argv + 1);
	}
	if (!strcmp(argv[1], "cluster"))
		return run_cluster(argv + 1);
	if (!strcmp(argv[1], "--help") || !strcmp(argv[1], "-h"))
		return print_help(NULL);
	if (!strcmp(argv[1], "--version") || !strcmp(argv[1], "-V"))
		return print("bpfprof " BPFPROF_VERSION "\n");
	return unknown_command(argv[1]);
}
