/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_TESTS_FAKE_NCCL_H
#define BPFPROF_TESTS_FAKE_NCCL_H

/* The switches of the fake libnccl; they hold for the process. */

#include <stdint.h>

struct nccl_id { /* ncclUniqueId */
	char bytes[128];
};

#define FAKE_NCCL_NO_COLOR -1 /* NCCL_SPLIT_NOCOLOR */

#ifdef __cplusplus
extern "C" {
#endif

/* The function of NCCL of that name, NULL: there is none; also where none is exported. */
void *fake_nccl_symbol(const char *name);
/* Collectives launch their kernel through libcuda, at the end of the group if they are in one. */
void fake_nccl_launch(int on);
/* Calls of that function, of all if it is "", hang for so long: the name is kept, not copied. NULL: none does. */
void fake_nccl_hang(const char *name, unsigned int seconds);
/* What calls of this thread, before they hang, make of the struct ncclInfo in their frame. */
enum fake_nccl_spoiled {
	FAKE_NCCL_RIGHT = 0,
	FAKE_NCCL_OTHER_NAME = 1, /* that of another function */
	FAKE_NCCL_BAD_TYPE = 2,
	FAKE_NCCL_WILD_NAME = 3, /* points nowhere, */
	FAKE_NCCL_HEAP_NAME = 4, /* to the right name, but not in the library, */
	FAKE_NCCL_WRITABLE_NAME = 5, /* or where everybody can write */
	FAKE_NCCL_TWO = 6, /* another count in a second one */
	FAKE_NCCL_TWICE = 7, /* or the same */
	FAKE_NCCL_NO_COMM = 8, /* nothing is where the communicator should be */
};

void fake_nccl_spoil(int how);
/* How many hang now. */
unsigned int fake_nccl_hanging(void);
/* Those return now, whoever comes later hangs. */
void fake_nccl_release(void);

#ifdef __cplusplus
}
#endif

#endif
