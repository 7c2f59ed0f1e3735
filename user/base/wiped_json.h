/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_BASE_WIPED_JSON_H
#define BPFPROF_BASE_WIPED_JSON_H

/*
 * Reads JSON that holds secrets (a container's environment) by libjansson, and wipes the memory when it
 * is freed: json_decref() leaves nothing behind. The first call of wiped_json_load() sets jansson's
 * allocator for the whole program. Bounded in depth and, per thread, in memory.
 */

#include <jansson.h>
#include <stddef.h>

/*
 * The value in text[len]; the caller frees it by json_decref() in this thread. 0, -EBADMSG (not JSON, or
 * nested too deeply), -E2BIG (it needs more than max_bytes), -ENOMEM. The caller wipes text.
 */
int wiped_json_load(json_t **ret, const char *text, size_t len, size_t max_bytes);
/* The same with all numbers as reals, so that a number of more than 63 bits is no error. */
int wiped_json_load_reals(json_t **ret, const char *text, size_t len, size_t max_bytes);

#endif
