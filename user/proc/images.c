// SPDX-License-Identifier: Apache-2.0
#include "proc/images.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <uthash.h>

#include "base/background.h"
#include "base/deadline.h"
#include "base/refusals.h"
#include "base/shares.h"
#include "base/tenant.h"
#include "base/time.h"
#include "base/vec.h"
#include "elf/image.h"
#include "proc/blocked_devs.h"
#include "proc/copy_room.h"
#include "proc/folder_checks.h"
#include "proc/image_file.h"
#include "proc/origins.h"
#include "proc/warm_images.h"
#include "unwind/cfi.h"

#define RETRY_NS 5000000000ULL
#define RETRY_SOON_NS 200000000ULL
#define OWNED_SLACK_SECONDS 2 /* clocks are changed, and time stamps of files are coarse */
#define WARM_BYTES (12U << 20) /* of all tables and section headers together, at first */
#define NR_ID_LANES 1024
#define HASH_BYTES 64 /* of an entry in by_key and by_id, about */

struct image_key {
	uint64_t ino;
	uint32_t dev, ino_gen;
};

struct image_entry {
	UT_hash_handle hh;
	struct image_key key;
	struct image image;
};

struct images {
	struct deadline_runner *runner;
	struct origins *origins;
	images_private_fn open_private; /* NULL: there is no such function */
	void *private_arg;
	char *host_root;
	struct image_entry *by_key;
	struct image_entry **by_id;
	uint32_t nr, cap_ids; /* by_id: NULL for forgotten images */
	uint32_t nr_files;
	uint32_t nr_open, max_open;
	struct shares shares; /* the bytes of files */
	struct copy_room copies;
	uint32_t ids_of[NR_ID_LANES]; /* by tenant_slot() */
	struct refusals *refusals; /* or NULL */
	struct blocked_devs blocked;
	struct folder_checks folders;
	struct warm_images warm;
	uint64_t nr_problem[IMAGE_NR_PROBLEMS];
	uint64_t nr_way[IMAGE_NR_WAYS]; /* ways of images that were forgotten */
};

static size_t file_bytes(size_t path_len)
{
	return sizeof(struct image_entry) + HASH_BYTES + path_len;
}

/* Takes the tenant's share of memory, and of ids: as many as it leaves to all others. */
static bool share_take(struct images *images, uint32_t tenant, size_t bytes)
{
	uint32_t *ids = &images->ids_of[tenant_slot(tenant, NR_ID_LANES)];
	bool has_id = *ids < IMAGES_MAX_IDS - images->nr;

	if (has_id && shares_take(&images->shares, tenant, bytes)) {
		++*ids;
		return true;
	}
	images->nr_problem[IMAGE_TOO_MANY]++;
	refusals_count(images->refusals, tenant, has_id ? REFUSAL_FILE : REFUSAL_ID);
	return false;
}

/* Adds an entry; it owns path, which is on the heap. NULL: out of memory, or too many images. */
static struct image_entry *entry_add(struct images *images, char *path, uint32_t tenant)
{
	size_t bytes = file_bytes(path ? strlen(path) : 0);
	struct image_entry *entry = NULL;

	if (!share_take(images, tenant, bytes)) {
		free(path);
		return NULL;
	}
	if (path && !vec_grow(images->by_id, images->nr + 1, images->cap_ids, IMAGES_MAX_IDS))
		entry = calloc(1, sizeof(*entry));
	if (!entry) {
		shares_give(&images->shares, tenant, bytes);
		free(path);
		return NULL;
	}
	entry->image.path = path;
	entry->image.tenant = tenant;
	entry->image.id = images->nr;
	images->nr_files++;
	images->by_id[images->nr++] = entry;
	return entry;
}

int images_new(struct images **ret, struct deadline_runner *runner, const char *host_root,
	       uint32_t cap)
{
	struct images *images = calloc(1, sizeof(*images));

	if (!images)
		return -ENOMEM;
	images->runner = runner;
	images->max_open = cap;
	images->warm.max_bytes = WARM_BYTES;
	shares_init(&images->shares, IMAGES_MAX_BYTES);
	copy_room_init(&images->copies);
	if (host_root) {
		images->host_root = strdup(host_root);
		if (!images->host_root)
			goto fail;
	}
	/* These ids are no files: BPFPROF_IMAGE_NONE and BPFPROF_IMAGE_VDSO. */
	if (origins_new(&images->origins) || !entry_add(images, strdup(""), 0) ||
	    !entry_add(images, strdup("[vdso]"), 0))
		goto fail;
	*ret = images;
	return 0;
fail:
	images_free(images);
	return -ENOMEM;
}

