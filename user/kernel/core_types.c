// SPDX-License-Identifier: Apache-2.0
#include "kernel/core_types.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/btf.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/file_read.h"
#include "base/vec.h"

#define KERNEL_MAX_BYTES (64U << 20)
#define OUT_MAX_BYTES (4U << 20)

/* A BTF in memory. Type 0 is void. */
struct types {
	const char *strings;
	size_t string_bytes;
	const struct btf_type **types; /* by id */
	uint32_t nr;
	size_t cap;
};

/* The types that are taken over. */
struct selection {
	const struct types *from;
	uint32_t *new_ids; /* by old id, 0: it is not taken over */
	uint32_t *old_ids; /* in the order of the new ids, which begin at 1 */
	uint32_t nr;
	size_t cap;
	struct buf types, strings;
};

struct name {
	const char *text;
	size_t length; /* without its flavor */
};

struct names {
	struct name *sorted;
	size_t nr;
};

/* The bytes behind the header of a type; SIZE_MAX: the kind is not known. */
static size_t tail_bytes(const struct btf_type *type)
{
	size_t nr = BTF_INFO_VLEN(type->info);

	switch (BTF_INFO_KIND(type->info)) {
	case BTF_KIND_INT:
	case BTF_KIND_VAR:
	case BTF_KIND_DECL_TAG:
		return sizeof(uint32_t);
	case BTF_KIND_ARRAY:
		return sizeof(struct btf_array);
	case BTF_KIND_STRUCT:
	case BTF_KIND_UNION:
		return nr * sizeof(struct btf_member);
	case BTF_KIND_ENUM:
		return nr * sizeof(struct btf_enum);
	case BTF_KIND_ENUM64:
		return nr * 3 * sizeof(uint32_t); /* struct btf_enum64, Linux 6.0 */
	case BTF_KIND_FUNC_PROTO:
		return nr * sizeof(struct btf_param);
	case BTF_KIND_DATASEC:
		return nr * sizeof(struct btf_var_secinfo);
	case BTF_KIND_PTR:
	case BTF_KIND_FWD:
	case BTF_KIND_TYPEDEF:
	case BTF_KIND_VOLATILE:
	case BTF_KIND_CONST:
	case BTF_KIND_RESTRICT:
	case BTF_KIND_FUNC:
	case BTF_KIND_FLOAT:
	case BTF_KIND_TYPE_TAG:
		return 0;
	default:
		return SIZE_MAX;
	}
}

/* Finds all types of data[bytes], which stays in use. 0 or -errno. */
static int types_find(struct types *types, const char *data, size_t bytes)
{
	const struct btf_header *head = (const struct btf_header *)data;
	const char *at, *end;

	if (bytes < sizeof(*head) || head->magic != BTF_MAGIC || head->hdr_len > bytes ||
	    head->hdr_len % 4 || head->type_off % 4 || head->type_off > bytes - head->hdr_len ||
	    head->type_len > bytes - head->hdr_len - head->type_off ||
	    head->str_off > bytes - head->hdr_len ||
	    head->str_len > bytes - head->hdr_len - head->str_off || !head->str_len)
		return -EINVAL;
	types->strings = data + head->hdr_len + head->str_off;
	types->string_bytes = head->str_len;
	if (types->strings[head->str_len - 1])
		return -EINVAL;
	at = data + head->hdr_len + head->type_off;
	end = at + head->type_len;
	for (types->nr = 1; at < end; types->nr++) {
		const struct btf_type *type = (const struct btf_type *)at;
		size_t left = (size_t)(end - at) - sizeof(*type);

		if ((size_t)(end - at) < sizeof(*type) || tail_bytes(type) > left)
			return -EINVAL;
		if (vec_grow(types->types, types->nr + 1, types->cap, VEC_BOUNDED))
			return -ENOMEM;
		types->types[types->nr] = type;
		at += sizeof(*type) + tail_bytes(type);
	}
	return 0;
}

static const char *name_at(const struct types *types, uint32_t off)
{
	return off < types->string_bytes ? types->strings + off : "";
}

/* A name without its flavor: "file" of "file___6_12", as libbpf compares names. */
static struct name name_of(const struct types *types, uint32_t id)
{
	const char *text = name_at(types, types->types[id]->name_off);
	const char *flavor = *text ? strstr(text + 1, "___") : NULL;

	return (struct name){ text, flavor ? (size_t)(flavor - text) : strlen(text) };
}

static int names_compare(const void *a, const void *b)
{
	const struct name *x = a, *y = b;

	if (x->length != y->length)
		return x->length < y->length ? -1 : 1;
	return memcmp(x->text, y->text, x->length);
}

