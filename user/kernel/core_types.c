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
#include "base/text.h"
#include "base/vec.h"

#define KERNEL_MAX_BYTES (64U << 20)
#define OUT_MAX_BYTES (4U << 20)

/* The place of each type is found from the last marked type before it. */
#define MARK_EVERY 8
#define FILTER_BITS 65536

/* A BTF in memory. Type 0 is void. */
struct types {
	const char *strings;
	size_t string_bytes;
	const struct btf_type **marks; /* of types 0, MARK_EVERY, ... */
	uint32_t nr;
	size_t cap;
};

struct name {
	const char *text;
	size_t length; /* without its flavor */
	uint32_t hash;
	bool is_target; /* programs attach to it; else the type is taken over */
	uint32_t *ret_id; /* of a target */
};

struct names {
	struct name *sorted;
	size_t nr, cap;
	uint8_t filter[FILTER_BITS / 8]; /* no name has a hash whose bit is clear */
	uint8_t starts[FILTER_BITS / 8]; /* the same for the start of names, see start_of() */
};

/* The types that are taken over. */
struct selection {
	const struct types *from;
	const struct names *names;
	uint32_t *new_ids; /* by old id, 0: it is not taken over */
	uint32_t *old_ids; /* in the order of the new ids, which begin at 1 */
	uint32_t nr, max_ids;
	size_t cap;
	struct buf types, strings;
};

/* The bytes behind the header of a type; SIZE_MAX: the kind is not known. */
static size_t tail_bytes(const struct btf_type *type)
{
	static const struct {
		bool known;
		uint8_t bytes, each;
	} kinds[] = {
		[BTF_KIND_INT] = { .known = true, .bytes = sizeof(uint32_t) },
		[BTF_KIND_PTR] = { .known = true },
		[BTF_KIND_ARRAY] = { .known = true, .bytes = sizeof(struct btf_array) },
		[BTF_KIND_STRUCT] = { .known = true, .each = sizeof(struct btf_member) },
		[BTF_KIND_UNION] = { .known = true, .each = sizeof(struct btf_member) },
		[BTF_KIND_ENUM] = { .known = true, .each = sizeof(struct btf_enum) },
		[BTF_KIND_FWD] = { .known = true },
		[BTF_KIND_TYPEDEF] = { .known = true },
		[BTF_KIND_VOLATILE] = { .known = true },
		[BTF_KIND_CONST] = { .known = true },
		[BTF_KIND_RESTRICT] = { .known = true },
		[BTF_KIND_FUNC] = { .known = true },
		[BTF_KIND_FUNC_PROTO] = { .known = true, .each = sizeof(struct btf_param) },
		[BTF_KIND_VAR] = { .known = true, .bytes = sizeof(uint32_t) },
		[BTF_KIND_DATASEC] = { .known = true, .each = sizeof(struct btf_var_secinfo) },
		[BTF_KIND_FLOAT] = { .known = true },
		[BTF_KIND_DECL_TAG] = { .known = true, .bytes = sizeof(uint32_t) },
		[BTF_KIND_TYPE_TAG] = { .known = true },
		[BTF_KIND_ENUM64] = { .known = true, .each = 3 * sizeof(uint32_t) }, /* Linux 6.0 */
	};
	uint32_t kind = BTF_INFO_KIND(type->info);

	if (kind >= sizeof(kinds) / sizeof(kinds[0]) || !kinds[kind].known)
		return SIZE_MAX;
	return kinds[kind].bytes + (size_t)BTF_INFO_VLEN(type->info) * kinds[kind].each;
}

static const struct btf_type *type_next(const struct btf_type *type)
{
	return (const struct btf_type *)((const char *)(type + 1) + tail_bytes(type));
}

static const struct btf_type *type_at(const struct types *types, uint32_t id)
{
	const struct btf_type *type = types->marks[id / MARK_EVERY];

	/* No type is at mark 0: it is that of type 1. */
	for (id = id < MARK_EVERY ? id - 1 : id % MARK_EVERY; id; id--)
		type = type_next(type);
	return type;
}

typedef int each_type(void *arg, uint32_t id, const struct btf_type *type);

