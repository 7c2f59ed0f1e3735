/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_STANDINS_STANDIN_H
#define BPFPROF_STANDINS_STANDIN_H

/*
 * A small static program that is installed as py-spy and memray. It takes their command lines, and asks the
 * agent of the node (bpfprof daemon, docs/ray-dashboard.md) or, where it has the rights itself, executes
 * bpfprof. The agent makes the whole answer; this program copies bytes. It needs libc alone.
 *
 * Every function that fails has written one sentence to standard error.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define STATUS_FAILED 1
#define STATUS_USAGE 2
#define SECONDS_MAX 3600 /* of a record, of the tables of top */

/* The name under which it was started; for messages. */
extern const char *standin_name;

/* Writes `Error: ...` and a newline. The word "permission" is replaced: Ray answers it with wrong advice. */
int standin_fail(const char *fmt, ...) __attribute__((format(printf, 1, 2)));
void standin_warn(const char *fmt, ...)
	__attribute__((format(printf, 1, 2))); /* without `Error: ` */
void standin_say(const char *fmt, ...) __attribute__((format(printf, 1, 2)));

/* A question to the agent: a path and its parameters, which are flags of bpfprof, too. */
struct question {
	const char *command; /* of bpfprof: "dump" */
	struct parameter {
		const char *name, *value;
	} parameters[32];
	size_t nr;
	unsigned int seconds; /* that the answer takes by itself */
};

/* Ends the program where there is no room: no argument is left out. */
void question_add(struct question *question, const char *name, const char *value);

/* options.c: one row of a command line. */
struct option_row {
	const char *name;
	char letter; /* or 0 */
	bool takes_value;
	const char *parameter; /* of the question, with the value or "1"; NULL: see the others */
	const char **value; /* gets the value, or "1" */
	unsigned int *count; /* counts how often it was given */
	const char *refusal; /* the reason why it is not answered */
}; /* a row with none of the last four is accepted, and changes nothing */

struct command_line {
	const struct option_row *rows; /* name NULL ends them */
	const char *operands[8]; /* words without dashes */
	size_t nr_operands;
	int rest; /* index of the first word after "--"; argc: none */
};

/* Reads argv[1...]. 0 or an exit status. */
int options_read(struct command_line *line, struct question *question, int argc, char **argv);

/*
 * A pid, in decimal or hex; adds pid=, and start= of the process, which must be there unless it may have ended. 0 or
 * an exit status.
 */
int question_add_pid(struct question *question, const char *text, bool may_have_ended);
/* A number of seconds. 0 or an exit status. */
int seconds_read(const char *text, unsigned int *ret);

/*
 * agent.c: asks the agent, and writes its answer to standard output (path NULL) or into the file. 0 or an exit
 * status.
 */
int agent_ask(const struct question *question, const char *path);
/*
 * The same for an answer that comes in pieces, which take() gets. take() returns false to end it, with errno set. Some
 * piece must come in a minute and a half.
 */
int agent_stream(const struct question *question, bool (*take)(const char *bytes, size_t len));
/* The same for an answer that is one short line, into dst. */
int agent_text(const struct question *question, char *dst, size_t cap);
/* Is an agent configured? */
bool agent_is_configured(void);

/* local.c: runs bpfprof with the question as its command line. 0 or STATUS_FAILED. */
int local_ask(const struct question *question, const char *path, char **rest);

/* install.c: copies the program and its configuration into the folder. An exit status. */
int standin_install(const char *dir);

/* top.c: asks the agent for tables, and shows them on the terminal. 0 or an exit status. */
int top_show(const struct question *question, const char *pid);

int py_spy_main(int argc, char **argv);
int memray_main(int argc, char **argv);

#endif
