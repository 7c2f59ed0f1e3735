// SPDX-License-Identifier: Apache-2.0
/* py-spy: dump, record and top. */
#include "standin.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define VERSION "0.4.3" /* of py-spy, whose command line this is */
#define LOCALS_MAX 8
#define COMMAND_DELAY_MS 1000
#define GIL_IDLE "--gil cannot be combined with --idle: an idle thread does not hold the GIL"
#define NO_PAUSE "a target never pauses"

static const char top_help[] =
	"Sampling profiler for Python programs, answered by bpfprof\n\n"
	"Usage: py-spy <COMMAND>\n\n"
	"Commands:\n"
	"  record  Records stack trace information to a flamegraph, speedscope or raw file\n"
	"  dump    Dumps stack traces for a target program to stdout\n"
	"  top     Displays a top like view of functions consuming CPU\n"
	"  help    Print this message\n\n"
	"Options:\n"
	"  -h, --help     Print help\n"
	"  -V, --version  Print version\n";
static const char dump_help[] =
	"Dumps stack traces for a target program to stdout\n\n"
	"Usage: py-spy dump [OPTIONS]\n\n"
	"Options:\n"
	"  -p, --pid <pid>       PID of a running program, in decimal or hex\n"
	"      --full-filenames  Show full Python filenames\n"
	"  -l, --locals...       Show local variables for each frame; -ll shows more of them\n"
	"  -j, --json            Format output as JSON\n"
	"  -s, --subprocesses    Its subprocesses, too\n"
	"  -n, --native          Native frames, too\n"
	"      --nonblocking     Changes nothing: " NO_PAUSE "\n"
	"  -h, --help            Print help\n";
static const char record_help[] =
	"Records stack trace information to a flamegraph, speedscope or raw file\n\n"
	"Usage: py-spy record [OPTIONS] [-- python_program...]\n\n"
	"Options:\n"
	"  -p, --pid <pid>            PID of a running program, in decimal or hex\n"
	"      --full-filenames       Show full Python filenames\n"
	"  -o, --output <filename>    Output filename\n"
	"  -f, --format <format>      flamegraph, raw or speedscope [default: flamegraph]\n"
	"  -d, --duration <duration>  The number of seconds to sample for\n"
	"  -r, --rate <rate>          The number of samples to collect per second [default: 100]\n"
	"  -s, --subprocesses         Its subprocesses, too\n"
	"  -F, --function             Aggregate samples by function's first line number\n"
	"      --nolineno             Do not show line numbers\n"
	"  -t, --threads              Show thread ids in the output\n"
	"  -g, --gil                  Only traces that hold the GIL\n"
	"  -i, --idle                 Idle threads, too\n"
	"  -n, --native               Native frames, too\n"
	"      --nonblocking          Changes nothing: " NO_PAUSE "\n"
	"  -h, --help                 Print help\n";

static const char live_help[] =
	"Displays a top like view of functions consuming CPU\n\n"
	"Usage: py-spy top [OPTIONS]\n\n"
	"Options:\n"
	"  -p, --pid <pid>        PID of a running program, in decimal or hex\n"
	"  -r, --rate <rate>      The number of samples to collect per second [default: 100]\n"
	"  -s, --subprocesses     Its subprocesses, too\n"
	"  -g, --gil              Only traces that hold the GIL\n"
	"  -i, --idle             Idle threads, too\n"
	"      --delay <seconds>  Delay between two tables [default: 1.0]\n"
	"  -n, --native           Native frames, too\n"
	"      --nonblocking      Changes nothing: " NO_PAUSE "\n"
	"  -h, --help             Print help\n";

static int missing(const char *command)
{
	standin_fail(
		"the following required argument was not provided: --pid <pid>; py-spy %s --help "
		"shows all",
		command);
	return STATUS_USAGE;
}

/* Reads a command line. -1: it is whole; else an exit status. */
static int line_read(struct command_line *line, struct question *question, const char **help,
		     const char *text, int argc, char **argv)
{
	int status = options_read(line, question, argc, argv);

	if (status)
		return status;
	if (!*help)
		return -1;
	fputs(text, stdout);
	return 0;
}

static int dump(int argc, char **argv)
{
	static const char *const levels[] = { "0", "1", "2", "3", "4", "5", "6", "7", "8" };
	struct question question = { .command = "dump" };
	const char *pid = NULL, *help = NULL;
	unsigned int locals = 0;
	const struct option_row rows[] = {
		{ .name = "pid", .letter = 'p', .takes_value = true, .value = &pid },
		{ .name = "native", .letter = 'n', .parameter = "native" },
		{ .name = "subprocesses", .letter = 's', .parameter = "subprocesses" },
		{ .name = "json", .letter = 'j', .parameter = "json" },
		{ .name = "full-filenames", .parameter = "full-filenames" },
		{ .name = "locals", .letter = 'l', .count = &locals },
		{ .name = "nonblocking" },
		{ .name = "core",
		  .letter = 'c',
		  .takes_value = true,
		  .refusal = "bpfprof reads running processes, not core dumps" },
		{ .name = "help", .letter = 'h', .value = &help },
		{ 0 },
	};
	struct command_line line = { .rows = rows };
	int status = line_read(&line, &question, &help, dump_help, argc, argv);

	if (status >= 0)
		return status;
	if (!pid)
		return missing("dump");
	if (locals)
		question_add(&question, "locals",
			     levels[locals < LOCALS_MAX ? locals : LOCALS_MAX]);
	status = question_add_pid(&question, pid, false);
	if (status)
		return status;
	return agent_is_configured() ? agent_ask(&question, NULL)
				     : local_ask(&question, NULL, NULL);
}

