/* SPDX-License-Identifier: Apache-2.0 */
/*
 * gpu_gaps SCENARIO FOLDER: the same as gpu_gaps.py "long", natively. Each line that it reads lets it do
 * that again; the times that it prints are since its start.
 */
#include <array>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <ctime>
#include <dlfcn.h>
#include <string>
#include <unistd.h>

#ifdef __clang__
#define NOINLINE __attribute__((noinline, used))
#else
#define NOINLINE __attribute__((noinline, noclone, used))
#endif

static uint64_t now_ns(clockid_t clock)
{
	timespec t;

	clock_gettime(clock, &t);
	return static_cast<uint64_t>(t.tv_sec) * 1000000000 + static_cast<uint64_t>(t.tv_nsec);
}

struct Part {
	uint64_t ns = 0, cpu_ns = 0;

	void burn(uint64_t wanted_ns)
	{
		uint64_t wall = now_ns(CLOCK_MONOTONIC), cpu = now_ns(CLOCK_THREAD_CPUTIME_ID);

		while (now_ns(CLOCK_MONOTONIC) < wall + wanted_ns)
			;
		ns += now_ns(CLOCK_MONOTONIC) - wall;
		cpu_ns += now_ns(CLOCK_THREAD_CPUTIME_ID) - cpu;
	}
};

static Part loaded, augmented;
static std::array<uint64_t, 2> starved;
static unsigned int gaps;
static int (*launch)(uint64_t kernel, unsigned int gx, unsigned int gy, unsigned int gz, unsigned int bx,
		     unsigned int by, unsigned int bz, unsigned int shared, uint64_t stream, void **args,
		     void **extra);
static int (*synchronize)();

NOINLINE static void load_batch()
{
	loaded.burn(150000000);
}

NOINLINE static void augment()
{
	augmented.burn(100000000);
}

NOINLINE static void train_step()
{
	launch(0x4711, 1, 1, 1, 32, 1, 1, 0, 0, nullptr, nullptr);
}

NOINLINE static void gap()
{
	uint64_t before = now_ns(CLOCK_MONOTONIC), after, end;

	synchronize();
	after = now_ns(CLOCK_MONOTONIC);
	load_batch();
	augment();
	end = now_ns(CLOCK_MONOTONIC);
	train_step();
	starved[0] += end - after;
	starved[1] += now_ns(CLOCK_MONOTONIC) - before;
	gaps++;
}

int main(int argc, char **argv)
{
	std::string path = std::string(argc == 3 ? argv[2] : ".") + "/libcuda.so.1";
	void *library = dlopen(path.c_str(), RTLD_NOW);
	char line[32];

	if (!library)
		return 1;
	*reinterpret_cast<void **>(&launch) = dlsym(library, "cuLaunchKernel");
	*reinterpret_cast<void **>(&synchronize) = dlsym(library, "cuCtxSynchronize");
	alarm(300);
	puts("ready");
	fflush(stdout);
	while (fgets(line, sizeof(line), stdin) && std::string(line) != "exit\n") {
		train_step(); /* there has been something to wait for */
		for (int i = 0; i < 12; i++)
			gap();
		printf("{\"pid\": %d, \"parts\": {\"load_batch\": {\"ns\": %lu, \"cpu_ns\": %lu}, "
		       "\"augment\": {\"ns\": %lu, \"cpu_ns\": %lu}}, \"gaps\": %u, "
		       "\"ns\": [%lu, %lu], \"copy_ns\": [0, 0]}\n",
		       getpid(), loaded.ns, loaded.cpu_ns, augmented.ns, augmented.cpu_ns, gaps,
		       starved[0], starved[1]);
		fflush(stdout);
	}
	return 0;
}