/* Finds all types of data[bytes], which stays in use, and calls each() for them. 0 or -errno. */
static int types_find(struct types *types, const char *data, size_t bytes, each_type *each,
		      void *arg)
{
	const struct btf_header *head = (const struct btf_header *)data;
	const char *at, *end;
	int err = 0;

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
	for (types->nr = 1; at < end && !err; types->nr++) {
		const struct btf_type *type = (const struct btf_type *)at;
		size_t left = (size_t)(end - at), tail;

		if (left < sizeof(*type))
			return -EINVAL;
		tail = tail_bytes(type);
		if (tail > left - sizeof(*type))
			return -EINVAL;
		if (types->nr == 1 || !(types->nr % MARK_EVERY)) {
			if (vec_grow(types->marks, types->nr / MARK_EVERY + 1, types->cap,
				     VEC_BOUNDED))
				return -ENOMEM;
			types->marks[types->nr / MARK_EVERY] = type;
		}
		err = each(arg, types->nr, type);
		at += sizeof(*type) + tail;
	}
	return err;
}

static const char *name_at(const struct types *types, uint32_t off)
{
	return off < types->string_bytes ? types->strings + off : "";
}

/* A name without its flavor: "file" of "file___6_12", as libbpf compares names. */
static struct name name_of(const char *text)
{
	struct name name = { .text = text, .hash = 2166136261U }; /* FNV-1a */

	for (; text[name.length]; name.length++) {
		if (text[name.length] == '_' && name.length && text[name.length + 1] == '_' &&
		    text[name.length + 2] == '_')
			break;
		name.hash = (name.hash ^ (uint8_t)text[name.length]) * 16777619U;
	}
	return name;
}

/*
 * A hash of the first four characters; 0: of shorter names and those with a '_' there, which may begin the
 * flavor.
 */
static uint32_t start_of(const char *text)
{
	uint32_t hash = 0;
	int i;

	for (i = 0; i < 4; i++) {
		if (!text[i] || text[i] == '_')
			return 0;
		hash = hash << 8 | (uint8_t)text[i];
	}
	return hash * 2654435761U >> 16;
}

static void bit_set(uint8_t *bits, uint32_t hash)
{
	bits[hash % FILTER_BITS / 8] |= (uint8_t)(1U << hash % 8);
}

static bool bit_is_set(const uint8_t *bits, uint32_t hash)
{
	return bits[hash % FILTER_BITS / 8] >> hash % 8 & 1;
}

static int names_compare(const void *a, const void *b)
{
	const struct name *x = a, *y = b;

	if (x->is_target != y->is_target)
		return x->is_target ? 1 : -1;
	if (x->hash != y->hash)
		return x->hash < y->hash ? -1 : 1;
	if (x->length != y->length)
		return x->length < y->length ? -1 : 1;
	return memcmp(x->text, y->text, x->length);
}

static int names_add(struct names *names, const char *text, uint32_t *ret_id)
{
	if (vec_grow(names->sorted, names->nr + 1, names->cap, VEC_BOUNDED))
		return -ENOMEM;
	names->sorted[names->nr] = name_of(text);
	names->sorted[names->nr].is_target = ret_id;
	names->sorted[names->nr].ret_id = ret_id;
	names->nr++;
	return 0;
}

static void names_sort(struct names *names)
{
	size_t i;

	qsort(names->sorted, names->nr, sizeof(*names->sorted), names_compare);
	bit_set(names->starts, 0);
	for (i = 0; i < names->nr; i++) {
		bit_set(names->filter, names->sorted[i].hash);
		bit_set(names->starts, start_of(names->sorted[i].text));
	}
}

static const struct name *names_find(const struct names *names, const char *text, bool is_target)
{
	struct name name;

	if (!bit_is_set(names->starts, start_of(text)))
		return NULL;
	name = name_of(text);
	name.is_target = is_target;
	if (!bit_is_set(names->filter, name.hash))
		return NULL;
	return bsearch(&name, names->sorted, names->nr, sizeof(name), names_compare);
}

/* Types of these kinds are looked for by their names. */
static bool is_root(const struct btf_type *type)
{
	switch (BTF_INFO_KIND(type->info)) {
	case BTF_KIND_STRUCT:
	case BTF_KIND_UNION:
	case BTF_KIND_ENUM:
	case BTF_KIND_ENUM64:
	case BTF_KIND_TYPEDEF:
		return type->name_off;
	default:
		return false;
	}
}

