// SPDX-License-Identifier: Apache-2.0
#include "kernel/image_copy.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/background.h"
#include "base/cleanup.h"
#include "base/refusals.h"
#include "base/time.h"
#include "base/vec.h"
#include "bpfprof.h"
#include "elf/image.h"
#include "elf/symtab.h"
#include "elf/unrelocate.h"
#include "kernel/memory.h"
#include "kernel/session.h"
#include "kernel/vmas.h"
#include "proc/copy_room.h"
#include "proc/images.h"
#include "proc/processes.h"

#define MAX_PARTS 256 /* of one file in one process */
#define MAX_FILE_BYTES (256U << 20)
#define BLOCK_BYTES BPFPROF_MEMORY_BYTES
#define HEAD_BYTES 4096 /* headers, build id */
#define MAX_DYNAMIC_BYTES 4096
#define MAX_NAMES_BYTES (2U << 20) /* symbols and strings of a file that are read ahead */
#define RETRY_NS (5 * NS_PER_SECOND)
#define RETRY_SOON_NS (NS_PER_SECOND / 5) /* there was no time */
#define BUDGET_SHARE 5
#define BUDGET_SAVED_NS (NS_PER_SECOND / 2)

struct part {
	uint64_t va, len, off;
	bool remote;
};

struct image_copy {
	struct image_copies *all;
	struct image *image;
	uint32_t pid; /* its memory has the file; 0: none */
	uint32_t refused; /* this process is of no use, or 0 */
	struct part *parts; /* in that process */
	size_t nr_parts, cap_parts;
	const struct part *first; /* the one with offset 0 */
	uint64_t len; /* to the end of the last part */
	struct elf_loaded loaded;
	uint8_t head[HEAD_BYTES]; /* as in memory: each process with the file has the same */
	uint8_t ehdr[sizeof(Elf64_Ehdr)]; /* as in the file */
	uint8_t *dynamic; /* as in the file, loaded.dynamic_bytes; NULL: not yet */
	uint8_t **blocks; /* NULL: not read yet */
	uint64_t read_ns; /* the last time that something was read */
	bool has_names;
	struct {
		size_t first, end;
	} names[2]; /* blocks that stay: symbols, strings */
};

bool image_copy_wanted(const struct image *image, uint64_t now_ns)
{
	return image->state == IMAGE_FAILED && !image->copy.read && image->pid &&
	       now_ns >= image->copy_retry_ns &&
	       (image->problem == IMAGE_GONE || image->problem == IMAGE_UNREADABLE);
}

static void part_take(void *arg, const struct bpfprof_vma_record *record, const char *path)
{
	const struct bpfprof_vma *vma = &record->vma;
	struct image_copy *copy = arg;
	const struct image *image = copy->image;

	(void)path;
	if (vma->ino != image->ino || vma->dev != image->dev || vma->ino_gen != image->ino_gen ||
	    vma->size != image->size || vma->mtime_sec != image->mtime_sec ||
	    vma->end <= vma->start || vma->off >= MAX_FILE_BYTES ||
	    vec_grow(copy->parts, copy->nr_parts + 1, copy->cap_parts, MAX_PARTS))
		return;
	copy->parts[copy->nr_parts++] = (struct part){
		.va = vma->start,
		.len = vma->end - vma->start,
		.off = vma->off,
		.remote = vma->flags & BPFPROF_VMA_REMOTE,
	};
}

static uint64_t part_end(const struct image_copy *copy, const struct part *part)
{
	uint64_t end = part->off + part->len;

	if (end > copy->image->size && part->off < copy->image->size)
		end = copy->image->size;
	return end < MAX_FILE_BYTES ? end : MAX_FILE_BYTES;
}

static bool time_is_left(struct image_copy *copy)
{
	return budget_allows(budget_of(&copy->all->budgets, background_tenant()), BUDGET_SHARE,
			     BUDGET_SAVED_NS, time_monotonic_ns());
}

/* A call that took too long, or is still running: it is not repeated meanwhile. */
static bool is_late(int err)
{
	return err == -ETIMEDOUT || err == -EBUSY;
}

