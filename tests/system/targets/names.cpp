// SPDX-License-Identifier: Apache-2.0
// Names that must come out demangled and without parameters.
#define TARGET_MAIN
#include "target.h"

#include <map>
#include <string>

namespace outer
{
namespace
{
NOINLINE unsigned long hidden(const char *text, unsigned long rounds)
{
	for (unsigned long i = 0; i < rounds; i++)
		target_sink += i ^ (target_sink >> 3) ^ (unsigned char)text[0];
	return target_sink;
}
} // namespace

template <typename T, int N> struct widget {
	T value;
	NOINLINE unsigned long operator()(const std::map<std::string, T> &table) const;
	NOINLINE unsigned long operator<(const widget &other) const;
};

template <typename T, int N> unsigned long widget<T, N>::operator<(const widget &other) const
{
	unsigned long sum = hidden("less", 20000);

	BARRIER();
	return sum + (unsigned long)(value < other.value);
}

template <typename T, int N>
unsigned long widget<T, N>::operator()(const std::map<std::string, T> &table) const
{
	unsigned long sum = *this < widget<T, N>{ 3 };

	BARRIER();
	return sum + table.size();
}
} // namespace outer

template <typename T> NOINLINE unsigned long run(const T &w)
{
	std::map<std::string, long> table;
	unsigned long sum = w(table);

	BARRIER();
	return sum + table.size();
}

int main(int argc, char **argv)
{
	outer::widget<long, 7> w = { 5 };

	target_init(argc, argv);
	for (;;)
		target_sink += run(w);
}
