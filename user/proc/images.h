/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PROC_IMAGES_H
#define BPFPROF_PROC_IMAGES_H

/*
 * Every file that a process maps executable, identified by its inode: file system, inode number,
 * generation. A file that is written anew in place (other size or time) gets a new id. Ids are dense
 * and never reused; frames carry them. A file is opened when it is first mapped, so that it can be
 * read after its process has exited and the file is deleted: by path if the path still leads to that
 * inode, else by inode (open_by_handle_at() needs CAP_DAC_READ_SEARCH). At most cap descriptors stay
 * open; the least recently used are closed. Files that may block (all but those on disk file systems
 * of the kernel) are read under a deadline (blocked_devs.h). Tenants share IMAGES_MAX_BYTES; further
 * files count as anonymous memory until images_sweep() makes room. Only the vDSO is no
 * file: all processes have the same one, which bpfprof reads from its own memory.
 */

#include <stdbool.h>
#include <stdint.h>
#include <sys/types.h>

#include "bpfprof.h"
#include "elf/image.h"
#include "proc/image_find.h"
#include "proc/image_problem.h"

#define IMAGES_MAX_BYTES (4U << 20) /* of entries of files, with their paths: about 10000 files */
#define IMAGES_MAX_IDS                                                                             \
	(1U << (BPFPROF_FRAME_SHIFT -                                                              \
		BPFPROF_OFF_BITS)) /* in all, fit into a frame; tenants share them for ever */

struct cfi;
struct copy_room;
struct deadline_runner;
struct images;
struct origins;
struct refusals;

enum image_state {
	IMAGE_UNOPENED = 0,
	IMAGE_OPEN,
	IMAGE_FAILED, /* problem says why; the next attempt is after retry_ns */
};

struct image {
	uint32_t id;
	char *path; /* as the kernel printed it, without " (deleted)"; "" if not known */
	uint64_t ino, size;
	int64_t mtime_sec;
	uint32_t dev, ino_gen; /* dev as the kernel encodes it */
	uint32_t vma_flags; /* BPFPROF_VMA_* */
	uint32_t tenant; /* of the process that mapped it first (base/shares.h) */
	uint32_t pid; /* of the process that mapped it last, set by the caller; 0: not known */
	enum image_way way; /* how it was opened, if was_open */
	enum image_state state;
	enum image_problem problem;
	enum image_problem counted; /* the counter that has it */
	bool no_cfi; /* it was opened and has no unwind tables */
	bool was_open; /* rows and names may come from it */
	bool hooked; /* set by the caller: images_sweep() forgets it instead of closing it */
	uint64_t used_ns, retry_ns;
	struct elf_image *elf; /* while IMAGE_OPEN */
	struct elf_source source; /* elf reads from it and owns it */
	struct cfi *cfi; /* made on first use, freed with elf */
	/*
	 * Reads the memory of a process, if the file itself cannot be opened; else read is NULL. close()
	 * is called when the image is forgotten.
	 */
	struct elf_source copy;
	size_t copy_used; /* bytes that it keeps (images_copy_take()) */
	uint64_t copy_retry_ns; /* for the caller: memory is not tried before */
	uint32_t holds; /* images_hold() */
	int held_error; /* of images_fail() while it is held */
};

/* Borrows runner; host_root may be NULL. 0 or -ENOMEM. */
int images_new(struct images **ret, struct deadline_runner *runner, const char *host_root,
	       uint32_t cap);
void images_free(struct images *images);
/* Counts there the files and copies that the limits of tenants refuse. */
void images_set_refusals(struct images *images, struct refusals *refusals);

/*
 * The id of the file of vma, added for the tenant if new (path may be NULL); BPFPROF_IMAGE_NONE for anonymous
 * memory.
 */
uint32_t images_add(struct images *images, const struct bpfprof_vma *vma, const char *path,
		    uint32_t tenant);
/* Borrowed until images_free() or images_sweep(); NULL: the id was never given, or is forgotten. */
struct image *images_get(struct images *images, uint32_t id);
uint32_t images_count(const struct images *images); /* ids are below this */

/* Makes image->elf usable. 0, or -EIO with image->problem set. */
int images_open(struct images *images, struct image *image, uint64_t now_ns);
/*
 * Takes over source, which reads a file that cannot be opened from the memory of a process. 0, or -EIO
 * as above.
 */
int images_give_copy(struct images *images, struct image *image, const struct elf_source *source,
		     uint64_t now_ns);
