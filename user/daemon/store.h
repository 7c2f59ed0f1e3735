/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_DAEMON_STORE_H
#define BPFPROF_DAEMON_STORE_H

/*
 * The folder of the daemon. It has one set of files per interval:
 * cpu-<start, UTC yyyymmddThhmmssZ>-<seconds>s[-<n>].{pb.gz,folded,html}; with --gpu also
 * cuda-<the same>, with --memory memory-<the same>; and cpu-<the same>.seconds.gz, which belongs to the pprof beside
 * it. The links latest.*, latest.cuda.* and latest.memory.* lead to the other files of the newest set. A file is
 * written whole or not at all.
 *
 * One store at a time uses a folder: flock(2) locks it until the last process with a copy of the
 * descriptor has ended. Only regular files with such names belong to the store: it does not count,
 * follow or change anything else. One thread uses a store. Errors are -errno.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "daemon/store_access.h"

enum store_file {
	STORE_PPROF,
	STORE_FOLDED,
	STORE_HTML,
	STORE_CUDA_PPROF, /* calls of CUDA and NCCL, with --gpu */
	STORE_CUDA_FOLDED,
	STORE_CUDA_HTML,
	STORE_MEMORY_PPROF, /* resident memory, with --memory */
	STORE_MEMORY_FOLDED,
	STORE_MEMORY_HTML,
	STORE_SECONDS_GZ, /* the seconds of samples, without --wall; no link leads to it */
	STORE_NR_FILES
};

#define STORE_NR_CPU_FILES STORE_CUDA_PPROF /* in every set */
#define STORE_CUDA 1U /* parts that a set may have, too */
#define STORE_MEMORY 2U
#define STORE_SECONDS 4U

/* 0: of every set; or STORE_CUDA, STORE_MEMORY, STORE_SECONDS. */
unsigned int store_part_of(enum store_file file);

#define STORE_NAME_MAX 64

struct store;

struct store_limits {
	uint64_t age_seconds; /* since the end of the interval, as its name says */
	uint64_t bytes; /* of all sets together, but the newest set is always kept */
};

struct store_counts {
	uint64_t sets, bytes; /* in the folder now */
	uint64_t removed_sets, removed_bytes;
	uint64_t stale; /* temporary files that a killed daemon had left */
	uint64_t
		links_failed; /* links latest.* that could not be set; links_error has the reason */
	int links_error;
	int remove_error; /* of the first file that could not be removed, or of reading the folder */
	/* Folders of pods beyond the limit, or unreadable: nothing in them is counted or removed. */
	uint64_t folders_unread;
	int unread_error;
};

/* A set that is being written. All zero: none. */
struct store_set {
	/* The caller writes into them and does not close them; -1: the set has no such file. */
	int fds[STORE_NR_FILES];
	char temporary[STORE_NR_FILES][STORE_NAME_MAX];
	char name[STORE_NAME_MAX]; /* without suffix; set by store_commit() */
	uint32_t files; /* bit: enum store_file; set by store_commit() */
	uint64_t bytes;
	bool open;
};

/*
 * Makes the folder, and those above it. access, which is copied, is of everything that is made in it.
 * -EBUSY: another store has it.
 */
int store_open(struct store **ret, const char *path, const struct store_access *access);
/* Makes a temporary file as for a set, and removes it. 0 or -errno. */
int store_check(struct store *store);
void store_close(struct store *store);

/*
 * A folder below that of another store; with make it is made if it does not exist. The lock of the
 * store above covers it. names are the folders on the way; a link among them is not followed.
 * -ENOTDIR, -ELOOP: one of them is no folder.
 */
int store_open_below(struct store **ret, const struct store *above, const char *const names[],
		     size_t nr, bool make);
int store_fd(const struct store *store); /* of the folder; borrowed */

/*
 * Repairs what a killed daemon may have left: removes temporary files, and makes latest.* lead to
 * the newest set. Adds to counts. Returns the first error.
 */
int store_repair(struct store *store, uint64_t now_seconds, struct store_counts *counts);

/* Removes only the temporary files of a killed daemon. Adds to counts. Returns the first error. */
int store_clean(struct store *store, struct store_counts *counts);
/* Does latest.pb.gz lead to a set of the folder? Then a daemon has made the folder. */
bool store_is_ours(const struct store *store);
/*
 * Removes one set. Links latest.* to it then lead to next; with next NULL they are removed. 0 or
 * -errno.
 */
struct set;
bool store_leads_to(const struct store *store, const struct set *set); /* does a link latest.*? */
int store_remove(struct store *store, const struct set *set, const struct set *next);

/* Removes sets, the oldest first, until the rest is within the limits. Sets counts->sets and bytes. */
int store_prune(struct store *store, const struct store_limits *limits, uint64_t now_seconds,
		struct store_counts *counts);

/*
 * Opens temporary files for a new set. If the folder was replaced meanwhile, they are in the new
 * one. Removes old sets until one more set of the newest one's size fits into limits; without limits
 * (NULL), here and in store_commit(), nothing is removed. store_commit() or store_abort() must follow.
 */
int store_begin(struct store *store, struct store_set *set, unsigned int parts,
		const struct store_limits *limits, uint64_t now_seconds,
		struct store_counts *counts);
/*
 * Gives the files their names (start: Unix time), and makes latest.* lead to them. After an error
 * nothing is left of the set.
 */
int store_commit(struct store *store, struct store_set *set, uint64_t start, uint64_t seconds,
		 const struct store_limits *limits, uint64_t now_seconds,
		 struct store_counts *counts);
void store_abort(struct store *store, struct store_set *set);

/*
 * A file beside the sets, whose name is not that of a set: the limits do not count it. begin: a descriptor for
 * writing, or -errno. end closes it, and gives it its name in place of a file that has it; NULL removes it. 0 or -errno.
 */
int store_file_begin(struct store *store, char temporary[STORE_NAME_MAX]);
int store_file_end(struct store *store, int fd, const char *temporary, const char *name);

/* The parts of the name of a file of a set; for tests. */
struct store_name {
	uint64_t start, seconds, copy; /* copy: the n of -<n>, 0 = none */
	enum store_file file;
};
bool store_name_parse(struct store_name *ret, const char *name);
/* name[STORE_NAME_MAX], without suffix. */
void store_name_make(char *name, uint64_t start, uint64_t seconds, uint64_t copy);
/* name[STORE_NAME_MAX]: the file of a set, by the name of the set. */
void store_file_name(char *name, const char *set_name, enum store_file file);
bool store_is_latest(const char *name); /* of a link latest.* */
const char *store_latest_name(enum store_file file); /* of its link; NULL: it has none */

#endif
