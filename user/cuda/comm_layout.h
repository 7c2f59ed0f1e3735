/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CUDA_COMM_LAYOUT_H
#define BPFPROF_CUDA_COMM_LAYOUT_H

/*
 * Where NCCL keeps a communicator's rank: read out of the code of ncclCommUserRank, ncclCommCount
 * and ncclCommCuDevice, each of which loads one field of struct ncclComm and stores it where its
 * second argument points to. rank, nRanks and cudaDev lie one behind the other, after the commHash
 * (NCCL src/include/comm.h, 2.21 to 2.32), so that the three must agree.
 */

#include <stddef.h>
#include <stdint.h>

#define COMM_LAYOUT_CODE_BYTES 2048 /* of each function that are looked at */
#define COMM_LAYOUT_MAX_OFFSET (16U << 20)

/* The offset that is loaded, 0 if that is not clear. */
uint32_t comm_layout_field(const uint8_t *code, size_t len);
/* The offset of the rank, of the three fields; 0 if they do not fit together. */
uint32_t comm_layout_rank(uint32_t rank, uint32_t count, uint32_t device);

#endif
