/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CMD_MEMORY_SCREEN_H
#define BPFPROF_CMD_MEMORY_SCREEN_H

/* The live screen of bpfprof memory: drawn once a second, and after each key. */

#include <stdbool.h>
#include <stdint.h>

#include "memory/live_holders.h"

struct capture_options;
struct memory_monitor;
struct memory_options;

struct memory_screen {
	bool open; /* false: there is no screen, and nothing below does anything */
	bool by_change;
	char what[256];
	struct live_holders live;
	uint64_t next_ns; /* drawn again */
};

/* Can it be shown: on a terminal, without results that go elsewhere? */
bool memory_screen_is_wanted(const struct memory_options *options);
/* After memory_monitor_start(). 0, also if the terminal is not known, or -errno. */
int memory_screen_open(struct memory_screen *screen, struct memory_monitor *monitor,
		       const struct capture_options *capture);
/* Restores the terminal. */
void memory_screen_close(struct memory_screen *screen);
/* Draws if it is due. 0 or -ENOMEM. */
int memory_screen_run(struct memory_screen *screen, uint64_t now_ns);
/* The terminal has another size. */
void memory_screen_resize(struct memory_screen *screen);
/* Takes the keys that were pressed. True: the user quits. */
bool memory_screen_keys(struct memory_screen *screen);

#endif