void images_set_cache(struct images *images, size_t max_bytes)
{
	images->warm.max_bytes = max_bytes;
}

void images_cool(struct images *images)
{
	warm_images_clear(&images->warm);
}

void images_hold(struct image *image)
{
	image->holds++;
}

void images_release(struct images *images, struct image *image, uint64_t now_ns)
{
	int err = image->held_error;

	if (--image->holds || !err)
		return;
	image->held_error = 0;
	images_fail(images, image, err, now_ns);
}

static void image_close(struct images *images, struct image *image)
{
	if (image->state != IMAGE_OPEN)
		return;
	warm_images_drop(&images->warm, image);
	cfi_free(image->cfi);
	elf_image_free(image->elf);
	image->cfi = NULL;
	image->elf = NULL;
	image->source = (struct elf_source){ 0 };
	image->state = IMAGE_UNOPENED;
	images->nr_open--;
}

static void entry_free(struct images *images, struct image_entry *entry)
{
	struct image *image = &entry->image;

	image_close(images, image);
	shares_give(&images->shares, image->tenant, file_bytes(strlen(image->path)));
	if (image->copy.close)
		image->copy.close(image->copy.arg);
	images->nr_files--;
	free(image->path);
	free(entry);
}

void images_free(struct images *images)
{
	uint32_t i;

	if (!images)
		return;
	HASH_CLEAR(hh, images->by_key);
	for (i = 0; i < images->nr; i++)
		if (images->by_id[i])
			entry_free(images, images->by_id[i]);
	shares_fini(&images->shares);
	copy_room_fini(&images->copies);
	origins_free(images->origins);
	free(images->by_id);
	free(images->host_root);
	free(images);
}

void images_set_refusals(struct images *images, struct refusals *refusals)
{
	images->refusals = images->copies.refusals = refusals;
}

static char *path_copy(const char *path)
{
	static const char deleted[] = " (deleted)";
	size_t len = path ? strlen(path) : 0;

	if (len >= sizeof(deleted) && !strcmp(path + len - (sizeof(deleted) - 1), deleted))
		len -= sizeof(deleted) - 1;
	return strndup(path ? path : "", len);
}

bool image_is_made_code(const struct image *image)
{
	return image->problem == IMAGE_NOT_ELF &&
	       image->vma_flags & (BPFPROF_VMA_MEMORY | BPFPROF_VMA_UNLINKED);
}

static void uncount_problem(struct images *images, struct image *image)
{
	if (image->counted != IMAGE_FINE)
		images->nr_problem[image->counted]--;
	image->counted = IMAGE_FINE;
}

/*
 * Sets the problem of an image. Only the first one is counted. Code made at run time is no problem.
 */
static void set_problem(struct images *images, struct image *image, enum image_problem problem)
{
	image->problem = problem;
	if (image_is_made_code(image)) {
		uncount_problem(images, image);
	} else if (image->counted == IMAGE_FINE) {
		images->nr_problem[problem]++;
		image->counted = problem;
	}
}

/* Adds a file. NULL: out of memory, or too many files. */
static struct image_entry *file_add(struct images *images, const struct image_key *key,
				    const char *path, uint32_t tenant)
{
	struct image_entry *entry = entry_add(images, path_copy(path), tenant);

	if (!entry)
		return NULL;
	entry->key = *key;
	entry->image.ino = key->ino;
	entry->image.dev = key->dev;
	entry->image.ino_gen = key->ino_gen;
	HASH_ADD(hh, images->by_key, key, sizeof(entry->key), entry);
	return entry;
}

/* The file was written anew: the old entry stays for old frames. */
static struct image_entry *file_supersede(struct images *images, struct image_entry *old)
{
	struct image_entry *entry;

	HASH_DEL(images->by_key, old);
	entry = file_add(images, &old->key, old->image.path, old->image.tenant);
	image_close(images, &old->image);
	set_problem(images, &old->image, IMAGE_GONE);
	old->image.state = IMAGE_FAILED;
	old->image.retry_ns = UINT64_MAX;
	return entry;
}

