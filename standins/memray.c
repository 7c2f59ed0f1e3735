// SPDX-License-Identifier: Apache-2.0
/*
 * memray: attach, detach, flamegraph and table. The file of attach has the id of a recording that the agent
 * keeps; the two reports give it back to the agent.
 */
#include "standin.h"

#include <errno.h>
#include <fcntl.h>
#include <libgen.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define VERSION "1.20.0" /* of memray, whose command line this is */
#define MAGIC "bpfprof recording "
#define ID_MAX 128

static const char top_help[] = "usage: memray [-h] [-V] {attach,detach,flamegraph,table} ...\n\n"
			       "Memory profiler, answered by bpfprof: resident memory by stack.\n\n"
			       "  attach PID -o FILE      begin to record the memory of a process\n"
			       "  detach PID              end that\n"
			       "  flamegraph FILE         an HTML flame graph of the peak; "
			       "--leaks: of the growth since attach\n"
			       "  table FILE              the same as an HTML table\n";

/* Reads a command line with one operand. -1: it is whole; else an exit status. */
static int line_read(struct command_line *line, struct question *question, const char **help,
		     const char *operand, int argc, char **argv)
{
	int status = options_read(line, question, argc, argv);

	if (status)
		return status;
	if (*help) {
		fputs(top_help, stdout);
		return 0;
	}
	if (line->nr_operands == 1)
		return -1;
	standin_fail("memray %s: the following argument is required: %s", argv[0], operand);
	return STATUS_USAGE;
}

/* A result is not overwritten without -f. */
static int output_check(const char *output, const char *force)
{
	return force || access(output, F_OK)
		       ? 0
		       : standin_fail("%s: the file exists already; -f overwrites it", output);
}

/* Root gives the file to the owner of its folder: under sudo its reader is another user. */
static void owner_set(int fd, const char *path)
{
	char copy[PATH_MAX];
	struct stat st;

	snprintf(copy, sizeof(copy), "%s", path);
	if (fchmod(fd, 0644) ||
	    (!geteuid() && !stat(dirname(copy), &st) && fchown(fd, st.st_uid, st.st_gid)))
		return; /* the user that runs this can read it all the same */
}

static int id_write(const char *path, const char *id, bool force)
{
	int status = 0,
	    fd = open(path,
		      O_WRONLY | O_CREAT | O_CLOEXEC | O_NOFOLLOW | (force ? O_TRUNC : O_EXCL),
		      0644);

	if (fd < 0)
		return standin_fail("%s: %s", path, strerror(errno));
	if (dprintf(fd, MAGIC "%s\n", id) < 0)
		status = standin_fail("%s: %s", path, strerror(errno));
	owner_set(fd, path);
	close(fd);
	return status;
}

static int attach(int argc, char **argv)
{
	struct question question = { .command = "memory/attach" };
	const char *output = NULL, *force = NULL, *help = NULL, *duration = NULL;
	const struct option_row rows[] = {
		{ .name = "output", .letter = 'o', .takes_value = true, .value = &output },
		{ .name = "force", .letter = 'f', .value = &force },
		{ .name = "follow-fork", .parameter = "subprocesses" },
		{ .name = "duration", .takes_value = true, .value = &duration },
		{ .name = "native" },
		{ .name = "trace-python-allocators", .parameter = "allocations" },
		{ .name = "aggregate" },
		{ .name = "compress-on-exit" },
		{ .name = "no-compress" },
		{ .name = "method", .takes_value = true },
		{ .name = "verbose", .letter = 'v' },
		{ .name = "help", .letter = 'h', .value = &help },
		{ 0 },
	};
	struct command_line line = { .rows = rows };
	char id[ID_MAX];
	int status = line_read(&line, &question, &help, "pid", argc, argv);

	if (status >= 0)
		return status;
	if (!output)
		return standin_fail(
			"memray attach: -o FILE is missing: the live screen of memray is not "
			"answered");
	status = output_check(output, force);
	status = status ? status : question_add_pid(&question, line.operands[0], false);
	if (!status && duration) {
		unsigned int seconds;

		status = seconds_read(duration, &seconds);
		question_add(&question, "seconds", duration);
	}
	status = status ? status : agent_text(&question, id, sizeof(id));
	return status ? status : id_write(output, id, force);
}

