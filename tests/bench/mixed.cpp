// SPDX-License-Identifier: Apache-2.0
/* What C++ programs do all day: strings in maps, sorting, virtual calls, exceptions. For ever. */
#include <algorithm>
#include <csignal>
#include <map>
#include <memory>
#include <stdexcept>
#include <string>
#include <sys/prctl.h>
#include <vector>

struct shape {
	virtual ~shape() = default;
	virtual unsigned int area(unsigned int depth) const = 0;
};

struct square : shape {
	unsigned int side = 3;

	unsigned int area(unsigned int depth) const override
	{
		return depth ? square().area(depth - 1) + side : side * side;
	}
};

struct disc : shape {
	unsigned int area(unsigned int depth) const override
	{
		if (depth % 8 == 7)
			throw std::runtime_error("too deep");
		return depth * 3;
	}
};

static unsigned int one_round(unsigned int seed)
{
	std::vector<std::unique_ptr<shape>> shapes;
	std::map<std::string, unsigned int> areas;
	std::vector<unsigned int> values;

	for (unsigned int i = 0; i < 500; i++) {
		if (i % 2)
			shapes.push_back(std::make_unique<square>());
		else
			shapes.push_back(std::make_unique<disc>());
		seed = seed * 1664525 + 1013904223;
		try {
			areas["shape number " + std::to_string(seed % 1000)] +=
				shapes.back()->area(seed >> 28);
		} catch (const std::exception &) {
			seed++;
		}
	}
	for (const auto &area : areas)
		values.push_back(area.second ^ seed);
	std::sort(values.begin(), values.end(),
		  [](unsigned int a, unsigned int b) { return a % 1009 < b % 1009; });
	return values[values.size() / 2];
}

int main()
{
	unsigned int seed = 1;

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	for (;;)
		seed += one_round(seed);
}