/* The pid of the process that has lived longest of those that have mapped the file, or 0. */
static uint32_t holder_find(const struct image_copy *copy)
{
	const struct process *process, *oldest = NULL;
	uint32_t pid, found = 0;
	size_t i;

	for (process = processes_first(copy->all->processes); process;
	     process = hash_table_next(process)) {
		if (process->dead || (oldest && process->start_ns >= oldest->start_ns))
			continue;
		for (i = 0; i < process->nr_mappings; i++)
			if (process->mappings[i].image == copy->image->id)
				break;
		pid = i < process->nr_mappings ? session_own_pid(copy->all->session, process->pid,
								 process->ns_context.agent_pid)
					       : 0;
		if (!pid || pid == copy->refused)
			continue;
		oldest = process;
		found = pid;
	}
	return found;
}

/* 0; -EIO: the process is of no use; -EAGAIN: it did not answer. */
static int process_bind(struct image_copy *copy, uint32_t pid)
{
	uint64_t cost_ns;
	size_t i;
	int err;

	copy->nr_parts = 0;
	copy->first = NULL;
	copy->pid = 0;
	err = vmas_read(copy->all->session, copy->all->runner, pid, VMAS_ALL_PARTS, part_take, copy,
			&cost_ns);
	if (is_late(err))
		return -EAGAIN;
	copy->refused = pid;
	for (i = 0; i < copy->nr_parts; i++) {
		if (!copy->parts[i].off && !copy->first)
			copy->first = &copy->parts[i];
		/* A silent server may hang one of the few reads, not all. */
		if (copy->parts[i].remote && memory_hangs(copy->all->session, copy->all->runner))
			return -EIO;
	}
	if (!copy->first)
		return -EIO;
	copy->pid = pid;
	copy->refused = 0;
	return 0;
}

/* Chooses a process. A process that was just started has no mappings in the table yet. */
static int process_choose(struct image_copy *copy)
{
	uint32_t pid = holder_find(copy);
	int err = pid ? process_bind(copy, pid) : -EIO;

	pid = copy->image->pid;
	if (err == -EIO && pid && pid != copy->refused)
		err = process_bind(copy, pid);
	return err;
}

/* Pieces of memory to be read in one go. */
struct batch {
	struct memory_piece pieces[MEMORY_MAX_PIECES];
	size_t nr;
	uint8_t head[HEAD_BYTES];
};

static uint32_t head_bytes(const struct image_copy *copy)
{
	return copy->first->len < HEAD_BYTES ? (uint32_t)copy->first->len : HEAD_BYTES;
}

/* Reads the batch. 0; -EIO: the process does not have the file there any more; or -errno. */
static int batch_run(struct batch *batch, struct image_copy *copy)
{
	uint64_t start_ns = time_monotonic_ns();
	int err;

	memset(batch->head, 0, sizeof(batch->head));
	/* The head comes last: a process that ended or changed meanwhile leaves unreadable pieces. */
	batch->pieces[batch->nr] = (struct memory_piece){ .va = copy->first->va,
							  .dst = batch->head,
							  .len = head_bytes(copy) };
	err = memory_read_pieces(copy->all->session, copy->all->runner, copy->pid, batch->pieces,
				 batch->nr + 1);
	budget_spend(budget_of(&copy->all->budgets, background_tenant()),
		     time_monotonic_ns() - start_ns);
	if (!err && (batch->pieces[batch->nr].err || memcmp(batch->head, copy->head, HEAD_BYTES)))
		err = -EIO;
	if (is_late(err))
		err = -EAGAIN;
	if (err && err != -EAGAIN) {
		copy->refused = copy->pid;
		copy->pid = 0;
	}
	return err;
}

/*
 * Adds the pieces of a block. What no process can read stays 0: past the end of the file, or holes.
 * False: the batch is full.
 */
