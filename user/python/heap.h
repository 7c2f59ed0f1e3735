/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PYTHON_HEAP_H
#define BPFPROF_PYTHON_HEAP_H

/*
 * Reads the objects of a running CPython through a memory reader: types, strings, integers, dicts. The
 * target controls all of it: each read and each list is bounded, and unreadable or invalid memory is
 * counted. Not thread-safe.
 */

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "bpfprof.h"
#include "python/heap_layout.h"
#include "unwind/reader.h"

struct python_heap_counts {
	uint64_t nr_unreadable; /* memory that could not be read */
	uint64_t nr_bad; /* memory that does not hold what it should */
	uint64_t nr_cyclic; /* lists that lead back into themselves */
	uint64_t nr_cut; /* lists and objects over our limits */
};

#define PYTHON_MAX_TYPE_NAME 128
#define PYTHON_TYPE_SLOTS 64 /* cached types */

/* Bits of tp_flags, the same in all versions: the type is this builtin one or derived from it. */
#define PYTHON_FLAG_INT (1ULL << 24)
#define PYTHON_FLAG_LIST (1ULL << 25)
#define PYTHON_FLAG_TUPLE (1ULL << 26)
#define PYTHON_FLAG_BYTES (1ULL << 27)
#define PYTHON_FLAG_STR (1ULL << 28)
#define PYTHON_FLAG_DICT (1ULL << 29)

struct python_type {
	uint64_t va;
	uint64_t base; /* address of the type from which it is derived; 0: none */
	uint64_t flags; /* tp_flags */
	uint64_t basic_bytes;
	int64_t dict_offset;
	uint64_t members; /* tp_members: address of the description of its fields; 0: none */
	uint64_t awaited; /* python_heap_awaited(); UINT64_MAX: it is not known yet */
	char name[PYTHON_MAX_TYPE_NAME + 1]; /* tp_name, cut; valid UTF-8 */
};

struct python_heap {
	struct unwind_reader *reader; /* borrowed, as is layout */
	const struct bpfprof_python_layout *layout;
	uint64_t runtime; /* address of _PyRuntime */
	bool has_objects; /* `objects` is filled in: dicts, values and thread names can be read */
	struct python_heap_layout objects;
	struct python_heap_counts counts;
	struct python_type types[PYTHON_TYPE_SLOTS];
};

/*
 * Fills in *heap; there is nothing to free. From 3.13 on it reads the layout from the target: -EFAULT if
 * it cannot be read, -EBADMSG if it contradicts itself, -ENOTSUP the version is not known. After an error
 * frames and code objects can still be read, and has_objects is false.
 */
int python_heap_init(struct python_heap *heap, struct unwind_reader *reader,
		     const struct bpfprof_python_layout *layout, uint64_t runtime);

/* Reads len bytes at va: 0 or -EFAULT (counted). */
int python_heap_read(struct python_heap *heap, uint64_t va, void *dst, uint32_t len);
int python_heap_u64(struct python_heap *heap, uint64_t va, uint64_t *ret);
/* Counts memory that does not hold what it should. -EBADMSG. */
int python_heap_bad(struct python_heap *heap);

/*
 * At most max_chars characters of a str object in UTF-8; the caller frees them. *ret_len is the length
 * without the NUL, *ret_cut: there are more characters; both may be NULL. 0, -EFAULT, -EBADMSG, -ENOMEM.
 */
int python_heap_string(struct python_heap *heap, uint64_t va, size_t max_chars, char **ret,
		       size_t *ret_len, bool *ret_cut);
/* Type of the object at va, borrowed until the next call: 0, -EFAULT, -EBADMSG. */
int python_heap_type(struct python_heap *heap, uint64_t va, const struct python_type **ret);
/* The same for the type at va itself, such as the base of a type. */
int python_heap_type_at(struct python_heap *heap, uint64_t va, const struct python_type **ret);
/*
 * Offset of the field with the object that an object of this type awaits, as the type itself describes it; 0: it
 * describes none. type is from python_heap_type() and stays valid.
 */
uint64_t python_heap_awaited(struct python_heap *heap, const struct python_type *type);
/* The sign of an int object and its number of digits of 30 bits: 0, -EFAULT, -EBADMSG. */
int python_heap_int_parts(struct python_heap *heap, uint64_t va, bool *ret_negative,
			  uint64_t *ret_digits);
/* The value of an int object: 0, -ERANGE it does not fit, -EFAULT, -EBADMSG. */
int python_heap_int(struct python_heap *heap, uint64_t va, int64_t *ret);

#define PYTHON_MAX_DICT (1U << 18) /* keys of one dict that are read */

/* Iterates over a dict in the order of insertion. */
struct python_dict_iter {
	struct python_heap *heap;
	uint64_t entries; /* address of the first */
	uint64_t values; /* of a split dict: address of its first value; else 0 */
	uint32_t nr, at; /* number of entries, number of the next one */
	uint32_t entry_words; /* 3: hash, key, value; 2: key, value */
	uint32_t first, nr_loaded; /* entries in `loaded` */
	uint64_t loaded[96];
};

/* Begins with a dict (or an object of a subclass): 0, -EFAULT, -EBADMSG, -ENOTSUP. */
int python_dict_init(struct python_dict_iter *iter, struct python_heap *heap, uint64_t va);
/* Begins with the attributes of an instance of a plain class: 0, -ENODATA it has none, or as above. */
int python_instance_init(struct python_dict_iter *iter, struct python_heap *heap, uint64_t va,
			 const struct python_type *type);
/* The next key and value; false at the end. */
bool python_dict_next(struct python_dict_iter *iter, uint64_t *ret_key, uint64_t *ret_value);
/* Value of a key that is an ASCII str; 0: it is not among the next `limit` keys. */
uint64_t python_dict_find(struct python_dict_iter *iter, const char *key, uint32_t limit);

#endif