static const struct format {
	const char *name, *of_bpfprof, *suffix, *said;
} formats[] = {
	{ "flamegraph", "svg", ".svg", "Wrote flamegraph data to '%s'." },
	{ "raw", "raw", ".txt", "Wrote raw flamegraph data to '%s'." },
	{ "speedscope", "speedscope", ".json", "Wrote speedscope file to '%s'." },
	{ 0 },
};

/* The name that py-spy chooses where none is given: py-spy-PID-TIME.SUFFIX. */
static const char *output_name(const char *pid, const struct format *format)
{
	static char name[128];
	time_t seconds = time(NULL);
	char when[32] = "";
	struct tm tm;

	if (gmtime_r(&seconds, &tm))
		strftime(when, sizeof(when), "%Y-%m-%dT%H:%M:%SZ", &tm);
	snprintf(name, sizeof(name), "py-spy-%.16s-%s%s", pid, when, format->suffix);
	return name;
}

static int format_find(const struct format **ret, const char *name)
{
	const struct format *format;

	if (!strcmp(name, "chrometrace"))
		return standin_fail(
			"--format chrometrace: bpfprof counts stacks and keeps no order of "
			"samples; flamegraph, raw and speedscope are answered");
	for (format = formats; format->name; format++)
		if (!strcmp(name, format->name))
			break;
	if (!format->name) {
		standin_fail("invalid value '%s' for '--format <format>'", name);
		return STATUS_USAGE;
	}
	*ret = format;
	return 0;
}

/* Starts a program, which begins once the agent had time to begin. Its pid, or -1. */
static pid_t command_start(char **words)
{
	pid_t pid = fork();

	if (pid < 0)
		standin_fail("%s: %s", words[0], strerror(errno));
	if (pid)
		return pid;
	poll(NULL, 0, COMMAND_DELAY_MS);
	signal(SIGPIPE, SIG_DFL);
	execvp(words[0], words);
	standin_fail("%s: %s", words[0], strerror(errno));
	_exit(127);
}

/* As py-spy does: a program that outlives its recording is killed. */
static void command_end(pid_t pid)
{
	if (waitpid(pid, NULL, WNOHANG) == pid)
		return;
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
}

/* The command line of a record. */
struct record_line {
	const char *pid, *help, *output, *format_name, *duration, *rate, *function, *nolineno, *gil,
		*idle;
	const struct format *format;
	char **command; /* after "--", or NULL */
};

static int record_read(struct record_line *record, struct question *question, int argc, char **argv)
{
	const struct option_row rows[] = {
		{ .name = "pid", .letter = 'p', .takes_value = true, .value = &record->pid },
		{ .name = "output", .letter = 'o', .takes_value = true, .value = &record->output },
		{ .name = "format",
		  .letter = 'f',
		  .takes_value = true,
		  .value = &record->format_name },
		{ .name = "duration",
		  .letter = 'd',
		  .takes_value = true,
		  .value = &record->duration },
		{ .name = "rate", .letter = 'r', .takes_value = true, .value = &record->rate },
		{ .name = "native", .letter = 'n', .parameter = "native" },
		{ .name = "idle", .letter = 'i', .parameter = "idle", .value = &record->idle },
		{ .name = "subprocesses", .letter = 's', .parameter = "subprocesses" },
		{ .name = "gil", .letter = 'g', .parameter = "gil", .value = &record->gil },
		{ .name = "threads", .letter = 't', .parameter = "threads" },
		{ .name = "function",
		  .letter = 'F',
		  .parameter = "function",
		  .value = &record->function },
		{ .name = "nolineno", .parameter = "nolineno", .value = &record->nolineno },
		{ .name = "full-filenames", .parameter = "full-filenames" },
		{ .name = "nonblocking" },
		{ .name = "hideprogress" },
		{ .name = "help", .letter = 'h', .value = &record->help },
		{ 0 },
	};
	struct command_line line = { .rows = rows };
	int status = options_read(&line, question, argc, argv);

	if (!status && line.nr_operands) {
		standin_fail("a program to run goes after --");
		status = STATUS_USAGE;
	}
	record->command = line.rest < argc && !record->pid ? argv + line.rest : NULL;
	return status;
}

