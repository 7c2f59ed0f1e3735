// SPDX-License-Identifier: Apache-2.0
#include "cmd/child_command.h"

#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/exit_status.h"
#include "base/log.h"

/* The exit statuses are those of the shell, env and others. */
#define COMMAND_NOT_FOUND 127
#define COMMAND_NOT_RUN 126
#define COMMAND_KILLED 128 /* + the signal */

/* Runs in the child: waits until sampling runs, then becomes the program. */
static void command_exec(char **words, int go_fd, int error_fd, const sigset_t *old_signals)
{
	char byte;
	int err;

	sigprocmask(SIG_SETMASK, old_signals, NULL);
	signal(SIGXFSZ, SIG_DFL); /* main() ignores both signals, and exec would keep that */
	signal(SIGPIPE, SIG_DFL);
	if (read(go_fd, &byte, 1) == 1) /* child_command_close() gives up and writes a byte */
		_exit(0);
	execvp(words[0], words);
	err = errno;
	if (write(error_fd, &err, sizeof(err)) != sizeof(err))
		_exit(COMMAND_NOT_RUN);
	_exit(COMMAND_NOT_FOUND);
}

int child_command_fork(struct child_command *command, char **words, const sigset_t *old_signals)
{
	int go[2], error[2];
	pid_t pid;

	if (pipe2(go, O_CLOEXEC))
		return -errno;
	if (pipe2(error, O_CLOEXEC)) {
		close(go[0]);
		close(go[1]);
		return -errno;
	}
	pid = fork();
	if (!pid) {
		close(go[1]);
		close(error[0]);
		command_exec(words, go[0], error[1], old_signals);
	}
	close(go[0]);
	close(error[1]);
	/* The parent of bpfprof may ignore it, and then waitpid() has no status. */
	signal(SIGCHLD, SIG_DFL);
	*command = (struct child_command){ .words = words,
					   .pid = pid > 0 ? pid : 0,
					   .go_fd = go[1],
					   .error_fd = error[0],
					   .waits = true };
	return pid < 0 ? -EAGAIN : 0;
}

int child_command_release(struct child_command *command)
{
	int err = 0;

	if (!command->waits)
		return EXIT_DONE;
	command->waits = false;
	close(command->go_fd);
	/* exec closes the other end. */
	if (read(command->error_fd, &err, sizeof(err)) != sizeof(err))
		err = 0;
	close(command->error_fd);
	if (!err)
		return EXIT_DONE;
	log_error("%s: cannot be run: %s", command->words[0], strerror(err));
	return err == ENOENT ? COMMAND_NOT_FOUND : COMMAND_NOT_RUN;
}

bool child_command_reap(struct child_command *command)
{
	int status;

	if (!command->pid || command->done)
		return command->done;
	if (waitpid(command->pid, &status, WNOHANG) != command->pid)
		return false;
	command->done = true;
	if (WIFEXITED(status))
		command->status = WEXITSTATUS(status);
	else if (WIFSIGNALED(status))
		command->status = COMMAND_KILLED + WTERMSIG(status);
	if (WIFSIGNALED(status))
		log_info("%s was killed by signal %d", command->words[0], WTERMSIG(status));
	else if (command->status)
		log_info("%s exited with status %d", command->words[0], command->status);
	return true;
}

int child_command_status(struct child_command *command, int own)
{
	child_command_reap(command); /* Ctrl-C ends the program, too */
	return command->done && command->status ? command->status : own;
}

void child_command_close(struct child_command *command)
{
	char give_up = 'x';

	if (!command->waits)
		return;
	if (write(command->go_fd, &give_up, 1) != 1)
		log_debug("the command had ended already");
	close(command->go_fd);
	close(command->error_fd);
}
