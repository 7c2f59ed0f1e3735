/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_KERNEL_PYTHON_MAPS_H
#define BPFPROF_KERNEL_PYTHON_MAPS_H

/*
 * What the BPF side has to know to walk Python frames: layouts, where the interpreter of
 * each process is; and the map of code objects that it has sent, which is kept from filling up.
 */

#include <stddef.h>
#include <stdint.h>

struct bpfprof_python_layout;
struct codes;
struct process;
struct processes;
struct python_maps;
struct python_range;
struct session;

int python_maps_new(struct python_maps **ret, struct session *session); /* 0 or -errno */
void python_maps_free(struct python_maps *maps);

/* Layouts are added once and never change. 0 or -errno. */
int python_maps_layout(struct python_maps *maps, uint32_t nr,
		       const struct bpfprof_python_layout *layout);

/*
 * Where an image up to 3.10 has its eval loop: calls of it are looked at for the frame that they run; of
 * several ranges the largest. 0 or -errno.
 */
int python_maps_evals(struct python_maps *maps, uint32_t image, const struct python_range *ranges,
		      size_t nr);

/*
 * Puts process->pythons in force: each has an element then (process->tables->python_slots). 0; -ENOSPC: too
 * many such processes, so that the last ones of this one have none.
 */
int python_maps_set(struct python_maps *maps, struct process *process, uint64_t now_ns);
void python_maps_clear(struct python_maps *maps, struct process *process, uint64_t now_ns);

/* A code object was sent. */
void python_maps_code(struct python_maps *maps);
/*
 * Now and then (to be called about once a second): code objects of processes that are gone are
 * thrown out of the map, and their ids out of codes; more where the map is full.
 */
void python_maps_clean(struct python_maps *maps, const struct processes *processes,
		       struct codes *codes);
/*
 * codes_sweep() with the processes that there are. Of those that are crowded the kernel sends
 * again what is in use.
 */
void python_maps_sweep(struct python_maps *maps, struct processes *processes, struct codes *codes,
		       const uint64_t *frames, size_t nr, uint64_t now_ns);

#endif
