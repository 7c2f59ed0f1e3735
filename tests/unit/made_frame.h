/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_TESTS_MADE_FRAME_H
#define BPFPROF_TESTS_MADE_FRAME_H

/*
 * Call frame information written byte by byte, and an ELF image around it:
 *	file 0x1000-0x5000    code at 0x401000
 *	file 0x5000-0x19000   code at 0x506000, so that page 0 has two segments
 *	file 0x19000-         .eh_frame at 0x619000, then .eh_frame_hdr
 */

#include <stddef.h>
#include <stdint.h>

#define MADE_CODE1 0x401000ULL
#define MADE_CODE2 0x506000ULL
#define MADE_FRAME_OFF 0x19000ULL
#define MADE_FRAME_VA 0x619000ULL
#define MADE_MAX_BYTES (1U << 20)

struct elf_image;

struct made {
	uint8_t *data; /* MADE_MAX_BYTES */
	size_t len;
};

void made_init(struct made *made);
void made_fini(struct made *made);

void made_u8(struct made *made, uint8_t value);
void made_uint(struct made *made, uint64_t value, size_t bytes);
void made_uleb(struct made *made, uint64_t value);
void made_sleb(struct made *made, int64_t value);
void made_bytes(struct made *made, const void *data, size_t len);
#define MADE_OPS(made, ...)                                                                        \
	made_bytes(made, (const uint8_t[]){ __VA_ARGS__ }, sizeof((const uint8_t[]){ __VA_ARGS__ }))

/* A record's length is filled in by made_end(), which pads to 4 with DW_CFA_nop. */
size_t made_begin(struct made *made); /* the record's offset */
void made_end(struct made *made, size_t record);

/* The usual CIE: "zR" with this pointer encoding, cfa = rsp + 8, return address at cfa - 8. */
size_t made_cie(struct made *made, uint8_t enc);
/* An FDE up to its instructions, which the caller adds before made_end(). sdata4, pcrel. */
size_t made_fde(struct made *made, size_t cie, uint64_t start, uint32_t bytes);

/* .eh_frame_hdr with a table of these FDEs (start, record), in the order given. */
void made_hdr(struct made *hdr, const struct made *frame, const uint64_t (*entries)[2], size_t nr);

/* hdr NULL: .eh_frame is found by its section header. The caller frees *ret_data after img. */
struct elf_image *made_image(const struct made *frame, const struct made *hdr, void **ret_data);

#endif
