/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_TESTS_FAKE_NCCL_H
#define BPFPROF_TESTS_FAKE_NCCL_H

/* The switches of the fake libnccl; they hold for the process. */

#include <stdint.h>

struct nccl_id { /* ncclUniqueId */
	char bytes[128];
};

#ifdef __cplusplus
extern "C" {
#endif

/* Collectives launch their kernel through libcuda, at the end of the group if they are in one. */
void fake_nccl_launch(int on);
/* Calls of that function hang for so long: the name is kept, not copied. NULL: none does. */
void fake_nccl_hang(const char *name, unsigned int seconds);
/* How many hang now. */
unsigned int fake_nccl_hanging(void);
/* Those return now, whoever comes later hangs. */
void fake_nccl_release(void);

#ifdef __cplusplus
}
#endif

#endif