/* Types of these kinds are looked for by their names. */
static bool is_root(const struct types *types, uint32_t id)
{
	switch (BTF_INFO_KIND(types->types[id]->info)) {
	case BTF_KIND_STRUCT:
	case BTF_KIND_UNION:
	case BTF_KIND_ENUM:
	case BTF_KIND_ENUM64:
	case BTF_KIND_TYPEDEF:
		return name_at(types, types->types[id]->name_off)[0];
	default:
		return false;
	}
}

/* The names of types in the .BTF section of the BPF object, which comes from our own build. */
static int names_find(struct names *names, struct types *types, const char *elf, size_t bytes)
{
	const Elf64_Ehdr *head = (const Elf64_Ehdr *)elf;
	const Elf64_Shdr *sections, *strings;
	uint32_t i;
	int err = -EINVAL;

	if (bytes < sizeof(*head) || head->e_shoff > bytes || head->e_shoff % 8 ||
	    head->e_shnum > (bytes - head->e_shoff) / sizeof(*sections) ||
	    head->e_shstrndx >= head->e_shnum)
		return -EINVAL;
	sections = (const Elf64_Shdr *)(elf + head->e_shoff);
	strings = &sections[head->e_shstrndx];
	for (i = 0; i < head->e_shnum; i++)
		if (sections[i].sh_offset <= bytes &&
		    sections[i].sh_size <= bytes - sections[i].sh_offset &&
		    strings->sh_offset + sections[i].sh_name + sizeof(".BTF") <= bytes &&
		    !strcmp(elf + strings->sh_offset + sections[i].sh_name, ".BTF"))
			err = types_find(types, elf + sections[i].sh_offset, sections[i].sh_size);
	if (err)
		return err;
	names->sorted = calloc(types->nr, sizeof(*names->sorted));
	if (!names->sorted)
		return -ENOMEM;
	for (i = 1; i < types->nr; i++)
		if (is_root(types, i))
			names->sorted[names->nr++] = name_of(types, i);
	qsort(names->sorted, names->nr, sizeof(*names->sorted), names_compare);
	return 0;
}

/* The new id of a type. The type itself is written later. 0: void, or no memory, which the buffer shows. */
static uint32_t select_type(struct selection *sel, uint32_t id)
{
	if (!id || id >= sel->from->nr)
		return 0;
	if (sel->new_ids[id])
		return sel->new_ids[id];
	if (vec_grow(sel->old_ids, sel->nr + 1, sel->cap, VEC_BOUNDED)) {
		sel->types.error = -ENOMEM;
		return 0;
	}
	sel->old_ids[sel->nr++] = id;
	sel->new_ids[id] = sel->nr;
	return sel->nr;
}

static uint32_t string_add(struct selection *sel, uint32_t off)
{
	const char *name = name_at(sel->from, off);
	uint32_t at = (uint32_t)sel->strings.len;

	if (!*name)
		return 0;
	buf_add(&sel->strings, name, strlen(name) + 1);
	return at;
}

static void members_write(struct selection *sel, const struct btf_type *type)
{
	const struct btf_member *from = (const struct btf_member *)(type + 1);
	struct btf_member to;
	uint32_t i;

	for (i = 0; i < BTF_INFO_VLEN(type->info); i++) {
		to = from[i];
		to.name_off = string_add(sel, from[i].name_off);
		to.type = select_type(sel, from[i].type);
		buf_add(&sel->types, &to, sizeof(to));
	}
}

/* Values of an enum: the first of `words` words of each is its name. */
static void values_write(struct selection *sel, const struct btf_type *type, size_t words)
{
	const uint32_t *from = (const uint32_t *)(type + 1);
	uint32_t i, name;

	for (i = 0; i < BTF_INFO_VLEN(type->info); i++, from += words) {
		name = string_add(sel, from[0]);
		buf_add(&sel->types, &name, sizeof(name));
		buf_add(&sel->types, from + 1, (words - 1) * sizeof(*from));
	}
}

