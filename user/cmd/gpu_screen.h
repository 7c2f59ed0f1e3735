/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CMD_GPU_SCREEN_H
#define BPFPROF_CMD_GPU_SCREEN_H

/* The live table of `bpfprof gpu` on a terminal, and its keys. One at a time: see tui/screen.h. */

#include <stdbool.h>
#include <stdint.h>

struct gpu_job;
struct gpu_snapshot;
struct gpu_screen;

enum gpu_screen_result { GPU_SCREEN_NOTHING, GPU_SCREEN_REDRAW, GPU_SCREEN_QUIT };

/*
 * start_ns: when counting began. sort: as in struct gpu_options, until a key changes it. 0, -ENOMEM, or
 * errors of screen_open().
 */
int gpu_screen_open(struct gpu_screen **ret, uint64_t start_ns, const char *sort);
void gpu_screen_close(struct gpu_screen *screen); /* NULL is fine */
/* Shows a new snapshot. 0 or -ENOMEM. */
int gpu_screen_show(struct gpu_screen *screen, struct gpu_job *job,
		    const struct gpu_snapshot *snapshot);
/* Draws it again, after keys or in another size. */
int gpu_screen_draw(struct gpu_screen *screen, struct gpu_job *job,
		    const struct gpu_snapshot *snapshot);
/* Reads the keys that the user pressed. */
enum gpu_screen_result gpu_screen_keys(struct gpu_screen *screen);

#endif
