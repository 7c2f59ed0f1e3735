// SPDX-License-Identifier: Apache-2.0
#include "symbol/demangle.h"

#include <setjmp.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <libiberty/demangle.h>

#include "base/name_cut.h"
#include "base/utf8.h"
#include "symbol/d_name.h"
#include "symbol/rust_name.h"

/*
 * libiberty limits its recursion, but neither its output nor its time, and targets choose the
 * names. Back references double a name at each level: 2^40 characters from a symbol of 200. So:
 * - Its callback cannot end the output, so output_add() leaves by longjmp() after MAX_TEXT bytes.
 *   The printers keep everything on the stack, so nothing leaks (except for Punycode).
 * - The search for the parameter pack of an expansion walks shared parts again for each reference
 *   to them, without output: such names are parsed first, and their tree is measured.
 * - A template parameter with arguments in a conversion operator is parsed twice, at each level.
 */

/* Product of the numbers of templates and of references to template parameters. */
#define MAX_STACK_PRODUCT 16384
#define MAX_RUST_BACKREFS 24
#define MAX_CONVERSION_LEVELS 8
#define MAX_TREE_PATHS 65536
#define MAX_TEXT (32U << 10)
#define MAX_CALLBACK_INPUT 1023 /* cplus_demangle_v3_callback() refuses longer names */

struct output {
	struct name_cut cut;
	bool full; /* the text is cut here: its full length is not known */
	bool may_jump;
	jmp_buf jump;
};

static void output_reset(struct output *out)
{
	name_cut_init(&out->cut);
	out->full = false;
}

static void output_add(const char *str, size_t len, void *arg)
{
	struct output *out = arg;

	if (!out->full)
		name_cut_add(&out->cut, str, len);
	out->full = out->cut.len > MAX_TEXT;
	if (out->full && out->may_jump)
		longjmp(out->jump, 1);
}

/* Replaces each byte that cannot be printed by '?'. */
static void make_printable(char *text, size_t len)
{
	size_t i, n;

	for (i = 0; i < len; i += n) {
		n = utf8_printable(text + i, len - i);
		if (!n) {
			text[i] = '?';
			n = 1;
		}
	}
}

/*
 * The length of a Rust legacy name (an Itanium name whose last part is `17h` and 16 hex digits), or
 * 0.
 */
static size_t rust_legacy_len(const char *name, size_t len)
{
	const char *p = name, *end = name + len;

	while ((p = memmem(p, (size_t)(end - p), "17h", 3))) {
		p += 3;
		if (end - p >= 17 && strspn(p, "0123456789abcdef") == 16 && p[16] == 'E' &&
		    (p + 17 == end || p[17] == '.' || p[17] == '@'))
			return (size_t)(p + 17 - name);
	}
	return 0;
}

static size_t count_pairs(const char *name, const char *first, char second)
{
	size_t nr = 0;

	for (; *name; name++)
		nr += strchr(first, *name) && (!second || name[1] == second);
	return nr;
}

/*
 * Does the printer's array fit on the stack? It has an entry for each pair of a template and a
 * reference to a template parameter (which may be a substitution).
 */
static bool fits_stack(const char *name)
{
	size_t refs = count_pairs(name, "RO", 'T') + count_pairs(name, "RO", 'S');

	return (count_pairs(name, "I", 0) + 1) * (refs + 1) <= MAX_STACK_PRODUCT;
}

/* Is the parser fast? Each `T_I` or `T<number>_I` behind a conversion operator doubles its time. */
static bool parses_fast(const char *name)
{
	size_t levels = 0;

	for (name = strstr(name, "cv"); name && *name; name++) {
		if (*name != 'T')
			continue;
		name += strspn(name + 1, "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZ");
		if (name[1] == '_' && name[2] == 'I' && ++levels > MAX_CONVERSION_LEVELS)
			return false;
	}
	return true;
}

/*
 * The length of the mangled part; suffixes of gcc and LLVM or `@plt` may follow. 0: nothing is
 * mangled.
 */
static size_t mangled_len(const char *name, size_t len)
{
	size_t n = 0;

	if (!strncmp(name, "_GLOBAL_", 8))
		return len;
	if (name[0] != '_' || !name[1] || !strchr("ZRD", name[1]))
		return 0;
	if (name[1] == 'Z')
		n = rust_legacy_len(name, len);
	return n ? n : strcspn(name, ".@");
}

/* A name as a graph: several references share a part. */
struct tree {
	const struct demangle_component *parts;
	uint32_t *paths; /* number of paths downward from parts[i], 0: not counted yet */
	size_t nr;
	bool unsafe;
};

