/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_calls SCENARIO FOLDER: makes CUDA and NCCL calls of the fakes in FOLDER and knows exactly
 * which. Prints "ready", waits for a line, works, prints one line of JSON: what it did between the
 * two. Ends by its standard input's end, or by a line "exit". Functions of different namespaces
 * make different calls, so that each key that is counted has a stack of its own, but for "shared".
 * GPU_CALLS_NCCL is the name of the library that NCCL's functions are in, by default libnccl.so.2.
 * With GPU_CALLS_LOG each call is written to that file, too: its thread, function, when it was made
 * (CLOCK_MONOTONIC), and by whom: "inner" is what the library calls itself.
 */
#include "fake_cuda.h"
#include "fake_nccl.h"

#include <algorithm>
#include <array>
#include <csetjmp>
#include <csignal>
#include <cstdarg>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <dlfcn.h>
#include <map>
#include <mutex>
#include <poll.h>
#include <pthread.h>
#include <string>
#include <sys/prctl.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <thread>
#include <unistd.h>
#include <vector>

#ifdef __clang__
#define NOINLINE __attribute__((noinline, used))
#else
#define NOINLINE __attribute__((noinline, noclone, used))
#endif
#define INLINE inline __attribute__((always_inline))

using Dims = std::array<unsigned int, 3>;

struct Calls {
	uint64_t calls = 0, bytes = 0, ns = 0, max_ns = 0, errors = 0;
};

struct Communicator {
	uint64_t hash = 0;
	int rank = -1, size = 0;
	uint64_t calls = 0;
	std::string last;
};

struct Allocation {
	std::string where;
	uint64_t bytes;
};

/* Of the device or, page-locked, of the host. */
struct Memory {
	std::map<uint64_t, Allocation> live;
	std::map<std::string, uint64_t> allocated;
	uint64_t live_bytes = 0, peak_bytes = 0;
	uint64_t allocations = 0, frees = 0, unknown_frees = 0;

	std::map<std::string, uint64_t> inuse() const
	{
		std::map<std::string, uint64_t> sums;

		for (auto &one : live)
			sums[one.second.where] += one.second.bytes;
		return sums;
	}

	std::map<std::string, uint64_t> numbers() const
	{
		return { { "live_bytes", live_bytes },
			 { "peak_bytes", peak_bytes },
			 { "allocations", allocations },
			 { "frees", frees },
			 { "unknown_frees", unknown_frees } };
	}
};

/* What was done, by the names under which bpfprof is to show it. */
struct Truth {
	std::mutex lock;
	std::map<std::string, Calls> calls;
	std::map<std::string, uint64_t> launches;
	std::map<std::string, Calls> collectives;
	std::map<uint64_t, std::string> kernels;
	std::map<uint64_t, Communicator> communicators;
	std::map<std::string, std::map<std::string, uint64_t>> where;
	std::map<std::string, uint64_t> moved;
	Memory memory, host_memory, tensor_memory;
	uint64_t device_free = 0, device_total = 0;
	std::string open = "[]", children = "[]";

	/* What happened before somebody watched. */
	void forget()
	{
		calls.clear();
		launches.clear();
		collectives.clear();
		kernels.clear();
		where.clear();
		moved.clear();
		memory = host_memory = tensor_memory = {};
		device_free = device_total = 0;
		for (auto &one : communicators)
			one.second.calls = 0;
	}
};

static Truth truth;
static void *cuda, *nccl;
static std::string folder;
static const char *const nccl_name = getenv("GPU_CALLS_NCCL");

