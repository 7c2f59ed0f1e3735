// SPDX-License-Identifier: Apache-2.0
// Allocates in functions of C++ that know how much: the protocol is that of allocates.c.
#define TARGET_MAIN
#include "target.h"

#include <array>
#include <cstdio>
#include <cstring>
#include <map>
#include <new>
#include <vector>

// jemalloc alone has them.
extern "C" {
[[gnu::weak]] void *mallocx(size_t bytes, int flags);
[[gnu::weak]] void *rallocx(void *block, size_t bytes, int flags);
[[gnu::weak]] void dallocx(void *block, int flags);
[[gnu::weak]] void sdallocx(void *block, size_t bytes, int flags);
}

namespace
{
constexpr size_t MIB = 1 << 20;
size_t allocated, held;
std::vector<void *> kept; // holds room from the start on, so that it does not count

void keep(void *p, size_t bytes)
{
	*static_cast<volatile char *>(p) = 1;
	kept.push_back(p);
	allocated += bytes;
	held += bytes;
}
} // namespace

struct object {
	char text[1000];
};

NOINLINE void objects(size_t mib)
{
	for (size_t i = 0; i < mib * MIB / sizeof(object); i++)
		keep(new object, sizeof(object));
	BARRIER();
}

NOINLINE void rows(size_t mib)
{
	for (size_t i = 0; i < mib * MIB / 65536; i++)
		keep(new char[65536], 65536);
	BARRIER();
}

// A multiple of the alignment: some libraries ask for no less.
NOINLINE void wide(size_t mib)
{
	for (size_t i = 0; i < mib * MIB / 12288; i++)
		keep(operator new(12288, std::align_val_t(4096)), 12288);
	BARRIER();
}

NOINLINE void vectors(size_t mib)
{
	auto *values = new std::vector<int>;
	size_t room = 0;

	while (values->size() < mib * MIB / sizeof(int)) {
		values->push_back(1);
		if (values->capacity() == room)
			continue;
		room = values->capacity();
		allocated += room * sizeof(int);
	}
	held += room * sizeof(int);
	BARRIER();
}

NOINLINE void maps(size_t mib)
{
	using table = std::map<int, std::array<char, 1000>>;
	constexpr size_t bytes = sizeof(std::_Rb_tree_node<table::value_type>);
	auto *values = new table;

	for (size_t i = 0; i < mib * MIB / bytes; i++) {
		(*values)[static_cast<int>(i)][0] = 1;
		allocated += bytes;
		held += bytes;
	}
	BARRIER();
}

NOINLINE void gone(size_t mib)
{
	for (size_t i = 0; i < mib * MIB / sizeof(object); i++) {
		auto *volatile p = new object;

		p->text[0] = 1;
		delete p;
		allocated += sizeof(object);
	}
	BARRIER();
}

// new and delete in all forms.
NOINLINE void forms(size_t mib)
{
	constexpr auto align = std::align_val_t(4096);

	for (size_t i = 0; i < mib * MIB / 32768; i++) {
		void *blocks[] = { operator new(4096), operator new(4096, std::nothrow),
				   operator new(4096, align), operator new(4096, align, std::nothrow),
				   operator new[](4096), operator new[](4096, std::nothrow),
				   operator new[](4096, align),
				   operator new[](4096, align, std::nothrow) };

		for (void *block : blocks)
			*static_cast<volatile char *>(block) = 1;
		operator delete(blocks[0]);
		operator delete(blocks[1], std::nothrow);
		operator delete(blocks[2], align);
		operator delete(blocks[3], align, std::nothrow);
		operator delete[](blocks[4]);
		operator delete[](blocks[5], 4096);
		operator delete[](blocks[6], 4096, align);
		operator delete[](blocks[7], align, std::nothrow);
		allocated += sizeof(blocks) / sizeof(blocks[0]) * 4096;
	}
	BARRIER();
}

NOINLINE void extended(size_t mib)
{
	for (size_t i = 0; i < mib * MIB / 16384; i++) {
		keep(rallocx(mallocx(2048, 0), 6144, 0), 8192);
		held -= 2048;
		dallocx(mallocx(4096, 0), 0);
		sdallocx(mallocx(4096, 0), 4096, 0);
		allocated += 8192;
	}
	BARRIER();
}

int main(int argc, char **argv)
{
	static const struct {
		const char *name;
		void (*run)(size_t mib);
	} functions[] = { { "objects", objects }, { "rows", rows }, { "wide", wide },
			  { "vectors", vectors }, { "maps", maps }, { "gone", gone },
			  { "forms", forms },
			  { "extended", extended } };
	char name[32];
	size_t mib;

	target_init(argc, argv);
	kept.reserve(MIB);
	printf("%d ready 0 0\n", getpid());
	fflush(stdout);
	while (scanf("%31s %zu", name, &mib) == 2) {
		allocated = held = 0;
		for (const auto &function : functions)
			if (!strcmp(name, function.name))
				function.run(mib);
		printf("%d %s %zu %zu\n", getpid(), name, allocated, held);
		fflush(stdout);
	}
	return 0;
}
