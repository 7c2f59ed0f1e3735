// SPDX-License-Identifier: Apache-2.0
#include "proc/rss.h"

#include <errno.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "proc/usage.h"

#define STATUS_BYTES 8192

/* The number of kB on the line that begins with name. */
static bool line_read(uint64_t *ret, const char *text, const char *name)
{
	const char *at = strstr(text, name);
	char *end;

	if (!at)
		return false;
	*ret = strtoull(at + strlen(name), &end, 10) * 1024;
	return end != at + strlen(name);
}

int proc_rss_parse(struct proc_rss *ret, const char *text)
{
	struct proc_rss found;

	if (!line_read(&found.anon_bytes, text, "\nRssAnon:") ||
	    !line_read(&found.file_bytes, text, "\nRssFile:") ||
	    !line_read(&found.shared_bytes, text, "\nRssShmem:"))
		return -ESRCH;
	if (!line_read(&found.swap_bytes, text, "\nVmSwap:")) /* the kernel has no swap */
		found.swap_bytes = 0;
	*ret = found;
	return 0;
}

int proc_rss_read(struct proc_rss *ret, pid_t pid)
{
	char text[STATUS_BYTES];
	ssize_t n = proc_file_read(text, sizeof(text), pid, "status");

	return n < 0 ? (int)n : proc_rss_parse(ret, text);
}
