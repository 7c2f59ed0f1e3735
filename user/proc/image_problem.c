// SPDX-License-Identifier: Apache-2.0
#include "proc/image_problem.h"

#include <errno.h>

enum image_problem image_problem_of(int err)
{
	switch (err) {
	case -ETIMEDOUT:
	case -EBUSY:
		return IMAGE_BLOCKED;
	case -ESTALE:
	case -ENOENT:
	case -ENOTDIR:
	case -ELOOP:
		return IMAGE_GONE;
	case -ENOEXEC:
		return IMAGE_NOT_ELF;
	case -EBADMSG:
	case -E2BIG:
		return IMAGE_MALFORMED;
	default:
		return IMAGE_UNREADABLE;
	}
}

#define AT(problem) ((problem) * sizeof(uint64_t))

const struct counter image_counters[] = {
	{ COUNTER_FILES, "file_gone", AT(IMAGE_GONE),
	  .help = "files that no path leads to any more, and that could not be opened by inode" },
	{ COUNTER_FILES, "file_unreadable", AT(IMAGE_UNREADABLE),
	  .help = "files that could not be opened or read" },
	{ COUNTER_FILES, "file_blocked", AT(IMAGE_BLOCKED),
	  .help = "files whose file system did not answer in time" },
	{ COUNTER_FILES, "file_malformed", AT(IMAGE_MALFORMED), .help = "broken ELF files" },
	{ COUNTER_FILES, "file_not_elf", AT(IMAGE_NOT_ELF),
	  .help = "files that are no ELF files of this kind of machine" },
	{ COUNTER_FILES, "file_too_many", AT(IMAGE_TOO_MANY),
	  .help = "new files of a tenant (a container, or a user) that has used its share of the "
		  "memory for files, each time that bpfprof meets one" },
	{ 0 },
};

const char *image_problem_name(enum image_problem problem)
{
	return problem == IMAGE_FINE ? "fine" : image_counters[problem - 1].name;
}