static int detach(int argc, char **argv)
{
	struct question question = { .command = "memory/detach" };
	const char *help = NULL;
	const struct option_row rows[] = {
		{ .name = "method", .takes_value = true },
		{ .name = "verbose", .letter = 'v' },
		{ .name = "help", .letter = 'h', .value = &help },
		{ 0 },
	};
	struct command_line line = { .rows = rows };
	char id[ID_MAX];
	int status = line_read(&line, &question, &help, "pid", argc, argv);

	if (status >= 0)
		return status;
	/* The process may have ended: its number is enough then. */
	status = question_add_pid(&question, line.operands[0], true);
	if (status)
		return status;
	return agent_text(&question, id, sizeof(id));
}

/* The id in a file of attach. */
static int id_read(char id[ID_MAX], const char *path)
{
	char text[ID_MAX + sizeof(MAGIC) - 2];
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	ssize_t len = fd < 0 ? -1 : read(fd, text, sizeof(text) - 1);

	if (fd >= 0)
		close(fd);
	if (len < 0)
		return standin_fail("%s: %s", path, strerror(errno));
	text[len] = 0;
	text[strcspn(text, "\n")] = 0;
	if (strncmp(text, MAGIC, sizeof(MAGIC) - 1))
		return standin_fail("%s: is no file of this memray attach", path);
	memcpy(id, text + sizeof(MAGIC) - 1, strlen(text + sizeof(MAGIC) - 1) + 1);
	return 0;
}

/* memray's own name for the result: memray-flamegraph-NAME.html beside the file. */
static const char *output_name(const char *command, const char *input)
{
	static char name[PATH_MAX];
	const char *base = strrchr(input, '/'), *suffix;

	base = base ? base + 1 : input;
	suffix = strrchr(base, '.');
	snprintf(name, sizeof(name), "%.*smemray-%s-%.*s.html", (int)(base - input), input, command,
		 suffix ? (int)(suffix - base) : (int)strlen(base), base);
	return name;
}

#define ONE_KIND "bpfprof answers the peak, and with --leaks what was held at the end"

static int report(int argc, char **argv)
{
	struct question question = { .command = "memory/report" };
	const char *output = NULL, *force = NULL, *help = NULL;
	const struct option_row rows[] = {
		{ .name = "output", .letter = 'o', .takes_value = true, .value = &output },
		{ .name = "force", .letter = 'f', .value = &force },
		{ .name = "leaks", .parameter = "leaks" },
		{ .name = "temporal" }, /* the page has a time line in any case */
		{ .name = "no-web" },
		{ .name = "temporary-allocations", .refusal = ONE_KIND },
		{ .name = "temporary-allocation-threshold",
		  .takes_value = true,
		  .refusal = ONE_KIND },
		{ .name = "split-threads", .refusal = "the stacks of all threads are one" },
		{ .name = "inverted", .refusal = "the page draws the graph in one direction" },
		{ .name = "help", .letter = 'h', .value = &help },
		{ 0 },
	};
	struct command_line line = { .rows = rows };
	char id[ID_MAX];
	int status = line_read(&line, &question, &help, "results", argc, argv);

	if (status >= 0)
		return status;
	if (!output)
		output = output_name(argv[0], line.operands[0]);
	status = output_check(output, force);
	status = status ? status : id_read(id, line.operands[0]);
	if (status)
		return status;
	question_add(&question, "id", id);
	if (!strcmp(argv[0], "table"))
		question_add(&question, "table", "1");
	status = agent_ask(&question, output);
	if (!status)
		standin_say("Wrote %s", output);
	return status;
}

int memray_main(int argc, char **argv)
{
	const char *command = argc > 1 ? argv[1] : "";
	bool is_report = !strcmp(command, "flamegraph") || !strcmp(command, "table");

	if (!strcmp(command, "-V") || !strcmp(command, "--version")) {
		puts(VERSION " (bpfprof " BPFPROF_VERSION ")");
		return 0;
	}
	if (!*command || !strcmp(command, "-h") || !strcmp(command, "--help")) {
		fputs(top_help, *command ? stdout : stderr);
		return *command ? 0 : STATUS_USAGE;
	}
	if (strcmp(command, "attach") && strcmp(command, "detach") && !is_report)
		return standin_fail(
			"memray %s: is not answered by bpfprof; attach, detach, flamegraph and "
			"table are",
			command);
	if (!agent_is_configured())
		return standin_fail(
			"no agent is configured: set BPFPROF_AGENT=HOST:PORT or HOST_IP, in the "
			"environment or in /etc/bpfprof-agent.conf; `bpfprof memory -p PID` "
			"needs none");
	if (is_report)
		return report(argc - 1, argv + 1);
	return *command == 'a' ? attach(argc - 1, argv + 1) : detach(argc - 1, argv + 1);
}
