/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_OPTIONS_FLAG_H
#define BPFPROF_OPTIONS_FLAG_H

/*
 * Rows of flags: a row names a flag, describes it for --help, and says where in an options struct
 * its value goes and which values are right. A table of rows ends with { .type = FLAG_END }. Rows
 * that several commands share are tables of their own, which the commands' tables include. The
 * struct owns the texts and lists that the parser stores in it; flag_release() frees them.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct buf;

enum flag_type {
	FLAG_END, /* ends a table */
	FLAG_INCLUDE, /* the rows of another table stand here */
	/* These take no value. */
	FLAG_BOOL, /* bool: becomes true */
	FLAG_SET, /* an integer: becomes min; with a refusal not if another one was set */
	FLAG_COUNT, /* an integer: becomes one more, up to max */
	/* These are integers from min to max. */
	FLAG_NUMBER, /* digits */
	FLAG_PERCENT, /* digits, and % or not */
	FLAG_BYTES, /* 1000, 64K, 1G */
	FLAG_DURATION, /* 1.5, 30s, 5m: nanoseconds, stored in units of unit_ns */
	FLAG_CHOICE, /* one of the words: min for the first, then one more for each */
	/* These are owned by the options struct. */
	FLAG_TEXT, /* char *; with a refusal it must not be empty */
	FLAG_FOLDER, /* char *: the absolute path of a folder */
	FLAG_LIST, /* char **: one more text, which must not be empty */
	FLAG_PATTERNS, /* char **: patterns of ray/worker_match.h with commas between them */
	FLAG_PIDS, /* pid_t *: process ids with commas between them, each once */
	FLAG_CUSTOM, /* only the functions of the row know the field; if it is set, the integer there is not 0 */
};

struct flag {
	const char *name; /* without the dashes */
	const char *value; /* as --help shows it, "HZ"; NULL: the flag takes none */
	const char *help; /* lines joined by \n */
	enum flag_type type;
	char letter; /* 'F' for -F, or 0 */
	char alias; /* another letter, or 0 */
	bool repeatable; /* in the environment: a list with commas, or, without a value, a number */
	bool whole; /* a duration must be a multiple of unit_ns */
	bool marked; /* flag_set.mark remembers the last such flag that the user gave */
	uint8_t size; /* bytes of the field */
	uint32_t offset; /* of the field in the struct */
	uint32_t count; /* offset of the size_t with the length of a list */
	uint64_t min;
	uint64_t max; /* 0: no limit but that of the text form */
	uint64_t unit_ns; /* 0: 1 */
	uint64_t initial; /* the default of an integer */
	const char *const *words; /* NULL ends them */
	const char *refusal; /* the reason that the user reads when the value is wrong */
	const char *out_of_range; /* the same for a value out of min and max; NULL: refusal */
	/*
	 * Stores the value in the object, in place of the way of the type. 0, -ENOMEM, or -EINVAL with
	 * the reason added to why; without a reason the refusal is shown.
	 */
	int (*take)(void *object, const char *value, struct buf *why);
	void (*release)(void *object); /* of a custom row that owns memory */
	const struct flag *include; /* its rows are of the struct at this row's offset */
};

/* The initialisers of a row for the place of its field. */
#define FLAG_AT(object, field)                                                                     \
	.offset = offsetof(object, field), .size = sizeof(((object *)NULL)->field)
#define FLAG_LIST_AT(object, list, length) FLAG_AT(object, list), .count = offsetof(object, length)
/* A row that includes a table. The rows of the table are of this field of the object. */
#define FLAG_GROUP(rows, object, field)                                                            \
	{                                                                                          \
		.type = FLAG_INCLUDE, .include = rows, .offset = offsetof(object, field)           \
	}
#define FLAG_WORDS(...)                                                                            \
	.words = (const char *const[])                                                             \
	{                                                                                          \
		__VA_ARGS__, NULL                                                                  \
	}

/* Walks over a table and the tables that it includes (one level deep). */
struct flag_walk {
	const struct flag *flag; /* the row where it stands, or NULL: at the end */
	void *object; /* the struct that the row is of */
	unsigned int nr; /* of the row, from 0 */
	const struct flag *next, *outer;
	void *options;
};

/* Starts before the first row. options may be NULL if the caller has no use for objects. */
struct flag_walk flag_walk(const struct flag *rows, void *options);
/* Goes on to the next row, or to that with a name. False: there is none. */
bool flag_next(struct flag_walk *walk);
bool flag_find(struct flag_walk *walk, const char *name, size_t len);

/* Stores a value (NULL for a flag without one): 0, -ENOMEM, or -EINVAL with the reason added to why. */
int flag_take(const struct flag *flag, void *object, const char *value, struct buf *why);
/* Was a value stored that is not the default? choice[len]: "", or "=WORD", then was it this one? */
bool flag_is_set(const struct flag *flag, void *object, const char *choice, size_t len);
/* Stores the default of an integer; the rest of the struct is zero. */
void flag_init(const struct flag *flag, void *object);
/* Frees the memory of the field. */
void flag_release(const struct flag *flag, void *object);

#endif
