/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Starts argv[1] processes, one after the other, each by a path (so a comm) of
 * its own in the folder argv[2], made as links to argv[3]. Writes what each one took by
 * wait4() to argv[4]: NAME NANOSECONDS, and at last "total" with itself.
 */
#define TARGET_MAIN
#include "target.h"

#include <spawn.h>
#include <sys/resource.h>
#include <sys/wait.h>

extern char **environ;

static uint64_t usage_ns(const struct rusage *usage)
{
	return ((uint64_t)usage->ru_utime.tv_sec + (uint64_t)usage->ru_stime.tv_sec) * 1000000000u +
	       ((uint64_t)usage->ru_utime.tv_usec + (uint64_t)usage->ru_stime.tv_usec) * 1000u;
}

int main(int argc, char **argv)
{
	struct rusage usage;
	uint64_t total = 0;
	FILE *out;

	if (argc < 5 || !(out = fopen(argv[4], "w")))
		return 2;
	for (unsigned long i = 0; i < strtoul(argv[1], NULL, 10); i++) {
		char path[512], name[32];
		char *args[] = { name, path, NULL };
		int status;
		pid_t pid;

		snprintf(name, sizeof(name), "churn%05lu", i);
		snprintf(path, sizeof(path), "%s/%s", argv[2], name);
		if (symlink(argv[3], path) && errno != EEXIST)
			return 1;
		if (posix_spawn(&pid, path, NULL, NULL, args, environ))
			return 1;
		if (wait4(pid, &status, 0, &usage) != pid || status)
			return 1;
		total += usage_ns(&usage);
		fprintf(out, "%s %llu\n", name, (unsigned long long)usage_ns(&usage));
	}
	getrusage(RUSAGE_SELF, &usage);
	fprintf(out, "total %llu\n", (unsigned long long)(total + usage_ns(&usage)));
	return fclose(out) ? 1 : 0;
}