struct own_names {
	struct types types;
	struct names *names;
};

static int own_name_add(void *arg, uint32_t id, const struct btf_type *type)
{
	struct own_names *own = arg;

	(void)id;
	return is_root(type) ? names_add(own->names, name_at(&own->types, type->name_off), NULL)
			     : 0;
}

/* Adds the type to which the programs of a section attach, if there is one. */
static int target_add(struct core_types *types, struct names *names, const char *section)
{
	struct core_target *target = &types->targets[types->nr_targets];
	int err;

	if (types->nr_targets == CORE_TARGETS)
		return -E2BIG;
	err = core_target_name(target->name, section);
	if (err)
		return err == -ENOENT ? 0 : err;
	err = names_add(names, target->name, &target->id);
	types->nr_targets += !err;
	return err;
}

/*
 * The names of types in the .BTF section of the BPF object, and of what its programs attach to. The object
 * comes from our own build.
 */
static int object_names(struct core_types *types, struct names *names, const char *elf,
			size_t bytes)
{
	const Elf64_Ehdr *head = (const Elf64_Ehdr *)elf;
	const Elf64_Shdr *sections, *strings;
	struct own_names own = { .names = names };
	const char *name;
	bool found = false;
	uint32_t i;
	int err = 0;

	if (bytes < sizeof(*head) || head->e_shoff > bytes || head->e_shoff % 8 ||
	    head->e_shnum > (bytes - head->e_shoff) / sizeof(*sections) ||
	    head->e_shstrndx >= head->e_shnum)
		return -EINVAL;
	sections = (const Elf64_Shdr *)(elf + head->e_shoff);
	strings = &sections[head->e_shstrndx];
	if (!strings->sh_size || strings->sh_offset > bytes ||
	    strings->sh_size > bytes - strings->sh_offset ||
	    elf[strings->sh_offset + strings->sh_size - 1])
		return -EINVAL;
	for (i = 0; i < head->e_shnum && !err; i++) {
		if (sections[i].sh_name >= strings->sh_size || sections[i].sh_offset > bytes ||
		    sections[i].sh_size > bytes - sections[i].sh_offset)
			continue;
		name = elf + strings->sh_offset + sections[i].sh_name;
		if (strcmp(name, ".BTF")) {
			err = target_add(types, names, name);
			continue;
		}
		found = true;
		err = types_find(&own.types, elf + sections[i].sh_offset, sections[i].sh_size,
				 own_name_add, &own);
	}
	free(own.types.marks);
	names_sort(names);
	return found ? err : -EINVAL;
}

