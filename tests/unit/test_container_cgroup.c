// SPDX-License-Identifier: Apache-2.0
#include "container/cgroup_path.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define A "1f2e3d4c5b6a79881f2e3d4c5b6a79881f2e3d4c5b6a79881f2e3d4c5b6a7988"
#define B "aaaabbbbccccddddaaaabbbbccccddddaaaabbbbccccddddaaaabbbbccccdddd"
#define UID "0d1c2b3a-4958-6776-8594-a3b2c1d0e1f2"
#define UID_ "0d1c2b3a_4958_6776_8594_a3b2c1d0e1f2"
#define STATIC_UID "0123456789abcdef0123456789abcdef"
#define RAY "ray_node_0123456789abcdef0123456789abcdef0123456789abcdef01234567"
#define SLICE "/kubepods.slice/kubepods-burstable.slice/kubepods-burstable-pod" UID_ ".slice/"

struct path_case {
	char name[32];
	char text[640];
	char id[72]; /* first one */
	unsigned int nr_sure;
	char uid[40];
};

static struct path_case path_cases[] = {
	{ "cgroupfs burstable", "0::/kubepods/burstable/pod" UID "/" A "\n", A, 1, UID },
	{ "cgroupfs guaranteed", "0::/kubepods/pod" UID "/" A, A, 1, UID },
	{ "systemd containerd", "0::" SLICE "cri-containerd-" A ".scope\n", A, 1, UID },
	{ "systemd CRI-O", "0::" SLICE "crio-" A ".scope/container\n", A, 1, UID },
	{ "CRI-O's monitor", "0::" SLICE "crio-conmon-" A ".scope\n", "", 0, UID },
	{ "cri-dockerd", "0::" SLICE "docker-" A ".scope\n", A, 1, UID },
	{ "podman", "0::/machine.slice/libpod-" A ".scope/container\n", A, 1, "" },
	{ "podman's monitor", "0::/machine.slice/libpod-conmon-" A ".scope\n", "", 0, "" },
	{ "init in a scope", "0::" SLICE "cri-containerd-" A ".scope/init\n", A, 1, UID },
	{ "runc names in cgroupfs",
	  "0::/system.slice/containerd.service/kubepods-burstable-pod" UID_
	  ".slice:cri-containerd:" A "\n",
	  A, 1, UID },
	{ "the same, no hex id",
	  "0::/system.slice/containerd.service/kubepods-burstable-pod" UID_
	  ".slice:cri-containerd:web\n",
	  "web", 1, UID },
	{ "kind",
	  "0::/kubelet.slice/kubelet-kubepods.slice/kubelet-kubepods-besteffort.slice/"
	  "kubelet-kubepods-besteffort-pod" UID_ ".slice/cri-containerd-" A ".scope\n",
	  A, 1, UID },
	{ "docker", "0::/docker/" A "\n", A, 1, "" },
	{ "docker with systemd", "0::/system.slice/docker-" A ".scope\n", A, 1, "" },
	{ "buildkit", "0::/docker/buildkit/x7k2m9\n", "x7k2m9", 1, "" },
	{ "nerdctl", "0::/k8s.io/" A "\n", A, 1, "" },
	{ "ctr, a name", "0::/k8s.io/abc123\n", "abc123", 1, "" },
	{ "ctr, another namespace", "0::/default/web.1\n", "web.1", 0, "" },
	{ "LXC", "0::/lxc.payload.box/system.slice/x.service\n", "box", 1, "" },
	{ "LXC, v1", "3:cpu:/lxc/box\n", "box", 1, "" },
	{ "static pod", "0::/kubepods/burstable/pod" STATIC_UID "/" A "\n", A, 1, STATIC_UID },
	{ "static pod, systemd",
	  "0::/kubepods.slice/kubepods-pod" STATIC_UID ".slice/cri-containerd-" A ".scope\n", A, 1,
	  STATIC_UID },
	{ "ECS", "9:memory:/ecs/task/" STATIC_UID "-1234567890\n", STATIC_UID "-1234567890", 1,
	  "" },
	{ "docker in docker", "0::/docker/" A "/docker/" B "\n", B, 2, "" },
	{ "kind from outside", "0::/docker/" A "/kubelet/kubepods/pod" UID "/" B "\n", B, 2, UID },
	{ "Ray's groups", "0::" SLICE "cri-containerd-" A ".scope/" RAY "/user/workers\n", A, 1,
	  UID },
	{ "Ray's groups, cgroupfs", "0::/kubepods/pod" UID "/" A "/" RAY "/system/leaf\n", A, 1,
	  UID },
	{ "from a cgroup namespace", "0::/../../pod" UID "/" A "\n", A, 1, UID },
	{ "of the same pod", "0::/../" A "\n", A, 1, "" },
	{ "our own", "0::/\n", "", 0, "" },
	{ "v1", "12:cpu,cpuacct:/kubepods/pod" UID "/" A "\n1:name=systemd:/\n", A, 1, UID },
	{ "hybrid, v2 empty", "2:memory:/kubepods/pod" UID "/" A "\n0::/\n", A, 1, UID },
	{ "hybrid, v2 elsewhere",
	  "2:memory:/kubepods/pod" UID "/" A "\n0::/system.slice/containerd.service\n", A, 1, UID },
	{ "v2 before v1", "2:memory:/docker/" A "\n0::/docker/" B "\n", B, 1, "" },
	{ "systemd before memory", "2:memory:/docker/" A "\n1:name=systemd:/docker/" B "\n", B, 1,
	  "" },
	{ "a user's session", "0::/user.slice/user-1000.slice/session-3.scope\n", "session-3", 0,
	  "" },
	{ "a service", "0::/system.slice/cron.service\n", "", 0, "" },
	{ "65 digits", "0::/docker-x/1" A "\n", "1" A, 0, "" },
	{ "uppercase is no id", "0::/x/" STATIC_UID STATIC_UID "F\n", STATIC_UID STATIC_UID "F", 0,
	  "" },
	{ "a pod's uid too long", "0::/kubepods/pod" UID "0/" A "\n", A, 1, "" },
	{ "another pod's uid below",
	  "0::/kubepods/pod" UID "/" A "/pod11111111-1111-1111-1111-111111111111\n", A, 1, UID },
	{ "no path", "0::\n", "", 0, "" },
	{ "no colon", "garbage\n\n::\n", "", 0, "" },
	{ "nothing", "", "", 0, "" },
	{ "dots", "0::/k8s.io/..\n", "", 0, "" },
	{ "control bytes", "0::/k8s.io/a\x01\x1b[31m\n", "", 0, "" },
};

