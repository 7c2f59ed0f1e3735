/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_SYMBOL_RUST_NAME_H
#define BPFPROF_SYMBOL_RUST_NAME_H

/*
 * The shape of a name in Rust's v0 mangling (RFC 2603): is it well formed, and how much work is it to
 * write it? Letters of identifiers and of crate hashes have no meaning of their own, so a walk along the
 * grammar is needed. Linear in the length of the name.
 */

#include <stdbool.h>
#include <stddef.h>

#define RUST_NAME_MAX 16384

struct rust_name {
	bool punycode; /* an identifier is encoded in Punycode */
	size_t nr_backrefs;
	size_t binder_digits; /* most base 62 digits that a number of lifetimes has */
};

/*
 * name begins with "_R" and has no suffix. False if it is not v0, is nested too deeply, or has a
 * reference to a place where no part of its kind begins.
 */
bool rust_name_measure(const char *name, struct rust_name *ret);

#endif
