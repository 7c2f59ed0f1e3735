/* SPDX-License-Identifier: Apache-2.0 */
#ifndef WORKER_TITLE_H
#define WORKER_TITLE_H

/* A worker of Ray's kind writes the title of its call over its arguments. */

#include <string.h>
#include <sys/prctl.h>
#include <time.h>

static char *area; /* the arguments, set by main() */
static size_t room;

static void title_set(const char *title)
{
	size_t len = strnlen(title, room - 1);

	memcpy(area, title, len);
	memset(area + len, 0, room - len);
	prctl(PR_SET_NAME, area);
}

static inline unsigned long long clock_ns(clockid_t id)
{
	struct timespec ts;

	clock_gettime(id, &ts);
	return (unsigned long long)ts.tv_sec * 1000000000ULL + (unsigned long long)ts.tv_nsec;
}

static inline unsigned long long now(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

#endif
