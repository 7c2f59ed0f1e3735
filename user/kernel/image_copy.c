// SPDX-License-Identifier: Apache-2.0
#include "kernel/image_copy.h"

#include <elf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"
#include "bpfprof.h"
#include "elf/unrelocate.h"
#include "kernel/memory.h"
#include "kernel/session.h"
#include "kernel/vmas.h"
#include "proc/images.h"
#include "proc/processes.h"

#define MAX_PARTS 4096
#define MAX_FILE_BYTES (256U << 20) /* address space of bpfprof; only the copied parts use memory */
#define CHUNK_BYTES BPFPROF_MEMORY_BYTES

struct part {
	uint64_t va, len, off;
	uint32_t image;
	bool code, remote;
};

struct parts {
	struct images *images;
	const struct process *process;
	struct part *part;
	size_t nr, cap;
};

bool image_copy_wanted(const struct image *image)
{
	return image->state == IMAGE_FAILED && !image->copy &&
	       (image->problem == IMAGE_GONE || image->problem == IMAGE_UNREADABLE);
}

static void collect_part(void *arg, const struct bpfprof_vma_record *record, const char *path)
{
	const struct bpfprof_vma *vma = &record->vma;
	struct parts *parts = arg;
	struct image *image;

	/* The pid may belong to another process by now. */
	if (record->task.start_ns != parts->process->start_ns ||
	    record->task.exec_id != parts->process->exec_id)
		return;
	if (!vma->ino || vma->end <= vma->start || parts->nr >= MAX_PARTS)
		return;
	image = images_get(parts->images,
			   images_add(parts->images, vma, path, parts->process->tenant));
	if (!image_copy_wanted(image) ||
	    vec_grow(parts->part, parts->nr + 1, parts->cap, MAX_PARTS))
		return;
	parts->part[parts->nr++] = (struct part){
		.va = vma->start,
		.len = vma->end - vma->start,
		.off = vma->off,
		.image = image->id,
		.code = !(vma->flags & BPFPROF_VMA_DATA),
		.remote = vma->flags & BPFPROF_VMA_REMOTE,
	};
}

/* The end of the copy of image: after its last part, but not after the file. */
static uint64_t copy_len(const struct parts *parts, const struct image *image)
{
	const struct part *part;
	uint64_t len = 0, end;
	size_t i;

	for (i = 0; i < parts->nr; i++) {
		part = &parts->part[i];
		if (part->image != image->id || part->off > MAX_FILE_BYTES ||
		    part->len > MAX_FILE_BYTES)
			continue;
		end = part->off + part->len;
		if (end > image->size && part->off < image->size)
			end = image->size;
		if (end > len && end <= MAX_FILE_BYTES)
			len = end;
	}
	return len;
}

struct copier {
	struct session *session;
	struct deadline_runner *runner;
	uint32_t pid;
	char *data;
	uint64_t len, used, room; /* used: bytes read, at most room */
	int err;
};

/* Parts that cannot be read stay 0: past the end of the file, or holes. */
static void copy_part(struct copier *copier, const struct part *part)
{
	uint64_t at, n, end;

	if (part->off >= copier->len)
		return;
	end = part->len < copier->len - part->off ? part->len : copier->len - part->off;
	for (at = 0; at < end && copier->used < copier->room; at += n) {
		n = end - at < CHUNK_BYTES ? end - at : CHUNK_BYTES;
		if (n > copier->room - copier->used)
			n = copier->room - copier->used;
		copier->err = memory_read(copier->session, copier->runner, copier->pid,
					  part->va + at, copier->data + part->off + at, n);
		if (copier->err && copier->err != -EFAULT)
			return;
		copier->used += n;
	}
	copier->err = 0;
}

/*
 * Does the file begin like an ELF file? 0, -ENOEXEC (also if its head is not mapped), or -errno of
 * reading. Files that JITs write code into are mapped, too, and can be large.
 */
static int head_check(struct copier *copier, const struct parts *parts, const struct image *image)
{
	char magic[SELFMAG];
	int err = -ENOEXEC;
	size_t i;

	for (i = 0; i < parts->nr; i++) {
		if (parts->part[i].image != image->id || parts->part[i].off)
			continue;
		err = memory_read(copier->session, copier->runner, copier->pid, parts->part[i].va,
				  magic, sizeof(magic));
		if (!err)
			return memcmp(magic, ELFMAG, SELFMAG) ? -ENOEXEC : 0;
	}
	return err == -EFAULT ? -ENOEXEC : err;
}

static void copy_image(struct copier *copier, struct parts *parts, struct image *image,
		       uint64_t now_ns)
{
	bool hangs = memory_hangs(copier->session, copier->runner);
	uint64_t base = 0;
	size_t i;
	int code, err;

	if (image->vma_flags & BPFPROF_VMA_MEMORY) {
		err = head_check(copier, parts, image);
		if (err == -ENOEXEC)
			images_fail(parts->images, image, err, now_ns);
		if (err)
			return;
	}
	copier->used = 0;
	copier->len = copy_len(parts, image);
	copier->room = images_copy_room(parts->images, image, copier->len);
	copier->data = copier->len && copier->room ? calloc(1, copier->len) : NULL;
	if (!copier->data)
		return;
	for (code = 0; code < 2; code++) {
		for (i = 0; i < parts->nr && !copier->err; i++) {
			if (parts->part[i].image != image->id || parts->part[i].code != !!code)
				continue;
			if (!parts->part[i].off)
				base = parts->part[i].va;
			/* A silent server may hang one of the few reads, not all. */
			if (!parts->part[i].remote || !hangs)
				copy_part(copier, &parts->part[i]);
		}
	}
	if (copier->err || !copier->used) {
		free(copier->data);
		return;
	}
	elf_unrelocate(copier->data, copier->len, base);
	images_give_copy(parts->images, image, copier->data, copier->len, copier->used, now_ns);
}

void image_copies_take(struct images *images, struct session *session,
		       struct deadline_runner *runner, const struct process *process,
		       uint64_t now_ns, uint64_t *ret_cost_ns)
{
	struct parts parts = { .images = images, .process = process };
	struct copier copier = { .session = session, .runner = runner };
	struct image *image;
	size_t i;

	*ret_cost_ns = 0;
	copier.pid = session_own_pid(session, process->pid, process->ns_context.agent_pid);
	if (!copier.pid)
		return;
	vmas_read(session, runner, copier.pid, VMAS_ALL_PARTS, collect_part, &parts, ret_cost_ns);
	for (i = 0; i < parts.nr && !copier.err; i++) {
		image = images_get(images, parts.part[i].image);
		if (image_copy_wanted(image) &&
		    (!i || parts.part[i - 1].image != parts.part[i].image))
			copy_image(&copier, &parts, image, now_ns);
	}
	free(parts.part);
}
