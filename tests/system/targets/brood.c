/* SPDX-License-Identifier: Apache-2.0 */
/* On SIGUSR1 has argv[1] children, one after another, that end at once; then ends, or sleeps with argv[2]. */
#include <signal.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

int main(int argc, char **argv)
{
	long left = argc > 1 ? strtol(argv[1], NULL, 10) : 0;
	sigset_t set;
	pid_t pid;
	int signal;

	sigemptyset(&set);
	sigaddset(&set, SIGUSR1);
	sigprocmask(SIG_BLOCK, &set, NULL);
	sigwait(&set, &signal);
	for (; left > 0; left--) {
		pid = fork();
		if (pid < 0)
			return 1;
		if (!pid)
			_exit(0);
		waitpid(pid, NULL, 0);
	}
	if (argc > 2)
		pause();
	return 0;
}
