// SPDX-License-Identifier: Apache-2.0
#include "formats/zip.h"

#include <errno.h>

#include "base/buf.h"

#define PACKED_BYTES 16384
#define UNPACKED_BYTES 65536

int zip_init(struct zip *zip, FILE *out)
{
	*zip = (struct zip){ .out = out };
	/* MAX_WBITS + 16 adds a gzip header. */
	if (deflateInit2(&zip->stream, 6, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY) !=
	    Z_OK)
		zip->error = -ENOMEM;
	return zip->error;
}

void zip_fini(struct zip *zip)
{
	deflateEnd(&zip->stream);
}

static void pack(struct zip *zip, const void *data, size_t len, int flush)
{
	unsigned char chunk[PACKED_BYTES];

	if (zip->error)
		return;
	zip->stream.next_in = (unsigned char *)data;
	zip->stream.avail_in = (unsigned int)len;
	do {
		zip->stream.next_out = chunk;
		zip->stream.avail_out = sizeof(chunk);
		if (deflate(&zip->stream, flush) == Z_STREAM_ERROR) {
			zip->error = -EIO;
			return;
		}
		fwrite(chunk, 1, sizeof(chunk) - zip->stream.avail_out, zip->out);
	} while (zip->stream.avail_out == 0);
}

void zip_add(struct zip *zip, const void *data, size_t len)
{
	if (len)
		pack(zip, data, len, Z_NO_FLUSH);
}

void zip_end(struct zip *zip)
{
	pack(zip, NULL, 0, Z_FINISH);
}

int unzip(struct buf *dst, const char *data, size_t len, struct buf *why)
{
	z_stream zip = { .next_in = (unsigned char *)data, .avail_in = (unsigned int)len };
	char chunk[UNPACKED_BYTES];
	int ret;

	if (inflateInit2(&zip, 16 + MAX_WBITS) != Z_OK)
		return -ENOMEM;
	do {
		zip.next_out = (unsigned char *)chunk;
		zip.avail_out = sizeof(chunk);
		ret = inflate(&zip, Z_NO_FLUSH);
		if (ret == Z_OK || ret == Z_STREAM_END)
			buf_add(dst, chunk, sizeof(chunk) - zip.avail_out);
		if (ret == Z_STREAM_END && zip.avail_in && inflateReset(&zip) == Z_OK)
			ret = Z_OK;
	} while (ret == Z_OK && !buf_error(dst));
	inflateEnd(&zip);
	if (buf_error(dst) == -E2BIG)
		buf_printf(why, "larger than can be read, %zu MiB unpacked", dst->max >> 20);
	if (buf_error(dst))
		return buf_error(dst);
	if (ret == Z_STREAM_END)
		return 0;
	buf_printf(why, "its gzip data %s after %zu bytes",
		   ret == Z_BUF_ERROR ? "is cut off" : "is damaged", len - zip.avail_in);
	return -EBADMSG;
}
