/* SPDX-License-Identifier: Apache-2.0 */
/* Gives the pid argv[1], which must be free, to a new process, and is busy in that for argv[2] seconds. */
#include <linux/sched.h>
#include <signal.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

static volatile uint64_t counter;

int main(int argc, char **argv)
{
	pid_t wanted = argc > 2 ? (pid_t)strtol(argv[1], NULL, 10) : 0;
	time_t end = time(NULL) + (argc > 2 ? strtol(argv[2], NULL, 10) : 0);
	struct clone_args args = { .exit_signal = SIGCHLD,
				   .set_tid = (uintptr_t)&wanted,
				   .set_tid_size = 1 };
	long pid = syscall(SYS_clone3, &args, sizeof(args));

	if (pid < 0)
		return 2;
	if (pid)
		return waitpid((pid_t)pid, NULL, 0) != pid;
	prctl(PR_SET_NAME, "reborn");
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	while (time(NULL) < end)
		counter++;
	_exit(0);
}
