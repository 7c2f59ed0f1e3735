/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Stops all threads of a process but its first one: PID. It prints "stopped". They go on when it ends.
 */
#define TARGET_MAIN
#include "target.h"

#include <dirent.h>
#include <sys/ptrace.h>
#include <sys/wait.h>

static void stop(pid_t thread)
{
	if (ptrace(PTRACE_SEIZE, thread, NULL, NULL) ||
	    ptrace(PTRACE_INTERRUPT, thread, NULL, NULL) || waitpid(thread, NULL, __WALL) != thread)
		exit(1);
}

int main(int argc, char **argv)
{
	char path[64];
	struct dirent *entry;
	pid_t pid = argc > 1 ? atoi(argv[1]) : 0, thread;
	DIR *dir;

	alarm(120);
	snprintf(path, sizeof(path), "/proc/%d/task", pid);
	dir = opendir(path);
	if (!dir)
		return 2;
	while ((entry = readdir(dir))) {
		thread = atoi(entry->d_name);
		if (thread && thread != pid)
			stop(thread);
	}
	puts("stopped");
	fflush(stdout);
	for (;;)
		pause();
}