/* The entry of a file whose size or time has changed. */
static struct image_entry *file_changed(struct images *images, struct image_entry *entry)
{
	if (entry->image.was_open)
		return file_supersede(images, entry);
	if (image_is_made_code(&entry->image)) { /* the file may be an ELF file now */
		entry->image.state = IMAGE_UNOPENED;
		entry->image.problem = IMAGE_FINE;
	}
	return entry;
}

/* A path that became known later. If the tenant has its share, the file stays without one. */
static void path_set(struct images *images, struct image *image, const char *path)
{
	char *copy = path_copy(path);

	image->retry_ns = 0; /* it can be looked for now */
	if (!copy || !shares_take(&images->shares, image->tenant, strlen(copy))) {
		free(copy);
		return;
	}
	free(image->path);
	image->path = copy;
}

uint32_t images_add(struct images *images, const struct bpfprof_vma *vma, const char *path,
		    uint32_t tenant)
{
	struct image_key key = { .ino = vma->ino, .dev = vma->dev, .ino_gen = vma->ino_gen };
	struct image_entry *entry;

	if (vma->flags & BPFPROF_VMA_VDSO)
		return BPFPROF_IMAGE_VDSO;
	if (!vma->ino)
		return BPFPROF_IMAGE_NONE;
	HASH_FIND(hh, images->by_key, &key, sizeof(key), entry);
	if (!entry)
		entry = file_add(images, &key, path, tenant);
	else if (entry->image.size != vma->size || entry->image.mtime_sec != vma->mtime_sec)
		entry = file_changed(images, entry);
	if (!entry)
		return BPFPROF_IMAGE_NONE;
	if (path && path[0] && !entry->image.path[0])
		path_set(images, &entry->image, path);
	entry->image.size = vma->size;
	entry->image.mtime_sec = vma->mtime_sec;
	entry->image.vma_flags = vma->flags;
	return entry->image.id;
}

struct image *images_get(struct images *images, uint32_t id)
{
	return id < images->nr && images->by_id[id] ? &images->by_id[id]->image : NULL;
}

uint32_t images_count(const struct images *images)
{
	return images->nr;
}

static bool has_hung(const struct image *image)
{
	return image->state == IMAGE_OPEN && image_file_hung(&image->source);
}

void images_fail(struct images *images, struct image *image, int err, uint64_t now_ns)
{
	if (has_hung(image))
		err = -ETIMEDOUT;
	else if (background_is_over())
		err = -EBUSY;
	if (image->holds) {
		image->held_error = err;
		return;
	}
	image_close(images, image);
	set_problem(images, image, image_problem_of(err));
	image->state = IMAGE_FAILED;
	/* -EBUSY: another call hangs, or the present job took too long. */
	image->retry_ns = now_ns + (err == -EAGAIN || err == -EBUSY ? RETRY_SOON_NS : RETRY_NS);
	if (err != -ETIMEDOUT ||
	    blocked_devs_have(&images->blocked, images->runner, image->dev, now_ns))
		return;
	/* A local disk does not hang: bpfprof itself got no CPU for this time. */
	if (!deadline_last_wait(images->runner).ready && image_file_dev_may_block(image->dev))
		blocked_devs_add(&images->blocked, images->runner, image->dev, now_ns);
	else
		image->retry_ns = now_ns + RETRY_SOON_NS;
}

static void close_oldest(struct images *images)
{
	struct image *oldest = NULL, *image;
	uint32_t i;

	for (i = BPFPROF_IMAGE_FIRST_FILE; i < images->nr; i++) {
		if (!images->by_id[i])
			continue;
		image = &images->by_id[i]->image;
		if (image->state == IMAGE_OPEN && !image->holds &&
		    (!oldest || image->used_ns < oldest->used_ns))
			oldest = image;
	}
	if (oldest)
		image_close(images, oldest);
}

static int open_file(struct images *images, struct image *image, struct elf_image **ret)
{
	struct image_identity identity = {
		.ino = image->ino,
		.size = image->size,
		.mtime_sec = image->mtime_sec,
		.dev = image->dev,
		.ino_gen = image->ino_gen,
	};
	/* No path leads to an unlinked file, so the mounts of its process are not searched. */
	struct image_place place = {
		.root = images->host_root ? images->host_root : "",
		.path = image->path,
		.pid = image->vma_flags & BPFPROF_VMA_UNLINKED ? 0 : image->pid,
	};
	int err;

	err = image_file_open(&image->source, images->runner, &place, &identity,
			      IMAGE_FILE_DEADLINE_MS, &image->way);
	if (!err)
		err = elf_image_new(ret, &image->source);
	if (err) /* the source is closed */
		image->source = (struct elf_source){ 0 };
	return err;
}

