// SPDX-License-Identifier: Apache-2.0
#include "threads/thread_call.h"

#include <ctype.h>
#include <stdbool.h>
#include <stdint.h>
#include <string.h>

#include "base/strtab.h"
#include "base/text.h"
#include "cuda/functions.h"
#include "proc/images.h"
#include "threads/stack_names.h"
#include "threads/thread_dump.h"
#include "threads/thread_reader.h"
#include "bpfprof.h"

#define A_FUNCTION_OF_LIBCUDA "a function of libcuda"

/* Is it a version of that library? Other libraries have longer names: libcudadebugger.so.1. */
static bool is_library(const char *path, const char *name)
{
	const char *base = strrchr(path, '/');

	return text_begins(base ? base + 1 : path, name);
}

bool thread_call_is_nccl(const char *path)
{
	return is_library(path, "libnccl.so") || is_library(path, "librccl.so");
}

/* Is it a hooked function of libcuda or libnccl? Each function of NCCL has a twin for wrappers. */
static bool is_hooked(const char *name)
{
	const struct gpu_function *functions;
	size_t nr, i;

	functions = gpu_functions(&nr);
	for (i = 1; i < nr; i++)
		if (!strcmp(name, functions[i].name))
			return true;
	return false;
}

/* The call of the frame, or NULL. */
static const char *frame_call(const struct strtab *strings, const struct thread_frame *frame)
{
	const char *file = strtab_get(strings, frame->file);
	const char *name = strtab_get(strings, frame->name);

	if (is_library(file, "libcudart.so"))
		return text_begins(name, "cuda") && isupper((unsigned char)name[4]) ? name : NULL;
	if (thread_call_is_nccl(file)) {
		name += text_begins(name, "pnccl");
		return text_begins(name, "nccl") && is_hooked(name) ? name : NULL;
	}
	if (!is_library(file, "libcuda.so"))
		return NULL;
	return text_begins(name, "cu") && is_hooked(name) ? name : A_FUNCTION_OF_LIBCUDA;
}

static bool is_of_user(const struct thread_frame *frame)
{
	return frame->kind == THREAD_FRAME_NATIVE || frame->kind == THREAD_FRAME_PYTHON;
}

/* While NVTX reports the call to a profiler, its frame may still have values of another call. */
static bool is_in_nvtx(const struct strtab *strings, const struct thread_dump *thread, size_t frame)
{
	return frame && strcasestr(strtab_get(strings, thread->frames[frame - 1].name), "nvtx");
}

/* Does the collective belong to the call, and to the function in whose frame it was found? */
static bool is_of_call(const struct strtab *strings, const struct thread_dump *thread,
		       const struct thread_collective *one)
{
	const char *function;

	if (one->frame >= thread->nr_frames || one->frame > thread->gpu_frame)
		return false;
	function = frame_call(strings, &thread->frames[one->frame]);
	return function && nccl_info_is_of(&one->info, function) &&
	       nccl_info_is_of(&one->info, strtab_get(strings, thread->gpu_call)) &&
	       !is_in_nvtx(strings, thread, one->frame);
}

/* The collective of the call; NULL if its frames hold several. */
static const struct thread_collective *arguments_choose(const struct strtab *strings,
							const struct thread_dump *thread)
{
	const struct thread_collective *found = NULL, *one;
	size_t i;

	for (i = 0; i < thread->nr_collectives; i++) {
		one = &thread->collectives[i];
		if (!is_of_call(strings, thread, one))
			continue;
		if (found && memcmp(&found->info, &one->info, sizeof(one->info)) != 0)
			return NULL;
		found = one;
	}
	return found;
}

static void thread_call(struct thread_dump *thread, struct strtab *strings)
{
	const char *call = NULL, *found, *caller;
	bool called = true;
	size_t i, at = 0;

	/* The leaf comes first: the program called the outermost function. */
	for (i = 0; i < thread->nr_frames; i++) {
		if (thread->frames[i].kind != THREAD_FRAME_NATIVE)
			continue;
		found = frame_call(strings, &thread->frames[i]);
		if (!found)
			continue;
		call = found;
		at = i;
		/* The driver's own threads begin in libcuda. */
		called = i + 1 < thread->nr_frames && is_of_user(&thread->frames[i + 1]);
		caller = called ? strtab_get(strings, thread->frames[i + 1].name) : "";
		called = called && strcmp(caller, "start_thread") && strcmp(caller, "clone3") &&
			 strcmp(caller, "clone");
	}
	if (!call || (!called && !strcmp(call, A_FUNCTION_OF_LIBCUDA)))
		return;
	thread->gpu_call = strtab_add(strings, call);
	thread->gpu_frame = at;
	if (thread->consistent)
		thread->gpu_arguments = arguments_choose(strings, thread);
}

/* Is the thread in such a library? Its frames have no names yet. */
static bool is_near(const struct thread_dump *thread, struct images *images)
{
	static const char *const names[] = { "libcuda.so", "libcudart.so", "libnccl.so",
					     "librccl.so" };
	const struct image *image;
	uint64_t wire;
	size_t i, k;

	for (i = 0; i < thread->nr_frames; i++) {
		wire = thread->frames[i].wire;
		if (thread->frames[i].kind != THREAD_FRAME_NATIVE ||
		    wire >> BPFPROF_FRAME_SHIFT != BPFPROF_FRAME_NATIVE)
			continue;
		image = images_get(images,
				   (uint32_t)((wire & BPFPROF_FRAME_MASK) >> BPFPROF_OFF_BITS));
		for (k = 0; image && k < sizeof(names) / sizeof(names[0]); k++)
			if (is_library(image->path, names[k]))
				return true;
	}
	return false;
}

void thread_calls_find(struct dump *dump)
{
	size_t i, k;

	for (i = 0; i < dump->nr_processes; i++)
		for (k = 0; k < dump->processes[i].nr_threads; k++)
			thread_call(&dump->processes[i].threads[k], dump->strings);
}

int thread_calls_name(struct dump *dump, const struct thread_reader *reader,
		      const struct stack_names_options *options)
{
	struct thread_dump *thread;
	size_t i, k;
	int err;

	for (i = 0; i < dump->nr_processes; i++) {
		for (k = 0; k < dump->processes[i].nr_threads; k++) {
			thread = &dump->processes[i].threads[k];
			if (!is_near(thread, reader->images))
				thread->nr_frames = 0;
		}
	}
	err = stack_names_find(dump, reader, options);
	if (!err)
		thread_calls_find(dump);
	return err;
}