ParameterizedTestParameters(container_cgroup, shape)
{
	return cr_make_param_array(struct path_case, path_cases,
				   sizeof(path_cases) / sizeof(path_cases[0]));
}

ParameterizedTest(struct path_case *c, container_cgroup, shape)
{
	struct cgroup_ids ids;

	cgroup_ids_parse(&ids, c->text);
	cr_expect_str_eq(ids.nr ? ids.ids[0] : "", c->id, "%s: id %s", c->name,
			 ids.nr ? ids.ids[0] : "");
	cr_expect_eq(ids.nr_sure, c->nr_sure, "%s: %zu sure", c->name, ids.nr_sure);
	cr_expect_str_eq(ids.pod_uid, c->uid, "%s: uid %s", c->name, ids.pod_uid);
}

/* The innermost id comes first, so ids that a container makes below its own come before it. */
Test(container_cgroup, order_of_ids)
{
	struct cgroup_ids ids;

	cgroup_ids_parse(&ids, "0::/kubepods/pod" UID "/" A "/x/" B "/leaf\n");
	cr_assert_eq(ids.nr_sure, 2);
	cr_expect_str_eq(ids.ids[0], B);
	cr_expect_str_eq(ids.ids[1], A);
}

Test(container_cgroup, paths_without_end)
{
	size_t len = 60000, i;
	char *text = malloc(len + 1);
	struct cgroup_ids ids;

	cr_assert_not_null(text);
	memset(text, 'a', len);
	memcpy(text, "0::/", 4);
	text[len] = 0;
	cgroup_ids_parse(&ids, text);
	/* The end of a longer name is no id. */
	cr_expect_eq(ids.nr_sure, 0);
	for (i = 4; i < len; i += 2)
		text[i] = '/';
	cgroup_ids_parse(&ids, text);
	cr_expect_eq(ids.nr_sure, 0);
	cr_expect_leq(ids.nr, CGROUP_MAX_IDS);
	/* Groups that the container makes below its own id do not hide the id. */
	memcpy(text + 3, "/" A, 65);
	cgroup_ids_parse(&ids, text);
	cr_expect_eq(ids.nr_sure, 1);
	cr_expect_str_eq(ids.ids[0], A);
	free(text);
}

/* A container that can write its cgroups may make any other ids below its own. */
Test(container_cgroup, ids_without_end)
{
	char text[8192];
	struct cgroup_ids ids;
	size_t len, i;

	for (i = 1; i < 60; i++) {
		len = (size_t)snprintf(text, sizeof(text), "0::/kubepods/pod" UID "/" A);
		for (size_t k = 0; k < i; k++)
			len += (size_t)snprintf(text + len, sizeof(text) - len, "/%064zx", k);
		cgroup_ids_parse(&ids, text);
		cr_assert_eq(ids.nr_sure, i < CGROUP_MAX_IDS ? i + 1 : CGROUP_MAX_IDS);
		cr_assert_str_eq(ids.ids[ids.nr_sure - 1], A, "%zu below", i);
		cr_assert_str_eq(ids.pod_uid, UID);
	}
}
