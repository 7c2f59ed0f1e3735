// SPDX-License-Identifier: Apache-2.0
#include "kernel/core_types.h"

#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "bpfprof.h"
#include "bpfprof.skel.h"

/* The object's own types, by libbpf. */
static struct bpf_object *object_open(const void **elf, size_t *bytes)
{
	struct bpf_object *object;

	*elf = bpfprof_bpf__elf_bytes(bytes);
	object = bpf_object__open_mem(*elf, *bytes, NULL);
	cr_assert(object != NULL);
	return object;
}

static const char *name_of(const struct btf *btf, uint32_t id)
{
	return btf__name_by_offset(btf, btf__type_by_id(btf, id)->name_off);
}

/* Do two types have the same size, members and places, down to the last one that is no pointer? */
static bool is_same(const struct btf *a, uint32_t id_a, const struct btf *b, uint32_t id_b,
		    int depth)
{
	const struct btf_type *x = btf__type_by_id(a, id_a), *y = btf__type_by_id(b, id_b);
	uint32_t i;

	if (!id_a || !id_b)
		return id_a == id_b;
	if (btf_is_ptr(x))
		return btf_is_ptr(y);
	if (btf_kind(x) != btf_kind(y) || strcmp(name_of(a, id_a), name_of(b, id_b)) ||
	    btf_vlen(x) != btf_vlen(y) || btf_kflag(x) != btf_kflag(y) || depth > 40)
		return false;
	if (btf_is_mod(x) || btf_is_typedef(x))
		return is_same(a, x->type, b, y->type, depth + 1);
	if (btf_is_array(x))
		return btf_array(x)->nelems == btf_array(y)->nelems &&
		       is_same(a, btf_array(x)->type, b, btf_array(y)->type, depth + 1);
	if (x->size != y->size)
		return false;
	for (i = 0; btf_is_enum(x) && i < btf_vlen(x); i++)
		if (btf_enum(x)[i].val != btf_enum(y)[i].val ||
		    strcmp(btf__name_by_offset(a, btf_enum(x)[i].name_off),
			   btf__name_by_offset(b, btf_enum(y)[i].name_off)))
			return false;
	for (i = 0; btf_is_composite(x) && i < btf_vlen(x); i++)
		if (btf_members(x)[i].offset != btf_members(y)[i].offset ||
		    strcmp(btf__name_by_offset(a, btf_members(x)[i].name_off),
			   btf__name_by_offset(b, btf_members(y)[i].name_off)) ||
		    !is_same(a, btf_members(x)[i].type, b, btf_members(y)[i].type, depth + 1))
			return false;
	return true;
}

/* Each type of the kernel whose name the object has is there, and the same as libbpf reads it from the kernel. */
Test(core_types, as_the_kernel_has_them)
{
	struct btf *kernel = btf__parse_raw(CORE_TYPES_KERNEL), *some;
	const struct btf *own;
	struct bpf_object *object;
	struct core_types types;
	const void *elf;
	size_t bytes;
	uint32_t i, nr = 0;
	int of_kernel, of_some;

	if (!kernel)
		cr_skip_test("this kernel has no BTF");
	object = object_open(&elf, &bytes);
	own = bpf_object__btf(object);
	cr_assert_eq(core_types_make(&types, elf, bytes, CORE_TYPES_KERNEL), 0);
	some = btf__parse(types.path, NULL);
	cr_assert(some != NULL);
	cr_expect_lt(btf__type_cnt(some), 8000);
	for (i = 1; i < btf__type_cnt(own); i++) {
		char name[128];
		uint32_t kind = btf_kind(btf__type_by_id(own, i));

		if (kind != BTF_KIND_STRUCT && kind != BTF_KIND_UNION && kind != BTF_KIND_ENUM)
			continue;
		snprintf(name, sizeof(name), "%s", name_of(own, i));
		if (strstr(name, "___"))
			*strstr(name, "___") = '\0';
		of_kernel = *name ? btf__find_by_name_kind(kernel, name, kind) : -ENOENT;
		if (of_kernel < 0)
			continue;
		of_some = btf__find_by_name_kind(some, name, kind);
		cr_assert_gt(of_some, 0, "%s", name);
		cr_expect(is_same(kernel, (uint32_t)of_kernel, some, (uint32_t)of_some, 0), "%s",
			  name);
		nr++;
	}
	cr_expect_gt(nr, 20);
	cr_expect_gt(btf__find_by_name_kind(some, "task_struct", BTF_KIND_STRUCT), 0);
	btf__free(some);
	btf__free(kernel);
	bpf_object__close(object);
	core_types_free(&types);
}

