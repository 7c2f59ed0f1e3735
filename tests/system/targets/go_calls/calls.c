// SPDX-License-Identifier: Apache-2.0
#include <pthread.h>
#include <stdint.h>

uint64_t goBack(uint64_t);
uint64_t goFromThread(uint64_t);
uint64_t c_burn(uint64_t);
uint64_t c_outer(uint64_t);
void c_thread(void);

static volatile uint64_t sink;

__attribute__((noinline)) uint64_t c_burn(uint64_t n)
{
	uint64_t x = n | 1;

	for (int i = 0; i < 30000; i++) {
		x ^= x << 13;
		x ^= x >> 7;
		x ^= x << 17;
	}
	return x;
}

static __attribute__((noinline)) uint64_t c_middle(uint64_t n)
{
	return goBack(n) + 1;
}

uint64_t c_outer(uint64_t n)
{
	return c_middle(n) + 1;
}

static __attribute__((noinline)) uint64_t c_calls(uint64_t n)
{
	return goFromThread(n) + 1;
}

static void *c_loop(void *arg)
{
	for (uint64_t n = 0;; n++)
		sink += c_calls(n);
	return arg;
}

void c_thread(void)
{
	pthread_t thread;

	pthread_create(&thread, 0, c_loop, 0);
}