static uint64_t now_ns()
{
	timespec t;

	clock_gettime(CLOCK_MONOTONIC, &t);
	return (uint64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static std::string text(const char *format, ...) __attribute__((format(printf, 1, 2)));
static std::string text(const char *format, ...)
{
	char line[1024];
	va_list list;

	va_start(list, format);
	vsnprintf(line, sizeof(line), format, list);
	va_end(list);
	return line;
}

static std::string hex(uint64_t value)
{
	return text("\"0x%lx\"", value);
}

static void *must(void *found, const char *what)
{
	if (!found) {
		fprintf(stderr, "gpu_calls: no %s: %s\n", what, dlerror());
		_exit(1);
	}
	return found;
}

static void *symbol(const char *name)
{
	if (!strncmp(name, "nccl", 4))
		return must(((void *(*)(const char *))dlsym(nccl, "fake_nccl_symbol"))(name), name);
	return must(dlsym(strncmp(name, "fake_nccl", 9) ? cuda : nccl, name), name);
}

static void load()
{
	cuda = must(dlopen((folder + "/libcuda.so.1").c_str(), RTLD_NOW | RTLD_GLOBAL), "libcuda");
	nccl = must(dlopen((folder + "/" + (nccl_name ? nccl_name : "libnccl.so.2")).c_str(),
			   RTLD_NOW | RTLD_GLOBAL),
		    "libnccl");
}

/* Each call by itself, for GPU_CALLS_LOG. */
struct Made {
	int tid;
	std::string name;
	uint64_t begin, end;
	const char *by;
};

static std::mutex made_lock;
static std::vector<Made> made;
static const char *const log_path = getenv("GPU_CALLS_LOG");
static thread_local Made last_made;

static void note_made(const char *name, uint64_t begin, uint64_t end, const char *by = "caller")
{
	if (!log_path)
		return;
	last_made = { gettid(), name, begin, end, by };
	std::lock_guard<std::mutex> guard(made_lock);
	made.push_back(last_made);
}

/* A call that the library made within the last one. */
static void note_inner(const char *name)
{
	note_made(name, last_made.begin, last_made.end, "inner");
}

static void write_made()
{
	FILE *file = log_path ? fopen(log_path, "w") : NULL;

	if (log_path && !file) {
		perror(log_path);
		_exit(1);
	}
	if (!file)
		return;
	for (auto &one : made)
		fprintf(file, "%d %s %lu %lu %s\n", one.tid, one.name.c_str(), one.begin, one.end,
			one.by);
	fclose(file);
}

/* Calls a function by its name; the arguments' types are the prototype. */
template <class... A> static INLINE int raw(const char *name, A... arguments)
{
	auto function = (int (*)(A...))symbol(name);
	uint64_t begin = now_ns();
	int result = function(arguments...);

	note_made(name, begin, now_ns());
	return result;
}

static void note(const char *where, const char *name, uint64_t bytes, uint64_t ns, int result)
{
	std::lock_guard<std::mutex> guard(truth.lock);
	Calls &c = truth.calls[name];

	c.calls++;
	c.bytes += bytes;
	c.ns += ns;
	c.max_ns = std::max(c.max_ns, ns);
	c.errors += result != 0;
	truth.where[where][name]++;
	if (!strncmp(name, "cuMemcpy", 8) || !strncmp(name, "cuMemset", 8) ||
	    (!strncmp(name, "nccl", 4) && bytes))
		truth.moved[where] += bytes;
}

template <class... A>
static INLINE int call(const char *where, const char *name, uint64_t bytes, A... arguments)
{
	auto function = (int (*)(A...))symbol(name);
	uint64_t begin = now_ns();
	int result = function(arguments...);
	uint64_t end = now_ns();

	note_made(name, begin, end);
	note(where, name, bytes, end - begin, result);
	return result;
}

static void note_launch(uint64_t handle, const char *name, Dims grid, Dims block, uint64_t stream)
{
	std::lock_guard<std::mutex> guard(truth.lock);
	auto known = truth.kernels.find(handle);
	std::string kernel =
		known == truth.kernels.end() ? text("kernel@0x%lx", handle) : known->second;

	truth.launches[text("{\"kernel\":\"%s\",\"handle\":\"0x%lx\",\"exported\":\"%s\","
			    "\"grid\":[%u,%u,%u],\"block\":[%u,%u,%u],\"stream\":\"0x%lx\"",
			    kernel.c_str(), handle, name, grid[0], grid[1], grid[2], block[0],
			    block[1], block[2], stream)]++;
}

static INLINE void launch(const char *where, const char *name, uint64_t kernel, Dims grid,
			  Dims block, uint64_t stream)
{
	call(where, name, 0, kernel, grid[0], grid[1], grid[2], block[0], block[1], block[2], 0U,
	     stream, (void **)nullptr, (void **)nullptr);
	note_launch(kernel, name, grid, block, stream);
}

static INLINE void launch_config(const char *where, const char *name, uint64_t kernel, Dims grid,
				 Dims block, uint64_t stream)
{
	cuda_launch_config config = {};

	std::copy(grid.begin(), grid.end(), config.grid);
	std::copy(block.begin(), block.end(), config.block);
	config.stream = stream;
	call(where, name, 0, (const cuda_launch_config *)&config, kernel, (void **)nullptr,
	     (void **)nullptr);
	note_launch(kernel, name, grid, block, stream);
}

static uint64_t kernel_of_module(const char *name)
{
	uint64_t handle = 0;

	raw("cuModuleGetFunction", &handle, (uint64_t)0x1000, name);
	truth.kernels[handle] = name;
	return handle;
}

static uint64_t kernel_of_library(const char *name)
{
	uint64_t handle = 0;

	raw("cuLibraryGetKernel", &handle, (uint64_t)0x2000, name);
	truth.kernels[handle] = name;
	return handle;
}

/* What a call allocates or frees. */
static Memory &memory_by(const char *name)
{
	if (strchr(name, ':'))
		return truth.tensor_memory;
	return strstr(name, "Host") ? truth.host_memory : truth.memory;
}

static void note_allocation(const char *where, const char *name, uint64_t va, uint64_t bytes)
{
	std::lock_guard<std::mutex> guard(truth.lock);
	Memory &memory = memory_by(name);

	memory.live[va] = { where, bytes };
	memory.live_bytes += bytes;
	memory.peak_bytes = std::max(memory.peak_bytes, memory.live_bytes);
	memory.allocations++;
	memory.allocated[where] += bytes;
}

static void note_free(const char *name, uint64_t va)
{
	std::lock_guard<std::mutex> guard(truth.lock);
	Memory &memory = memory_by(name);
	auto found = memory.live.find(va);

	memory.frees++;
	if (found == memory.live.end()) {
		memory.unknown_frees++;
		return;
	}
	memory.live_bytes -= found->second.bytes;
	memory.live.erase(found);
}

/* The result, 0 if there was no memory. rest: what follows the size. */
template <class... A>
static INLINE uint64_t allocate(const char *where, const char *name, uint64_t bytes, A... rest)
{
	uint64_t va = 0;
	int err = call(where, name, bytes, &va, bytes, rest...);

	if (err)
		truth.calls[name].bytes -= bytes;
	else
		note_allocation(where, name, va, bytes);
	return err ? 0 : va;
}

template <class... A>
static INLINE void release(const char *where, const char *name, uint64_t va, A... rest)
{
	call(where, name, 0, va, rest...);
	note_free(name, va);
}

static const uint64_t STREAM_1 = 0x7e0000001000, STREAM_2 = 0x7e0000002000;
static const char TRITON[] = "triton_poi_fused_add_0", GEMM[] = "sm90_xmma_gemm_f16f16_f32",
		  MANGLED[] = "_ZN5fused7softmaxEPKfPfi", FOUND[] = "flash_fwd_kernel";

/* Each function launches what no other does. */
namespace trainer
{
NOINLINE void forward(uint64_t kernel)
{
	launch("trainer::forward", "cuLaunchKernel", kernel, { 128, 2, 1 }, { 256, 1, 1 },
	       STREAM_1);
}

NOINLINE void backward(uint64_t kernel)
{
	launch_config("trainer::backward", "cuLaunchKernelEx", kernel, { 7, 8, 9 }, { 32, 4, 2 },
		      STREAM_2);
}

NOINLINE void attention(uint64_t kernel, unsigned int size)
{
	launch("trainer::attention", "cuLaunchKernel_ptsz", kernel, { size, 65535, 3 },
	       { 1024, 1, 1 }, 0);
}

NOINLINE void softmax(uint64_t kernel)
{
	launch("trainer::softmax", "cuLaunchKernel", kernel, { 1, 1, 1 }, { 64, 1, 1 }, 0x2);
	launch_config("trainer::softmax", "cuLaunchKernelEx_ptsz", kernel, { 2147483647, 1, 1 },
		      { 1, 1, 64 }, 0);
}

NOINLINE void cooperate(uint64_t kernel)
{
	call("trainer::cooperate", "cuLaunchCooperativeKernel", 0, kernel, 4U, 1U, 1U, 128U, 1U, 1U,
	     0U, STREAM_1, (void **)nullptr);
	note_launch(kernel, "cuLaunchCooperativeKernel", { 4, 1, 1 }, { 128, 1, 1 }, STREAM_1);
}

/* On two devices at once: the first one is told. */
NOINLINE void cooperate_on_two(uint64_t kernel)
{
	cuda_launch_params params[2] = { { kernel, { 3, 2, 1 }, { 96, 1, 1 }, 0, STREAM_2, NULL },
					 { 0x4711, { 9, 9, 9 }, { 9, 9, 9 }, 0, STREAM_1, NULL } };

	call("trainer::cooperate_on_two", "cuLaunchCooperativeKernelMultiDevice", 0,
	     (cuda_launch_params *)params, 2U, 0U);
	note_launch(kernel, "cuLaunchCooperativeKernelMultiDevice", { 3, 2, 1 }, { 96, 1, 1 },
		    STREAM_2);
}

NOINLINE void replay(uint64_t graph)
{
	call("trainer::replay", "cuGraphLaunch", 0, graph, STREAM_1);
}
} // namespace trainer

static void launches()
{
	uint64_t triton = kernel_of_module(TRITON), gemm = kernel_of_library(GEMM);
	uint64_t mangled = kernel_of_module(MANGLED), function = 0;

	raw("cuKernelGetFunction", &function, kernel_of_library(FOUND));
	truth.kernels[function] = FOUND;
	for (unsigned int i = 0; i < 300; i++) {
		trainer::forward(triton);
		if (i % 2)
			trainer::backward(gemm);
		if (i % 3 == 0)
			trainer::attention(function, i % 2 ? 100000 : 5);
		if (i % 10 == 0)
			trainer::softmax(mangled);
		if (i % 30 == 0) {
			trainer::cooperate(gemm);
			trainer::cooperate_on_two(gemm);
			trainer::replay(0x7d0000000100);
		}
	}
}

/* Two callers of the same key. */
namespace shared
{
NOINLINE void left(uint64_t kernel)
{
	launch("shared::left", "cuLaunchKernel", kernel, { 1, 1, 1 }, { 32, 1, 1 }, 0);
}

NOINLINE void right(uint64_t kernel)
{
	launch("shared::right", "cuLaunchKernel", kernel, { 1, 1, 1 }, { 32, 1, 1 }, 0);
}
} // namespace shared

static void shared_key()
{
	uint64_t kernel = kernel_of_module(TRITON);

	for (unsigned int i = 0; i < 4000; i++) {
		shared::left(kernel);
		if (i % 4 == 0)
			shared::right(kernel);
	}
}

namespace data
{
static char host[1 << 16];

NOINLINE void load_batch(unsigned int i)
{
	call("data::load_batch", "cuMemcpyHtoDAsync_v2", 1000 + i, (uint64_t)0x7f0000000000,
	     (const void *)host, (uint64_t)1000 + i, STREAM_1);
	call("data::load_batch", "cuMemcpyHtoDAsync_v2_ptsz", 11, (uint64_t)0x7f0000000000,
	     (const void *)host, (uint64_t)11, (uint64_t)0);
	call("data::load_batch", "cuMemcpyHtoD_v2", 333, (uint64_t)0x7f0000000000,
	     (const void *)host, (uint64_t)333);
}

NOINLINE void read_loss()
{
	call("data::read_loss", "cuMemcpyDtoH_v2", 4, (void *)host, (uint64_t)0x7f0000000000,
	     (uint64_t)4);
	call("data::read_loss", "cuMemcpyDtoHAsync_v2", 8192, (void *)host,
	     (uint64_t)0x7f0000000000, (uint64_t)8192, STREAM_2);
}

NOINLINE void shuffle()
{
	call("data::shuffle", "cuMemcpyDtoD_v2", 5000000000, (uint64_t)1, (uint64_t)2,
	     (uint64_t)5000000000);
	call("data::shuffle", "cuMemcpyDtoDAsync_v2", 77, (uint64_t)1, (uint64_t)2, (uint64_t)77,
	     STREAM_1);
	call("data::shuffle", "cuMemcpy", 78, (uint64_t)1, (uint64_t)2, (uint64_t)78);
	call("data::shuffle", "cuMemcpyAsync", 79, (uint64_t)1, (uint64_t)2, (uint64_t)79,
	     STREAM_2);
	call("data::shuffle", "cuMemcpyAsync_ptsz", 80, (uint64_t)1, (uint64_t)2, (uint64_t)80,
	     (uint64_t)0);
	call("data::shuffle", "cuMemcpyPeerAsync", 81, (uint64_t)1, (uint64_t)0x10, (uint64_t)2,
	     (uint64_t)0x20, (uint64_t)81, STREAM_1);
}

NOINLINE void rectangles()
{
	cuda_memcpy_2d two = {};
	cuda_memcpy_3d three = {};

	two.width_bytes = 640;
	two.height = 480;
	three.width_bytes = 100;
	three.height = 20;
	three.depth = 3;
	call("data::rectangles", "cuMemcpy2D_v2", 640 * 480, (const cuda_memcpy_2d *)&two);
	call("data::rectangles", "cuMemcpy2DAsync_v2", 640 * 480, (const cuda_memcpy_2d *)&two,
	     STREAM_1);
	call("data::rectangles", "cuMemcpy3D_v2", 6000, (const cuda_memcpy_3d *)&three);
}

/* The first version of it has one argument more. */
NOINLINE void batch(size_t nr)
{
	static uint64_t vas[1024], sizes[1024];
	size_t fail = 0;
	uint64_t sum = 0, none = 0;
	void *null = nullptr;

	for (size_t i = 0; i < nr; i++)
		sum += sizes[i] = 3 * i + 1;
	call("data::batch", "cuMemcpyBatchAsync", sum, &vas[0], &vas[0], &sizes[0], nr, null, null,
	     none, &fail, STREAM_1);
	call("data::batch", "cuMemcpyBatchAsync_ptsz", sum, &vas[0], &vas[0], &sizes[0], nr, null,
	     null, none, &fail, none);
	call("data::batch", "cuMemcpyBatchAsync_v2", sum, &vas[0], &vas[0], &sizes[0], nr, null,
	     null, none, STREAM_2);
	call("data::batch", "cuMemcpyBatchAsync_v2_ptsz", sum, &vas[0], &vas[0], &sizes[0], nr,
	     null, null, none, none);
}

/* The same; of those that have to do with arrays nobody knows the bytes. */
NOINLINE void batch_3d(size_t nr, size_t nr_known)
{
	static cuda_memcpy_3d_op ops[1500];
	const char *where = "data::batch_3d";
	const unsigned long long flags = 0;
	size_t fail = 0;
	uint64_t sum = 0, none = 0;

	for (size_t i = 0; i < nr; i++) {
		ops[i] = {};
		ops[i].src.type = ops[i].dst.type = 1;
		if (i >= nr_known && i < 1024)
			(i % 2 ? ops[i].src : ops[i].dst).type = 2;
		ops[i].width = 100 + i;
		ops[i].height = 1 + i % 7;
		ops[i].depth = 1 + i % 3;
		if (i < nr_known)
			sum += ops[i].width * ops[i].height * ops[i].depth;
	}
	call(where, "cuMemcpy3DBatchAsync", sum, nr, &ops[0], &fail, flags, STREAM_1);
	call(where, "cuMemcpy3DBatchAsync_ptsz", sum, nr, &ops[0], &fail, flags, none);
	call(where, "cuMemcpy3DBatchAsync_v2", sum, nr, &ops[0], flags, STREAM_2);
	call(where, "cuMemcpy3DBatchAsync_v2_ptsz", sum, nr, &ops[0], flags, none);
}

NOINLINE void clear()
{
	call("data::clear", "cuMemsetD8_v2", 12345, (uint64_t)1, (unsigned char)0, (uint64_t)12345);
	call("data::clear", "cuMemsetD32_v2", 4 * 1000, (uint64_t)1, 7U, (uint64_t)1000);
	call("data::clear", "cuMemsetD8Async", 99, (uint64_t)1, (unsigned char)1, (uint64_t)99,
	     STREAM_1);
	call("data::clear", "cuMemsetD8Async_ptsz", 98, (uint64_t)1, (unsigned char)1, (uint64_t)98,
	     (uint64_t)0);
	call("data::clear", "cuMemsetD32Async", 4 * 3000000000, (uint64_t)1, 1U,
	     (uint64_t)3000000000, STREAM_2);
	call("data::clear", "cuMemsetD2D8Async", 30 * 40, (uint64_t)1, (uint64_t)64,
	     (unsigned char)0, (uint64_t)30, (uint64_t)40, STREAM_1);
}
} // namespace data

static void copies()
{
	for (unsigned int i = 0; i < 20; i++) {
		data::load_batch(i);
		data::read_loss();
		if (i % 2)
			data::shuffle();
		if (i % 4 == 0)
			data::rectangles();
		if (i % 5 == 0)
			data::clear();
	}
	for (size_t nr : { 1, 15, 16, 17, 100, 1024 })
		data::batch(nr);
	for (size_t nr : { 1, 2, 100, 1024 })
		data::batch_3d(nr, nr);
}

/* Of which not all bytes are known: of arrays, and longer than is looked at. */
static void long_batches()
{
	data::batch_3d(9, 5);
	for (unsigned int i = 0; i < 3; i++)
		data::batch_3d(1025 + i * 200, 1024);
}

namespace memory
{
NOINLINE uint64_t weights(uint64_t bytes)
{
	return allocate("memory::weights", "cuMemAlloc_v2", bytes);
}

NOINLINE uint64_t activations(uint64_t bytes, bool own)
{
	return own ? allocate("memory::activations", "cuMemAllocAsync", bytes, STREAM_1)
		   : allocate("memory::activations", "cuMemAllocAsync_ptsz", bytes, (uint64_t)0);
}

NOINLINE uint64_t segment(uint64_t bytes)
{
	return allocate("memory::segment", "cuMemCreate", bytes, (const void *)data::host,
			(uint64_t)0);
}

NOINLINE uint64_t pool(uint64_t bytes)
{
	return allocate("memory::pool", "cuMemAllocFromPoolAsync", bytes, (uint64_t)0x9000,
			STREAM_2);
}

NOINLINE uint64_t managed(uint64_t bytes)
{
	return allocate("memory::managed", "cuMemAllocManaged", bytes, 1U);
}

NOINLINE uint64_t image(uint64_t width, uint64_t height)
{
	const char *where = "memory::image", *name = "cuMemAllocPitch_v2";
	uint64_t va = 0, pitch = 0, bytes = (width + 511) / 512 * 512 * height;

	if (!call(where, name, bytes, &va, &pitch, width, height, 4U))
		note_allocation(where, name, va, bytes);
	return va;
}

NOINLINE void drop(const char *name, uint64_t va)
{
	const char *where = "memory::drop";

	if (!strcmp(name, "cuMemFreeAsync"))
		release(where, name, va, STREAM_1);
	else if (!strcmp(name, "cuMemFreeAsync_ptsz"))
		release(where, name, va, (uint64_t)0);
	else
		release(where, name, va);
}

NOINLINE uint64_t staging(uint64_t bytes)
{
	return allocate("memory::staging", "cuMemHostAlloc", bytes, 1U);
}

NOINLINE uint64_t pinned(uint64_t bytes)
{
	return allocate("memory::pinned", "cuMemAllocHost_v2", bytes);
}

NOINLINE void lock_pages(uint64_t va, uint64_t bytes)
{
	const char *where = "memory::lock_pages",
		   *name = bytes % 2 ? "cuMemHostRegister" : "cuMemHostRegister_v2";

	if (call(where, name, bytes, va, bytes, 0U))
		truth.calls[name].bytes -= bytes;
	else
		note_allocation(where, name, va, bytes);
}

NOINLINE void unlock_pages(uint64_t va)
{
	release("memory::unlock_pages", "cuMemHostUnregister", va);
}

NOINLINE void ask()
{
	uint64_t free_bytes = 0, total_bytes = 0;

	raw("cuMemGetInfo_v2", &free_bytes, &total_bytes);
	truth.device_free = free_bytes;
	truth.device_total = total_bytes;
}
} // namespace memory

/* Memory that PyTorch hands out, as its library tells. */
namespace tensors
{
static void *library;

NOINLINE uint64_t hand_out(const char *by, uint64_t bytes)
{
	const char *where = "tensors::hand_out", *name = "pytorch:malloc";
	uint64_t va =
		((uint64_t(*)(uint64_t, uint64_t))must(dlsym(library, by), by))(bytes, STREAM_1);

	note(where, name, bytes, 0, 0);
	note_allocation(where, name, va, bytes);
	return va;
}

NOINLINE void take_back(uint64_t va)
{
	((void (*)(uint64_t))must(dlsym(library, "fake_c10_free"), "free"))(va);
	note("tensors::take_back", "pytorch:free", 0, 0, 0);
	note_free("pytorch:free", va);
}

static void work()
{
	for (unsigned int i = 0; i < 6; i++) {
		uint64_t va = hand_out("fake_c10_malloc", 1000 + i);

		hand_out("fake_c10_malloc_inlined", (1 << 21) + i);
		take_back(va);
	}
}
} // namespace tensors

/* Its addresses are some that were the device's. */
static void host_memories(uint64_t device)
{
	void (*fail)(unsigned int) = (void (*)(unsigned int))symbol("fake_cuda_fail_allocations");
	uint64_t staging = memory::staging(1 << 20), pinned = memory::pinned(70000);

	memory::lock_pages(device, 9001);
	memory::lock_pages((uint64_t)data::host, sizeof(data::host));
	memory::drop("cuMemFreeHost", pinned);
	memory::unlock_pages(device);
	fail(1);
	memory::lock_pages(device, 11);
	memory::pinned(300);
	memory::drop("cuMemFreeHost", 0x123456789000); /* nobody's */
	(void)staging;
}

/* Some is freed, some is not, addresses are used again, some is refused. */
static void memories()
{
	uint64_t first = memory::weights(1000), second = memory::weights(2000000000);
	uint64_t fleeting, segment, pool, managed;

	memory::ask();
	fleeting = memory::activations(300000, true);
	memory::drop("cuMemFreeAsync", fleeting);
	((void (*)(int))symbol("fake_cuda_reuse"))(1);
	fleeting = memory::activations(400000, false);
	memory::drop("cuMemFreeAsync_ptsz", fleeting);
	memory::activations(500, true);
	segment = memory::segment(64 << 20);
	pool = memory::pool(12345);
	managed = memory::managed(54321);
	memory::image(1000, 50);
	memory::drop("cuMemFree_v2", second);
	memory::drop("cuMemRelease", segment);
	memory::segment(32 << 20);
	memory::drop("cuMemFree_v2", managed);
	((void (*)(unsigned int))symbol("fake_cuda_fail_allocations"))(2);
	memory::weights(7);
	memory::activations(8, true);
	memory::drop("cuMemFree_v2", 0x123456789000); /* nobody's */
	memory::weights(9);
	host_memories(first);
	((void (*)(uint64_t, uint64_t))symbol("fake_cuda_set_memory"))(3ULL << 30, 80ULL << 30);
	memory::ask();
	(void)pool;
}

/* Modules are unloaded, and their kernels' handles given to others. */
namespace modules
{
static const uint64_t FIRST = 0x3000, STAYS = 0x4000, LIBRARY = 0x5000;

static uint64_t look_up(const char *function, uint64_t module, const char *name, uint64_t wanted)
{
	uint64_t handle = 0;

	raw(function, &handle, module, name);
	if (wanted && handle != wanted) {
		fprintf(stderr, "gpu_calls: %s is 0x%lx, not 0x%lx\n", name, handle, wanted);
		_exit(1);
	}
	truth.kernels[handle] = name;
	return handle;
}

static uint64_t of_library(const char *name, uint64_t wanted, uint64_t *function)
{
	uint64_t kernel = look_up("cuLibraryGetKernel", LIBRARY, name, wanted);

	raw("cuKernelGetFunction", function, kernel);
	truth.kernels[*function] = name;
	return kernel;
}

/* By the same keys; each function launches other kernels by them. */
NOINLINE void before(uint64_t kernel, uint64_t function)
{
	launch("modules::before", "cuLaunchKernel", kernel, { 8, 1, 1 }, { 64, 1, 1 }, STREAM_1);
	launch_config("modules::before", "cuLaunchKernelEx", function, { 9, 1, 1 }, { 64, 1, 1 },
		      STREAM_2);
}

NOINLINE void after(uint64_t kernel, uint64_t function)
{
	launch("modules::after", "cuLaunchKernel", kernel, { 8, 1, 1 }, { 64, 1, 1 }, STREAM_1);
	launch_config("modules::after", "cuLaunchKernelEx", function, { 9, 1, 1 }, { 64, 1, 1 },
		      STREAM_2);
}

NOINLINE void at_last(uint64_t kernel, uint64_t function)
{
	launch("modules::at_last", "cuLaunchKernel", kernel, { 8, 1, 1 }, { 64, 1, 1 }, STREAM_1);
	launch_config("modules::at_last", "cuLaunchKernelEx", function, { 9, 1, 1 }, { 64, 1, 1 },
		      STREAM_2);
}

NOINLINE void nameless(uint64_t kernel)
{
	launch("modules::nameless", "cuLaunchKernel", kernel, { 7, 1, 1 }, { 64, 1, 1 }, STREAM_1);
}

NOINLINE void named(uint64_t kernel)
{
	launch("modules::named", "cuLaunchKernel", kernel, { 7, 1, 1 }, { 64, 1, 1 }, STREAM_1);
}

/* So few launches that each of them may send its stack. */
static void work()
{
	uint64_t kernel = look_up("cuModuleGetFunction", FIRST, "first_kernel", 0), function = 0;
	uint64_t stays = look_up("cuModuleGetFunction", STAYS, "kernel_that_stays", 0), unknown;
	uint64_t of = of_library("first_of_library", 0, &function);

	for (unsigned int i = 0; i < 5; i++)
		before(kernel, function);
	before(stays, function);
	before(of, function);
	raw("cuModuleUnload", FIRST);
	raw("cuLibraryUnload", LIBRARY);
	look_up("cuModuleGetFunction", FIRST, "second_kernel", kernel);
	of_library("second_of_library", of, &function);
	for (unsigned int i = 0; i < 7; i++)
		after(kernel, function);
	after(stays, function);
	after(of, function);
	/* The same once more is the same. */
	look_up("cuModuleGetFunction", FIRST, "second_kernel", kernel);
	after(kernel, function);
	raw("cuModuleUnload", FIRST);
	look_up("cuModuleGetFunction", FIRST, "second_kernel", kernel);
	after(kernel, function);
	/* Launched of none of both, looked up, and used again. */
	for (const char *name : { "nobody_launches_it", "third_kernel" }) {
		raw("cuModuleUnload", FIRST);
		look_up("cuModuleGetFunction", FIRST, name, kernel);
	}
	for (unsigned int i = 0; i < 6; i++)
		at_last(kernel, function);
	at_last(stays, function);
	at_last(of, function);
	/* By a handle that has a name only later on. */
	unknown = stays + 2 * 0x40; /* the library's is in between */
	for (unsigned int i = 0; i < 4; i++)
		nameless(unknown);
	for (const char *name : { "a", "b", "c", "d" })
		if (truth.kernels.find(unknown) == truth.kernels.end())
			look_up("cuModuleGetFunction", STAYS, name, 0);
	for (unsigned int i = 0; i < 3; i++)
		named(unknown);
}
}

/* Memory by handle, and where it is mapped. What is freed by a call the fake knows, too. */
namespace handles
{
static const uint64_t MIB = 1 << 20, AT = 0x600000000000;

static void check()
{
	uint64_t there = ((uint64_t(*)())symbol("fake_cuda_memory_by_handle"))();

	if (there != truth.memory.live_bytes) {
		fprintf(stderr, "gpu_calls: %lu bytes are there, not %lu\n", there,
			truth.memory.live_bytes);
		_exit(1);
	}
}

static void expect(int result, int wanted)
{
	if (result != wanted) {
		fprintf(stderr, "gpu_calls: %d instead of %d\n", result, wanted);
		_exit(1);
	}
	check();
}

NOINLINE uint64_t expandable(uint64_t bytes)
{
	uint64_t handle = allocate("handles::expandable", "cuMemCreate", bytes,
				   (const void *)data::host, (uint64_t)0);

	check();
	return handle;
}

/* The last reference of what is not mapped is frees. */
NOINLINE void let_go(uint64_t handle, bool frees = false)
{
	call("handles::let_go", "cuMemRelease", 0, handle);
	if (frees)
		note_free("cuMemRelease", handle);
	check();
}

static uint64_t retain(uint64_t va)
{
	uint64_t handle = 0;

	expect(raw("cuMemRetainAllocationHandle", &handle, va), 0);
	return handle;
}

static void map(uint64_t va, uint64_t bytes, uint64_t handle, int result = 0)
{
	expect(raw("cuMemMap", va, bytes, (uint64_t)0, handle, 0ULL), result);
}

/* What is freed by that, of what was allocated here. */
static void unmap(uint64_t va, uint64_t bytes, std::vector<uint64_t> freed, int result = 0)
{
	int told = raw("cuMemUnmap", va, bytes);

	for (uint64_t handle : freed)
		note_free("cuMemUnmap", handle);
	expect(told, result);
}

static void work()
{
	uint64_t first = memory::segment(4 * MIB), second = expandable(6 * MIB);
	uint64_t third, fourth, fifth, sixth, foreign = 0;

	/* As PyTorch and NCCL do: what is mapped needs no reference. */
	map(AT, 4 * MIB, first);
	let_go(first);
	map(AT + 4 * MIB, 6 * MIB, second);
	let_go(second);
	/* Twice: it is there as long as one of both is. */
	third = memory::segment(8 * MIB);
	map(AT + 16 * MIB, 8 * MIB, third);
	map(AT + 32 * MIB, 8 * MIB, third);
	let_go(third);
	unmap(AT + 16 * MIB, 8 * MIB, {});
	/* Several at once, of which one is held. */
	if (retain(AT + 5 * MIB) != second)
		_exit(1);
	unmap(AT, 10 * MIB, { first });
	let_go(second, true);
	/* A part of what was mapped cannot be unmapped. */
	unmap(AT + 32 * MIB, 2 * MIB, {}, CUDA_ERROR_INVALID_VALUE);
	unmap(AT + 30 * MIB, 6 * MIB, {}, CUDA_ERROR_INVALID_VALUE);
	unmap(AT + 30 * MIB, 12 * MIB, { third });
	/* Never mapped; mapped in vain; held after all. */
	let_go(expandable(60 * MIB), true);
	fourth = expandable(12 * MIB);
	map(AT + 64 * MIB, 12 * MIB, fourth);
	fifth = memory::segment(1 * MIB);
	map(AT + 70 * MIB, 1 * MIB, fifth, CUDA_ERROR_INVALID_VALUE);
	let_go(fifth, true);
	let_go(retain(AT + 64 * MIB));
	let_go(retain(AT + 75 * MIB));
	unmap(AT + 64 * MIB, 12 * MIB, {});
	/* Mapped for ever. */
	sixth = memory::segment(14 * MIB);
	map(AT + 128 * MIB, 14 * MIB, sixth);
	let_go(sixth);
	/* What was imported is another's. */
	expect(raw("cuMemImportFromShareableHandle", &foreign, (void *)nullptr, 1), 0);
	map(AT + 256 * MIB, 2 * MIB, foreign);
	let_go(foreign);
	unmap(AT + 256 * MIB, 2 * MIB, {});
	/* The same handles again. */
	((void (*)(int))symbol("fake_cuda_reuse"))(1);
	for (unsigned int i = 0; i < 5; i++) {
		uint64_t again = expandable((20 + i) * MIB);

		map(AT + 512 * MIB, (20 + i) * MIB, again);
		let_go(again);
		if (i < 4)
			unmap(AT + 512 * MIB, (20 + i) * MIB, { again });
	}
	memory::drop("cuMemRelease", 0x123456789000); /* nobody's */
	(void)fourth;
}
}

namespace waits
{
NOINLINE void for_stream(uint64_t stream)
{
	if (stream)
		call("waits::for_stream", "cuStreamSynchronize", 0, stream);
	else
		call("waits::for_stream", "cuStreamSynchronize_ptsz", 0, stream);
}

NOINLINE void for_all()
{
	call("waits::for_all", "cuCtxSynchronize", 0);
}

NOINLINE void for_event()
{
	call("waits::for_event", "cuEventSynchronize", 0, (uint64_t)0x6000);
}

NOINLINE void for_copy()
{
	call("waits::for_copy", "cuMemcpyDtoH_v2", 16, (void *)data::host, (uint64_t)1,
	     (uint64_t)16);
	call("waits::for_copy", "cuMemcpyHtoD_v2", 32, (uint64_t)1, (const void *)data::host,
	     (uint64_t)32);
}
} // namespace waits

static void latency(unsigned int us)
{
	((void (*)(unsigned int))symbol("fake_cuda_set_latency_us"))(us);
}

static void syncs()
{
	for (unsigned int i = 0; i < 40; i++) {
		latency(3000);
		waits::for_stream(i % 2 ? STREAM_1 : 0);
		latency(i ? 5000 : 60000);
		waits::for_all();
		latency(4000);
		waits::for_event();
		waits::for_copy();
		latency(0);
		waits::for_stream(STREAM_2); /* a short one, without an age of its own */
	}
}

/* Calls until the next line comes, some of which take their time. */
static void paced()
{
	uint64_t triton = kernel_of_module(TRITON);
	struct pollfd input = { 0, POLLIN, 0 };

	latency(500);
	while (!poll(&input, 1, 0)) {
		trainer::forward(triton);
		waits::for_stream(STREAM_2);
		usleep(1000);
	}
}

/* Blocking copies are made of other calls of the driver. */
static void nested()
{
	((void (*)(int))symbol("fake_cuda_nest"))(1);
	latency(2000);
	for (unsigned int i = 0; i < 25; i++)
		waits::for_copy();
	latency(0);
}

struct Operation {
	const char *name;
	uint64_t count;
	int type, width;
	const char *type_name, *extra;
	int value;
	const char *kernel; /* that is launched at once, NULL in a group */
};

static const char *const REDUCTIONS[] = { "sum", "prod", "max", "min", "avg" };

static void note_kernel(const char *where, const char *kernel, uint64_t stream)
{
	std::string line = text("{\"kernel\":\"%s\",\"exported\":\"cuLaunchKernelEx\","
				"\"grid\":[24,1,1],\"block\":[544,1,1],\"stream\":\"0x%lx\"",
				kernel, stream);
	std::lock_guard<std::mutex> guard(truth.lock);

	note_inner("cuLaunchKernelEx");
	truth.launches[line]++;
	truth.calls["cuLaunchKernelEx"].calls++;
	truth.where[where]["cuLaunchKernelEx"]++;
}

static void note_operation(const char *where, const Operation &op, uint64_t comm, uint64_t stream,
			   uint64_t ns)
{
	uint64_t bytes = op.count * op.width;
	std::string extra, line;

	if (!strcmp(op.extra, "op"))
		extra = text(",\"op\":\"%s\"", REDUCTIONS[op.value]);
	else
		extra = text(",\"%s\":%d", op.extra, op.value);
	if (!*op.extra)
		extra = "";
	line = text("{\"operation\":\"%s\",\"datatype\":\"%s\"%s,\"comm\":\"0x%lx\","
		    "\"stream\":\"0x%lx\"",
		    op.name, op.type_name, extra.c_str(), comm, stream);
	note(where, op.name, bytes, ns, 0);
	{
		std::lock_guard<std::mutex> guard(truth.lock);
		Calls &c = truth.collectives[line];
		Communicator &known = truth.communicators[comm];

		c.calls++;
		c.bytes += bytes;
		c.ns += ns;
		known.calls++;
		known.last = op.name;
	}
	if (op.kernel)
		note_kernel(where, op.kernel, stream);
}

/* operate() with the arguments that the operation has after the datatype. */
template <class... A>
static INLINE void operate(const char *where, Operation op, uint64_t comm, uint64_t stream,
			   A... buffers_to_type)
{
	uint64_t begin = now_ns();

	raw(op.name, buffers_to_type..., comm, stream);
	note_operation(where, op, comm, stream, now_ns() - begin);
}

static const void *const BUFFER = (const void *)0x7f1000000000;
static void *const RECEIVED = (void *)0x7f2000000000;

/* By what stands in the communicator itself. */
static uint64_t know(uint64_t comm, int rank, int size)
{
	Communicator &known = truth.communicators[comm];

	known = Communicator();
	memcpy(&known.hash, (const char *)comm + 1066184, sizeof(known.hash));
	known.rank = rank;
	known.size = size;
	return comm;
}

namespace parallel
{
NOINLINE uint64_t init(int rank, int size, bool config)
{
	nccl_id id;
	uint64_t comm = 0;

	raw("ncclGetUniqueId", &id);
	if (config)
		raw("ncclCommInitRankConfig", &comm, size, id, rank, (void *)nullptr);
	else
		raw("ncclCommInitRank", &comm, size, id, rank);
	return know(comm, rank, size);
}

NOINLINE void reduce_gradients(uint64_t comm)
{
	operate("parallel::reduce_gradients",
		{ "ncclAllReduce", 1 << 20, 7, 4, "float32", "op", 0,
		  "ncclDevKernel_AllReduce_Sum_f32_RING_LL" },
		comm, STREAM_1, BUFFER, RECEIVED, (size_t)(1 << 20), 7, 0);
}

NOINLINE void shard(uint64_t comm)
{
	operate("parallel::shard",
		{ "ncclAllGather", 1000, 9, 2, "bfloat16", "", 0,
		  "ncclDevKernel_AllGather_RING_LL" },
		comm, STREAM_1, BUFFER, RECEIVED, (size_t)1000, 9);
	operate("parallel::shard",
		{ "ncclReduceScatter", 3000000000, 6, 2, "float16", "op", 4,
		  "ncclDevKernel_ReduceScatter_Sum_f32_RING_LL" },
		comm, STREAM_2, BUFFER, RECEIVED, (size_t)3000000000, 6, 4);
}

NOINLINE void share_weights(uint64_t comm)
{
	operate("parallel::share_weights",
		{ "ncclBroadcast", 500, 4, 8, "int64", "root", 2,
		  "ncclDevKernel_Broadcast_RING_LL" },
		comm, STREAM_1, BUFFER, RECEIVED, (size_t)500, 4, 2);
	operate("parallel::share_weights",
		{ "ncclBcast", 501, 0, 1, "int8", "root", 0, "ncclDevKernel_Broadcast_RING_LL" },
		comm, STREAM_1, RECEIVED, (size_t)501, 0, 0);
	operate("parallel::share_weights",
		{ "ncclReduce", 64, 8, 8, "float64", "root", 1,
		  "ncclDevKernel_Reduce_Sum_f32_RING_LL" },
		comm, STREAM_2, BUFFER, RECEIVED, (size_t)64, 8, 2, 1);
}
} // namespace parallel

namespace pipeline
{
NOINLINE void exchange(uint64_t comm)
{
	const char *where = "pipeline::exchange";

	raw("ncclGroupStart");
	raw("ncclGroupStart");
	operate(where, { "ncclSend", 4096, 1, 1, "uint8", "peer", 1, NULL }, comm, STREAM_2, BUFFER,
		(size_t)4096, 1, 1);
	operate(where, { "ncclRecv", 2048, 2, 4, "int32", "peer", 1, NULL }, comm, STREAM_2,
		RECEIVED, (size_t)2048, 2, 1);
	raw("ncclGroupEnd");
	raw("ncclGroupEnd");
	note_kernel(where, "ncclDevKernel_SendRecv", STREAM_2);
}
} // namespace pipeline

static void collectives(uint64_t all, uint64_t pair)
{
	for (unsigned int i = 0; i < 60; i++) {
		parallel::reduce_gradients(all);
		if (i % 5 == 0)
			parallel::shard(all);
		if (i % 20 == 0)
			parallel::share_weights(all);
		if (i % 4 == 0)
			pipeline::exchange(pair);
	}
}

namespace threads
{
NOINLINE void work(uint64_t kernel, unsigned int thread, unsigned int calls)
{
	for (unsigned int i = 0; i < calls; i++) {
		launch("threads::work", "cuLaunchKernel", kernel, { 1 + thread, 1, 1 },
		       { 32, 1, 1 }, 0x100 + thread);
		if (i % 16 == 0)
			usleep(1000);
	}
}
} // namespace threads

static void many_threads()
{
	uint64_t kernel = kernel_of_module(TRITON);
	std::vector<std::thread> all;

	for (unsigned int i = 0; i < 8; i++)
		all.emplace_back(threads::work, kernel, i, 2000 + i);
	for (auto &one : all)
		one.join();
}

/* As fast as it is told: so many launches a second of each thread, for that long. */
namespace storm
{
static const unsigned int HZ = 10000, SECONDS = 1;

NOINLINE void work(uint64_t kernel, unsigned int thread)
{
	uint64_t begin = now_ns();

	for (unsigned int i = 0; i < HZ * SECONDS; i++) {
		launch("storm::work", "cuLaunchKernel", kernel, { 1, 1, 1 }, { 32, 1, 1 },
		       0x100 + thread);
		while (now_ns() < begin + i * (1000000000ULL / HZ))
			usleep(500);
	}
}
} // namespace storm

static void many_launches()
{
	uint64_t kernel = kernel_of_module(TRITON);
	std::vector<std::thread> all;

	for (unsigned int i = 0; i < 8; i++)
		all.emplace_back(storm::work, kernel, i);
	for (auto &one : all)
		one.join();
}

/* Steps of a training loop: launches on two streams, one of which is waited for, then both. */
namespace loop
{
NOINLINE void step(uint64_t kernel, unsigned int launches)
{
	for (unsigned int i = 0; i < launches; i++) {
		launch("loop::step", "cuLaunchKernel", kernel, { 64, 1, 1 }, { 128, 1, 1 },
		       STREAM_1);
		if (i % 4 == 0)
			launch("loop::step", "cuLaunchKernel", kernel, { 8, 1, 1 }, { 32, 1, 1 },
			       STREAM_2);
	}
	call("loop::step", "cuStreamSynchronize", 0, STREAM_1);
	launch("loop::step", "cuLaunchKernel", kernel, { 1, 1, 1 }, { 32, 1, 1 }, STREAM_1);
	call("loop::step", "cuCtxSynchronize", 0);
}
} // namespace loop

static void steps()
{
	uint64_t kernel = kernel_of_module(TRITON);

	for (unsigned int i = 0; i < 10; i++)
		loop::step(kernel, 3000);
}

/* What Ray's setproctitle does: over the arguments, then the thread's name. */
static char *title_at;
static size_t title_bytes;

static void set_title(const char *title)
{
	memset(title_at, 0, title_bytes);
	strncpy(title_at, title, title_bytes - 1);
	prctl(PR_SET_NAME, title);
}

static void tasks()
{
	uint64_t kernel = kernel_of_module(TRITON), begin, begun, end, ended;

	set_title("ray::Trainer");
	for (unsigned int i = 0; i < 5; i++) {
		begin = now_ns();
		set_title("ray::Trainer.step");
		begun = now_ns();
		loop::step(kernel, 10);
		usleep(10000);
		end = now_ns();
		set_title("ray::Trainer");
		ended = now_ns();
		note_made("ray::Trainer.step", begin, begun, "begins");
		note_made("ray::Trainer.step", end, ended, "ends");
		usleep(5000);
	}
}

/* Calls that are left by a jump, not by their return. */
namespace left
{
static sigjmp_buf before;

static void jump(int)
{
	siglongjmp(before, 1);
}

NOINLINE void wait_and_leave()
{
	itimerval timer = { {}, { 0, 20000 } };
	uint64_t begin = now_ns();

	if (sigsetjmp(before, 1)) {
		note_made("cuStreamSynchronize", begin, now_ns(), "left");
		return;
	}
	setitimer(ITIMER_REAL, &timer, NULL);
	((int (*)(uint64_t))symbol("cuStreamSynchronize"))(STREAM_1);
}
} // namespace left

/* On a stack that has grown over where those were. */
namespace left
{
NOINLINE void wait_deeper()
{
	volatile char over[1 << 14];

	for (volatile char &byte : over)
		byte = 0x5a;
	call("left::wait_deeper", "cuStreamSynchronize", 0, STREAM_1);
	trainer::forward(0x4711);
}
} // namespace left

static void deep_jumps()
{
	signal(SIGALRM, left::jump);
	for (unsigned int i = 0; i < 10; i++) {
		latency(1000000);
		left::wait_and_leave();
		note("left::wait_and_leave", "cuStreamSynchronize", 0, 0, 0);
		latency(0);
		left::wait_deeper();
	}
	signal(SIGALRM, SIG_DFL);
	alarm(300);
}

/*
 * Exceptions in and through calls, and threads that end in one. Through one whose return is hooked
 * none comes: the kernel's return address is there, which no unwinder knows.
 */
namespace thrown
{
void throw_it()
{
	throw 1;
}

void throw_and_catch()
{
	try {
		throw_it();
	} catch (int) {
	}
}

NOINLINE void launch_and_leave(uint64_t kernel)
{
	try {
		launch("", "cuLaunchKernel", kernel, { 3, 3, 3 }, { 32, 1, 1 }, STREAM_1);
	} catch (int) {
		note("thrown::launch_and_leave", "cuLaunchKernel", 0, 0, 0);
		note_launch(kernel, "cuLaunchKernel", { 3, 3, 3 }, { 32, 1, 1 }, STREAM_1);
	}
}

static volatile pid_t waits_for_ever;

NOINLINE void *wait_for_ever(void *)
{
	waits_for_ever = gettid();
	raw("cuStreamSynchronize", STREAM_2);
	return NULL;
}

NOINLINE void cancel_one()
{
	auto waiting = (unsigned int (*)())symbol("fake_cuda_waiting");
	unsigned int before = waiting(); /* those that were cancelled are among them */
	pthread_t thread;

	latency(600000000);
	if (pthread_create(&thread, NULL, wait_for_ever, NULL))
		_exit(1);
	while (waiting() <= before)
		usleep(1000);
	latency(0);
	pthread_cancel(thread);
	pthread_join(thread, NULL);
	while (!tgkill(getpid(), waits_for_ever, 0)) /* for the kernel it still ends */
		usleep(1000);
	note("thrown::wait_for_ever", "cuStreamSynchronize", 0, 0, 0);
}
} // namespace thrown

static void exceptions()
{
	auto callback = (void (*)(void (*)()))symbol("fake_cuda_set_callback");
	uint64_t kernel = kernel_of_module(TRITON);

	for (unsigned int i = 0; i < 10; i++) {
		callback(thrown::throw_and_catch);
		waits::for_stream(STREAM_1);
		callback(thrown::throw_it);
		thrown::launch_and_leave(kernel);
		callback(nullptr);
		thrown::cancel_one();
		left::wait_deeper();
		trainer::forward(kernel);
	}
}

static void jumps()
{
	uint64_t kernel = kernel_of_module(TRITON);

	signal(SIGALRM, left::jump); /* in place of the end after a while */
	for (unsigned int i = 0; i < 10; i++) {
		latency(1000000);
		left::wait_and_leave();
		latency(0);
		trainer::forward(kernel);
		waits::for_stream(STREAM_1);
	}
	signal(SIGALRM, SIG_DFL);
	alarm(300);
}

namespace hangs
{
NOINLINE void wait_for_peers(uint64_t comm)
{
	raw("ncclAllReduce", BUFFER, RECEIVED, (size_t)1000, 7, 2, comm, STREAM_1);
}

NOINLINE void wait_for_device()
{
	raw("cuStreamSynchronize", STREAM_2);
}
} // namespace hangs

/* Two threads never come back from a call each; the time is that of the second one. */
static void hang(uint64_t comm)
{
	int reduces = 0, waits = 0;
	uint64_t begin;

	((void (*)(const char *, unsigned int))symbol("fake_nccl_hang"))("ncclAllReduce", 600);
	begin = now_ns();
	std::thread([&] {
		pthread_setname_np(pthread_self(), "comm-0");
		reduces = gettid();
		hangs::wait_for_peers(comm);
	}).detach();
	while (!((unsigned int (*)())symbol("fake_nccl_hanging"))())
		usleep(1000);
	latency(600000000);
	std::thread([&] {
		pthread_setname_np(pthread_self(), "sync-0");
		waits = gettid();
		hangs::wait_for_device();
	}).detach();
	while (!((unsigned int (*)())symbol("fake_cuda_waiting"))())
		usleep(1000);
	latency(0);
	truth.open = text("[{\"tid\":%d,\"thread\":\"comm-0\",\"function\":\"ncclAllReduce\","
			  "\"begin_ns\":%lu,\"stream\":\"0x%lx\",\"comm\":\"0x%lx\",\"bytes\":4000,"
			  "\"shown\":\" (4.0 kB float32 max, communicator 0x%lx: rank 3 of 8, "
			  "stream 0x%lx)\",\"where\":\"hangs::wait_for_peers\"},"
			  "{\"tid\":%d,\"thread\":\"sync-0\",\"function\":\"cuStreamSynchronize\","
			  "\"begin_ns\":%lu,\"stream\":\"0x%lx\","
			  "\"where\":\"hangs::wait_for_device\"}]",
			  reduces, begin, STREAM_1, comm, comm, STREAM_1, waits, begin, STREAM_2);
}

/* Three threads hang in a collective; once released one sleeps elsewhere, one hangs again. */
static int again[3];
static volatile bool went_on[2];

NOINLINE static void hang_again(uint64_t comm, int number)
{
	again[number] = gettid();
	hangs::wait_for_peers(comm);
	went_on[number] = true;
	if (number == 1)
		hangs::wait_for_peers(comm);
	pause();
}

static void hangs_wait(unsigned int nr)
{
	while (((unsigned int (*)())symbol("fake_nccl_hanging"))() != nr)
		usleep(1000);
}

static void hang_three(uint64_t comm)
{
	((void (*)(const char *, unsigned int))symbol("fake_nccl_hang"))("ncclAllReduce", 600);
	for (int i = 0; i < 2; i++)
		std::thread(hang_again, comm, i).detach();
	latency(600000000);
	std::thread([] {
		again[2] = gettid();
		hangs::wait_for_device();
	}).detach();
	hangs_wait(2);
	while (!((unsigned int (*)())symbol("fake_cuda_waiting"))())
		usleep(1000);
	latency(0);
	truth.open = text("[%d,%d,%d]", again[0], again[1], again[2]);
}

namespace hangs
{
NOINLINE void poll_device()
{
	raw("cuStreamSynchronize", STREAM_2);
}

/* These come back from each call. */
NOINLINE void launch_on(uint64_t function)
{
	for (;;)
		raw("cuLaunchKernel", function, 1, 1, 1, 32, 1, 1, 0, STREAM_1, (void *)0,
		    (void *)0);
}

/* Nearly always in a call, and each time called from the same place. */
NOINLINE void wait_on()
{
	((void (*)(unsigned int))symbol("fake_cuda_set_thread_latency_us"))(1000);
	for (;;)
		raw("cuCtxSynchronize");
}

NOINLINE void ask_on()
{
	unsigned int (*ask)() = (unsigned int (*)())symbol("fake_cuda_waiting");

	for (;;)
		ask();
}
} // namespace hangs

static volatile bool polled;

/* One thread polls in a call that does not return; others make short ones, one after the other. */
static void hang_polling(uint64_t function)
{
	int polls = 0;

	latency(600000000);
	((void (*)(int))symbol("fake_cuda_spin"))(1);
	std::thread([&] {
		pthread_setname_np(pthread_self(), "poll-0");
		polls = gettid();
		hangs::poll_device();
		polled = true;
		pause();
	}).detach();
	while (!((unsigned int (*)())symbol("fake_cuda_waiting"))())
		usleep(1000);
	std::thread(hangs::launch_on, function).detach();
	std::thread(hangs::wait_on).detach();
	std::thread(hangs::ask_on).detach();
	truth.open = text("[{\"tid\":%d,\"thread\":\"poll-0\","
			  "\"function\":\"cuStreamSynchronize\",\"begin_ns\":%lu,"
			  "\"where\":\"hangs::poll_device\"}]",
			  polls, now_ns());
}

/* More threads than are looked at poll. How many. */
static void hang_polling_many()
{
	const unsigned int nr = 140;

	nice(19);
	latency(600000000);
	((void (*)(int))symbol("fake_cuda_spin"))(1);
	for (unsigned int i = 0; i < nr; i++)
		std::thread(hangs::poll_device).detach();
	while (((unsigned int (*)())symbol("fake_cuda_waiting"))() < nr)
		usleep(1000);
	truth.open = std::to_string(nr);
}

static void polling_release()
{
	((void (*)(int))symbol("fake_cuda_spin"))(0);
	while (!polled)
		usleep(1000);
}

namespace hangs
{
template <class A, class B> struct a_pair_with_a_name_that_is_as_long_as_those_of_real_libraries {
};
template <class A>
using twice = a_pair_with_a_name_that_is_as_long_as_those_of_real_libraries<A, A>;
using wide = twice<twice<twice<int>>>;

template <class A> NOINLINE void descend(int depth, uint64_t comm)
{
	if (depth)
		descend<A>(depth - 1, comm);
	else
		wait_for_peers(comm);
	__asm__ volatile("" ::: "memory"); /* a call, not a jump */
}
} // namespace hangs

/* So many threads, so deep, hang that all of their stacks as text would be too much to keep. */
static void hang_many(uint64_t comm)
{
	const unsigned int nr = 600;

	((void (*)(const char *, unsigned int))symbol("fake_nccl_hang"))("ncclAllReduce", 600);
	for (unsigned int i = 0; i < nr; i++)
		std::thread([comm] { hangs::descend<hangs::wide>(200, comm); }).detach();
	hangs_wait(nr);
	truth.open = text("%u", nr);
}

static void hang_release()
{
	((void (*)())symbol("fake_nccl_release"))();
	while (!went_on[0] || !went_on[1])
		usleep(1000);
	hangs_wait(1);
}

/* Pointers that point nowhere, at the end of the address space, into the kernel. */
namespace wild
{
NOINLINE void launch_nowhere(uint64_t kernel)
{
	static const uint64_t VAS[] = { 0, 8, 0x7ffffffff000, ~7ULL, 0xffff888000000000 };

	for (unsigned int i = 0; i < 25; i++) {
		call("wild::launch_nowhere", "cuLaunchKernelEx", 0, VAS[i % 5], kernel,
		     (void **)nullptr, (void **)nullptr);
		raw("cuModuleGetFunction", VAS[i % 5], (uint64_t)0x1000, VAS[(i + 1) % 5]);
		call("wild::launch_nowhere", "cuMemcpy2D_v2", 0, VAS[i % 5]);
		call("wild::launch_nowhere", "cuMemcpy3D_v2", 0, VAS[i % 5]);
		raw("cuMemAlloc_v2", VAS[i % 5], (uint64_t)100);
		raw("cuMemGetInfo_v2", VAS[i % 5], VAS[i % 5]);
	}
}
} // namespace wild

static void faults()
{
	((void (*)(int))symbol("fake_cuda_ignore_pointers"))(1);
	wild::launch_nowhere(0x4711);
	((void (*)(int))symbol("fake_cuda_ignore_pointers"))(0);
	launches();
}

/* Kernels whose names want to write to the terminal, break lines or are too long. */
static void loud_names()
{
	std::string endless(3000, 'x');
	const char *names[] = { "evil\x1b[31m\x1b]0;title\x07\n;name\"", "\xff\xfe\xc3", "",
				endless.c_str() };

	for (unsigned int i = 0; i < 40; i++) {
		uint64_t handle = kernel_of_module(names[i % 4]);

		truth.kernels[handle] = text("name %u", i % 4);
		launch("loud_names", "cuLaunchKernel", handle, { 1 + i % 4, 1, 1 }, { 32, 1, 1 },
		       0);
	}
}

/* Communicators last at one address, with other ranks: what was known of it must not stay. */
static void recycled()
{
	for (int i = 0; i < 10; i++) {
		uint64_t comm = parallel::init(i, 10 + i, i % 2);

		parallel::reduce_gradients(comm);
		if (i < 9) {
			raw("ncclCommDestroy", comm);
			truth.communicators.erase(comm);
		}
	}
}

static void ranks_are_late(const char *name)
{
	((void (*)(const char *, unsigned int))symbol("fake_nccl_hang"))(name, 1);
}

/* The other ranks come late: in each of these the caller waits for them. */
namespace gathering
{
NOINLINE uint64_t begin()
{
	const char *where = "gathering::begin";
	uint64_t comm = 0, half = 0;
	nccl_id id;

	raw("ncclGetUniqueId", &id);
	ranks_are_late("ncclCommInitRank");
	call(where, "ncclCommInitRank", 0, &comm, 4, id, 1);
	know(comm, 1, 4);
	truth.communicators[comm].last = "ncclCommInitRank"; /* it is not used */
	ranks_are_late("ncclCommSplit");
	call(where, "ncclCommSplit", 0, comm, 1, 5, &half, (void *)nullptr);
	return know(half, 0, 2);
}

NOINLINE void end()
{
	ranks_are_late("ncclGroupEnd");
	raw("ncclGroupStart");
	call("gathering::end", "ncclGroupEnd", 0);
}

static void work()
{
	uint64_t comm = begin();

	ranks_are_late("ncclAllReduce");
	parallel::reduce_gradients(comm);
	parallel::reduce_gradients(comm);
	end();
}
}

/* Those that are made otherwise than by one id and a rank, of a rank that is the sixth of eight. */
static void communicators()
{
	const char *where = "communicators";
	uint64_t world = parallel::init(5, 8, true), comm = 0;
	int excluded[] = { 0, 3, 7 };
	nccl_id ids[2] = {};

	raw("ncclGetUniqueId", &ids[0]);
	raw("ncclGetUniqueId", &ids[1]);
	call(where, "ncclCommInitRankScalable", 0, &comm, 9, 4, 2, (nccl_id *)ids, (void *)nullptr);
	parallel::reduce_gradients(know(comm, 4, 9));
	call(where, "ncclCommSplit", 0, world, 1, 5, &comm, (void *)nullptr);
	parallel::reduce_gradients(know(comm, 2, 4));
	call(where, "ncclCommSplit", 0, world, FAKE_NCCL_NO_COLOR, 5, &comm, (void *)nullptr);
	call(where, "ncclCommShrink", 0, world, (int *)excluded, 3, &comm, (void *)nullptr, 0);
	parallel::reduce_gradients(know(comm, 3, 5));
	call(where, "ncclCommGrow", 0, comm, 7, (const nccl_id *)nullptr, -1, &comm,
	     (void *)nullptr);
	know(comm, 3, 7); /* not used: what is known of it is what was found when it was made */
	truth.communicators[comm].last = "ncclCommGrow";
	comm = 0;
	call(where, "ncclCommGrow", 0, comm, 10, (const nccl_id *)ids, 9, &comm, (void *)nullptr);
	parallel::reduce_gradients(know(comm, 9, 10));
	parallel::reduce_gradients(world);
}

/* What one rank does alone, and what is done with a communicator else. */
static void one_sided()
{
	const char *where = "one_sided";
	uint64_t comm = parallel::init(1, 4, true);
	const int signals[1][4] = { { 1, 2, 0, 0 } };
	void *window = NULL, *none = NULL;

	call(where, "ncclCommWindowRegister", 0, comm, RECEIVED, (size_t)4096, &window, 1);
	for (unsigned int i = 0; i < 30; i++) {
		call(where, "ncclPutSignal", 500 * 4, BUFFER, (size_t)500, 7, 2, window, (size_t)64,
		     0, 0, 0U, comm, STREAM_1);
		if (i % 3 == 0)
			call(where, "ncclSignal", 0, 2, 0, 0, 0U, comm, STREAM_2);
		if (i % 5 == 0)
			call(where, "ncclWaitSignal", 0, 1, (const int(*)[4])signals, comm,
			     STREAM_1);
	}
	call(where, "ncclPutSignal", 2, BUFFER, (size_t)1, 6, 2, none, (size_t)0, 0, 0, 0U, comm,
	     STREAM_1); /* fails */
	call(where, "ncclCommWindowDeregister", 0, comm, window);
	call(where, "ncclCommSuspend", 0, comm, 1);
	call(where, "ncclCommResume", 0, comm);
	call(where, "ncclCommRevoke", 0, comm, 0);
	truth.communicators[comm].last = "ncclCommInitRankConfig";
}

static std::string json()
{
	std::string out = text("{\"pid\":%d", getpid()), comma;
	std::map<std::string, uint64_t> device;

	auto list = [&](const char *name, char open) {
		out += text(",\"%s\":%c", name, open);
		comma.clear();
	};
	auto numbers = [&](const char *name, const std::map<std::string, uint64_t> &map) {
		list(name, '{');
		for (auto &one : map) {
			out += comma + "\"" + one.first + "\":" + std::to_string(one.second);
			comma = ",";
		}
		out += "}";
	};
	list("calls", '{');
	for (auto &one : truth.calls) {
		const Calls &c = one.second;

		out += comma + text("\"%s\":{\"calls\":%lu,\"bytes\":%lu,\"ns\":%lu,\"max_ns\":%lu,"
				    "\"errors\":%lu}",
				    one.first.c_str(), c.calls, c.bytes, c.ns, c.max_ns, c.errors);
		comma = ",";
	}
	out += "}";
	list("launches", '[');
	for (auto &one : truth.launches) {
		out += comma + one.first + ",\"calls\":" + std::to_string(one.second) + "}";
		comma = ",";
	}
	out += "]";
	list("collectives", '[');
	for (auto &one : truth.collectives) {
		out += comma + one.first +
		       text(",\"calls\":%lu,\"bytes\":%lu}", one.second.calls, one.second.bytes);
		comma = ",";
	}
	out += "]";
	list("communicators", '[');
	for (auto &one : truth.communicators) {
		const Communicator &c = one.second;

		out += comma + "{\"comm\":" + hex(one.first) + ",\"hash\":" + hex(c.hash) +
		       text(",\"rank\":%d,\"size\":%d,\"calls\":%lu,\"last\":\"%s\"}", c.rank,
			    c.size, c.calls, c.last.c_str());
		comma = ",";
	}
	out += "]";
	list("where", '{');
	for (auto &one : truth.where) {
		out += comma + "\"" + one.first + "\":{";
		comma.clear();
		for (auto &call : one.second) {
			out += comma + "\"" + call.first + "\":" + std::to_string(call.second);
			comma = ",";
		}
		out += "}";
	}
	out += "}";
	numbers("moved", truth.moved);
	numbers("allocated", truth.memory.allocated);
	numbers("inuse", truth.memory.inuse());
	numbers("host_allocated", truth.host_memory.allocated);
	numbers("host_inuse", truth.host_memory.inuse());
	device = truth.memory.numbers();
	device["device_free"] = truth.device_free;
	device["device_total"] = truth.device_total;
	numbers("memory", device);
	numbers("host_memory", truth.host_memory.numbers());
	if (truth.tensor_memory.allocations) {
		numbers("tensor_allocated", truth.tensor_memory.allocated);
		numbers("tensor_inuse", truth.tensor_memory.inuse());
		numbers("tensor_memory", truth.tensor_memory.numbers());
	}
	return out + ",\"open\":" + truth.open + ",\"children\":" + truth.children + "}";
}

static std::string line_of_input()
{
	std::string line;
	char c;

	while (read(STDIN_FILENO, &c, 1) == 1) {
		if (c == '\n')
			return line;
		line += c;
	}
	_exit(0); /* threads may hang in calls */
}

static void say(const std::string &line)
{
	std::string whole = line + "\n";

	for (size_t at = 0; at < whole.size();) {
		ssize_t n = write(STDOUT_FILENO, whole.data() + at, whole.size() - at);

		if (n <= 0)
			_exit(1);
		at += n;
	}
}

/* A child makes calls of its own, after so many ms, and both stay. */
static void forks(unsigned int wait_ms)
{
	uint64_t triton = kernel_of_module(TRITON), gemm = kernel_of_module(GEMM);
	std::string told;
	int ends[2];
	pid_t child;
	char c;

	for (unsigned int i = 0; i < 30; i++)
		trainer::forward(triton);
	if (pipe(ends))
		_exit(1);
	child = fork();
	if (!child) {
		/* Outliving its parent it would hold the test's pipes. */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		usleep(wait_ms * 1000);
		truth.forget();
		truth.kernels[gemm] = GEMM; /* looked up before: the handle is the parent's */
		for (unsigned int i = 0; i < 50; i++)
			trainer::backward(gemm);
		told = json() + "\n";
		if (write(ends[1], told.data(), told.size()) < 0)
			_exit(1);
		close(ends[1]);
		pause();
	}
	close(ends[1]);
	while (read(ends[0], &c, 1) == 1 && c != '\n')
		told += c;
	truth.children = "[" + told + "]";
	for (unsigned int i = 0; i < 20; i++)
		trainer::forward(triton);
}

/* Calls that are not to be counted. */
static void uncounted(uint64_t kernel)
{
	uint64_t none = 0;

	for (unsigned int i = 0; i < 7; i++)
		raw("cuLaunchKernel", kernel, 5, 1, 1, 32, 1, 1, 0, none, (void *)nullptr,
		    (void *)nullptr);
	raw("cuStreamSynchronize", STREAM_2);
}

static void counted(uint64_t kernel, unsigned int times)
{
	for (unsigned int i = 0; i < times; i++)
		trainer::forward(kernel);
	waits::for_stream(STREAM_1);
}

/* Windows of the profiler; the third and the fourth are told. */
static void windows()
{
	uint64_t triton = kernel_of_module(TRITON), lost = 0;

	for (unsigned int window = 1; window <= 6; window++) {
		bool told = window == 3 || window == 4;

		uncounted(triton);
		if (window == 4) /* freed between two */
			raw("cuMemFree_v2", lost);
		raw("cuProfilerStart");
		if (told)
			counted(triton, 10 * window);
		else
			uncounted(triton);
		raw("cuProfilerStart"); /* inside of it another one is nothing */
		if (window == 3)
			lost = memory::weights(1000);
		if (window == 4)
			memory::weights(2000);
		raw("cuProfilerStop");
	}
}

/* Launches through libraries, and one without. */
static void libraries()
{
	void *blas = must(dlopen((folder + "/libcublas.so.12").c_str(), RTLD_NOW), "libcublas");
	auto gemm = (int (*)(uint64_t, unsigned int))must(dlsym(blas, "cublasGemmEx"), "gemm");
	auto matmul =
		(int (*)(uint64_t, unsigned int))must(dlsym(blas, "cublasLtMatmul"), "matmul");
	uint64_t kernel = kernel_of_module(GEMM);

	for (unsigned int i = 0; i < 12; i++)
		gemm(kernel, 11);
	for (unsigned int i = 0; i < 8; i++)
		matmul(kernel, 22);
	for (unsigned int i = 0; i < 5; i++)
		trainer::forward(kernel);
	parallel::reduce_gradients(parallel::init(3, 8, false));
}

/* Calls of an actor's method; the second and the third are told. */
static void methods()
{
	uint64_t triton = kernel_of_module(TRITON);

	for (unsigned int step = 1; step <= 4; step++) {
		set_title("ray::PolicyWorker");
		usleep(200000);
		uncounted(triton);
		set_title("ray::PolicyWorker.train");
		usleep(200000);
		if (step == 2 || step == 3)
			counted(triton, 10 * step);
		else
			uncounted(triton);
		usleep(50000);
	}
	set_title("ray::PolicyWorker");
}

/*
 * Calls of a method, from the third on with a window of the profiler in each, that goes on for half of it. Told
 * are the first two windows, or the second and the third call.
 */
static void methods_and_windows(bool windows)
{
	uint64_t triton = kernel_of_module(TRITON);

	for (unsigned int step = 1; step <= 5; step++) {
		bool told = !windows && (step == 2 || step == 3);

		set_title("ray::PolicyWorker");
		usleep(200000);
		uncounted(triton);
		set_title("ray::PolicyWorker.train");
		usleep(200000);
		if (told)
			counted(triton, 3 * step);
		else
			uncounted(triton);
		if (step > 2)
			raw("cuProfilerStart");
		if (told || (windows && (step == 3 || step == 4)))
			counted(triton, 10 * step);
		else
			uncounted(triton);
		if (step > 2)
			raw("cuProfilerStop");
		usleep(50000);
	}
	set_title("ray::PolicyWorker");
}

int main(int argc, char **argv)
{
	const char *secret = getenv("TARGET_NONDUMPABLE");
	std::string scenario;
	uint64_t all = 0, pair = 0, kernel = 0, early = 0;

	alarm(300);
	if (argc < 3)
		return 2;
	folder = argv[2];
	scenario = argv[1];
	title_at = argv[0];
	title_bytes = (size_t)(argv[argc - 1] + strlen(argv[argc - 1]) - argv[0]);
	if (secret && *secret == '1')
		prctl(PR_SET_DUMPABLE, 0);
	if (scenario != "mapped" && scenario != "mapped_in_child")
		load();
	if (scenario == "tensors")
		tensors::library =
			must(dlopen((folder + "/libc10_cuda.so").c_str(), RTLD_NOW), "libc10_cuda");
	if (scenario == "late") {
		kernel = kernel_of_module(TRITON);
		early = memory::weights(4000);
		memory::weights(5000);
		all = parallel::init(3, 8, false);
		pair = parallel::init(1, 2, true);
		parallel::reduce_gradients(all);
		truth.forget();
	}
	say("ready");
	line_of_input();
	if (scenario == "mapped_in_child") {
		if (fork()) {
			wait(NULL);
			_exit(0);
		}
		/* Outliving its parent it would hold the test's pipes. */
		prctl(PR_SET_PDEATHSIG, SIGKILL);
		scenario = "mapped";
	}
	if (scenario == "mapped") {
		load();
		say("loaded");
		line_of_input();
		launches();
	} else if (scenario == "launches") {
		launches();
	} else if (scenario == "shared") {
		shared_key();
	} else if (scenario == "copies") {
		copies();
	} else if (scenario == "tensors") {
		tensors::work();
	} else if (scenario == "long_batches") {
		long_batches();
	} else if (scenario == "memory") {
		memories();
	} else if (scenario == "modules") {
		modules::work();
	} else if (scenario == "handles") {
		handles::work();
	} else if (scenario == "sync") {
		syncs();
	} else if (scenario == "paced") {
		paced();
		line_of_input();
	} else if (scenario == "libraries") {
		libraries();
	} else if (scenario == "windows") {
		windows();
	} else if (scenario == "methods") {
		methods();
	} else if (scenario == "both_windows") {
		methods_and_windows(true);
	} else if (scenario == "both_calls") {
		methods_and_windows(false);
	} else if (scenario == "nested") {
		nested();
	} else if (scenario == "nccl") {
		all = parallel::init(3, 8, false);
		pair = parallel::init(0, 2, true);
		collectives(all, pair);
	} else if (scenario == "late") {
		for (unsigned int i = 0; i < 40; i++)
			trainer::forward(kernel);
		memory::drop("cuMemFree_v2", early);
		memory::weights(6000);
		parallel::reduce_gradients(all);
		pipeline::exchange(pair);
	} else if (scenario == "threads") {
		many_threads();
	} else if (scenario == "hang") {
		launches();
		hang(parallel::init(3, 8, false));
	} else if (scenario == "hang_many") {
		hang_many(parallel::init(3, 8, false));
	} else if (scenario == "polling") {
		hang_polling(kernel_of_module(TRITON));
	} else if (scenario == "polling_many") {
		hang_polling_many();
	} else if (scenario == "release") {
		hang_three(parallel::init(3, 8, false));
	} else if (scenario == "faults") {
		faults();
	} else if (scenario == "names") {
		loud_names();
	} else if (scenario == "communicators") {
		communicators();
	} else if (scenario == "gathering") {
		gathering::work();
	} else if (scenario == "one_sided") {
		one_sided();
	} else if (scenario == "recycled") {
		recycled();
	} else if (scenario == "storm") {
		many_launches();
	} else if (scenario == "steps") {
		steps();
	} else if (scenario == "tasks") {
		tasks();
	} else if (scenario == "deep_jumps") {
		deep_jumps();
	} else if (scenario == "exceptions") {
		exceptions();
	} else if (scenario == "jumps") {
		jumps();
	} else if (scenario == "fork") {
		forks(0);
	} else if (scenario == "fork_wait") {
		forks(500);
	} else {
		fprintf(stderr, "gpu_calls: no scenario %s\n", scenario.c_str());
		return 2;
	}
	write_made();
	say(json());
	for (std::string line = line_of_input(); line != "exit"; line = line_of_input()) {
		if (line != "release")
			continue;
		if (scenario == "polling")
			polling_release();
		else
			hang_release();
		say("released");
	}
	_exit(0);
}
