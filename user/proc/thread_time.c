// SPDX-License-Identifier: Apache-2.0
#include "proc/thread_time.h"

#include <ctype.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>

#include "proc/usage.h"

int thread_time_parse(struct thread_time *ret, const char *text)
{
	unsigned long long fields[3];
	char *end;
	size_t i;

	for (i = 0; i < 3; i++) {
		if (!isdigit((unsigned char)*text))
			return -EBADMSG;
		errno = 0;
		fields[i] = strtoull(text, &end, 10);
		if (errno || *end != (i < 2 ? ' ' : '\n'))
			return -EBADMSG;
		text = end + 1;
	}
	*ret = (struct thread_time){ .run_ns = fields[0],
				     .wait_ns = fields[1],
				     .nr_runs = fields[2] };
	return 0;
}

int thread_time_read(struct thread_time *ret, pid_t pid, pid_t tid)
{
	char name[40], text[128];
	ssize_t n;

	snprintf(name, sizeof(name), "task/%d/schedstat", tid);
	n = proc_file_read(text, sizeof(text), pid, name);
	return n < 0 ? (int)n : thread_time_parse(ret, text);
}
