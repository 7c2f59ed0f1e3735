// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <errno.h>
#include <string.h>
#include <sys/types.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "capture/requirements.h"

/*
 * This holds on every machine: names occur once, with one line each, and a remedy only if something
 * is wrong.
 */
Test(requirements, lines)
{
	struct requirements reqs;

	libbpf_log_init();
	cr_assert_eq(requirements_probe(&reqs, "/"), 0);
	cr_assert_eq(requirements_probe_target(&reqs, getpid()), 0);
	cr_assert_gt(reqs.nr, 12);
	for (size_t i = 0; i < reqs.nr; i++) {
		const struct requirement *req = &reqs.items[i];

		cr_expect_neq(*req->found, 0, "%s", req->name);
		cr_expect_eq(strpbrk(req->found, "\n\r\033"), NULL, "%s", req->name);
		cr_expect_eq(req->remedy == NULL, req->status == REQUIREMENT_OK, "%s", req->name);
		for (size_t j = 0; j < i; j++)
			cr_expect_str_neq(req->name, reqs.items[j].name);
	}
	cr_expect_str_eq(reqs.items[reqs.nr - 1].name, "target");
	cr_expect_eq(reqs.items[reqs.nr - 1].status, REQUIREMENT_OK);
	requirements_fini(&reqs);
}

Test(requirements, target_that_is_none)
{
	struct requirements reqs = { 0 };
	pid_t pid = fork();

	cr_assert_geq(pid, 0);
	if (!pid)
		_exit(0);
	cr_assert_eq(waitpid(pid, NULL, 0), pid);
	cr_assert_eq(requirements_probe_target(&reqs, pid), 0);
	cr_assert_eq(reqs.nr, 1);
	cr_expect_eq(reqs.items[0].status, REQUIREMENT_FAIL);
	cr_expect_neq(strstr(reqs.items[0].found, "no such process"), NULL, "%s",
		      reqs.items[0].found);
	requirements_fini(&reqs);
}

/* Without privileges: one sentence that names both capabilities and how to get them. */
Test(requirements, unprivileged)
{
	struct buf message;

	buf_init(&message, 4096);
	if (!geteuid() && setuid(65534))
		cr_assert_fail("setuid");
	cr_expect_eq(requirements_check(&message), -EPERM);
	cr_expect_neq(strstr(message.data, "CAP_BPF and CAP_PERFMON are missing"), NULL, "%s",
		      message.data);
	cr_expect_neq(strstr(message.data, "remedy: sudo setpriv"), NULL, "%s", message.data);
	cr_expect_eq(strchr(message.data, '\n'), NULL);
	buf_fini(&message);
}