/* Checks it, and adds what every question has. 0 or an exit status. */
static int record_check(struct record_line *record, struct question *question)
{
	int status;

	if (record->function && record->nolineno)
		return standin_fail("--function & --nolinenos can't be used together");
	if (record->gil && record->idle)
		return standin_fail(GIL_IDLE);
	status = format_find(&record->format, record->format_name);
	if (status)
		return status;
	if (!record->pid && !record->command)
		return missing("record");
	if (record->duration && !strcmp(record->duration, "unlimited"))
		record->duration = NULL;
	if (!record->duration && !record->command && agent_is_configured())
		return standin_fail("-d is missing: the agent records for a number of seconds");
	question->seconds = SECONDS_MAX;
	if (record->duration)
		status = seconds_read(record->duration, &question->seconds);
	question_add(question, "format", record->format->of_bpfprof);
	question_add(question, "rate", record->rate);
	question_add(question, "seconds", record->duration ? record->duration : "3600");
	if (!record->output)
		record->output =
			output_name(record->pid ? record->pid : record->command[0], record->format);
	return status;
}

static int record_ask(const struct record_line *record, const struct question *question)
{
	int status;

	standin_say("py-spy> Sampling process %s times a second%s%s%s. Press Control-C to exit.\n",
		    record->rate, record->duration ? " for " : "",
		    record->duration ? record->duration : "", record->duration ? " seconds" : "");
	fflush(stdout);
	status = agent_ask(question, record->output);
	if (!status) {
		fputs("\npy-spy> ", stdout);
		standin_say(record->format->said, record->output);
	}
	return status;
}

static int record(int argc, char **argv)
{
	struct record_line record = { .format_name = "flamegraph", .rate = "100" };
	struct question question = { .command = "record" };
	char number[16];
	pid_t child = 0;
	int status = record_read(&record, &question, argc, argv);

	if (!status && record.help) {
		fputs(record_help, stdout);
		return 0;
	}
	status = status ? status : record_check(&record, &question);
	if (status)
		return status;
	if (record.command && !agent_is_configured())
		return local_ask(&question, record.output, record.command);
	if (record.command) {
		child = command_start(record.command);
		if (child < 0)
			return STATUS_FAILED;
		snprintf(number, sizeof(number), "%d", (int)child);
		record.pid = number;
	}
	status = question_add_pid(&question, record.pid, false);
	if (!status)
		status = agent_is_configured() ? record_ask(&record, &question)
					       : local_ask(&question, record.output, NULL);
	if (child > 0)
		command_end(child);
	return status;
}

static int top(int argc, char **argv)
{
	struct question question = { .command = "top", .seconds = SECONDS_MAX };
	const char *pid = NULL, *help = NULL, *rate = "100", *delay = "1";
	const char *gil = NULL, *idle = NULL;
	const struct option_row rows[] = {
		{ .name = "pid", .letter = 'p', .takes_value = true, .value = &pid },
		{ .name = "rate", .letter = 'r', .takes_value = true, .value = &rate },
		{ .name = "delay", .takes_value = true, .value = &delay },
		{ .name = "native", .letter = 'n', .parameter = "native" },
		{ .name = "idle", .letter = 'i', .parameter = "idle", .value = &idle },
		{ .name = "subprocesses", .letter = 's', .parameter = "subprocesses" },
		{ .name = "gil", .letter = 'g', .parameter = "gil", .value = &gil },
		{ .name = "full-filenames", .refusal = "the table has the short names of files" },
		{ .name = "nonblocking" },
		{ .name = "help", .letter = 'h', .value = &help },
		{ 0 },
	};
	struct command_line line = { .rows = rows };
	int status = line_read(&line, &question, &help, live_help, argc, argv);

	if (status >= 0)
		return status;
	if (line.nr_operands || line.rest < argc)
		return standin_fail("py-spy top watches a program that runs: start it, then "
				    "py-spy top --pid <pid>");
	if (!pid)
		return missing("top");
	if (gil && idle)
		return standin_fail(GIL_IDLE);
	question_add(&question, "rate", rate);
	question_add(&question, "delay", delay);
	status = question_add_pid(&question, pid, false);
	if (status)
		return status;
	if (!agent_is_configured())
		return local_ask(&question, NULL, NULL);
	question_add(&question, "seconds", "3600");
	return top_show(&question, pid);
}

int py_spy_main(int argc, char **argv)
{
	const char *command = argc > 1 ? argv[1] : "";

	if (!strcmp(command, "dump"))
		return dump(argc - 1, argv + 1);
	if (!strcmp(command, "record"))
		return record(argc - 1, argv + 1);
	if (!strcmp(command, "top"))
		return top(argc - 1, argv + 1);
	if (!strcmp(command, "-V") || !strcmp(command, "--version")) {
		puts("py-spy " VERSION " (bpfprof " BPFPROF_VERSION ")");
		return 0;
	}
	if (!strcmp(command, "-h") || !strcmp(command, "--help") || !strcmp(command, "help")) {
		fputs(top_help, stdout);
		return 0;
	}
	if (*command)
		standin_fail("unrecognized subcommand '%s'; py-spy --help shows what there is",
			     command);
	else
		fputs(top_help, stderr);
	return STATUS_USAGE;
}
