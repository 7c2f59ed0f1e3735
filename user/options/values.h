/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_OPTIONS_VALUES_H
#define BPFPROF_OPTIONS_VALUES_H

/*
 * Values of flags that several commands have. Functions with why: 0, -ENOMEM or -EINVAL with the
 * reason added to why, for flags.h.
 */

#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

struct buf;

/* Adds the text, gives -EINVAL. */
int value_refuse(struct buf *why, const char *text);

/* Digits only: no sign, no blank, no base prefix. 0, -EINVAL, -ERANGE over max. */
int value_number(const char *text, uint64_t max, uint64_t *ret);
/* 1000, 64K, 1G, 1GiB; units are powers of 1024. 0, -EINVAL, -ERANGE if 0 or too large. */
int value_bytes(const char *text, uint64_t *ret);

/*
 * Seconds since 1970, with up to nine digits after the point, as nanoseconds. 0; -EINVAL; -ERANGE if
 * 64 bits cannot hold it.
 */
int value_epoch(const char *text, uint64_t *ret_ns);

/* Replaces *dst by a copy. 0 or -ENOMEM. */
int value_string(char **dst, const char *value);
/* The node's file system: an absolute path to a folder. */
int value_folder(char **dst, const char *value, struct buf *why);

/* Adds the pids of "1,2" that the list does not have yet; at most 1024 in all. */
int value_add_pids(pid_t **list, size_t *nr, const char *value, struct buf *why);
/* Adds a copy of name[len]. */
int value_add_name(char ***list, size_t *nr, const char *name, size_t len, struct buf *why);
/*
 * Adds patterns of ray/worker_match.h with commas between them, without blanks around them and empty
 * ones; at least one must remain.
 */
int value_add_patterns(char ***list, size_t *nr, const char *value, struct buf *why);

#endif
