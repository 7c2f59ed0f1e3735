// SPDX-License-Identifier: Apache-2.0
/* Without an agent: bpfprof on this machine answers, if the caller has the rights it needs. */
#include "standin.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Parameters of the agent that are no flag of the same name. */
static const struct {
	const char *parameter, *flags[2];
} others[] = {
	{ "seconds", { "duration", NULL } },
	{ "start", { NULL, NULL } },
	{ "idle", { "wall", "parked" } },
};

struct words {
	char **list; /* ended by NULL */
	size_t nr;
};

/* Ends the program where memory is short: no word is left out. */
static void word_take(struct words *words, char *word)
{
	words->list = realloc(words->list, (words->nr + 2) * sizeof(*words->list));
	if (!word || !words->list)
		exit(standin_fail("%s", strerror(ENOMEM)));
	words->list[words->nr++] = word;
	words->list[words->nr] = NULL;
}

/* --FLAG=VALUE; --FLAG if value is ""; the word itself if it is NULL. */
static void word_add(struct words *words, const char *flag, const char *value)
{
	char *word = NULL;

	if (asprintf(&word, "%s%s%s%s", value ? "--" : "", flag, value && *value ? "=" : "",
		     value ? value : "") < 0)
		word = NULL;
	word_take(words, word);
}

static void parameter_add(struct words *words, const struct parameter *parameter)
{
	const char *value = strcmp(parameter->value, "1") ? parameter->value : "";
	size_t i, k;

	for (i = 0; i < sizeof(others) / sizeof(others[0]); i++) {
		if (strcmp(others[i].parameter, parameter->name))
			continue;
		for (k = 0; k < 2 && others[i].flags[k]; k++)
			word_add(words, others[i].flags[k],
				 strcmp(others[i].parameter, "idle") ? parameter->value : "");
		return;
	}
	if (!strcmp(parameter->name, "pid") || !strcmp(parameter->name, "rate") ||
	    !strcmp(parameter->name, "delay"))
		value = parameter->value;
	word_add(words, parameter->name, value);
}

static pid_t child;

/* The terminal sends its signals to the child, too. */
static void signal_pass(int number, siginfo_t *info, void *context)
{
	(void)context;
	if (info->si_code == SI_USER)
		kill(child, number);
}

static void child_exec(char **words, const int fds[2])
{
	if (dup2(fds[1], STDERR_FILENO) < 0)
		_exit(STATUS_FAILED);
	execvp("bpfprof", words);
	if (errno == ENOENT)
		standin_fail(
			"no agent is configured: set BPFPROF_AGENT=HOST:PORT or HOST_IP, in "
			"the environment or in /etc/bpfprof-agent.conf; nor is there a bpfprof "
			"program here");
	else
		standin_fail("bpfprof: %s", strerror(errno));
	_exit(STATUS_FAILED);
}

/* Executes bpfprof, and writes its messages. */
static int bpfprof_run(char **words)
{
	struct sigaction pass = { .sa_sigaction = signal_pass,
				  .sa_flags = SA_SIGINFO | SA_RESTART };
	char *line = NULL;
	size_t cap = 0;
	int fds[2], status;
	FILE *messages;

	fflush(stdout);
	if (pipe2(fds, O_CLOEXEC))
		return standin_fail("%s", strerror(errno));
	child = fork();
	if (child < 0)
		return standin_fail("%s", strerror(errno));
	if (!child)
		child_exec(words, fds);
	sigaction(SIGINT, &pass, NULL);
	sigaction(SIGTERM, &pass, NULL);
	close(fds[1]);
	messages = fdopen(fds[0], "r");
	while (messages && getline(&line, &cap, messages) >= 0)
		standin_warn("%s", line);
	free(line);
	while (waitpid(child, &status, 0) < 0)
		if (errno != EINTR)
			return STATUS_FAILED;
	return status ? STATUS_FAILED : 0;
}

int local_ask(const struct question *question, const char *path, char **rest)
{
	struct words words = { 0 };
	bool is_record = !strcmp(question->command, "record"), subprocesses = false;
	bool is_top = !strcmp(question->command, "top");
	bool is_speedscope = false;
	size_t i;

	word_add(&words, "bpfprof", NULL);
	word_add(&words, question->command, NULL);
	for (i = 0; i < question->nr; i++) {
		is_speedscope |= !strcmp(question->parameters[i].value, "speedscope");
		if ((is_record || is_top) && !strcmp(question->parameters[i].name, "subprocesses"))
			subprocesses = true;
		else
			parameter_add(&words, &question->parameters[i]);
	}
	if ((is_record || is_top) && !subprocesses)
		word_add(&words, "no-subprocesses", "");
	if (is_top && !isatty(STDOUT_FILENO))
		word_add(&words, "batch", "");
	if (is_record)
		word_add(&words, "py-spy", "");
	if (is_speedscope)
		word_add(&words, "threads", "");
	if (path)
		word_add(&words, "output", path);
	if (rest)
		word_add(&words, "--", NULL);
	for (; rest && *rest; rest++)
		word_take(&words, *rest);
	return bpfprof_run(words.list);
}
