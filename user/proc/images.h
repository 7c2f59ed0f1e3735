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
 * the call hangs. At most IMAGES_MAX_FILES files: what comes after them is taken for anonymous memory,
 * until images_sweep() has made room.
 * Only the vDSO is not a file: it is the same for all, and read from ourselves.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "base/counters.h"
#include "bpfprof.h"
#include "elf/image.h"
#include "proc/image_find.h"

#define IMAGES_MAX_FILES 65536 /* at once */
#define IMAGES_MAX_IDS                                                                             \
	(1U << (BPFPROF_FRAME_SHIFT - BPFPROF_OFF_BITS)) /* in all, fit into a frame */

struct cfi;
struct deadline_runner;
struct images;
struct origins;

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
	uint32_t pid; /* of the process that mapped it last, set by who knows; 0: not known */
	enum image_way way; /* how it was had, if it was_open */
	enum image_state state;
	enum image_problem problem;
	enum image_problem counted; /* what it is counted under */
	bool no_cfi; /* opened, and has no unwind tables */
	bool was_open; /* rows and names may have been taken from it */
	uint64_t used_ns, retry_ns;
	struct elf_image *elf; /* while IMAGE_OPEN */
	struct elf_source source; /* what elf reads from, and owns */
	struct cfi *cfi; /* made on first use, goes with elf */
	void *copy; /* what elf reads, if the file itself could not be had */
	size_t copy_len;
	uint32_t holds; /* images_hold() */
	int held_error; /* what images_fail() said meanwhile */
};

/* Borrows runner; host_root may be NULL. 0 or -ENOMEM. */
int images_new(struct images **ret, struct deadline_runner *runner, const char *host_root,
	       uint32_t cap);
void images_free(struct images *images);

/* The id of the file of vma, added if new (path may be NULL); BPFPROF_IMAGE_NONE for anonymous memory. */
uint32_t images_add(struct images *images, const struct bpfprof_vma *vma, const char *path);
/* Borrowed until images_free() or images_sweep(); NULL for ids never given, and forgotten ones. */
struct image *images_get(struct images *images, uint32_t id);
uint32_t images_count(const struct images *images); /* ids are below this */

/* Makes image->elf usable. 0, or -EIO with image->problem set. */
int images_open(struct images *images, struct image *image, uint64_t now_ns);
/*
 * The bytes of a file that cannot be opened, copied from a process's memory; taken over,
 * freed with the image. used: of its len bytes, the rest was never touched. 0, -ENOSPC (too much of that already: data is freed), or -EIO as above.
 */
int images_give_copy(struct images *images, struct image *image, void *data, size_t len,
		     size_t used, uint64_t now_ns);
#define IMAGES_MAX_COPY_BYTES (8U << 20) /* of all copies together */

/*
 * While an image is held its elf and cfi stay, whatever else is opened: they are not given back for others, and a
 * failure takes effect when it is held no more. One that was opened.
 */
void images_hold(struct image *image);
void images_release(struct images *images, struct image *image, uint64_t now_ns);

/* Also image->cfi. 0, -ENODATA (no tables in it), or -EIO. */
int images_open_cfi(struct images *images, struct image *image, uint64_t now_ns);
/*
 * Is it memory that looks like a file (memfd, shared memory, a deleted file), and known to hold no ELF
 * file: code that was made at run time, of which the map of the process tells the names?
 */
bool image_is_made_code(const struct image *image);
/* The tables of an open image, made if need be; NULL without any. Never closes it. */
struct cfi *images_cfi(struct image *image);
/* Says that reading image failed with err: keeps it closed for a while. */
void images_fail(struct images *images, struct image *image, int err, uint64_t now_ns);

/* Gives back what can be read again of all files. */
void images_cool(struct images *images);
/*
 * Closes files that nothing refers to: is_used(arg, id) says so for mappings and for frames
 * that are still to be named; besides those, whatever was used after idle_since_ns stays. Those that were not used
 * since unused_since_ns either, and copies of memory, are forgotten. Their ids are not given
 * again, of which there are IMAGES_MAX_IDS: then all new files are taken for anonymous memory.
 * forget() is called for each, NULL is fine.
 */
void images_sweep(struct images *images, uint64_t idle_since_ns, uint64_t unused_since_ns,
		  bool (*is_used)(void *arg, uint32_t id), void (*forget)(void *arg, uint32_t id),
		  void *arg);
uint32_t images_nr_files(const struct images *images); /* that are known now */

/* Files with that problem, each counted once. */
uint64_t images_nr_problem(const struct images *images, enum image_problem problem);
const uint64_t *images_problems(const struct images *images); /* by problem, for image_counters */
extern const struct counter image_counters[];
const char *image_problem_name(enum image_problem problem);
/* Files that were had in that way last, those that were forgotten too: it only rises. */
uint64_t images_nr_way(const struct images *images, enum image_way way);

/*
 * Opens some other regular file under the same deadline: what process pid has under that path, or
 * with 0 the node. 0 or -errno.
 */
int images_open_source(struct images *images, uint32_t pid, const char *path,
		       struct elf_source *ret);
/*
 * A file that process pid writes under that path, in its own root folder (/tmp/perf-PID.map): it belongs
 * to the process's user or to root, is no link, and is no older than since_ns (CLOCK_BOOTTIME, 0: any). 0, -EPERM
 * (it does not), -EKEYEXPIRED (it is), -EXDEV (mounted for that process only, and not to be had by
 * images_set_private() either) or -errno.
 */
int images_open_owned(struct images *images, uint32_t pid, const char *path, uint64_t since_ns,
		      struct elf_source *ret);
/*
 * Another way to owned files, for those of -EXDEV; start_ns is that of the process. Results as above.
 */
typedef int (*images_private_fn)(void *arg, uint32_t pid, uint64_t start_ns, const char *path,
				 const struct image_identity *owned, struct elf_source *ret);
void images_set_private(struct images *images, images_private_fn open, void *arg);
/*
 * Has the folder, as process pid sees it, a regular file of that name? 1, 0, or -errno: the folder cannot be
 * seen, or nothing is known of the process. Never looks among our own files for another's. What was
 * found out is kept for some minutes.
 */
int images_scan(struct images *images, uint32_t pid, const char *folder, const char *name);
/* What is known of where processes have their files; the caller fills it. */
struct origins *images_origins(struct images *images);
/* As images_open_source(), of an ELF file (a separate debug file). NULL if it cannot be. */
struct elf_image *images_open_path(struct images *images, uint32_t pid, const char *path);

#endif
