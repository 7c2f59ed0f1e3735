/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_KERNEL_PYTHON_MAPS_H
#define BPFPROF_KERNEL_PYTHON_MAPS_H

/*
 * The maps by which BPF walks Python frames: layouts, and the runtimes of each process; and the map
 * of code objects that were sent, which must not fill up.
 */

#include <stddef.h>
#include <stdint.h>

struct bpfprof_async;
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
 * The ranges of the eval loop in an image up to 3.10; of several, the largest. BPF finds the frames
 * that calls of it run. 0 or -errno.
 */
int python_maps_evals(struct python_maps *maps, uint32_t image, const struct python_range *ranges,
		      size_t nr);

/*
 * Publishes process->pythons: each then has an element (process->tables->python_slots). 0; -ENOSPC: too
 * many runtimes; the last ones of this process have no element.
 */
int python_maps_set(struct python_maps *maps, struct process *process, uint64_t now_ns);
/* Publishes how runtime nr of the process runs tasks of asyncio. 0 or -errno. */
int python_maps_async(struct python_maps *maps, struct process *process, uint32_t nr,
		      struct bpfprof_async *async);
void python_maps_clear(struct python_maps *maps, struct process *process, uint64_t now_ns);

/* A code object was sent. */
void python_maps_code(struct python_maps *maps);
/*
 * Call it about once a second. It deletes code objects of ended processes from the map now and
 * then, and their ids from codes; more if the map is full.
 */
void python_maps_clean(struct python_maps *maps, const struct processes *processes,
		       struct codes *codes);
/*
 * Calls codes_sweep() with the live processes. For crowded ones, the kernel sends code objects in
 * use again.
 */
void python_maps_sweep(struct python_maps *maps, struct processes *processes, struct codes *codes,
		       const uint64_t *frames, size_t nr, uint64_t now_ns);

#endif
