// SPDX-License-Identifier: Apache-2.0
// Threads that sleep in C++: templates, lambdas, virtual functions, exceptions on the way.
#define TARGET_MAIN
#include "target.h"

#include <condition_variable>
#include <functional>
#include <future>
#include <mutex>
#include <thread>
#include <vector>

namespace asleep
{
NOINLINE void nap()
{
	sleep(100000);
	target_sink++;
}

template <typename T> struct sleeper {
	NOINLINE void operator()(const T &value) const
	{
		nap();
		target_sink += value.size();
	}
};

struct base {
	virtual ~base() = default;
	virtual void run() const = 0;
};

struct derived : base {
	NOINLINE void run() const override
	{
		nap();
		target_sink++;
	}
};

struct closes {
	NOINLINE ~closes()
	{
		nap();
		target_sink++;
	}
};

NOINLINE void throws()
{
	throw 1;
}

NOINLINE void catches()
{
	try {
		throws();
	} catch (int value) {
		nap();
		target_sink += (unsigned long)value;
	}
}

NOINLINE void unwinds()
{
	try {
		closes last;
		throws();
	} catch (int) {
		target_sink++;
	}
}

NOINLINE void waits()
{
	std::mutex mutex;
	std::condition_variable condition;
	std::unique_lock<std::mutex> lock(mutex);

	condition.wait(lock, [] { return target_sink == 1UL << 63; });
}

NOINLINE void future()
{
	std::promise<int> promise;

	target_sink += (unsigned long)promise.get_future().get();
}
} // namespace asleep

int main(int argc, char **argv)
{
	target_init(argc, argv);
	std::vector<std::function<void()>> ways = {
		[] { asleep::sleeper<std::vector<long>>()(std::vector<long>(3)); },
		[] {
			const asleep::base &object = asleep::derived();
			object.run();
		},
		asleep::catches, asleep::unwinds, asleep::waits, asleep::future,
	};
	for (const auto &way : ways)
		std::thread(way).detach();
	asleep::nap();
	return 0;
}
