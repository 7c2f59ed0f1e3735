/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_DAEMON_REMOTE_PROFILE_QUERY_H
#define BPFPROF_DAEMON_REMOTE_PROFILE_QUERY_H

/* Parses and checks the query of /profile and /dump. Its values have the form of flags. */

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
#define REMOTE_PROFILE_STARS_MAX 8 /* in all patterns; each one multiplies the cost of a match */

struct remote_profile_query {
	struct process_choice choice;
	uint64_t duration_ns; /* of a profile */
	bool native;
	enum output_format format;
	unsigned int given; /* bits of parameters that may be given once */
};

void remote_profile_query_init(struct remote_profile_query *query);
void remote_profile_query_fini(struct remote_profile_query *query);

/* One name=value, decoded. 0, -ENOMEM or -EINVAL with one sentence added to why. */
int remote_profile_query_take(struct remote_profile_query *query, enum remote_profile_kind kind,
			      const char *name, const char *value, struct buf *why);
/* Checks them together, after the last one. 0, or -EINVAL with a sentence added to why. */
int remote_profile_query_check(const struct remote_profile_query *query,
			       enum remote_profile_kind kind, struct buf *why);

/*
 * Authorization: "Bearer TOKEN". 0; -EACCES: another token; -ENOENT: none. The time does not depend on
 * the place of the first wrong byte.
 */
int remote_profile_token_check(const char *authorization, const char *token);

/*
 * A path below the folder of the daemon: folders, and then a file of a set, latest.*, or nothing for an
 * index. 0, or -ENOENT for all other paths, such as hidden and temporary files, and "..".
 */
int remote_profile_path_check(const char *path);

#endif
