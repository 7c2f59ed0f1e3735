// SPDX-License-Identifier: Apache-2.0
#include "watch/stall_check.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/time.h"
#include "options/options.h"

#define LIMIT_NS (60 * NS_PER_SECOND)
#define NR_WORDS 16 /* beside those of the pids: more than command_make() has */
#define NUMBER_BYTES 24

struct command_line {
	const char *words[2 * STALL_CHECK_PIDS + NR_WORDS];
	size_t nr;
	char numbers[STALL_CHECK_PIDS + 1][NUMBER_BYTES];
	size_t nr_numbers;
};

static void word_add(struct command_line *line, const char *word)
{
	line->words[line->nr++] = word;
}

static void number_add(struct command_line *line, const char *flag, uint64_t number,
		       const char *unit)
{
	char *text = line->numbers[line->nr_numbers++];

	snprintf(text, NUMBER_BYTES, "%" PRIu64 "%s", number, unit);
	word_add(line, flag);
	word_add(line, text);
}

static int pid_compare(const void *a, const void *b)
{
	const uint32_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static void command_make(struct command_line *line, const uint32_t *pids, size_t nr,
			 const struct stall_options *stall, const char *host_root)
{
	uint32_t sorted[STALL_CHECK_PIDS];
	size_t kept = stall->busy ? 1 : 0, i;

	nr = nr < STALL_CHECK_PIDS ? nr : STALL_CHECK_PIDS;
	memcpy(sorted, pids, nr * sizeof(*pids));
	/* Parents come first, mostly. Of processes that are busy, the dump names the first: the one that is silent. */
	if (nr > kept)
		qsort(sorted + kept, nr - kept, sizeof(*sorted), pid_compare);
	word_add(line, "bpfprof");
	word_add(line, "dump");
	word_add(line, "--waits");
	/* A child that has never run since its fork is not watched yet. */
	word_add(line, "--subprocesses");
	word_add(line, "--native");
	word_add(line, "--kernel");
	word_add(line, "--verbose");
	number_add(line, "--stall", stall->after_ns / NS_PER_SECOND ?: 1, "s");
	if (stall->busy)
		word_add(line, "--stall-busy");
	if (host_root) {
		word_add(line, "--host-root");
		word_add(line, host_root);
	}
	for (i = 0; i < nr; i++)
		number_add(line, "--pid", sorted[i], "");
	word_add(line, NULL);
}

/* In the child. */
static void run(const struct command_line *line, int fd)
{
	const struct rlimit limit = { STALL_DUMP_BYTES, STALL_DUMP_BYTES };
	int null = open("/dev/null", O_RDWR | O_CLOEXEC);
	sigset_t none;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	/* A dump over the limit is cut: the verdict comes first. */
	setrlimit(RLIMIT_FSIZE, &limit);
	signal(SIGXFSZ, SIG_IGN);
	sigemptyset(&none);
	sigprocmask(SIG_SETMASK, &none, NULL);
	if (null < 0 || dup2(null, STDIN_FILENO) < 0 || dup2(fd, STDOUT_FILENO) < 0 ||
	    dup2(null, STDERR_FILENO) < 0)
		_exit(127);
	execv("/proc/self/exe", (char *const *)(uintptr_t)line->words);
	_exit(127);
}

int stall_check_start(struct stall_check *check, const uint32_t *pids, size_t nr,
		      const struct stall_options *stall, const char *host_root)
{
	struct command_line line = { 0 };

	command_make(&line, pids, nr, stall, host_root);
	check->fd = memfd_create("bpfprof-stall", MFD_CLOEXEC);
	if (check->fd < 0)
		return -errno;
	check->child = fork();
	if (!check->child)
		run(&line, check->fd);
	if (check->child < 0) {
		check->child = 0;
		close(check->fd);
		return -errno;
	}
	check->end_ns = time_monotonic_ns() + LIMIT_NS;
	return 0;
}

int stall_check_take(struct stall_check *check, char text[STALL_SENTENCE_BYTES], int *ret_fd)
{
	ssize_t n;

	if (time_monotonic_ns() > check->end_ns)
		kill(check->child, SIGKILL);
	if (!waitpid(check->child, NULL, WNOHANG))
		return -EAGAIN;
	check->child = 0;
	n = pread(check->fd, text, STALL_SENTENCE_BYTES - 1, 0);
	text[n > 0 ? n : 0] = '\0';
	*ret_fd = check->fd;
	return 0;
}

void stall_check_fini(struct stall_check *check)
{
	if (!check->child)
		return;
	kill(check->child, SIGKILL);
	waitpid(check->child, NULL, 0);
	check->child = 0;
	close(check->fd);
}