static bool batch_add(struct batch *batch, const struct image_copy *copy, size_t block)
{
	uint64_t start = (uint64_t)block * BLOCK_BYTES, at, end, n;
	size_t i, nr = batch->nr;

	for (i = 0; i < copy->nr_parts; i++) {
		at = copy->parts[i].off > start ? copy->parts[i].off : start;
		end = part_end(copy, &copy->parts[i]);
		end = end < start + BLOCK_BYTES ? end : start + BLOCK_BYTES;
		for (; at < end; at += n) {
			if (nr == MEMORY_MAX_PIECES - 1 && batch->nr)
				return false;
			if (nr == MEMORY_MAX_PIECES - 1) /* a strange file */
				break;
			n = end - at < BPFPROF_MEMORY_BYTES ? end - at : BPFPROF_MEMORY_BYTES;
			batch->pieces[nr++] = (struct memory_piece){
				.va = copy->parts[i].va + (at - copy->parts[i].off),
				.dst = copy->blocks[block] + (at - start),
				.len = (uint32_t)n,
			};
		}
	}
	batch->nr = nr;
	return true;
}

static void block_drop(struct image_copy *copy, size_t block)
{
	free(copy->blocks[block]);
	copy->blocks[block] = NULL;
	images_copy_give(copy->all->images, copy->image, BLOCK_BYTES);
}

static bool is_name(const struct image_copy *copy, size_t block)
{
	return (block >= copy->names[0].first && block < copy->names[0].end) ||
	       (block >= copy->names[1].first && block < copy->names[1].end);
}

/* Drops all blocks, or only those without names. False: there are none. */
static bool blocks_drop(struct image_copy *copy, bool all)
{
	bool dropped = false;
	size_t i;

	if (all) {
		memset(copy->names, 0, sizeof(copy->names));
		copy->has_names = false;
	}
	for (i = 0; i * BLOCK_BYTES < copy->len; i++) {
		if (!copy->blocks[i] || is_name(copy, i))
			continue;
		block_drop(copy, i);
		dropped = true;
	}
	return dropped;
}

/* The copy of another image of the same tenant that was read longest ago and has blocks without names. */
static struct image_copy *oldest_find(const struct image_copy *reader)
{
	const struct copy_room *room = images_copies(reader->all->images);
	struct image_copy *oldest = NULL, *copy;
	size_t i, kept;

	for (i = 0; i < room->nr; i++) {
		copy = room->images[i]->copy.arg;
		if (!copy || copy == reader || room->images[i]->tenant != reader->image->tenant ||
		    (oldest && copy->read_ns >= oldest->read_ns))
			continue;
		kept = copy->names[0].end - copy->names[0].first + copy->names[1].end -
		       copy->names[1].first;
		if (room->images[i]->copy_used > kept * BLOCK_BYTES)
			oldest = copy;
	}
	return oldest;
}

/*
 * Evicts blocks: of the tenant with most, or of this one. Blocks without names come first: their rows are
 * in the kernel, and the process may be read again. False: there are none.
 */
static bool room_make(struct image_copy *copy)
{
	struct image *victim = copy_room_victim(images_copies(copy->all->images),
						copy->image->tenant, BLOCK_BYTES);
	struct image_copy *other = victim ? victim->copy.arg : NULL;

	if (other)
		return blocks_drop(other, false) || blocks_drop(other, true);
	other = oldest_find(copy);
	if (other)
		return blocks_drop(other, false);
	refusals_count(copy->all->refusals, copy->image->tenant, REFUSAL_COPY);
	return false;
}

static int block_new(struct image_copy *copy, size_t block)
{
	if (copy->image->copy_used + BLOCK_BYTES > IMAGE_COPY_MAX_BYTES) {
		refusals_count(copy->all->refusals, copy->image->tenant, REFUSAL_COPY);
		return -ENOSPC;
	}
	while (!images_copy_take(copy->all->images, copy->image, BLOCK_BYTES))
		if (!room_make(copy))
			return -ENOSPC;
	copy->blocks[block] = calloc(1, BLOCK_BYTES);
	if (copy->blocks[block])
		return 0;
	block_drop(copy, block);
	return -ENOMEM;
}

