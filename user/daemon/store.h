/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_DAEMON_STORE_H
#define BPFPROF_DAEMON_STORE_H

/*
 * The folder of the daemon: one set of files per interval,
 * cpu-<start, UTC yyyymmddThhmmssZ>-<seconds>s[-<n>].{pb.gz,folded,html}, where calls of the GPU's
 * libraries are watched cuda-<the same>, too, and links latest.* and latest.cuda.* to the newest
 * set, as far as it has such files. A file is there whole or not at all; latest.* never leads to
 * anything else.
 * One store at a time has a folder: it is locked by flock(2), which lasts until the
 * last process with a copy of the descriptor is gone. Only regular files with names of the form
 * above are ours: whatever else is there is neither counted, followed, nor touched.
 * To be used by one thread. Errors are -errno.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum store_file {
	STORE_PPROF,
	STORE_FOLDED,
	STORE_HTML,
	STORE_CUDA_PPROF, /* of calls of the GPU's libraries, where these are watched */
	STORE_CUDA_FOLDED,
	STORE_CUDA_HTML,
	STORE_NR_FILES
};

#define STORE_NR_CPU_FILES STORE_CUDA_PPROF /* in every set */

#define STORE_NAME_MAX 64

struct store;

struct store_limits {
	uint64_t age_seconds; /* since the end of the interval, as its name says */
	uint64_t bytes; /* of all sets together, but the newest set is always kept */
};

struct store_counts {
	uint64_t sets, bytes; /* there now */
	uint64_t removed_sets, removed_bytes;
	uint64_t stale; /* temporaries that a killed daemon had left */
	uint64_t links_failed; /* latest.* could not be set: links_error says why */
	int links_error;
	int remove_error; /* of the first file that could not be removed, or nobody knows which ones are due */
	/* Folders of pods that are too many or cannot be read: not counted, nothing in them is removed. */
	uint64_t folders_unread;
	int unread_error;
};

/* Being written. Zeroed is none. */
struct store_set {
	/* To be written by the caller, who does not close them; -1: there is no such file. */
	int fds[STORE_NR_FILES];
	char temporary[STORE_NR_FILES][STORE_NAME_MAX];
	char name[STORE_NAME_MAX]; /* once it is there; without suffix */
	uint32_t files; /* bit: enum store_file; once it is there */
	uint64_t bytes;
	bool open;
};

/* Makes the folder, and those above it. -EBUSY: another store has it. */
int store_open(struct store **ret, const char *path);
void store_close(struct store *store);

/*
 * A folder below that of another store, made if need be; it needs no lock, for who has the one above
 * has it too. names are those of the folders on the way, which are not followed if they are links. -ENOTDIR, -ELOOP: something
 * else is there.
 */
int store_open_below(struct store **ret, const struct store *above, const char *const names[],
		     size_t nr, bool make);
int store_fd(const struct store *store); /* of the folder; borrowed */

/*
 * What a store that was killed may have left: removes temporaries, makes latest.* lead to
 * the newest set. Adds to counts; the first error.
 */
int store_repair(struct store *store, uint64_t now_seconds, struct store_counts *counts);

/* Removes what a store that was killed has left half-written. Adds to counts; the first error. */
int store_clean(struct store *store, struct store_counts *counts);
/* Does the folder look like one of ours, by its latest.pb.gz? */
bool store_is_ours(const struct store *store);
/*
 * Removes one set; latest.* that led to it lead to next then, or are removed if that is NULL. 0 or
 * -errno.
 */
struct set;
bool store_leads_to(const struct store *store, const struct set *set); /* a link of it */
int store_remove(struct store *store, const struct set *set, const struct set *next);

/* Removes sets, the oldest first, until the rest is within the limits. Sets counts->sets and bytes. */
int store_prune(struct store *store, const struct store_limits *limits, uint64_t now_seconds,
		struct store_counts *counts);

/*
 * Temporaries to write into. If the path leads elsewhere by now (the folder was replaced), then
 * there. Makes room for as much as the newest set has, so that the limits hold all the time; without
 * limits (NULL), here and in store_commit(), nothing is removed.
 * store_commit() or store_abort() is due after success.
 */
int store_begin_cuda(struct store *store, struct store_set *set, const struct store_limits *limits,
		     uint64_t now_seconds, struct store_counts *counts);
/* The same without the CUDA files. */
int store_begin(struct store *store, struct store_set *set, const struct store_limits *limits,
		uint64_t now_seconds, struct store_counts *counts);
/*
 * All of it gets its name (start: Unix time), and latest.* lead to it. After an error nothing is
 * left of it.
 */
int store_commit(struct store *store, struct store_set *set, uint64_t start, uint64_t seconds,
		 const struct store_limits *limits, uint64_t now_seconds,
		 struct store_counts *counts);
void store_abort(struct store *store, struct store_set *set);

/* Is it the name of a file of a set? Then its parts; for tests. */
struct store_name {
	uint64_t start, seconds, copy; /* copy: the n of -<n>, 0 = none */
	enum store_file file;
};
bool store_name_parse(struct store_name *ret, const char *name);
/* name[STORE_NAME_MAX], without suffix. */
void store_name_make(char *name, uint64_t start, uint64_t seconds, uint64_t copy);
/* name[STORE_NAME_MAX]: of one file of a set, by the name of that. */
void store_file_name(char *name, const char *set_name, enum store_file file);
bool store_is_latest(const char *name); /* of a link latest.* */

#endif