/* Takes room for so many bytes of the image's copy (copy_room.h). False: there is no room. */
bool images_copy_take(struct images *images, struct image *image, size_t bytes);
void images_copy_give(struct images *images, struct image *image, size_t bytes);
/* The images that keep something, for eviction. */
struct copy_room *images_copies(struct images *images);
#define IMAGES_MAX_COPY_BYTES (8U << 20) /* of all copies together */
#define IMAGE_COPY_MAX_BYTES (4U << 20)

/*
 * Holds an open image: its elf and cfi stay, whatever else is opened. A failure takes effect when the
 * last hold is released.
 */
void images_hold(struct image *image);
void images_release(struct images *images, struct image *image, uint64_t now_ns);

/* Also image->cfi. 0, -ENODATA (no tables in it), or -EIO. */
int images_open_cfi(struct images *images, struct image *image, uint64_t now_ns);
/*
 * Is it memory that looks like a file (memfd, shared memory, a deleted file) and holds no ELF file?
 * Then it is code made at run time; the map of its process has the names.
 */
bool image_is_made_code(const struct image *image);
/* The unwind tables of an open image, made on first use; NULL: it has none. Never closes it. */
struct cfi *images_cfi(struct image *image);
/* Reading image failed with err: closes it for a while. */
void images_fail(struct images *images, struct image *image, int err, uint64_t now_ns);

/* The limit of memory whose content can be read again from the files; 12 MiB at first. */
void images_set_cache(struct images *images, size_t max_bytes);
/* Frees all of it. */
void images_cool(struct images *images);
/*
 * Closes files that were not used since idle_since_ns and that is_used(arg, id) denies (mappings and
 * frames to be named refer to it). Of those, copies of memory, hooked files and files that were not used
 * since unused_since_ns are forgotten; forget(), if not NULL, is called for each. Their ids are not reused:
 * after IMAGES_MAX_IDS all new files count as anonymous memory.
 */
void images_sweep(struct images *images, uint64_t idle_since_ns, uint64_t unused_since_ns,
		  bool (*is_used)(void *arg, uint32_t id), void (*forget)(void *arg, uint32_t id),
		  void *arg);
uint32_t images_nr_files(const struct images *images); /* known now */

/* Files with that problem; each counts once. */
uint64_t images_nr_problem(const struct images *images, enum image_problem problem);
const uint64_t *images_problems(const struct images *images); /* by problem, for image_counters */
/* Files that were last opened in that way, forgotten ones included: it only rises. */
uint64_t images_nr_way(const struct images *images, enum image_way way);

/* Files, known now, that have a path but were not found. *ret_nr: all that have a path. */
uint32_t images_nr_lost(const struct images *images, uint32_t *ret_nr);

/*
 * Opens another regular file under a deadline: the one that process pid has at that path, or with pid 0
 * the node's. 0 or -errno.
 */
int images_open_source(struct images *images, uint32_t pid, const char *path,
		       struct elf_source *ret);
/*
 * Opens a file that process pid wrote at that path in its own root folder (/tmp/perf-PID.map). It must
 * belong to the user of the process or to root, be no link (else -EPERM), and be no older than since_ns
 * (CLOCK_BOOTTIME, 0: any; else -EKEYEXPIRED). 0; -EXDEV: it is mounted for that process only, and the
 * function of images_set_private() cannot open it; or -errno.
 */
int images_open_owned(struct images *images, uint32_t pid, const char *path, uint64_t since_ns,
		      struct elf_source *ret);
/* Opens the files that give -EXDEV above. start_ns: of the process. Results as above. */
typedef int (*images_private_fn)(void *arg, uint32_t pid, uint64_t start_ns, const char *path,
				 const struct image_identity *owned, struct elf_source *ret);
void images_set_private(struct images *images, images_private_fn open, void *arg);
/*
 * Does the folder, as process pid sees it, hold a regular file of that name? 1, 0, or -errno: the folder
 * cannot be seen, or the process is not known. Never reads a folder of ours in place of another's.
 * Caches the answer for some minutes.
 */
int images_scan(struct images *images, uint32_t pid, const char *folder, const char *name);
/* The places of the files of processes; the caller fills it. */
struct origins *images_origins(struct images *images);
/* As images_open_source(), for an ELF file (a separate debug file). NULL: it cannot be opened. */
struct elf_image *images_open_path(struct images *images, uint32_t pid, const char *path);

#endif
