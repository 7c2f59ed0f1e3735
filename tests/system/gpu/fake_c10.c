// SPDX-License-Identifier: Apache-2.0
/*
 * A libc10_cuda.so that has no device: PyTorch's caching allocator as far as its probes show it
 * (torch/headeronly/util/static_tracepoint.h). Sizes and addresses are in registers at one place
 * and in memory at another, as compilers have it.
 */
#include <pthread.h>
#include <stdint.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))
#define SEMAPHORE(name)                                                                            \
	__attribute__((section(".probes"), used, visibility("hidden"))) volatile unsigned short name

#define PROBE(name, arguments, ...)                                                                \
	__asm__ volatile("990:	nop\n"                                                              \
			 "	.pushsection .note.stapsdt, \"\", \"note\"\n"                           \
			 "	.balign 4\n"                                                            \
			 "	.4byte 992f - 991f, 994f - 993f, 3\n"                                   \
			 "991:	.asciz \"stapsdt\"\n"                                               \
			 "992:	.balign 4\n"                                                        \
			 "993:	.8byte 990b, _.stapsdt.base, pytorch_" #name "_semaphore\n"        \
			 "	.asciz \"pytorch\"\n"                                                   \
			 "	.asciz \"" #name "\"\n"                                            \
			 "	.asciz \"" arguments "\"\n"                                        \
			 "994:	.balign 4\n"                                                        \
			 "	.popsection\n" ::__VA_ARGS__)

__asm__("	.pushsection .stapsdt.base, \"aG\", \"progbits\", .stapsdt.base, comdat\n"
	"	.weak _.stapsdt.base\n"
	"	.hidden _.stapsdt.base\n"
	"_.stapsdt.base: .space 1\n"
	"	.size _.stapsdt.base, 1\n"
	"	.popsection\n");

SEMAPHORE(pytorch_malloc_semaphore);
SEMAPHORE(pytorch_free_semaphore);

static uint64_t next = 0x7f6000000000;

static int8_t tensor_device = 3;

/* Tensors are on that device from now on. */
API void fake_c10_device(int device)
{
	tensor_device = (int8_t)device;
}

API unsigned int fake_c10_watched(void)
{
	return (unsigned int)pytorch_malloc_semaphore + pytorch_free_semaphore;
}

/* The next tensor is there. */
API void fake_c10_place(uint64_t va)
{
	next = va;
}

API uint64_t fake_c10_malloc(uint64_t bytes, uint64_t stream)
{
	uint64_t va = next;
	int8_t device = tensor_device;

	next += (bytes + 511) & ~511ULL;
	if (pytorch_malloc_semaphore)
		PROBE(malloc, "-8@%0 -1@%b1 -8@%2 -8@%3", "r"(va), "r"(device), "r"(bytes),
		      "m"(stream));
	return va;
}

/* The same of another function into which it was inlined. */
API uint64_t fake_c10_malloc_inlined(uint64_t bytes, uint64_t stream)
{
	volatile uint64_t va = next, size = bytes;
	int8_t device = tensor_device;

	next += (bytes + 511) & ~511ULL;
	if (pytorch_malloc_semaphore)
		PROBE(malloc, "-8@%0 -1@%b1 -8@%2 -8@%3", "m"(va), "r"(device), "m"(size),
		      "r"(stream));
	return va;
}

API void fake_c10_free(uint64_t va)
{
	if (pytorch_free_semaphore)
		PROBE(free, "-8@%0", "D"(va));
}

/* Tensors of one address, one after the other, now and then with a pause. */
API void fake_c10_churn(uint64_t va, uint64_t bytes, unsigned int rounds)
{
	unsigned int i;

	for (i = 0; i < rounds; i++) {
		fake_c10_place(va);
		fake_c10_malloc(bytes, 0);
		fake_c10_free(va);
		if (i % 500 == 0)
			usleep(5000);
	}
}

static struct {
	int (*wait)(uint64_t stream);
	uint64_t stream;
	volatile int tid;
} poller;

__attribute__((noinline)) static void native_poll(void)
{
	poller.wait(poller.stream);
}

static void *poller_run(void *arg)
{
	(void)arg;
	poller.tid = gettid();
	native_poll();
	pause(); /* not at the end: then it would be a jump */
	return NULL;
}

/* A thread of the library's own, of which Python knows nothing, waits for the device. Its id. */
API int fake_c10_poll(int (*wait)(uint64_t stream), uint64_t stream)
{
	pthread_t thread;

	poller.wait = wait;
	poller.stream = stream;
	if (pthread_create(&thread, NULL, poller_run, NULL))
		return 0;
	pthread_setname_np(thread, "native-0");
	while (!poller.tid)
		usleep(1000);
	return poller.tid;
}
