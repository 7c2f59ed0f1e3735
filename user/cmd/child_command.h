/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CMD_CHILD_COMMAND_H
#define BPFPROF_CMD_CHILD_COMMAND_H

/*
 * The program of `-- CMD ARGS...`: a child that waits until sampling runs, so that all of it is
 * recorded. A zeroed struct is a command line without a program.
 */

#include <signal.h>
#include <stdbool.h>
#include <sys/types.h>

struct child_command {
	char **words; /* borrowed */
	pid_t pid; /* 0: none */
	int go_fd; /* closed to let it exec */
	int error_fd; /* brings errno if it cannot */
	bool waits; /* both descriptors are open */
	bool done;
	int status; /* an exit status, once it is done */
};

/* Forks the child. old_signals: its signal mask. 0 or -errno. */
int child_command_fork(struct child_command *command, char **words, const sigset_t *old_signals);
/* Lets the program run, if there is one. An exit status: that of the shell if it cannot be run. */
int child_command_release(struct child_command *command);
/* Has the program ended? */
bool child_command_reap(struct child_command *command);
/* The status of bpfprof: that of the program, unless it is 0, comes before our own. */
int child_command_status(struct child_command *command, int own);
/* A child that still waits gives up. */
void child_command_close(struct child_command *command);

#endif
