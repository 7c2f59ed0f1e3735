// SPDX-License-Identifier: Apache-2.0
#include "proc/node_root.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>

#include "test_elf_fixture.h"

#define NODE "1 0 8:1 / / rw - ext4 /dev/sda1 rw\n2 1 0:5 / /proc rw - proc proc rw\n"
#define HIDDEN "1 0 0:1 / / rw - rootfs none rw\n2 1 8:1 / / rw - ext4 /dev/sda1 rw\n"

static void mountinfo_write(const char *process, const char *text)
{
	char path[64];

	snprintf(path, sizeof(path), "mkdir -p proc/%s", process);
	fixture_run(path);
	snprintf(path, sizeof(path), "proc/%s/mountinfo", process);
	fixture_write(path, text);
}

struct node_case {
	char first[160], own[160]; /* first "": process 1 cannot be seen */
	enum node_root root;
};

ParameterizedTestParameters(node_root, look)
{
	static struct node_case cases[] = {
		{ NODE, NODE, NODE_ROOT_OURS },
		/* The service has mounted a /tmp of its own. */
		{ NODE, NODE "3 1 0:9 / /tmp rw - tmpfs none rw\n", NODE_ROOT_OURS },
		/* The initial root folder lies below that of the node. */
		{ HIDDEN, NODE, NODE_ROOT_OURS },
		/* A container, which has also mounted the node's disk. */
		{ NODE,
		  "1 0 0:44 / / rw - overlay overlay rw\n2 1 8:1 / /host rw - ext4 /dev/sda1 rw\n",
		  NODE_ROOT_ELSEWHERE },
		/* A folder of the same disk. */
		{ NODE, "1 0 8:1 /srv/root / rw - ext4 /dev/sda1 rw\n", NODE_ROOT_ELSEWHERE },
		/* chroot(2) into a folder that is no mount. */
		{ NODE, "2 1 0:5 / /proc rw - proc proc rw\n", NODE_ROOT_ELSEWHERE },
		{ "", NODE, NODE_ROOT_UNKNOWN },
		{ "2 1 0:5 / /proc rw - proc proc rw\n", NODE, NODE_ROOT_UNKNOWN },
	};

	return cr_make_param_array(struct node_case, cases, sizeof(cases) / sizeof(cases[0]));
}

ParameterizedTest(struct node_case *given, node_root, look)
{
	char *proc = fixture_path("proc");

	if (given->first[0])
		mountinfo_write("1", given->first);
	mountinfo_write("self", given->own);
	cr_expect_eq(node_root_look(proc), given->root);
	free(proc);
}
