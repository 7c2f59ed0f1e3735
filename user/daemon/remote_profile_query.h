/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_DAEMON_REMOTE_PROFILE_QUERY_H
#define BPFPROF_DAEMON_REMOTE_PROFILE_QUERY_H

/* What stands behind the '?' of /profile and /dump, parsed and checked: values as flags have them. */

#include <stdbool.h>
#include <stdint.h>

#include "capture/process_choice.h"
#include "formats/output.h"

struct buf;

enum remote_profile_kind {
	REMOTE_PROFILE_PROFILE,
	REMOTE_PROFILE_DUMP,
	REMOTE_PROFILE_FILES,
	REMOTE_PROFILE_NR_KINDS
};

#define REMOTE_PROFILE_SECONDS_DEFAULT 30
#define REMOTE_PROFILE_SECONDS_MAX 3600
#define REMOTE_PROFILE_STARS_MAX 8 /* in all patterns: each one more multiplies what a name costs */

struct remote_profile_query {
	struct process_choice choice;
	uint64_t duration_ns; /* of a profile */
	bool native;
	enum output_format format;
	unsigned int given; /* those that may be given once, as bits */
};

void remote_profile_query_init(struct remote_profile_query *query);
void remote_profile_query_fini(struct remote_profile_query *query);

/* One name=value, decoded. 0, -ENOMEM or -EINVAL with one sentence added to why. */
int remote_profile_query_take(struct remote_profile_query *query, enum remote_profile_kind kind,
			      const char *name, const char *value, struct buf *why);
/* After the last: 0 or -EINVAL. */
int remote_profile_query_check(const struct remote_profile_query *query,
			       enum remote_profile_kind kind, struct buf *why);

/*
 * Authorization: "Bearer TOKEN". 0; -EACCES: another token; -ENOENT: none at all. Takes as long for a token that
 * is wrong from the first byte as for one that is wrong in the last.
 */
int remote_profile_token_check(const char *authorization, const char *token);

/*
 * The path of a file below the folder of the daemon: folders, and in the end a file of a finished interval, latest.*, or
 * nothing (an index is wanted). Everything else is -ENOENT: hidden and temporary files, "..", what is no name of ours.
 */
int remote_profile_path_check(const char *path);

#endif