/* What programs attach to has the same ids as libbpf finds. */
Test(core_types, targets)
{
	static const struct {
		const char *section, *name;
		enum bpf_attach_type type;
	} cases[] = {
		{ "iter/task", "bpf_iter_task", BPF_TRACE_ITER },
		{ "iter.s/task", "bpf_iter_task", BPF_TRACE_ITER },
		{ "iter/task_vma", "bpf_iter_task_vma", BPF_TRACE_ITER },
		{ "tp_btf/sched_process_exit", "btf_trace_sched_process_exit", BPF_TRACE_RAW_TP },
		{ "?tp_btf/sched_switch", "btf_trace_sched_switch", BPF_TRACE_RAW_TP },
	};
	struct core_types types;
	char name[CORE_TARGET_NAME], section[80] = "tp_btf/";
	size_t bytes, i;
	const void *elf = bpfprof_bpf__elf_bytes(&bytes);

	if (access(CORE_TYPES_KERNEL, R_OK))
		cr_skip_test("this kernel has no BTF");
	cr_assert_eq(core_types_make(&types, elf, bytes, CORE_TYPES_KERNEL), 0);
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		cr_assert_eq(core_target_name(name, cases[i].section), 0);
		cr_expect_str_eq(name, cases[i].name);
		cr_expect_eq(core_target_find(&types, name),
			     (uint32_t)libbpf_find_vmlinux_btf_id(strchr(cases[i].section, '/') + 1,
								  cases[i].type),
			     "%s", name);
	}
	cr_expect_eq(core_target_find(&types, "btf_trace_of_another_object"), 0);
	core_types_free(&types);
	cr_expect_eq(core_target_name(name, "perf_event"), -ENOENT);
	memset(section + strlen(section), 'x', sizeof(section) - 1 - strlen(section));
	cr_expect_eq(core_target_name(name, section), -E2BIG);
}

/* Writes data to a file and reads types from there. */
static int make_of(const void *data, size_t bytes)
{
	char path[] = "/tmp/core_types_XXXXXX";
	int fd = mkstemp(path), err;
	struct core_types types;
	size_t elf_bytes;
	const void *elf = bpfprof_bpf__elf_bytes(&elf_bytes);

	cr_assert_geq(fd, 0);
	cr_assert_eq(write(fd, data, bytes), (ssize_t)bytes);
	err = core_types_make(&types, elf, elf_bytes, path);
	cr_expect_eq(types.fd >= 0, !err);
	core_types_free(&types);
	close(fd);
	unlink(path);
	return err;
}

static struct btf *made_btf(void)
{
	struct btf *btf = btf__new_empty();
	int number = btf__add_int(btf, "int", 4, BTF_INT_SIGNED), file;

	btf__add_struct(btf, "task_struct", 16);
	btf__add_field(btf, "pid", number, 0, 0);
	file = btf__add_struct(btf, "file", 4);
	btf__add_field(btf, "f_flags", number, 0, 0);
	btf__add_typedef(btf, "flags_t", number);
	btf__add_array(btf, number, file, 3);
	btf__add_enum(btf, "pid_type", 4);
	btf__add_enum_value(btf, "PIDTYPE_PID", 0);
	return btf;
}

/* Bytes that end early, and bytes that differ, are refused or read; nothing beyond them is read. */
Test(core_types, malformed)
{
	struct btf *btf = made_btf();
	uint32_t size, i;
	const void *raw = btf__raw_data(btf, &size);
	uint8_t *data = malloc(size);
	uint32_t nr_refused = 0;

	cr_assert_eq(make_of(raw, size), 0);
	for (i = 0; i < size; i++)
		cr_expect_eq(make_of(raw, i), -EINVAL, "%u bytes of %u", i, size);
	for (i = 0; i < size; i++) {
		memcpy(data, raw, size);
		data[i] ^= 0xff;
		nr_refused += make_of(data, size) != 0;
	}
	cr_expect_gt(nr_refused, 20);
	cr_expect_eq(make_of("", 0), -EINVAL);
	free(data);
	btf__free(btf);
}

/* Without the file, or without an object, there are no types. */
Test(core_types, not_there)
{
	struct core_types types;
	size_t bytes;
	const void *elf = bpfprof_bpf__elf_bytes(&bytes);

	cr_expect_eq(core_types_make(&types, elf, bytes, "/nowhere"), -ENOENT);
	cr_expect_eq(types.fd, -1);
	cr_expect_eq(core_types_make(&types, elf, 10, CORE_TYPES_KERNEL) < 0, 1);
}
