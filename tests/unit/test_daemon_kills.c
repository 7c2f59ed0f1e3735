// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>

#include "daemon/daemon.h"

TestSuite(daemon_kills);

/* Only files of killed processes are removed when there are too many, and served. */
Test(daemon_kills, names)
{
	static const char *const others[] = {
		"",
		"oom-",
		"kill-20261129T133932Z",
		"oom-20261129T133932Z-1",
		"oom-20261129T133932Z.txt",
		"oom-20261129T1339322-7.txt",
		"oom-20261129t133932Z-7.txt",
		"oom-20261129T133932Z-7.sh",
		"oom-2026112xT133932Z-7.txt",
		"xoom-20261129T133932Z-7.txt",
		"cpu-20261129T133932Z-7.txt",
	};
	size_t i;

	cr_expect(kills_is_file("oom-20261129T133932Z-7.txt"));
	cr_expect(kills_is_file("kill-20261129T133932Z-pod.example-4194304.pb.gz"));
	cr_expect(kills_is_file("kill-20261129T133932Z-7.html"));
	cr_expect(kills_is_file("oom-20261129T133932Z-7.folded"));
	for (i = 0; i < sizeof(others) / sizeof(others[0]); i++)
		cr_expect_not(kills_is_file(others[i]), "%s", others[i]);
}
