/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_SYMBOL_RUST_NAME_H
#define BPFPROF_SYMBOL_RUST_NAME_H

/*
 * The shape of a name in Rust's v0 mangling (RFC 2603): is it well formed, and how dear would it
 * be to write it out? The letters of identifiers and of crate hashes mean nothing by themselves,
 * so only a walk along the grammar can tell. Linear in the length of the name.
 */

#include <stdbool.h>
#include <stddef.h>

#define RUST_NAME_MAX 16384

struct rust_name {
	bool punycode; /* an identifier is encoded in it */
	size_t nr_backrefs;
	size_t binder_digits; /* most base 62 digits that a number of lifetimes has */
};

/*
 * name begins with "_R" and has no suffix. False where it is not v0, is nested too deep, or a
 * reference leads to where no part of its kind begins.
 */
bool rust_name_measure(const char *name, struct rust_name *ret);

#endif
