// SPDX-License-Identifier: Apache-2.0
// Exceptions through three frames, with a destructor on the way.
#define TARGET_MAIN
#include "target.h"

#include <stdexcept>

struct guard {
	~guard();
};

NOINLINE guard::~guard()
{
	target_sink += 1;
}

NOINLINE unsigned long throw_spin(unsigned long rounds)
{
	for (unsigned long i = 0; i < rounds; i++)
		target_sink += i ^ (target_sink >> 3);
	return target_sink;
}

NOINLINE unsigned long throw_three(unsigned long a)
{
	throw_spin(3000);
	if (a != 1)
		throw std::runtime_error("three");
	return a;
}

NOINLINE unsigned long throw_two(unsigned long a)
{
	guard g;
	unsigned long sum = throw_three(a);

	BARRIER();
	return sum + target_sink;
}

NOINLINE unsigned long throw_one(unsigned long a)
{
	try {
		return throw_two(a);
	} catch (const std::exception &e) {
		target_sink += throw_spin(300) + (e.what() ? 1 : 0);
	}
	BARRIER();
	return target_sink;
}

int main(int argc, char **argv)
{
	target_init(argc, argv);
	for (;;)
		target_sink += throw_one(2);
}
