/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PROC_IMAGES_H
#define BPFPROF_PROC_IMAGES_H

/*
 * Every file that some process maps executable, known by its real inode: file
 * system, inode number, generation. One that is written anew in place (other size or time)
 * gets a new id. Ids are dense, never reused, and are what frames
 * carry. A file is opened when it is first mapped, so that it can still be read when
 * its process is gone and the file deleted: by path if the path still leads to
 * that inode, else by inode (open_by_handle_at needs CAP_DAC_READ_SEARCH, which we
 * have). At most cap descriptors stay open; the least recently used are closed.
 * Files that may block (anything but the kernel's own disk file systems) are read under a
 * deadline; a file system that misses one is left alone for a while, and for as long as
 * the call hangs. At most IMAGES_MAX_FILES files: what comes after them is taken for anonymous memory.
 * Only the vDSO is not a file: it is the same for all, and read from ourselves.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "bpfprof.h"
#include "elf/image.h"

#define IMAGES_MAX_FILES 65536

struct cfi;
struct deadline_runner;
struct images;

enum image_state {
	IMAGE_UNOPENED = 0,
	IMAGE_OPEN,
	IMAGE_FAILED, /* problem says why; tried again after retry_ns */
};

enum image_problem {
	IMAGE_FINE = 0,
	IMAGE_GONE, /* no path leads to it any more, and it cannot be had by inode */
	IMAGE_UNREADABLE, /* open or read failed */
	IMAGE_BLOCKED, /* its file system did not answer in time */
	IMAGE_MALFORMED, /* a broken ELF file */
	IMAGE_NOT_ELF, /* not an ELF file, or one for another kind of machine */
	IMAGE_TOO_MANY, /* over IMAGES_MAX_FILES; counted each time it is met */
	IMAGE_NR_PROBLEMS,
};

struct image {
	uint32_t id;
	char *path; /* as the kernel printed it, without " (deleted)"; "" if not known */
	uint64_t ino, size;
	int64_t mtime_sec;
	uint32_t dev, ino_gen; /* dev as the kernel encodes it */
	uint32_t vma_flags; /* BPFPROF_VMA_* */
	enum image_state state;
	enum image_problem problem;
	bool no_cfi; /* opened, and has no unwind tables */
	bool was_open; /* rows and names may have been taken from it */
	uint64_t used_ns, retry_ns;
	struct elf_image *elf; /* while IMAGE_OPEN */
	struct elf_source source; /* what elf reads from, and owns */
	struct cfi *cfi; /* made on first use, goes with elf */
	void *copy; /* what elf reads, if the file itself could not be had */
	size_t copy_len;
};

/* Borrows runner; host_root may be NULL. 0 or -ENOMEM. */
int images_new(struct images **ret, struct deadline_runner *runner, const char *host_root,
	       uint32_t cap);
void images_free(struct images *images);

/* The id of the file of vma, added if new (path may be NULL); BPFPROF_IMAGE_NONE for anonymous memory. */
uint32_t images_add(struct images *images, const struct bpfprof_vma *vma, const char *path);
/* Borrowed until images_free(); NULL for ids never given. */
struct image *images_get(struct images *images, uint32_t id);
uint32_t images_count(const struct images *images); /* ids are below this */

/* Makes image->elf usable. 0, or -EIO with image->problem set. */
int images_open(struct images *images, struct image *image, uint64_t now_ns);
/*
 * The bytes of a file that cannot be opened, copied from a process's memory; taken over,
 * freed with the image. 0, -ENOSPC (too much of that already: data is freed), or -EIO as above.
 */
int images_give_copy(struct images *images, struct image *image, void *data, size_t len,
		     uint64_t now_ns);
#define IMAGES_MAX_COPY_BYTES (8U << 20) /* of all copies together */

/* Also image->cfi. 0, -ENODATA (no tables in it), or -EIO. */
int images_open_cfi(struct images *images, struct image *image, uint64_t now_ns);
/* Says that reading image failed with err: keeps it closed for a while. */
void images_fail(struct images *images, struct image *image, int err, uint64_t now_ns);

/* Files with that problem, each counted once. */
uint64_t images_nr_problem(const struct images *images, enum image_problem problem);
const char *image_problem_name(enum image_problem problem);

/* Opens some other regular file under the same deadline. 0 or -errno. */
int images_open_source(struct images *images, const char *path, struct elf_source *ret);
/* Opens some other ELF file (a separate debug file) under the same deadline. NULL if it cannot be. */
struct elf_image *images_open_path(struct images *images, const char *path);

#endif