/* Reads missing blocks from `block` to `last`, as many as one batch has. *ret_next: the first one left, on success. */
static int blocks_fetch(struct image_copy *copy, size_t block, size_t last, size_t *ret_next)
{
	size_t fresh[MEMORY_MAX_PIECES], nr = 0;
	struct batch batch = { .nr = 0 };
	int err = 0;

	if (!time_is_left(copy))
		return -EAGAIN;
	for (; block <= last && nr < MEMORY_MAX_PIECES; block++) {
		if (copy->blocks[block])
			continue;
		err = block_new(copy, block);
		if (err)
			break;
		if (!batch_add(&batch, copy, block)) {
			block_drop(copy, block);
			break;
		}
		fresh[nr++] = block;
	}
	if (!nr)
		return err;
	err = batch_run(&batch, copy);
	while (err && nr)
		block_drop(copy, fresh[--nr]);
	if (!err)
		*ret_next = block;
	return err;
}

/* Makes blocks [block, last] present. 0; -EAGAIN: not now; -EIO: never again; -ENOSPC, -ENOMEM. */
static int blocks_need(struct image_copy *copy, size_t block, size_t last)
{
	bool again = copy->pid;
	int err = 0;

	while (!err && block <= last) {
		if (copy->blocks[block]) {
			block++;
			continue;
		}
		if (!copy->all->session->skel || copy->all->pid != getpid())
			return -EIO;
		if (!copy->pid)
			err = process_choose(copy);
		if (!err)
			err = blocks_fetch(copy, block, last, &block);
		if (err == -EIO && again) /* the process has ended: another one may have the file */
			err = again = false;
	}
	return err == -EIO ? -EAGAIN : err;
}

/* Replaces bytes of dst[0..len), which are at off, by the part of with[0..bytes) at `at`. */
static void overlay(uint8_t *dst, size_t len, uint64_t off, const uint8_t *with, size_t bytes,
		    uint64_t at)
{
	uint64_t start = off > at ? off : at;
	uint64_t end = off + len < at + bytes ? off + len : at + bytes;

	if (with && start < end)
		memcpy(dst + (start - off), with + (start - at), end - start);
}

static ssize_t copy_read(void *arg, void *dst, size_t len, uint64_t off)
{
	struct image_copy *copy = arg;
	uint64_t at, n;
	int err;

	if (!len)
		return 0;
	copy->read_ns = time_monotonic_ns();
	err = blocks_need(copy, off / BLOCK_BYTES, (off + len - 1) / BLOCK_BYTES);
	if (err)
		return err;
	for (at = off; at < off + len; at += n) {
		n = BLOCK_BYTES - at % BLOCK_BYTES;
		n = n < off + len - at ? n : off + len - at;
		memcpy((uint8_t *)dst + (at - off),
		       copy->blocks[at / BLOCK_BYTES] + at % BLOCK_BYTES, n);
	}
	overlay(dst, len, off, copy->ehdr, sizeof(copy->ehdr), 0);
	overlay(dst, len, off, copy->dynamic, copy->loaded.dynamic_bytes, copy->loaded.dynamic_off);
	return (ssize_t)len;
}

static void copy_free(void *arg)
{
	struct image_copy *copy = arg;
	size_t i;

	for (i = 0; copy->blocks && i * BLOCK_BYTES < copy->len; i++)
		if (copy->blocks[i])
			block_drop(copy, i);
	free(copy->blocks);
	free(copy->parts);
	free(copy->dynamic);
	free(copy);
}

/* 0; -ENOEXEC: no ELF file (JITs write code into files, too, and these can be large); or -errno. */
static int head_read(struct image_copy *copy)
{
	struct memory_piece piece = { .va = copy->first->va,
				      .dst = copy->head,
				      .len = head_bytes(copy) };
	uint8_t patched[HEAD_BYTES];
	uint64_t start_ns = time_monotonic_ns();
	int err = memory_read_pieces(copy->all->session, copy->all->runner, copy->pid, &piece, 1);

	budget_spend(budget_of(&copy->all->budgets, background_tenant()),
		     time_monotonic_ns() - start_ns);
	if (err || piece.err)
		return is_late(err) ? -EAGAIN : err ? err : -ENOEXEC;
	if (memcmp(copy->head, ELFMAG, SELFMAG))
		return -ENOEXEC;
	memcpy(patched, copy->head, sizeof(patched));
	elf_unrelocate_head(patched, sizeof(patched), copy->first->va, &copy->loaded);
	memcpy(copy->ehdr, patched, sizeof(copy->ehdr));
	return 0;
}