int images_open(struct images *images, struct image *image, uint64_t now_ns)
{
	struct elf_image *elf = NULL;
	int err;

	image->used_ns = now_ns;
	if (image->state == IMAGE_OPEN) {
		warm_images_use(&images->warm, image);
		return 0;
	}
	if (image->state == IMAGE_FAILED && now_ns < image->retry_ns)
		return -EIO;
	if (image->id == BPFPROF_IMAGE_NONE ||
	    blocked_devs_have(&images->blocked, images->runner, image->dev, now_ns)) {
		set_problem(images, image, IMAGE_BLOCKED);
		return -EIO;
	}
	if (images->nr_open >= images->max_open)
		close_oldest(images);
	if (image->copy.read)
		err = elf_image_new(&elf, &(struct elf_source){ .read = image->copy.read,
								.arg = image->copy.arg,
								.size = image->copy.size,
								.loaded = true });
	else if (image->id == BPFPROF_IMAGE_VDSO)
		err = image_file_vdso(&elf);
	else
		err = open_file(images, image, &elf);
	if (err) {
		images_fail(images, image, err, now_ns);
		return -EIO;
	}
	image->elf = elf;
	image->state = IMAGE_OPEN;
	image->was_open = true;
	images->nr_open++;
	warm_images_use(&images->warm, image);
	return 0;
}

uint64_t images_nr_way(const struct images *images, enum image_way way)
{
	uint64_t nr = images->nr_way[way];
	uint32_t i;

	for (i = BPFPROF_IMAGE_FIRST_FILE; i < images->nr; i++)
		nr += images->by_id[i] && images->by_id[i]->image.way == way;
	return nr;
}

int images_give_copy(struct images *images, struct image *image, const struct elf_source *source,
		     uint64_t now_ns)
{
	uncount_problem(images, image); /* the copy can be used */
	image->problem = IMAGE_FINE;
	image->way = IMAGE_WAY_MEMORY;
	image->copy = *source;
	image->state = IMAGE_UNOPENED;
	return images_open(images, image, now_ns);
}

bool images_copy_take(struct images *images, struct image *image, size_t bytes)
{
	return copy_room_take(&images->copies, image, bytes);
}

void images_copy_give(struct images *images, struct image *image, size_t bytes)
{
	copy_room_give(&images->copies, image, bytes);
}

struct copy_room *images_copies(struct images *images)
{
	return &images->copies;
}

/* Makes the unwind tables of an open image. Those of a job that took too long may lack what it could not read. */
static int cfi_make(struct image *image)
{
	int err = cfi_new(&image->cfi, image->elf);

	if (!background_is_over() || (err && err != -ENODATA))
		return err;
	cfi_free(image->cfi);
	image->cfi = NULL;
	return -EBUSY;
}

int images_open_cfi(struct images *images, struct image *image, uint64_t now_ns)
{
	int err = images_open(images, image, now_ns);

	if (err || image->cfi)
		return err;
	if (image->no_cfi)
		return -ENODATA;
	err = cfi_make(image);
	if (err == -ENODATA && !has_hung(image)) {
		image->no_cfi = true;
		return err;
	}
	if (err) {
		images_fail(images, image, err, now_ns);
		return -EIO;
	}
	return 0;
}

struct cfi *images_cfi(struct image *image)
{
	if (image->state == IMAGE_OPEN && !image->cfi && !image->no_cfi)
		cfi_make(image);
	return image->cfi;
}

void images_sweep(struct images *images, uint64_t idle_since_ns, uint64_t unused_since_ns,
		  bool (*is_used)(void *arg, uint32_t id), void (*forget)(void *arg, uint32_t id),
		  void *arg)
{
	struct image_entry *entry, *found;
	uint32_t id;

	for (id = BPFPROF_IMAGE_FIRST_FILE; id < images->nr; id++) {
		entry = images->by_id[id];
		if (!entry || entry->image.used_ns > idle_since_ns || is_used(arg, id))
			continue;
		if (!entry->image.copy.read && !entry->image.hooked &&
		    entry->image.used_ns > unused_since_ns) {
			image_close(images, &entry->image);
			continue;
		}
		HASH_FIND(hh, images->by_key, &entry->key, sizeof(entry->key), found);
		if (found == entry) /* the key does not belong to a newer file */
			HASH_DEL(images->by_key, entry);
		if (forget)
			forget(arg, id);
		images->nr_way[entry->image.way]++;
		entry_free(images, entry);
		images->by_id[id] = NULL;
	}
}

