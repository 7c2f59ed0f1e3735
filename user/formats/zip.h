/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_FORMATS_ZIP_H
#define BPFPROF_FORMATS_ZIP_H

/* gzip: packs what a writer makes, and unpacks a file that is not trusted. */

#include <stddef.h>
#include <stdio.h>
#include <zlib.h>

struct buf;

struct zip {
	FILE *out; /* borrowed; the caller checks it with ferror(3) */
	z_stream stream;
	int error; /* the first one: nothing is written after it; the caller may set it, too */
};

/* 0 or -ENOMEM. zip_fini() is due after both, and fine for a struct of zeros. */
int zip_init(struct zip *zip, FILE *out);
void zip_fini(struct zip *zip);
void zip_add(struct zip *zip, const void *data, size_t len);
void zip_end(struct zip *zip); /* once, after everything was added */

/*
 * Unpacks a gzip file; several members after each other are one file. 0, -E2BIG (more than dst's maximum),
 * -EBADMSG, both with the reason added to why, or -ENOMEM.
 */
int unzip(struct buf *dst, const char *data, size_t len, struct buf *why);

#endif
