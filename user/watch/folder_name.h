/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_WATCH_FOLDER_NAME_H
#define BPFPROF_WATCH_FOLDER_NAME_H

/* Names of the folders of deaths and stalls: <what>-<UTC>-<who>-<pid>. */

#include <stdbool.h>
#include <stdint.h>

struct buf;

enum folder_kind { FOLDER_DEATH, FOLDER_STALL, FOLDER_SUSPECT, FOLDER_NR_KINDS };

/* who: a pod or program; what a file's name cannot have becomes '_'. */
void folder_name_make(struct buf *dst, enum folder_kind kind, uint64_t wall_ns, const char *who,
		      uint32_t pid);
/* Is it such a name, of any kind? */
bool folder_name_is(const char *name);

#endif