/* The new id of a type. The type itself is written later. 0: void, or no memory, which the buffer shows. */
static uint32_t select_type(struct selection *sel, uint32_t id)
{
	if (!id || id >= sel->max_ids)
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

/* Selects a type with one of the names, or notes its id. */
static int root_select(void *arg, uint32_t id, const struct btf_type *type)
{
	struct selection *sel = arg;
	uint32_t kind = BTF_INFO_KIND(type->info);
	const struct name *name;
	const char *text;
	bool is_target;

	if (kind != BTF_KIND_FUNC && !is_root(type))
		return 0;
	text = name_at(sel->from, type->name_off);
	/* There are also structs with names of iterators. */
	is_target =
		text[0] == 'b' && (kind == BTF_KIND_FUNC      ? text_begins(text, CORE_ITERATOR)
				   : kind == BTF_KIND_TYPEDEF ? text_begins(text, CORE_TRACEPOINT)
							      : false);
	if (!is_target && kind == BTF_KIND_FUNC)
		return 0;
	name = names_find(sel->names, text, is_target);
	if (!name)
		return 0;
	if (!is_target)
		select_type(sel, id);
	else if (!*name->ret_id)
		*name->ret_id = id;
	return sel->types.error;
}

/* Writes the selected types and what they contain. */
static int selection_write(struct selection *sel, int fd)
{
	struct btf_header head = { .magic = BTF_MAGIC,
				   .version = BTF_VERSION,
				   .hdr_len = sizeof(head) };
	uint32_t i;

	buf_add_char(&sel->strings, '\0');
	sel->max_ids = sel->from->nr;
	for (i = 0; i < sel->nr; i++) /* which may select more of them */
		type_write(sel, type_at(sel->from, sel->old_ids[i]));
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

static int types_select(const char *data, size_t bytes, const struct names *names, int fd)
{
	struct types from = { 0 };
	struct selection sel = {
		.from = &from,
		.names = names,
		.max_ids = (uint32_t)(bytes / sizeof(struct btf_type)) + 1,
	};
	int err = -ENOMEM;

	buf_init(&sel.types, OUT_MAX_BYTES);
	buf_init(&sel.strings, OUT_MAX_BYTES);
	sel.new_ids = calloc(sel.max_ids, sizeof(*sel.new_ids));
	if (sel.new_ids)
		err = types_find(&from, data, bytes, root_select, &sel);
	if (!err)
		err = selection_write(&sel, fd);
	free(sel.new_ids);
	free(sel.old_ids);
	free(from.marks);
	buf_fini(&sel.types);
	buf_fini(&sel.strings);
	return err;
}

/* The bytes of a file. */
struct content {
	char *data;
	size_t bytes;
	bool mapped;
};

/* Maps the file: Linux can do this with its types since 6.16, which saves 1,300 reads. Else reads it. */
static int content_load(struct content *content, const char *path)
{
	__cleanup(close_fd) int fd = open(path, O_RDONLY | O_CLOEXEC);
	struct stat st;
	ssize_t n;

	if (fd < 0 || fstat(fd, &st))
		return -errno;
	if (st.st_size > KERNEL_MAX_BYTES)
		return -E2BIG;
	content->bytes = (size_t)st.st_size;
	content->data = mmap(NULL, content->bytes, PROT_READ, MAP_PRIVATE, fd, 0);
	content->mapped = content->data != MAP_FAILED;
	if (content->mapped)
		return 0;
	content->data = malloc(content->bytes + 1);
	if (!content->data)
		return -ENOMEM;
	n = file_read_at(fd, content->data, content->bytes, 0);
	content->bytes = n < 0 ? 0 : (size_t)n;
	return n < 0 ? (int)n : 0;
}

static void content_free(struct content *content)
{
	if (content->mapped)
		munmap(content->data, content->bytes);
	else
		free(content->data);
}

int core_types_make(struct core_types *types, const void *elf, size_t bytes, const char *kernel)
{
	struct names names = { 0 };
	struct content content = { 0 };
	int err = content_load(&content, kernel);

	*types = (struct core_types){ .fd = -1 };
	if (!err)
		err = object_names(types, &names, elf, bytes);
	if (!err) {
		types->fd = memfd_create("core_types", MFD_CLOEXEC);
		err = types->fd < 0 ? -errno
				    : types_select(content.data, content.bytes, &names, types->fd);
	}
	if (err)
		core_types_free(types);
	else
		snprintf(types->path, sizeof(types->path), "/proc/self/fd/%d", types->fd);
	free(names.sorted);
	content_free(&content);
	return err;
}

int core_target_name(char name[CORE_TARGET_NAME], const char *section)
{
	static const char *const prefixes[][2] = { { "iter/", CORE_ITERATOR },
						   { "iter.s/", CORE_ITERATOR },
						   { "tp_btf/", CORE_TRACEPOINT } };
	size_t i, length;

	if (*section == '?') /* libbpf: the program is not loaded unless its user wants it */
		section++;
	for (i = 0; i < sizeof(prefixes) / sizeof(prefixes[0]); i++) {
		length = strlen(prefixes[i][0]);
		if (!strncmp(section, prefixes[i][0], length))
			return snprintf(name, CORE_TARGET_NAME, "%s%s", prefixes[i][1],
					section + length) < CORE_TARGET_NAME
				       ? 0
				       : -E2BIG;
	}
	return -ENOENT;
}

uint32_t core_target_find(const struct core_types *types, const char *name)
{
	size_t i;

	for (i = 0; i < types->nr_targets; i++)
		/* Two sections may have one target: only one of them gets the id. */
		if (types->targets[i].id && !strcmp(types->targets[i].name, name))
			return types->targets[i].id;
	return 0;
}

void core_types_free(struct core_types *types)
{
	if (types->fd >= 0)
		close(types->fd);
	*types = (struct core_types){ .fd = -1 };
}
