/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_TESTS_IMAGES_MADE_H
#define BPFPROF_TESTS_IMAGES_MADE_H

/* Images of files that are made when a test runs, on file systems that fail or hang when they should. */

#include <semaphore.h>
#include <stdatomic.h>
#include <sys/types.h>

#include "base/time.h"
#include "proc/images.h"

#define SECOND NS_PER_SECOND
#define NOW (1000 * SECOND)

/*
 * An overlay over a dead server, as far as this program sees it: these stand in
 * front of the C library's.
 */
extern atomic_int fake_remote, hang_reads, fail_reads;
extern sem_t read_gate;
extern struct deadline_runner *runner;
extern struct images *images;
void images_make(uint32_t cap, const char *root);
void images_setup(void);
void images_teardown(void);
uint32_t image_kernel_dev(dev_t dev);
/* The kernel's facts about a mapping of that file. */
struct bpfprof_vma image_vma_of(const char *file);
struct image *image_add_at(const struct bpfprof_vma *vma, const char *file);
struct image *image_add(const char *file);
/* On a file system that no mount of this process shows. */
struct image *image_add_remote(const char *file);
int image_nr_fds(void);
bool can_open_by_inode(void);

#endif
