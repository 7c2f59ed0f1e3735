/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CUDA_COMM_LAYOUT_H
#define BPFPROF_CUDA_COMM_LAYOUT_H

/*
 * The offset of the rank in NCCL's communicators, from the code of ncclCommUserRank, ncclCommCount
 * and ncclCommCuDevice. Each of them loads one field of struct ncclComm and stores it at the
 * address in its second argument. rank, nRanks and cudaDev lie one behind the other, after the
 * commHash (NCCL src/include/comm.h, 2.21 to 2.32), so the three offsets must agree.
 */

#include <stddef.h>
#include <stdint.h>

#define COMM_LAYOUT_CODE_BYTES 2048 /* bytes of each function that are read */
#define COMM_LAYOUT_MAX_OFFSET (16U << 20)

/* The offset of the field that the code loads; 0: not clear. */
uint32_t comm_layout_field(const uint8_t *code, size_t len);
/* The offset of the rank, from those of the three fields; 0: they do not agree. */
uint32_t comm_layout_rank(uint32_t rank, uint32_t count, uint32_t device);

#endif