uint32_t images_nr_files(const struct images *images)
{
	return images->nr_files - BPFPROF_IMAGE_FIRST_FILE;
}

uint64_t images_nr_problem(const struct images *images, enum image_problem problem)
{
	return images->nr_problem[problem];
}

const uint64_t *images_problems(const struct images *images)
{
	return images->nr_problem;
}

uint32_t images_nr_lost(const struct images *images, uint32_t *ret_nr)
{
	const struct image *image;
	uint32_t i, nr = 0;

	*ret_nr = 0;
	for (i = BPFPROF_IMAGE_FIRST_FILE; i < images->nr; i++) {
		image = images->by_id[i] ? &images->by_id[i]->image : NULL;
		if (!image || image->vma_flags & (BPFPROF_VMA_MEMORY | BPFPROF_VMA_UNLINKED))
			continue;
		++*ret_nr;
		nr += image->way == IMAGE_WAY_MEMORY || image->problem == IMAGE_GONE ||
		      image->problem == IMAGE_UNREADABLE;
	}
	return nr;
}

int images_open_source(struct images *images, uint32_t pid, const char *path,
		       struct elf_source *ret)
{
	const struct origin *origin = pid ? origins_find(images->origins, pid) : NULL;
	struct image_identity any = { 0 };
	struct image_place place = {
		.root = images->host_root ? images->host_root : "",
		.path = path,
		.pid = pid,
		.trusts_layers = origin && origin_mounts_are_trusted(origin),
	};
	enum image_way way;

	return image_file_open(ret, images->runner, &place, &any, IMAGE_FILE_PATIENT_MS, &way);
}

struct origins *images_origins(struct images *images)
{
	return images->origins;
}

/*
 * The place of path in the view of pid. A process of bpfprof's mount namespace need not be alive.
 * For an unknown process, and for a process of the node that has exited, it is the path on the
 * node.
 */
static struct image_place place_of(const struct images *images, const struct origin *origin,
				   uint32_t pid, const char *path)
{
	struct image_place place = { .root = "", .path = path };

	if (origin && !origin_is_here(origin)) {
		place.pid = pid;
		place.trusts_layers = origin_mounts_are_trusted(origin);
		if (origin->root) {
			place.pid = 0;
			place.root = origin->root;
			place.root_ino = origin->facts.root_ino;
			place.root_dev = origin->facts.root_dev;
		}
	} else if (!origin && images->host_root) {
		place.root = images->host_root;
	}
	return place;
}

int images_scan(struct images *images, uint32_t pid, const char *folder, const char *name)
{
	const struct origin *origin = origins_find(images->origins, pid);
	struct image_place place;

	if (!origin || folder[0] != '/')
		return -ENODATA;
	place = place_of(images, origin, pid, folder);
	return folder_checks_ask(&images->folders, images->runner, origin, &place, name);
}

void images_set_private(struct images *images, images_private_fn open, void *arg)
{
	images->open_private = open;
	images->private_arg = arg;
}

int images_open_owned(struct images *images, uint32_t pid, const char *path, uint64_t since_ns,
		      struct elf_source *ret)
{
	const struct origin *origin = origins_find(images->origins, pid);
	struct image_identity owned = { .owned = true,
					.uid = origin ? origin->facts.uid : 0,
					.since_sec = since_ns ? origin_real_seconds(since_ns) -
									OWNED_SLACK_SECONDS
							      : INT64_MIN };
	struct image_place place = place_of(images, origin, pid, path);
	enum image_way way;
	int err = image_file_open(ret, images->runner, &place, &owned, IMAGE_FILE_PATIENT_MS, &way);

	if (err == -EXDEV && images->open_private)
		err = images->open_private(images->private_arg, pid, origin ? origin->start_ns : 0,
					   path, &owned, ret);
	return err;
}

struct elf_image *images_open_path(struct images *images, uint32_t pid, const char *path)
{
	struct elf_image *elf = NULL;
	struct elf_source source;

	if (images_open_source(images, pid, path, &source) || elf_image_new(&elf, &source))
		return NULL;
	return elf;
}
