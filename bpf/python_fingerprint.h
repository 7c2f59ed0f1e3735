/* SPDX-License-Identifier: GPL-2.0-only OR Apache-2.0 */
#ifndef BPFPROF_BPF_PYTHON_FINGERPRINT_H
#define BPFPROF_BPF_PYTHON_FINGERPRINT_H

/*
 * The identity of a code object: a keyed hash of its pointers and fields, computed again in every
 * sample, because its memory may hold another object by then. The key keeps a process from making
 * its code pass for another's. Plain C over spans.h; tests/hostbpf compiles it, too.
 */

#include "spans.h"

#ifndef __bpf__
#define barrier_var(var)
#endif
#define DIGEST_BYTES 128
#define DIGESTED_FILES 16 /* a power of two */
#define STRING_HEADER_BYTES 40
#define STRING_HEADER_FT_BYTES 56 /* of free-threaded builds */
/* Shows the verifier how far a field can be from the start of a code object. */
#define CODE_FIELD_MASK 0xff

/* Hash of a file name, valid for one sample. */
struct digested_file {
	__u64 va;
	__u64 hash;
	__u32 run;
	__u32 pad;
};

struct python_prints {
	__u64 seed; /* of the process in this recording */
	struct digested_file files[DIGESTED_FILES];
	struct spans spans;
};

static __always_inline __u64 mix(__u64 hash, __u64 word)
{
	hash = (hash ^ word) * 0x9e3779b97f4a7c15ULL;
	return hash ^ hash >> 29;
}

static __always_inline __u64 code_u64(const __u8 *code, __u32 off)
{
	return *(const __u64 *)(code + (off & CODE_FIELD_MASK));
}

static __always_inline __u32 code_u32(const __u8 *code, __u32 off)
{
	return *(const __u32 *)(code + (off & CODE_FIELD_MASK));
}

/*
 * Text may be unaligned. The verifier allows unaligned reads; a memcpy would copy each byte by
 * itself.
 */
static __always_inline __u64 word_at(const __u8 *p)
{
#ifdef __bpf__
	return *(const __u64 *)p;
#else
	__u64 word;

	__builtin_memcpy(&word, p, sizeof(word));
	return word;
#endif
}

/*
 * Digest of the text that ends with the word at `last`: at most DIGEST_BYTES, in blocks of four
 * words. In the first block, the word at `last` stands for each word behind it. A later block that
 * would go on behind it begins earlier and ends with it. This needs one branch; with one for each
 * word or block the verifier reads a third more. The four parts do not depend on each other, so the
 * CPU works on four words at a time.
 */
static __always_inline __u64 words_digest(const __u8 *p, __u64 last)
{
	__u64 part[4] = { 1, 2, 3, 4 }, at, beyond;
	__u32 block, i;

	for (i = 0; i < 4; i++) {
		beyond = (last - i * 8) & ((__s64)(last - i * 8) >> 63);
		at = (i * 8 + beyond) & 31;
		part[i] = mix(part[i], word_at(p + at));
	}
	for (block = 32; block < DIGEST_BYTES && last > 24; block += 32) {
		beyond = last - 24 - block;
		at = (block + (beyond & ((__s64)beyond >> 63))) & (DIGEST_BYTES - 1);
		for (i = 0; i < 4; i++)
			part[i] = mix(part[i], word_at(p + at + i * 8));
	}
	return mix(mix(mix(mix(last, part[0]), part[1]), part[2]), part[3]);
}

/*
 * Digest of all words of a code object, which has more than one block: the last block ends with the
 * object and overlaps the one before.
 */
static __always_inline __u64 object_digest(const __u8 *p, __u64 last)
{
	__u64 part[4] = { 1, 2, 3, 4 }, at, beyond, is_last;
	__u32 block, i;

	for (block = 0; block <= CODE_FIELD_MASK && block < last + 8; block += 32) {
		beyond = last - 24 - block;
		is_last = (__s64)beyond >> 63;
		barrier_var(is_last); /* or the compiler makes a branch, for each block */
		at = (block + (beyond & is_last)) & CODE_FIELD_MASK;
		for (i = 0; i < 4; i++)
			part[i] = (part[i] + word_at(p + at + i * 8)) * 0x9e3779b97f4a7c15ULL;
	}
	return mix(mix(mix(mix(last, part[0]), part[1]), part[2]), part[3]);
}

