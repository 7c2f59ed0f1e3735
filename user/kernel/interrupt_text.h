/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_KERNEL_INTERRUPT_TEXT_H
#define BPFPROF_KERNEL_INTERRUPT_TEXT_H

/*
 * Where in the kernel's text interrupts come in: there the timer clock's own interrupt ends in a
 * kernel stack (bpf/own_frames.h).
 */

#include <stdbool.h>

struct bpfprof_cfg;

/* Does this file, normally /proc/cpuinfo, say that events are delivered by FRED? No, if unreadable. */
bool interrupt_text_has_fred(const char *cpuinfo_path);
/*
 * Fills in the text ranges of cfg from a file, normally /proc/kallsyms; those that are not to be
 * found there, or not to be read, stay as they are. With fred it is read twice, to its end.
 */
void interrupt_text_find(struct bpfprof_cfg *cfg, const char *kallsyms_path, bool fred);
/* The same of where an interrupt's thread goes on, and of what wakes threads (bpf/wakers.bpf.c). */
void interrupt_text_find_wakes(struct bpfprof_cfg *cfg, const char *kallsyms_path);

#endif
