// SPDX-License-Identifier: Apache-2.0
#include "kernel/kernel_memory.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "kernel/core_object.h"
#include "kernel/iterate.h"
#include "kernel/session.h"
#include "kernel_memory.skel.h"

struct kernel_memory {
	struct kernel_memory_bpf *skel;
	struct bpfprof_kernel_read *request; /* the value of the map */
	struct kernel_view view;
};

static int program_run(struct bpf_program *program)
{
	LIBBPF_OPTS(bpf_test_run_opts, options);

	return bpf_prog_test_run_opts(bpf_program__fd(program), &options) ? -errno : 0;
}

static int memory_read(void *arg, struct kernel_piece *pieces, size_t nr)
{
	struct kernel_memory *memory = arg;
	struct bpfprof_kernel_read *request = memory->request;
	size_t i;
	int err;

	if (nr > BPFPROF_KERNEL_PIECES)
		return -EINVAL;
	for (i = 0; i < nr; i++) {
		if (pieces[i].len > BPFPROF_KERNEL_BYTES)
			return -EINVAL;
		request->va[i] = pieces[i].va;
		request->len[i] = pieces[i].len;
		request->result[i] = -EIO;
	}
	request->nr = (uint32_t)nr;
	err = program_run(memory->skel->progs.kernel_read);
	for (i = 0; i < nr && !err; i++) {
		pieces[i].result = request->result[i];
		memcpy(pieces[i].dst, request->data[i], pieces[i].len);
	}
	return err;
}

static int layout_read(struct kernel_memory *memory, int own_fd)
{
	struct bpfprof_kernel_layout layout = { .own_fd = (uint32_t)own_fd };
	int fd = bpf_map__fd(memory->skel->maps.kernel_layouts), err;
	uint32_t zero = 0;

	if (bpf_map_update_elem(fd, &zero, &layout, BPF_ANY))
		return -errno;
	err = program_run(memory->skel->progs.kernel_layout);
	if (err)
		return err;
	if (bpf_map_lookup_elem(fd, &zero, &layout))
		return -errno;
	if (!layout.page_bytes) /* the program did not run */
		return -EIO;
	memory->view.layout = layout;
	return 0;
}

int kernel_memory_open(struct kernel_memory **ret)
{
	struct kernel_memory *memory = calloc(1, sizeof(*memory));
	LIBBPF_OPTS(bpf_object_open_opts, options);
	struct core_types types;
	size_t bytes;
	const void *elf = kernel_memory_bpf__elf_bytes(&bytes);
	void *request;
	int err;

	if (!memory)
		return -ENOMEM;
	memory->view.read = memory_read;
	memory->view.arg = memory;
	core_object_opens(&types, elf, bytes, &options);
	memory->skel = kernel_memory_bpf__open_opts(&options);
	err = memory->skel ? kernel_memory_bpf__load(memory->skel) : -errno;
	core_object_loaded(&types);
	if (err)
		goto fail;
	request = mmap(NULL, sizeof(*memory->request), PROT_READ | PROT_WRITE, MAP_SHARED,
		       bpf_map__fd(memory->skel->maps.kernel_reads), 0);
	if (request == MAP_FAILED) {
		err = -errno;
		goto fail;
	}
	memory->request = request;
	err = layout_read(memory, -1);
	if (err)
		goto fail;
	malloc_trim(0); /* libbpf and the types needed memory for a moment */
	*ret = memory;
	return 0;
fail:
	kernel_memory_close(memory);
	return err;
}

void kernel_memory_close(struct kernel_memory *memory)
{
	if (!memory)
		return;
	if (memory->request)
		munmap(memory->request, sizeof(*memory->request));
	kernel_memory_bpf__destroy(memory->skel);
	free(memory);
}

uint64_t kernel_memory_map_bytes(const struct kernel_memory *memory)
{
	return session_object_bytes(memory->skel->obj);
}

const struct kernel_view *kernel_memory_view(const struct kernel_memory *memory)
{
	return &memory->view;
}

int kernel_memory_own_inode(struct kernel_memory *memory, int fd)
{
	int err = layout_read(memory, fd);

	return !err && !memory->view.layout.own_inode ? -EBADF : err;
}

/* Uses the first thread with a root: a leader may have exited before the others. */
int kernel_memory_root(struct kernel_memory *memory, uint32_t pid, struct bpfprof_task_root *ret)
{
	__cleanup(close_fd) int link_fd =
		iterate_link_process(bpf_program__fd(memory->skel->progs.task_root), pid);
	__cleanup(close_fd) int fd = link_fd < 0 ? -1 : bpf_iter_create(link_fd);

	if (link_fd < 0 || fd < 0)
		return link_fd < 0 ? link_fd : fd;
	return iterate_read(fd, ret, sizeof(*ret));
}
