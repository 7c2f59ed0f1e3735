/* SPDX-License-Identifier: Apache-2.0 */
/*
 * Has the kernel's workers of io_uring read the file argv[1] for argv[2] seconds, and waits for
 * them. Ends with 3 where there is no io_uring.
 */
#include <fcntl.h>
#include <linux/io_uring.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#define DEPTH 4
#define BYTES (4U << 20)

int main(int argc, char **argv)
{
	struct io_uring_params params = { 0 };
	time_t end = time(NULL) + (argc > 2 ? strtol(argv[2], NULL, 10) : 0);
	int file = argc > 1 ? open(argv[1], O_RDONLY) : -1;
	int ring = (int)syscall(SYS_io_uring_setup, DEPTH, &params);
	struct io_uring_sqe *sqes;
	char *sq, *cq, *buffer = malloc(DEPTH * BYTES);
	uint32_t i, *sq_tail, *sq_mask, *sq_array;

	if (ring < 0)
		return 3;
	sq = mmap(NULL, params.sq_off.array + params.sq_entries * sizeof(uint32_t),
		  PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_SQ_RING);
	cq = mmap(NULL, params.cq_off.cqes + params.cq_entries * sizeof(struct io_uring_cqe),
		  PROT_READ | PROT_WRITE, MAP_SHARED, ring, IORING_OFF_CQ_RING);
	sqes = mmap(NULL, params.sq_entries * sizeof(*sqes), PROT_READ | PROT_WRITE, MAP_SHARED,
		    ring, IORING_OFF_SQES);
	if (file < 0 || !buffer || sq == MAP_FAILED || cq == MAP_FAILED || sqes == MAP_FAILED)
		return 1;
	sq_tail = (uint32_t *)(sq + params.sq_off.tail);
	sq_mask = (uint32_t *)(sq + params.sq_off.ring_mask);
	sq_array = (uint32_t *)(sq + params.sq_off.array);
	while (time(NULL) < end) {
		for (i = 0; i < DEPTH; i++) {
			uint32_t at = (*sq_tail + i) & *sq_mask;

			sqes[at] = (struct io_uring_sqe){ .opcode = IORING_OP_READ,
							  .flags = IOSQE_ASYNC,
							  .fd = file,
							  .addr = (uintptr_t)(buffer + i * BYTES),
							  .len = BYTES };
			sq_array[at] = at;
		}
		__atomic_store_n(sq_tail, *sq_tail + DEPTH, __ATOMIC_RELEASE);
		if (syscall(SYS_io_uring_enter, ring, DEPTH, DEPTH, IORING_ENTER_GETEVENTS, NULL,
			    0) < 0)
			return 1;
		/* What is done is only thrown away. */
		__atomic_store_n(
			(uint32_t *)(cq + params.cq_off.head),
			__atomic_load_n((uint32_t *)(cq + params.cq_off.tail), __ATOMIC_ACQUIRE),
			__ATOMIC_RELEASE);
	}
	return 0;
}
