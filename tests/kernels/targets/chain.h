/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_TESTS_KERNELS_CHAIN_H
#define BPFPROF_TESTS_KERNELS_CHAIN_H

/*
 * main -> chain_1 -> ... -> chain_6, each calling the next again and again, so
 * that samples hit every prologue and epilogue on the way. chain_4 and up may live in a library.
 */

#define CHAIN_FUNCTION __attribute__((noinline, noclone))

/* Calls next a few times, and is not turned into a tail call. */
#define CHAIN_CALL(next, times)                                                                    \
	do {                                                                                       \
		for (int chain_i = 0; chain_i < (times); chain_i++)                                \
			chain_sink += next(n + chain_i);                                           \
		return (int)chain_sink;                                                            \
	} while (0)

int chain_1(int n);
int chain_2(int n);
int chain_3(int n);
int chain_4(int n);
int chain_5(int n);
int chain_6(int n);

#endif