/*
 * Digest of the last characters of a str object: in a path they differ most. A global function, as it
 * is rarely called: the verifier checks it once.
 */
__weak __noinline __u64 string_digest(struct unwind_reader *r, struct python_prints *prints,
				      const struct bpfprof_python_layout *l, __u64 va)
{
	__u64 bytes, len, data;
	const __u8 *p;
	__u32 state;

	if (!prints || !l)
		return 0;
	p = spans_at(r, &prints->spans, va,
		     l->free_threaded ? STRING_HEADER_FT_BYTES : STRING_HEADER_BYTES, 0);
	if (!p)
		return 0;
	state = *(const __u32 *)(p + (l->unicode_state & 0x7c)) >> (l->unicode_kind_shift & 31);
	bytes = *(const __u64 *)(p + (l->unicode_length & 0x78)) * (state & 7);
	data = va + (state & 16 ? l->ascii_data : l->compact_data);
	len = bytes;
	if (len > DIGEST_BYTES) {
		data += len - DIGEST_BYTES;
		len = DIGEST_BYTES;
	}
	if (!len)
		return 0;
	p = spans_at(r, &prints->spans, data, len, 0);
	if (!p)
		return bytes;
	if (len < 8)
		return mix(bytes, word_at(p) & ((1ULL << len * 8) - 1));
	return mix(bytes, words_digest(p, len - 8));
}

/* Digest of the file name; most functions on a stack share it with others. */
static __always_inline __u64 file_digest(struct unwind_reader *r, struct python_prints *prints,
					 const struct bpfprof_python_layout *l, __u64 va)
{
	struct digested_file *file = &prints->files[(va >> 4) & (DIGESTED_FILES - 1)];

	if (file->va != va || file->run != prints->spans.run) {
		file->hash = string_digest(r, prints, l, va);
		file->va = va;
		file->run = prints->spans.run;
	}
	return file->hash;
}

/*
 * Up to 3.11 code objects have no number, and two that a program makes and frees in turn may have
 * equal addresses everywhere. Only their fields and names differ. The word with the flags is left
 * out, because 3.11 counts in it.
 */
static __always_inline __u64 contents_digest(struct unwind_reader *r, struct python_prints *prints,
					     const struct bpfprof_python_layout *l, __u8 *code)
{
	__u64 *flags = (__u64 *)(code + (l->code_flags & 0xf8)), kept = *flags;
	__u64 name_va = code_u64(code, l->code_name), file_va = code_u64(code, l->code_filename);
	__u64 last = (l->code_bytes - l->code_start - 8) & CODE_FIELD_MASK, hash;
	const __u8 *name;

	*flags = 0;
	code += l->code_start & 0x78;
	hash = object_digest(code, last);
	*flags = kept;
	/* From here on the copy of the code object may be overwritten. */
	name = spans_at(r, &prints->spans, name_va + l->unicode_hash, 8, 0);
	hash = mix(hash, name ? *(const __u64 *)name : 0);
	return mix(hash, file_digest(r, prints, l, file_va));
}

/* Never 0. code: copy of the object at va, from spans_at(). */
static __always_inline __u64 code_fingerprint(struct unwind_reader *r, struct python_prints *prints,
					      const struct bpfprof_python_layout *l, __u8 *code,
					      __u64 va)
{
	__u64 flags =
		(__u64)code_u32(code, l->code_firstlineno) << 32 | code_u32(code, l->code_flags);
	__u64 lines, hash = mix(mix(prints->seed, va), flags), version = 0;

	if (l->code_version)
		version = code_u32(code, l->code_version);
	if (version) {
		lines = code_u64(code, l->code_linetable);
		if (l->code_qualname)
			lines = mix(lines, code_u64(code, l->code_qualname));
		hash = mix(mix(hash, code_u64(code, l->code_name)),
			   code_u64(code, l->code_filename));
		hash = mix(mix(hash, lines), version);
	} else {
		hash = mix(hash, contents_digest(r, prints, l, code));
	}
	return hash ? hash : 1;
}

#endif
