/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_DAEMON_REMOTE_PROFILE_QUERY_H
#define BPFPROF_DAEMON_REMOTE_PROFILE_QUERY_H

/* Parses and checks the queries of HTTP clients. Its values have the form of flags. */

#include <stdbool.h>
#include <stdint.h>

#include "capture/process_choice.h"
#include "formats/output.h"

struct buf;

enum remote_profile_kind {
	REMOTE_PROFILE_PROFILE,
	REMOTE_PROFILE_DUMP,
	REMOTE_PROFILE_RECORD,
	REMOTE_PROFILE_FILES,
	REMOTE_PROFILE_ATTACH, /* begins a recording of memory */
	REMOTE_PROFILE_DETACH, /* ends it */
	REMOTE_PROFILE_REPORT, /* its result */
	REMOTE_PROFILE_TOP, /* tables, one after the other */
	REMOTE_PROFILE_NR_KINDS
};

#define REMOTE_PROFILE_MAX_PROFILES 2
#define REMOTE_PROFILE_SECONDS_DEFAULT 30
#define REMOTE_PROFILE_SECONDS_MAX 3600
#define REMOTE_PROFILE_LEASE_SECONDS                                                               \
	900 /* of a recording of memory, at most, and without seconds= */
#define REMOTE_PROFILE_RATE_DEFAULT 100
#define REMOTE_PROFILE_RATE_MAX 1000
#define REMOTE_PROFILE_LOCALS_MAX 8
#define REMOTE_PROFILE_STARS_MAX 8 /* in all patterns; each one multiplies the cost of a match */

struct remote_profile_query {
	struct process_choice choice;
	uint64_t
		start_ticks; /* of pid: when it was started, field 22 of its stat file; 0: not given */
	uint64_t duration_ns; /* of a profile, a recording, the tables */
	uint64_t delay_ns; /* between two tables */
	char *id; /* of a recording of memory; NULL: not given */
	bool allocations; /* of an attach: calls of allocators, not resident memory */
	bool table, leaks; /* of a report: no flame graph; not the peak, but what has stayed */
	uint64_t rate; /* of a record, Hz */
	uint64_t locals; /* of a dump, as dump --locals */
	bool native, subprocesses, json, full_filenames; /* as the flags of dump */
	bool idle, gil, threads, first_lines, no_lines; /* as the flags of py-spy record */
	enum output_format format;
	uint64_t given; /* bits of parameters that may be given once */
};

struct flag;

/* One row per kind. */
extern const struct remote_profile_kind_facts {
	const char *name; /* for logs and counters; that of the command */
	const char *path; /* in the URL; "/files" begins several */
	const struct flag *parameters; /* a client gives each once, but for repeatable ones */
	unsigned int patience_seconds; /* until the first bytes of an answer */
	uint8_t places; /* jobs at a time */
	uint8_t places_of_one; /* of a token, or of all clients of the Unix socket; 0: all */
	bool is_command; /* the answer comes from another execution of this program */
} remote_profile_kinds[REMOTE_PROFILE_NR_KINDS];
#define REMOTE_PROFILE_FILES_PREFIX "/files/"

/* False: the path is of no kind. */
bool remote_profile_kind_of(const char *path, enum remote_profile_kind *ret);

void remote_profile_query_init(struct remote_profile_query *query);
void remote_profile_query_fini(struct remote_profile_query *query);

/* One name=value, decoded. 0, -ENOMEM or -EINVAL with one sentence added to why. */
int remote_profile_query_take(struct remote_profile_query *query, enum remote_profile_kind kind,
			      const char *name, const char *value, struct buf *why);
/* Checks them together, after the last one. 0, or -EINVAL with a sentence added to why. */
int remote_profile_query_check(const struct remote_profile_query *query,
			       enum remote_profile_kind kind, struct buf *why);

/* The same for a token that is bound to pods: it asks about one process at a time. */
int remote_profile_query_check_bound(const struct remote_profile_query *query,
				     enum remote_profile_kind kind, struct buf *why);
/*
 * A path below the folder of the daemon: folders, and then a file of a set, latest.*, or nothing for an
 * index. 0, or -ENOENT for all other paths, such as hidden and temporary files, and "..".
 */
int remote_profile_path_check(const char *path);

#endif
