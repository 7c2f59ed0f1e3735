/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_BASE_WIPED_JSON_H
#define BPFPROF_BASE_WIPED_JSON_H

/*
 * JSON that holds secrets (a container's environment), read by libjansson whose memory is wiped
 * when it is freed: json_decref() leaves nothing behind. For that the first call of wiped_json_load() sets jansson's
 * allocator, for the whole program. Bounded in depth and, per thread, in memory.
 */

#include <jansson.h>
#include <stddef.h>

/*
 * The value in text[len], the caller's to json_decref() in this thread. 0, -EBADMSG (no JSON, or nested too
 * deeply), -E2BIG (would take more than max_bytes), -ENOMEM. The caller wipes text.
 */
int wiped_json_load(json_t **ret, const char *text, size_t len, size_t max_bytes);
/* The same, all numbers as reals: one past 63 bits is no reason to refuse the rest. */
int wiped_json_load_reals(json_t **ret, const char *text, size_t len, size_t max_bytes);

#endif
