/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_OPTIONS_FLAGS_H
#define BPFPROF_OPTIONS_FLAGS_H

/*
 * The command line of one command: a table of flags gives the parser, the environment twins and the
 * text of --help, a table of rules says which flags need or exclude each other. Own code instead of
 * argp or getopt_long: those print, do not say which word was wrong, and accept abbreviations, which a
 * stable command line must not.
 */

#include <stddef.h>

#include "options/flag.h"

struct buf;
struct config;

enum flag_relation {
	FLAG_NEEDS, /* one of the others must be set */
	FLAG_EXCLUDES, /* none of the others may be set */
};

/* Flags stand by name, with blanks between them; "clock=timer" is a flag with this one choice. */
struct flag_rule {
	const char *flags; /* the rule is for command lines that set one of these; NULL: for all */
	enum flag_relation relation;
	const char *others;
	const char *sentence; /* the error */
	/*
	 * Stands alone in its row: checks relations of another kind, and fills fields that depend on several
	 * flags. 0, -ENOMEM, or -EINVAL with a sentence added to error.
	 */
	int (*check)(void *options, struct buf *error);
};

struct flag_set {
	const struct flag *flags; /* at most 64, included rows as well */
	const struct flag_rule *rules; /* checked in this order; an empty row ends them */
	size_t size; /* of the options struct */
	size_t command; /* offset of its char ** for the words after "--"; 0: there may be none */
	size_t mark; /* offset of its const struct flag * for the last marked flag */
	const char *
		operand; /* the flag that takes a word without a flag as its value; NULL: a mistake */
	const char *no_operand; /* the reason for that mistake */
	const char *twins; /* BPFPROF_<this>_NAME is a twin of this command alone */
	const char *about; /* the text of --help before the flags */
	const char *notes; /* and after them */
	const char *statuses; /* more exit statuses, or NULL */
};

enum options_result {
	OPTIONS_RUN = 0,
	OPTIONS_HELP = 1, /* the user asked for --help; the struct holds nothing useful */
};

/*
 * Fills the struct: first argv[1..] (argv[0] is the name of the command), then the environment and
 * the config (or NULL) for flags that argv does not have: the twin of this command alone, else the
 * twin of all commands. Then it checks the rules. OPTIONS_RUN, OPTIONS_HELP if --help came before any
 * mistake, -EINVAL with one sentence without newline added to error, or -ENOMEM. The struct needs
 * options_fini() after OPTIONS_RUN only; words after "--" are borrowed from argv.
 */
int options_parse(const struct flag_set *set, void *options, const struct config *config, int argc,
		  char *const argv[], struct buf *error);
/* The same without the rules. */
int options_read(const struct flag_set *set, void *options, const struct config *config, int argc,
		 char *const argv[], struct buf *error);
/* Frees the memory of the flags, and empties the struct. */
void options_fini(const struct flag_set *set, void *options);
/* The text of --help. */
void options_help(struct buf *dst, const struct flag_set *set);

/* The known word that is nearest to the typed one, or NULL if none is near. */
const char *word_nearest(const char *typed, const char *const words[], size_t nr);

#endif
