// SPDX-License-Identifier: Apache-2.0
/* churn PROGRAM [ARGS...]: runs PROGRAM again and again, one process after another. */
#include <signal.h>
#include <spawn.h>
#include <stdio.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	pid_t pid;

	if (argc < 2) {
		fprintf(stderr, "usage: churn PROGRAM [ARGS...]\n");
		return 2;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (!posix_spawn(&pid, argv[1], NULL, NULL, argv + 1, environ))
		if (waitpid(pid, NULL, 0) < 0)
			return 1;
	return 1;
}