static void type_write(struct selection *sel, const struct btf_type *type)
{
	struct btf_type head = *type;
	struct btf_array array;

	head.name_off = string_add(sel, type->name_off);
	switch (BTF_INFO_KIND(type->info)) {
	case BTF_KIND_TYPEDEF:
	case BTF_KIND_VOLATILE:
	case BTF_KIND_CONST:
	case BTF_KIND_RESTRICT:
	case BTF_KIND_TYPE_TAG:
		head.type = select_type(sel, type->type);
		break;
	case BTF_KIND_PTR:
	case BTF_KIND_FUNC_PROTO: /* a function is reached by pointers alone */
		head = (struct btf_type){ .info = BTF_KIND_PTR << 24 };
		break;
	default:
		break;
	}
	buf_add(&sel->types, &head, sizeof(head));
	switch (BTF_INFO_KIND(type->info)) {
	case BTF_KIND_INT:
		buf_add(&sel->types, type + 1, sizeof(uint32_t));
		break;
	case BTF_KIND_ARRAY:
		array = *(const struct btf_array *)(type + 1);
		array.type = select_type(sel, array.type);
		array.index_type = select_type(sel, array.index_type);
		buf_add(&sel->types, &array, sizeof(array));
		break;
	case BTF_KIND_STRUCT:
	case BTF_KIND_UNION:
		members_write(sel, type);
		break;
	case BTF_KIND_ENUM:
		values_write(sel, type, sizeof(struct btf_enum) / sizeof(uint32_t));
		break;
	case BTF_KIND_ENUM64:
		values_write(sel, type, 3);
		break;
	default:
		break;
	}
}

/* Writes the types of those names, and what they contain. */
static int selection_write(struct selection *sel, const struct names *names, int fd)
{
	struct btf_header head = { .magic = BTF_MAGIC,
				   .version = BTF_VERSION,
				   .hdr_len = sizeof(head) };
	struct name name;
	uint32_t i;

	buf_add_char(&sel->strings, '\0');
	for (i = 1; i < sel->from->nr; i++) {
		if (!is_root(sel->from, i))
			continue;
		name = name_of(sel->from, i);
		if (bsearch(&name, names->sorted, names->nr, sizeof(name), names_compare))
			select_type(sel, i);
	}
	for (i = 0; i < sel->nr; i++) /* which may select more of them */
		type_write(sel, sel->from->types[sel->old_ids[i]]);
	head.type_len = (uint32_t)sel->types.len;
	head.str_off = head.type_len;
	head.str_len = (uint32_t)sel->strings.len;
	if (buf_error(&sel->types) || buf_error(&sel->strings))
		return -ENOMEM;
	if (write(fd, &head, sizeof(head)) != sizeof(head) ||
	    write(fd, sel->types.data, head.type_len) != (ssize_t)head.type_len ||
	    write(fd, sel->strings.data, head.str_len) != (ssize_t)head.str_len)
		return -EIO;
	return 0;
}

static int types_select(const struct types *from, const struct names *names, int fd)
{
	struct selection sel = { .from = from, .new_ids = calloc(from->nr, sizeof(*sel.new_ids)) };
	int err = -ENOMEM;

	buf_init(&sel.types, OUT_MAX_BYTES);
	buf_init(&sel.strings, OUT_MAX_BYTES);
	if (sel.new_ids)
		err = selection_write(&sel, names, fd);
	free(sel.new_ids);
	free(sel.old_ids);
	buf_fini(&sel.types);
	buf_fini(&sel.strings);
	return err;
}

/* Reads a whole file; the caller frees the bytes. */
static int file_load(const char *path, char **ret, size_t *bytes)
{
	__cleanup(close_fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	ssize_t n;

	if (fd < 0 || fstat(fd, &st))
		return -errno;
	if (st.st_size > KERNEL_MAX_BYTES)
		return -E2BIG;
	*ret = malloc((size_t)st.st_size + 1);
	if (!*ret)
		return -ENOMEM;
	n = file_read_at(fd, *ret, (size_t)st.st_size, 0);
	*bytes = n < 0 ? 0 : (size_t)n;
	return n < 0 ? (int)n : 0;
}

int core_types_make(struct core_types *types, const void *elf, size_t bytes, const char *kernel)
{
	struct types own = { 0 }, theirs = { 0 };
	struct names names = { 0 };
	char *data = NULL;
	size_t data_bytes = 0;
	int err = file_load(kernel, &data, &data_bytes);

	*types = (struct core_types){ .fd = -1 };
	if (!err)
		err = types_find(&theirs, data, data_bytes);
	if (!err)
		err = names_find(&names, &own, elf, bytes);
	if (!err) {
		types->fd = memfd_create("core_types", MFD_CLOEXEC);
		err = types->fd < 0 ? -errno : types_select(&theirs, &names, types->fd);
	}
	if (err)
		core_types_free(types);
	else
		snprintf(types->path, sizeof(types->path), "/proc/self/fd/%d", types->fd);
	free(names.sorted);
	free(own.types);
	free(theirs.types);
	free(data);
	return err;
}

void core_types_use(struct core_types *types, const void *elf, size_t bytes,
		    struct bpf_object_open_opts *options)
{
	if (!core_types_make(types, elf, bytes, CORE_TYPES_KERNEL))
		options->btf_custom_path = types->path;
}

void core_types_free(struct core_types *types)
{
	if (types->fd >= 0)
		close(types->fd);
	*types = (struct core_types){ .fd = -1 };
}
