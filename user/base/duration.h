/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_BASE_DURATION_H
#define BPFPROF_BASE_DURATION_H

/* Durations as people write them: "30", "30s", "1.5", "5m", "2h". */

#include <stdint.h>

#define DURATION_MAX_NS (366ULL * 24 * 3600 * 1000000000)

/* 0; -EINVAL if text is no duration; -ERANGE if it is 0 or over DURATION_MAX_NS. */
int duration_parse(const char *text, uint64_t *ret_ns);

#endif
