// SPDX-License-Identifier: Apache-2.0
#include "threads/reading.h"

#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/strtab.h"
#include "python/heap.h"

#define MAX_KEYS 65536
#define MAX_CHARS 64

/* The object sys.version, or 0. */
static uint64_t version_find(struct python_heap *heap, uint64_t interpreter_va)
{
	const struct python_type *type;
	struct python_dict_iter iter;
	uint64_t modules, sys;

	if (!heap->has_objects || !interpreter_va ||
	    python_heap_u64(heap, interpreter_va + heap->objects.interpreter_modules, &modules) ||
	    !modules || python_dict_init(&iter, heap, modules))
		return 0;
	sys = python_dict_find(&iter, "sys", MAX_KEYS);
	if (!sys || python_heap_type(heap, sys, &type) ||
	    python_instance_init(&iter, heap, sys, type))
		return 0;
	return python_dict_find(&iter, "version", MAX_KEYS);
}

/* The first word of sys.version, if it agrees with the version of the file. */
static uint32_t version_of_sys(struct strtab *strings, struct python_heap *heap,
			       uint64_t interpreter_va, const char *prefix)
{
	uint64_t va = version_find(heap, interpreter_va);
	__cleanup(free_mem) char *text = NULL;
	size_t len;

	if (!va || python_heap_string(heap, va, MAX_CHARS, &text, NULL, NULL) ||
	    strncmp(text, prefix, strlen(prefix)) != 0)
		return 0;
	for (len = strlen(prefix); isalnum((unsigned char)text[len]) || text[len] == '+'; len++)
		;
	return len > strlen(prefix) ? strtab_add_len(strings, text, len) : 0;
}

uint32_t python_version_name(struct strtab *strings, uint32_t version, struct python_heap *heap,
			     uint64_t interpreter_va)
{
	static const char *const levels[] = {
		[0xa] = "a", [0xb] = "b", [0xc] = "rc", [0xf] = NULL
	};
	unsigned int major = version >> 24, minor = version >> 16 & 0xff;
	unsigned int level = version >> 4 & 15;
	char text[32];
	uint32_t id;
	int len;

	if (!version)
		return 0;
	if (!(version & 0xffff)) {
		snprintf(text, sizeof(text), "%u.%u.", major, minor);
		id = version_of_sys(strings, heap, interpreter_va, text);
		if (id)
			return id;
		text[strlen(text) - 1] = '\0';
		return strtab_add(strings, text);
	}
	len = snprintf(text, sizeof(text), "%u.%u.%u", major, minor, version >> 8 & 0xff);
	if (levels[level])
		snprintf(text + len, sizeof(text) - (size_t)len, "%s%u", levels[level],
			 version & 15);
	return strtab_add(strings, text);
}
