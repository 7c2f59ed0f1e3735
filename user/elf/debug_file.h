/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_ELF_DEBUG_FILE_H
#define BPFPROF_ELF_DEBUG_FILE_H

/*
 * Opens the symbols that were stripped from an image: compressed inside of it (.gnu_debugdata,
 * "MiniDebugInfo"), or in a separate file by build id or .gnu_debuglink. The caller frees the images;
 * with 0 *ret is never NULL.
 */

#define DEBUG_DATA_MAX_INPUT (16U << 20)
#define DEBUG_DATA_MAX_OUTPUT (32U << 20)
#define DEBUG_DATA_MAX_DICTIONARY (32U << 20) /* limit on the decoder's memory */
#define DEBUG_LINK_MAX_BYTES (512U << 20) /* a larger file's checksum is not computed */

struct elf_debug_paths;
struct elf_image;

/* 0, -ENODATA without the section, -EBADMSG, -E2BIG over the limits above, -ENOMEM. */
int debug_data_open(struct elf_image **ret, struct elf_image *img);

/*
 * A separate file is accepted if it has the image's build id or, for an image without one, the link's
 * checksum. 0 or -ENODATA.
 */
int debug_file_open(struct elf_image **ret, struct elf_image *img,
		    const struct elf_debug_paths *paths);

#endif
