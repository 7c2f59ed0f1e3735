/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_KERNEL_INTERRUPT_TEXT_H
#define BPFPROF_KERNEL_INTERRUPT_TEXT_H

/*
 * Ranges of interrupt entries in the kernel's text: there the frames of the timer clock's own
 * interrupt end (bpf/own_frames.h).
 */

#include <stdbool.h>

struct bpfprof_cfg;

/* Does this file, normally /proc/cpuinfo, list the feature FRED? No, if it is unreadable. */
bool interrupt_text_has_fred(const char *cpuinfo_path);
/*
 * Sets the text ranges of cfg from a file, normally /proc/kallsyms. Ranges that it lacks stay
 * unchanged. With fred the file is read twice.
 */
void interrupt_text_find(struct bpfprof_cfg *cfg, const char *kallsyms_path, bool fred);
/* The same for the exit of interrupts, and for functions that wake threads (bpf/wakers.bpf.c). */
void interrupt_text_find_wakes(struct bpfprof_cfg *cfg, const char *kallsyms_path);

#endif
