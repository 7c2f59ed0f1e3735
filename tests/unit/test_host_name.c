// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/host_name.h"

struct given {
	char text[300];
	bool taken;
};

ParameterizedTestParameters(host_name, environment)
{
	static struct given cases[] = {
		{ "gpu-node-7.eu_west.example", true },
		{ "7", true },
		{ "", false },
		{ "..", false },
		{ ".hidden", false },
		{ "a/../../b", false },
		{ "node 7", false },
		{ "node\n7", false },
		{ "n\303\266de", false },
		{ { 0 }, true }, /* 253 bytes */
		{ { 0 }, false }, /* 254 bytes */
	};
	size_t nr = sizeof(cases) / sizeof(cases[0]);

	memset(cases[nr - 2].text, 'x', HOST_NAME_BYTES - 1);
	memset(cases[nr - 1].text, 'x', HOST_NAME_BYTES);
	return cr_make_param_array(struct given, cases, nr);
}

ParameterizedTest(struct given *given, host_name, environment)
{
	char wanted[HOST_NAME_BYTES] = { 0 }, found[HOST_NAME_BYTES];

	cr_assert_eq(gethostname(wanted, sizeof(wanted) - 1), 0);
	setenv("BPFPROF_HOST", given->text, 1);
	host_name(found);
	cr_assert_str_eq(found, given->taken ? given->text : wanted);
}

Test(host_name, of_the_system)
{
	char wanted[HOST_NAME_BYTES] = { 0 }, found[HOST_NAME_BYTES];

	unsetenv("BPFPROF_HOST");
	cr_assert_eq(gethostname(wanted, sizeof(wanted) - 1), 0);
	host_name(found);
	cr_assert_str_eq(found, wanted);
}