static uint32_t count_paths(struct tree *tree, const struct demangle_component *part)
{
	size_t i = part ? (size_t)(part - tree->parts) : tree->nr;
	uint64_t paths = 1;

	if (i >= tree->nr || tree->unsafe)
		return 0;
	if (tree->paths[i])
		return tree->paths[i];
	switch (part->type) {
	case DEMANGLE_COMPONENT_NAME:
	case DEMANGLE_COMPONENT_TAGGED_NAME:
	case DEMANGLE_COMPONENT_LAMBDA:
	case DEMANGLE_COMPONENT_OPERATOR:
	case DEMANGLE_COMPONENT_BUILTIN_TYPE:
	case DEMANGLE_COMPONENT_EXTENDED_BUILTIN_TYPE:
	case DEMANGLE_COMPONENT_SUB_STD:
	case DEMANGLE_COMPONENT_CHARACTER:
	case DEMANGLE_COMPONENT_TEMPLATE_PARAM:
	case DEMANGLE_COMPONENT_FUNCTION_PARAM:
	case DEMANGLE_COMPONENT_UNNAMED_TYPE:
	case DEMANGLE_COMPONENT_DEFAULT_ARG:
	case DEMANGLE_COMPONENT_NUMBER:
		break;
	case DEMANGLE_COMPONENT_FIXED_TYPE:
		/*
		 * libiberty before 2.40 takes its flags for a pointer when it searches for a pack.
		 */
		tree->unsafe = true;
		return 0;
	case DEMANGLE_COMPONENT_EXTENDED_OPERATOR:
		paths += count_paths(tree, part->u.s_extended_operator.name);
		break;
	case DEMANGLE_COMPONENT_CTOR:
		paths += count_paths(tree, part->u.s_ctor.name);
		break;
	case DEMANGLE_COMPONENT_DTOR:
		paths += count_paths(tree, part->u.s_dtor.name);
		break;
	default:
		paths += count_paths(tree, part->u.s_binary.left);
		paths += count_paths(tree, part->u.s_binary.right);
	}
	if (paths > MAX_TREE_PATHS)
		tree->unsafe = true;
	return tree->paths[i] = (uint32_t)paths;
}

/* Parses the name to a tree, and prints it if that cannot take long. */
static bool demangle_tree(const char *name, struct output *out)
{
	struct tree tree = { .nr = 2 * strlen(name) };
	struct demangle_component *root;
	void *volatile parts = NULL;
	void *mem = NULL;
	bool ok = false;

	root = cplus_demangle_v3_components(name, DMGL_AUTO, &mem);
	if (!root)
		return false;
	parts = mem;
	tree.parts = mem;
	tree.paths = calloc(tree.nr, sizeof(*tree.paths));
	if (tree.paths)
		count_paths(&tree, root);
	else
		tree.unsafe = true;
	free(tree.paths);
	if (!tree.unsafe) {
		if (setjmp(out->jump))
			ok = true;
		else
			ok = cplus_demangle_print_callback(DMGL_AUTO, root, output_add, out);
	}
	free(parts);
	return ok;
}

static bool may_hold_pack(const char *name)
{
	return strstr(name, "Dp") || strstr(name, "sp") || strstr(name, "sZ") || strstr(name, "sP");
}

static bool demangle_cxx(const char *name, struct output *out)
{
	out->may_jump = true;
	if (!fits_stack(name) || !parses_fast(name))
		return false;
	if (may_hold_pack(name) || strlen(name) > MAX_CALLBACK_INPUT)
		return demangle_tree(name, out);
	if (setjmp(out->jump))
		return true;
	return cplus_demangle_v3_callback(name, DMGL_AUTO, output_add, out);
}

/*
 * A binder `G<number>_` in a Rust v0 name declares that many lifetimes, and libiberty writes them
 * one by one, even if it prints nothing. The decoder of Punycode allocates, so longjmp() would
 * leak: such a name must be short.
 */
static bool demangle_rust(const char *name, struct output *out)
{
	struct rust_name shape = { 0 };

	if (name[1] == 'R' && !rust_name_measure(name, &shape))
		return false;
	if (shape.binder_digits > (shape.punycode ? 1 : 2) ||
	    (shape.punycode && shape.nr_backrefs > MAX_RUST_BACKREFS))
		return false;
	out->may_jump = !shape.punycode;
	if (setjmp(out->jump))
		return true;
	return rust_demangle_callback(name, DMGL_AUTO, output_add, out);
}

static bool demangle_d(const char *name, struct output *out)
{
	char *text = d_name_demangle(name);

	if (!text)
		return false;
	out->may_jump = false;
	output_add(text, strlen(text), out);
	free(text);
	return true;
}

static bool demangle_mangled(const char *name, struct output *out)
{
	if (!strncmp(name, "_D", 2))
		return demangle_d(name, out);
	if (!strncmp(name, "_R", 2))
		return demangle_rust(name, out);
	if (rust_legacy_len(name, strlen(name))) {
		if (demangle_rust(name, out))
			return true;
		output_reset(out);
	}
	return demangle_cxx(name, out);
}

/* Ends a name that libiberty did not finish with its mangled form. */
static void add_unfinished(struct output *out, const char *name, size_t len)
{
	size_t skip = len > NAME_CUT_END ? len - NAME_CUT_END : 0;

	name_cut_add(&out->cut, name, skip); /* for the hash */
	name_cut_add(&out->cut, "... ", 4);
	name_cut_add(&out->cut, name + skip, len - skip);
}

void demangle(const char *name, char dst[DEMANGLE_MAX_OUTPUT])
{
	size_t len = strlen(name), part = 0;
	char mangled[DEMANGLE_MAX_INPUT];
	struct output out;

	output_reset(&out);
	if (len < DEMANGLE_MAX_INPUT && !name_cut_is_cut(name, len))
		part = mangled_len(name, len);
	if (part) {
		memcpy(mangled, name, part);
		mangled[part] = 0;
		if (!demangle_mangled(mangled, &out)) {
			output_reset(&out);
			part = 0;
		}
	}
	out.may_jump = false;
	if (out.full)
		add_unfinished(&out, mangled, part);
	/* The suffix .llvm. has a hash that differs by build. */
	if (strncmp(name + part, ".llvm.", 6))
		name_cut_add(&out.cut, name + part, len - part);
	if (!out.cut.len)
		name_cut_add(&out.cut, "?", 1);
	make_printable(dst, name_cut_finish(&out.cut, dst));
}
