// SPDX-License-Identifier: Apache-2.0
/*
 * many_processes COUNT FILE...: as many children, each of which maps one of the files as a library, by
 * turns, and sleeps. Says "ready" when all have. They end with their parent.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <unistd.h>

static int child(const char *path, int told)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (fd < 0 || fstat(fd, &st) ||
	    mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0) ==
		    MAP_FAILED) {
		perror(path);
		return 1;
	}
	close(fd);
	if (write(told, "", 1) != 1)
		return 1;
	close(told);
	for (;;)
		pause();
}

int main(int argc, char **argv)
{
	unsigned int i, nr;
	int ends[2];
	char c;

	if (argc < 3 || pipe(ends))
		return 2;
	nr = (unsigned int)strtoul(argv[1], NULL, 10);
	for (i = 0; i < nr; i++)
		switch (fork()) {
		case -1:
			perror("fork");
			return 1;
		case 0:
			return child(argv[2 + i % (unsigned int)(argc - 2)], ends[1]);
		}
	close(ends[1]);
	for (i = 0; i < nr; i++)
		if (read(ends[0], &c, 1) != 1)
			return 1;
	puts("ready");
	fflush(stdout);
	for (;;)
		pause();
}
