/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_OPTIONS_FLAGS_H
#define BPFPROF_OPTIONS_FLAGS_H

/*
 * One table of flags gives the parser, the environment twins and the text of
 * --help. Own code instead of argp or getopt_long: those cannot tell the caller which
 * word was wrong without printing, and accept abbreviations, which a stable
 * command line must not.
 */

#include <stdbool.h>
#include <stddef.h>

struct buf;
struct config;

struct flag {
	int key; /* for the caller's switch */
	char letter, alias; /* -F, -r; 0: none */
	const char *name; /* without the dashes */
	const char *value; /* as --help shows it, "HZ"; NULL: takes none */
	const char *help; /* lines joined by \n */
	bool repeatable; /* in the environment: a list with commas; without a value a number */
};

struct flag_set {
	const struct flag *flags;
	size_t nr_flags; /* at most 64 */
	bool command; /* "-- CMD ARGS..." is allowed */
	const char *no_operand; /* said after a word that is no flag */
	int operand_key; /* of the flag whose value such a word is; 0: it is a mistake */
	const char *twins; /* BPFPROF_<this>_NAME is a twin of this command alone */
	/*
	 * Takes one value (NULL for a flag without one). 0, -ENOMEM or -EINVAL with
	 * the reason added to why. A repeatable flag is called once per value.
	 */
	int (*take)(void *target, int key, const char *value, struct buf *why);
	const struct config *config; /* twins that the environment does not have, or NULL */
};

/*
 * First argv[1..], then the environment for flags that argv does not have: the twin of this command
 * alone, else the one of all. *command is the
 * index of the first word after "--", or 0. 0, -EINVAL with one sentence added to error, or
 * -ENOMEM. -ECANCELED: --help was met before any mistake.
 */
int flags_parse(const struct flag_set *set, int argc, char *const argv[], void *target,
		int *command, struct buf *error);

/* The table as --help shows it. */
void flags_help(struct buf *dst, const struct flag_set *set);

/* The known word that is nearest to what was typed, or NULL if none is near. */
const char *word_nearest(const char *typed, const char *const words[], size_t nr);

#endif
