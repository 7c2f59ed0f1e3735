// SPDX-License-Identifier: Apache-2.0
#include "kernel/core_object.h"

#include <bpf/bpf.h>
#include <linux/bpf.h>
#include <stdbool.h>
#include <string.h>

/* Until it is loaded, a program seems to attach to another program: libbpf then needs no types for it. */
#define SOME_PROGRAM 1

/* Types of the object that is being loaded. */
static const struct core_types *types_in_use;

static int program_setup(struct bpf_program *program, long cookie)
{
	(void)cookie;
	return bpf_program__set_attach_target(program, SOME_PROGRAM, NULL);
}

static int program_prepare(struct bpf_program *program, struct bpf_prog_load_opts *options,
			   long flags)
{
	const char *section = bpf_program__section_name(program);
	char name[CORE_TARGET_NAME];
	int err = core_target_name(name, section), id = 0;

	if (err)
		return err;
	if (types_in_use)
		id = (int)core_target_find(types_in_use, name);
	if (!id)
		id = libbpf_find_vmlinux_btf_id(strchr(section, '/') + 1,
						bpf_program__expected_attach_type(program));
	if (id < 0)
		return id;
	options->attach_prog_fd = 0;
	options->attach_btf_id = (uint32_t)id;
	options->prog_flags |= (uint32_t)flags;
	return 0;
}

static int program_attach(const struct bpf_program *program, long cookie, struct bpf_link **link)
{
	(void)cookie;
	*link = bpf_program__attach_trace(program);
	return libbpf_get_error(*link);
}

/* Takes the place of libbpf's own handlers of these sections. They stay: programs refer to them. */
static void handlers_register(void)
{
	static const struct {
		const char *section;
		enum bpf_attach_type type;
		long flags;
	} handlers[] = { { "iter/", BPF_TRACE_ITER, 0 },
			 { "iter.s/", BPF_TRACE_ITER, BPF_F_SLEEPABLE },
			 { "tp_btf/", BPF_TRACE_RAW_TP, 0 } };
	static bool done;
	size_t i;

	for (i = 0; i < sizeof(handlers) / sizeof(handlers[0]) && !done; i++) {
		LIBBPF_OPTS(libbpf_prog_handler_opts, options, .cookie = handlers[i].flags,
			    .prog_setup_fn = program_setup, .prog_prepare_load_fn = program_prepare,
			    .prog_attach_fn = program_attach);

		if (libbpf_register_prog_handler(handlers[i].section, BPF_PROG_TYPE_TRACING,
						 handlers[i].type, &options) < 0)
			break; /* libbpf's own handler then does the same */
	}
	done = true;
}

void core_object_opens(struct core_types *types, const void *elf, size_t bytes,
		       struct bpf_object_open_opts *options)
{
	handlers_register();
	if (core_types_make(types, elf, bytes, CORE_TYPES_KERNEL))
		return;
	options->btf_custom_path = types->path;
	types_in_use = types;
}

void core_object_loaded(struct core_types *types)
{
	types_in_use = NULL;
	core_types_free(types);
}