static int dynamic_read(struct image_copy *copy)
{
	struct elf_loaded *loaded = &copy->loaded;
	uint8_t *dynamic;
	ssize_t n;

	if (loaded->dynamic_bytes > MAX_DYNAMIC_BYTES)
		loaded->dynamic_bytes = MAX_DYNAMIC_BYTES;
	if (loaded->dynamic_off > copy->len ||
	    loaded->dynamic_bytes > copy->len - loaded->dynamic_off)
		loaded->dynamic_bytes = 0;
	dynamic = malloc(loaded->dynamic_bytes + 1);
	if (!dynamic)
		return -ENOMEM;
	n = copy_read(copy, dynamic, loaded->dynamic_bytes, loaded->dynamic_off);
	if (n < 0) {
		free(dynamic);
		return (int)n;
	}
	elf_unrelocate_dynamic(dynamic, loaded->dynamic_bytes, loaded->bias);
	copy->dynamic = dynamic;
	return 0;
}

static int copy_begin(struct image_copy *copy)
{
	size_t i;
	int err;

	if (!time_is_left(copy))
		return -EAGAIN;
	err = process_choose(copy);
	/* Without its head it is no ELF file. */
	if (err)
		return copy->nr_parts && !copy->first ? -ENOEXEC : err;
	for (i = 0; i < copy->nr_parts; i++)
		if (part_end(copy, &copy->parts[i]) > copy->len)
			copy->len = part_end(copy, &copy->parts[i]);
	copy->blocks = calloc(copy->len / BLOCK_BYTES + 1, sizeof(*copy->blocks));
	if (!copy->blocks)
		return -ENOMEM;
	err = head_read(copy);
	return err ? err : dynamic_read(copy);
}

void image_copy_open(struct image_copies *copies, struct image *image, uint64_t now_ns)
{
	struct image_copy *copy = calloc(1, sizeof(*copy));
	struct elf_source source = { .read = copy_read, .close = copy_free, .arg = copy };
	int err;

	image->copy_retry_ns = now_ns + RETRY_NS;
	if (!copy)
		return;
	copy->all = copies;
	copy->image = image;
	err = copy_begin(copy);
	source.size = copy->len;
	if (err) {
		copy_free(copy);
		if (err == -EAGAIN)
			image->copy_retry_ns = now_ns + RETRY_SOON_NS;
		if (err == -ENOEXEC)
			images_fail(copies->images, image, err, now_ns);
		return;
	}
	images_give_copy(copies->images, image, &source, now_ns);
}

/* Reads [off, off + bytes) into blocks that stay. */
static int names_read(struct image_copy *copy, int which, uint64_t off, uint64_t bytes)
{
	int err;

	if (off >= copy->len || !bytes)
		return 0;
	bytes = bytes < copy->len - off ? bytes : copy->len - off;
	err = blocks_need(copy, off / BLOCK_BYTES, (off + bytes - 1) / BLOCK_BYTES);
	if (err)
		return err;
	copy->names[which].first = off / BLOCK_BYTES;
	copy->names[which].end = (off + bytes - 1) / BLOCK_BYTES + 1;
	return 0;
}

void image_copy_names(struct image *image)
{
	struct image_copy *copy = image->copy.arg;
	struct symtab tab;
	int err;

	if (image->copy.read != copy_read || copy->has_names || image->state != IMAGE_OPEN)
		return;
	err = symtab_open(&tab, image->elf, SHT_DYNSYM);
	if (!err && tab.nr * sizeof(Elf64_Sym) + tab.strings_bytes <= MAX_NAMES_BYTES) {
		err = names_read(copy, 0, tab.off, tab.nr * sizeof(Elf64_Sym));
		if (!err)
			err = names_read(copy, 1, tab.strings_off, tab.strings_bytes);
	}
	copy->has_names = err != -EAGAIN;
}
