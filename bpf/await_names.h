/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
#ifndef BPFPROF_BPF_AWAIT_NAMES_H
#define BPFPROF_BPF_AWAIT_NAMES_H

/* Tells the objects of asyncio apart by the names of their types; for unwind_awaiters.h, over its reader. */

#include "await_walk.h"

static __always_inline int await_u64(struct unwind_reader *reader, __u64 va, __u64 *dst)
{
	return python_plausible(va) ? unwind_read(reader, va, dst, 8) : -1;
}

/* The part of a word before its first zero byte. */
static __always_inline __u64 await_text(__u64 word, int *ended)
{
	__u64 zero = (word - 0x0101010101010101ULL) & ~word & 0x8080808080808080ULL;

	if (*ended)
		return 0;
	if (!zero)
		return word;
	*ended = 1;
	return word & (((zero & -zero) >> 7) - 1);
}

/* Reads a name, filled up with zeros. A name may end just before a page that cannot be read. */
static __always_inline int await_name(struct await_walk *w, struct unwind_reader *reader, __u64 va)
{
	__u32 left = 4096 - (va & 4095);
	int i, ended = 0;

	w->name[0] = w->name[1] = w->name[2] = w->name[3] = 0;
	if (!python_plausible(va))
		return -1;
	if (unwind_read(reader, va, w->name, sizeof(w->name)) &&
	    (left >= sizeof(w->name) || unwind_read(reader, va, w->name, left & 31)))
		return -1;
	for (i = 0; i < AWAIT_NAME_WORDS; i++)
		w->name[i] = await_text(w->name[i], &ended);
	return 0;
}

#define AWAIT_NAMED(name, text) await_is(name, (const char[32]){ text })

static __always_inline int await_is(const __u64 *name, const char *text)
{
	__u64 wanted[AWAIT_NAME_WORDS];

	__builtin_memcpy(wanted, text, sizeof(wanted));
	return name[0] == wanted[0] && name[1] == wanted[1] && name[2] == wanted[2] &&
	       name[3] == wanted[3];
}

static __always_inline __u32 await_named(const __u64 *n)
{
	if (AWAIT_NAMED(n, "coroutine") || AWAIT_NAMED(n, "async_generator"))
		return AWAIT_COROUTINE;
	if (AWAIT_NAMED(n, "generator"))
		return AWAIT_GENERATOR;
	if (AWAIT_NAMED(n, "coroutine_wrapper") || AWAIT_NAMED(n, "async_generator_asend") ||
	    AWAIT_NAMED(n, "async_generator_athrow") || AWAIT_NAMED(n, "anext_awaitable") ||
	    AWAIT_NAMED(n, "_asyncio.FutureIter"))
		return AWAIT_WRAPPER;
	if (AWAIT_NAMED(n, "_asyncio.Task"))
		return AWAIT_TASK;
	if (AWAIT_NAMED(n, "_asyncio.Future"))
		return AWAIT_FUTURE;
	if (AWAIT_NAMED(n, "function"))
		return AWAIT_FUNCTION;
	if (AWAIT_NAMED(n, "functools.partial"))
		return AWAIT_PARTIAL;
	if (AWAIT_NAMED(n, "method"))
		return AWAIT_METHOD;
	if (AWAIT_NAMED(n, "builtin_function_or_method"))
		return AWAIT_BUILTIN;
	if (AWAIT_NAMED(n, "TaskWakeupMethWrapper"))
		return AWAIT_WAKEUP;
	if (AWAIT_NAMED(n, "TaskGroup"))
		return AWAIT_GROUP;
	if (AWAIT_NAMED(n, "list"))
		return AWAIT_LIST;
	return AWAIT_OTHER;
}

/*
 * The number of bytes of a name up to its first dot, which Cython 3 puts before the names of its types, as in
 * "_cython_3_0_12.coroutine_wrapper"; 0: it is another name.
 */
static __always_inline __u32 await_prefix(const __u64 *name)
{
	const char *text = (const char *)name;
	__u64 begin = 0;
	__u32 i;

	__builtin_memcpy(&begin, "_cython_", 8);
	if (name[0] != begin)
		return 0;
	for (i = 8; i < AWAIT_NAME_WORDS * 8; i++)
		if (text[i] == '.')
			return i + 1;
	return 0;
}

#endif
