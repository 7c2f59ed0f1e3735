/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_STANDINS_CONFIG_H
#define BPFPROF_STANDINS_CONFIG_H

/* The configuration of the stand-ins; see docs/ray-dashboard.md. Texts live as long as the program. */

#include <stdbool.h>

/* The value of a variable; NULL: it is not set, or empty. */
const char *config_get(const char *name);
/* BPFPROF_TOKEN, or the first word of the file that BPFPROF_TOKEN_FILE names; NULL: none. */
const char *config_token(void);

#endif
