// SPDX-License-Identifier: Apache-2.0
#include "container/containers.h"

#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "base/deadline.h"
#include "made_node.h"

#define SECOND 1000000000ULL
#define CGROUP                                                                                     \
	"0::/kubepods.slice/kubepods-pod0d1c2b3a_4958_6776_8594_a3b2c1d0e1f2.slice/"               \
	"cri-containerd-" MADE_ID ".scope\n"

static const char CONFIG[] =
	"{\"ociVersion\":\"1.0.2\",\"root\":{\"path\":\"rootfs\"},"
	"\"process\":{\"env\":[\"PATH=/bin\",\"REDIS_PASSWORD=hunter2\","
	"\"RAY_CLUSTER_NAME=rc\",\"RAY_NODE_TYPE_NAME=workers\",\"RAY_CLOUD_INSTANCE_ID=other\","
	"\"KUBERAY_GEN_RAY_START_CMD=ray start  --address=x:6379 \",\"RANK=3\"]},"
	"\"annotations\":{\"io.kubernetes.cri.container-type\":\"container\","
	"\"io.kubernetes.cri.container-name\":\"ray-worker\","
	"\"io.kubernetes.cri.sandbox-name\":\"rc-worker-x\","
	"\"io.kubernetes.cri.sandbox-namespace\":\"ml\","
	"\"io.kubernetes.cri.sandbox-uid\":\"" MADE_UID "\","
	"\"io.kubernetes.cri.image-name\":\"rayproject/ray:2.52\"}}";

static struct made_node made;
static struct deadline_runner *runner;
static struct containers *containers;

static void setup(void)
{
	made_node_init(&made);
	cr_assert_eq(deadline_runner_new(&runner), 0);
	cr_assert_eq(containers_new(&containers, runner, made.proc, made.node), 0);
}

static void teardown(void)
{
	containers_free(containers);
	deadline_runner_free(runner);
	made_node_fini(&made);
}

TestSuite(containers, .init = setup, .fini = teardown, .timeout = 60);

static const struct containers_stats *stats(void)
{
	return containers_stats(containers);
}

Test(containers, of_a_bundle)
{
	const struct container *c;
	char rootfs[512];

	made_bundle(&made, "k8s.io", MADE_ID, CONFIG);
	made_proc(&made, 42, made_own_root(&made), CGROUP);
	c = containers_of(containers, 42, 7, SECOND);
	cr_assert_not_null(c);
	snprintf(rootfs, sizeof(rootfs), "%s/k8s.io/%s/rootfs", MADE_TASKS, MADE_ID);
	cr_expect_eq(c->source, CONTAINER_FROM_BUNDLE);
	cr_expect_str_eq(c->id, MADE_ID);
	cr_expect_str_eq(c->name, "ray-worker");
	cr_expect_str_eq(c->pod, "rc-worker-x");
	cr_expect_str_eq(c->namespace, "ml");
	cr_expect_str_eq(c->pod_uid, MADE_UID);
	cr_expect_str_eq(c->image, "rayproject/ray:2.52");
	cr_expect_str_eq(c->ray_cluster, "rc");
	cr_expect_str_eq(c->ray_group, "workers");
	cr_expect_str_eq(c->ray_node_type, "worker");
	cr_expect_str_eq(c->rank, "3");
	cr_expect_str_eq(c->slurm_job, "");
	cr_expect_str_eq(c->rootfs, rootfs);
	cr_expect_eq(stats()->from_bundle, 1);
}

/* A container gave a group of its own another container's id. */
Test(containers, cgroup_that_lies)
{
	const struct container *c;
	char mountinfo[256];

	made_bundle(&made, "k8s.io", MADE_ID, CONFIG);
	made_bundle(&made, "k8s.io", MADE_ID2,
		    "{\"annotations\":{\"io.kubernetes.cri.container-name\":\"victim\"}}");
	/*
	 * Neither root is its own: nothing is proved, but the container cannot choose the outer id.
	 */
	snprintf(mountinfo, sizeof(mountinfo), "900 800 0:4000 / / rw - overlay overlay rw\n");
	made_proc(&made, 42, mountinfo, "0::/kubepods/pod" MADE_UID "/" MADE_ID "/" MADE_ID2 "\n");
	c = containers_of(containers, 42, 7, SECOND);
	cr_assert_not_null(c);
	cr_expect_eq(c->source, CONTAINER_FROM_CGROUP);
	cr_expect_str_eq(c->id, MADE_ID);
	cr_expect_str_eq(c->name, "ray-worker");
}

Test(containers, of_the_node)
{
	made_proc(&made, 50, "20 1 8:1 / / rw - ext4 /dev/sda1 rw\n",
		  "0::/system.slice/sshd.service\n");
	cr_expect_null(containers_of(containers, 50, 3, SECOND));
	cr_expect_eq(stats()->of_node, 1);
	/* The container stays known, even for a process that has ended. */
	cr_expect_null(containers_of(containers, 51, 3, SECOND));
	cr_expect_null(containers_of(containers, 51, 3, 1000 * SECOND));
	cr_expect_eq(stats()->of_node, 1);
}

/* Only a process whose place was read is proved to be the node's. */
Test(containers, proved_of_the_node)
{
	made_proc(&made, 50, "20 1 8:1 / / rw - ext4 /dev/sda1 rw\n", "0::/\n");
	made_proc(&made, 42, made_own_root(&made), "0::/\n"); /* another root */
	made_proc(&made, 43, "", "0::/\n"); /* has left its mount namespace */
	made_proc(&made, 44, "20 1 8:1 / / rw - ext4 /dev/sda1 rw\n", CGROUP);
	cr_expect(containers_is_of_node(containers, 50));
	cr_expect_not(containers_is_of_node(containers, 42));
	cr_expect_not(containers_is_of_node(containers, 43));
	cr_expect_not(containers_is_of_node(containers, 44));
	cr_expect_not(containers_is_of_node(containers, 51)); /* there is none */
}

/*
 * A process in the node's mount namespace and in a container's cgroup (nsenter) shows nothing about
 * other processes.
 */
Test(containers, that_entered_the_node)
{
	const struct container *c;

	made_bundle(&made, "k8s.io", MADE_ID, CONFIG);
	made_proc(&made, 42, "20 1 8:1 / / rw - ext4 /dev/sda1 rw\n", CGROUP);
	made_proc(&made, 43, "20 1 8:1 / / rw - ext4 /dev/sda1 rw\n", "0::/init.scope\n");
	c = containers_of(containers, 42, 3, SECOND);
	cr_assert_not_null(c);
	cr_expect_str_eq(c->name, "ray-worker");
	cr_expect_null(containers_of(containers, 43, 3, SECOND));
}

/* A node that is a container itself (kind): all its processes have its id. */
Test(containers, node_in_a_container)
{
	made_proc(&made, 1, "20 1 8:1 / / rw - overlay overlay rw\n",
		  "0::/docker/" MADE_ID2 "/init.scope\n");
	made_proc(&made, 42, "20 1 8:1 / / rw - overlay overlay rw\n",
		  "0::/docker/" MADE_ID2 "/kubelet.service\n");
	made_proc(&made, 43, made_own_root(&made),
		  "0::/docker/" MADE_ID2 "/kubelet/kubepods/pod" MADE_UID "/" MADE_ID "\n");
	made_bundle(&made, "k8s.io", MADE_ID, CONFIG);
	cr_expect_null(containers_of(containers, 42, 3, SECOND));
	cr_assert_not_null(containers_of(containers, 43, 4, SECOND));
	cr_expect_str_eq(containers_of(containers, 43, 4, SECOND)->id, MADE_ID);
}

/* The id is no hex number, and no namespace is known: the node's mounts show the container. */
Test(containers, by_mount_point)
{
	const struct container *c;
	char text[1024];

	made_bundle(&made, "lab", "web.1", CONFIG);
	snprintf(text, sizeof(text),
		 "20 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
		 "30 20 0:55 / %s/lab/web.1/rootfs rw - overlay overlay rw\n"
		 "31 20 0:55 /sub /elsewhere rw - overlay overlay rw\n",
		 MADE_TASKS);
	made_proc(&made, 1, text, "0::/init.scope\n");
	made_proc(&made, 42, "900 800 0:55 / / rw - overlay overlay rw\n", "0::/\n");
	made_proc(&made, 43, "900 800 0:55 /sub / rw - overlay overlay rw\n", "0::/\n");
	c = containers_of(containers, 42, 3, SECOND);
	cr_assert_not_null(c);
	cr_expect_eq(c->source, CONTAINER_FROM_BUNDLE);
	cr_expect_str_eq(c->id, "web.1");
	cr_expect_str_eq(c->name, "ray-worker");
	/* The same file system, but another folder of it (btrfs, bind mounts). */
	cr_expect_null(containers_of(containers, 43, 4, SECOND));
	cr_expect_eq(stats()->not_found, 1);
}

/* A root that the container made below its own, with its own config.json beside it. */
Test(containers, bundle_of_the_containers_own)
{
	const struct container *c;
	char text[1024];

	made_bundle(&made, "k8s.io", MADE_ID, CONFIG);
	made_file(&made, MADE_TASKS "/k8s.io/" MADE_ID "/rootfs/fake/config.json",
		  "{\"annotations\":{\"io.kubernetes.cri.sandbox-name\":\"victim\"}}");
	snprintf(text, sizeof(text),
		 "20 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
		 "30 20 0:55 / %s/k8s.io/%s/rootfs rw - overlay overlay rw\n",
		 MADE_TASKS, MADE_ID);
	made_proc(&made, 1, text, "0::/init.scope\n");
	made_proc(&made, 42, "9 8 0:55 /fake/rootfs / rw - overlay overlay rw\n", CGROUP);
	c = containers_of(containers, 42, 3, SECOND);
	cr_assert_not_null(c);
	cr_expect_str_eq(c->pod, "rc-worker-x");
	snprintf(text, sizeof(text), "%s/k8s.io/%s/rootfs/fake/rootfs", MADE_TASKS, MADE_ID);
	cr_expect_str_eq(c->rootfs, text);
	/* Without a cgroup nothing is known. */
	made_proc(&made, 43, "9 8 0:55 /fake/rootfs / rw - overlay overlay rw\n", "0::/\n");
	cr_expect_null(containers_of(containers, 43, 4, SECOND));
}

/* A name that may be anything counts only if the root proves it. */
Test(containers, guesses_need_proof)
{
	made_bundle(&made, "lab", "session-3", CONFIG);
	made_proc(&made, 42, "9 8 0:4000 / / rw - overlay overlay rw\n",
		  "0::/user.slice/session-3.scope\n");
	made_proc(&made, 43, made_own_root(&made), "0::/user.slice/session-3.scope\n");
	cr_expect_null(containers_of(containers, 42, 3, SECOND));
	cr_expect_not_null(containers_of(containers, 43, 4, SECOND));
}

/* CRI-O mounts the root elsewhere, and config.json names the place. */
Test(containers, of_crio)
{
	static const char config[] =
		"{\"root\":{\"path\":\"/var/lib/containers/storage/overlay/x/"
		"merged\"},\"annotations\":{"
		"\"io.kubernetes.pod.name\":\"p\",\"io.kubernetes.pod.namespace\":\"n\","
		"\"io.kubernetes.pod.uid\":\"" MADE_UID "\",\"io.kubernetes.container.name\":\"c\","
		"\"io.kubernetes.cri-o.ImageName\":\"quay.io/x:1\","
		"\"io.kubernetes.cri-o.Labels\":\"{\\\"ray.io/cluster\\\":\\\"rc\\\",\\\"ray.io/"
		"node-type\\\":\\\"head\\\"}\"}}";
	const struct container *c;

	made_file(&made,
		  "/var/lib/containers/storage/overlay-containers/" MADE_ID "/userdata/config.json",
		  config);
	made_proc(&made, 42, "9 8 0:4000 / / rw - overlay overlay rw\n",
		  "0::/kubepods.slice/crio-" MADE_ID ".scope\n");
	c = containers_of(containers, 42, 3, SECOND);
	cr_assert_not_null(c);
	/* CRI-O's mounts are its own: nothing is proved. */
	cr_expect_eq(c->source, CONTAINER_FROM_CGROUP);
	cr_expect_str_eq(c->id, MADE_ID);
	cr_expect_str_eq(c->name, "c");
	cr_expect_str_eq(c->pod, "p");
	cr_expect_str_eq(c->namespace, "n");
	cr_expect_str_eq(c->pod_uid, MADE_UID);
	cr_expect_str_eq(c->image, "quay.io/x:1");
	cr_expect_str_eq(c->ray_cluster, "rc");
	cr_expect_str_eq(c->ray_node_type, "head");
	cr_expect_str_eq(c->rootfs, "");
	/* Unless the node sees them. */
	made_proc(&made, 1,
		  "20 1 8:1 / / rw - ext4 /dev/sda1 rw\n"
		  "30 20 0:4000 / /var/lib/containers/storage/overlay/x/merged rw - overlay "
		  "overlay rw\n",
		  "0::/\n");
	c = containers_of(containers, 42, 4, SECOND);
	cr_expect_eq(c->source, CONTAINER_FROM_BUNDLE);
	cr_expect_str_eq(c->rootfs, "/var/lib/containers/storage/overlay/x/merged");
}

/* dockerd keeps kubelet's labels in a file of its own. */
Test(containers, of_docker)
{
	const struct container *c;

	made_bundle(&made, "moby", MADE_ID,
		    "{\"root\":{\"path\":\"/var/lib/docker/overlay2/x/merged\"}}");
	made_file(&made, "/var/lib/docker/containers/" MADE_ID "/config.v2.json",
		  "{\"Name\":\"/"
		  "k8s_web_p_n_u_0\",\"Config\":{\"Image\":\"web:1\",\"Env\":[\"RANK=1\",\"TOKEN="
		  "x\"],"
		  "\"Labels\":{\"io.kubernetes.pod.name\":\"p\",\"io.kubernetes.container.name\":"
		  "\"web\"}}}");
	made_proc(&made, 42, made_own_root(&made), "0::/docker/" MADE_ID "\n");
	c = containers_of(containers, 42, 3, SECOND);
	cr_assert_not_null(c);
	cr_expect_str_eq(c->name, "web");
	cr_expect_str_eq(c->pod, "p");
	cr_expect_str_eq(c->image, "web:1");
	cr_expect_str_eq(c->rank, "1");
}

/* Without a bundle the cgroup and kubelet's mounts name the container. */
Test(containers, without_a_bundle)
{
	const struct container *c;

	made_proc(&made, 42,
		  "9 8 0:4000 / / rw - overlay overlay rw\n"
		  "10 9 8:1 /var/lib/kubelet/pods/" MADE_UID
		  "/containers/web/1a2b /dev/termination-log rw - ext4 x rw\n",
		  CGROUP);
	c = containers_of(containers, 42, 3, SECOND);
	cr_assert_not_null(c);
	cr_expect_eq(c->source, CONTAINER_FROM_CGROUP);
	cr_expect_str_eq(c->id, MADE_ID);
	cr_expect_str_eq(c->name, "web");
	cr_expect_str_eq(c->pod_uid, MADE_UID);
	made_proc(&made, 43,
		  "9 8 0:4001 / / rw - overlay overlay rw\n"
		  "10 9 8:1 /var/lib/kubelet/pods/" MADE_UID
		  "/containers/web/1a2b /dev/termination-log rw - ext4 x rw\n",
		  "0::/\n");
	c = containers_of(containers, 43, 4, SECOND);
	cr_assert_not_null(c);
	cr_expect_eq(c->source, CONTAINER_FROM_MOUNTS);
	cr_expect_str_eq(c->id, "");
	cr_expect_str_eq(c->name, "web");
	cr_expect_eq(stats()->from_cgroup, 1);
	cr_expect_eq(stats()->from_mounts, 1);
}

/* The folders of the pod's logs show pod and namespace by the pod's uid. */
Test(containers, pod_by_its_logs)
{
	const struct container *c;

	made_file(&made, "/var/log/pods/kube-system_x_11111111-1111-1111-1111-111111111111/c/0.log",
		  "");
	made_file(&made, "/var/log/pods/_" MADE_UID, "");
	made_file(&made, "/var/log/pods/ml_rc-worker-x_" MADE_UID "/ray-worker/0.log", "");
	made_proc(&made, 42, "9 8 0:4000 / / rw - overlay overlay rw\n", CGROUP);
	c = containers_of(containers, 42, 3, SECOND);
	cr_assert_not_null(c);
	cr_expect_str_eq(c->namespace, "ml");
	cr_expect_str_eq(c->pod, "rc-worker-x");
	cr_expect_str_eq(c->pod_uid, MADE_UID);
	cr_expect_eq(c->source, CONTAINER_FROM_CGROUP);
}

/* The mounts of a sandbox name another pod than its cgroup. */
Test(containers, mounts_that_lie)
{
	const struct container *c;

	made_proc(&made, 42,
		  "9 8 0:4000 / / rw - tmpfs tmpfs rw\n"
		  "10 9 0:55 /pods/11111111-1111-1111-1111-111111111111/containers/victim/1 /x rw "
		  "- overlay x rw\n",
		  CGROUP);
	c = containers_of(containers, 42, 3, SECOND);
	cr_assert_not_null(c);
	cr_expect_str_eq(c->pod_uid, MADE_UID);
	cr_expect_str_eq(c->name, "");
}

/* The facts also hold for processes that have exited, as long as they are requested. */
Test(containers, are_remembered)
{
	const struct container *c;
	char path[128];

	made_bundle(&made, "k8s.io", MADE_ID, CONFIG);
	made_proc(&made, 42, made_own_root(&made), CGROUP);
	c = containers_of(containers, 42, 7, SECOND);
	cr_assert_not_null(c);
	snprintf(path, sizeof(path), "%s/42/mountinfo", made.proc);
	unlink(path);
	cr_expect_eq(containers_of(containers, 42, 7, 2 * SECOND), c);
	cr_expect_eq(containers_of(containers, 99, 7, 2 * SECOND), c, "gone before it was seen");
	containers_expire(containers, 2 * SECOND + CONTAINERS_KEEP_NS);
	cr_expect_eq(containers_count(containers), 1);
	cr_expect_not_null(containers_of(containers, 99, 7, 700 * SECOND));
	containers_expire(containers, 701 * SECOND);
	cr_expect_eq(containers_count(containers), 1);
	containers_expire(containers, 700 * SECOND + CONTAINERS_KEEP_NS + 1);
	cr_expect_eq(containers_count(containers), 0);
	cr_expect_null(containers_of(containers, 99, 7, 2000 * SECOND));
	cr_expect_geq(stats()->exited, 1);
}

/* The first pid belonged to another process when it was read. */
Test(containers, second_process_puts_right)
{
	const struct container *c;

	made_bundle(&made, "k8s.io", MADE_ID, CONFIG);
	made_proc(&made, 42, "20 1 8:1 / / rw - ext4 /dev/sda1 rw\n", "0::/\n");
	made_proc(&made, 43, made_own_root(&made), CGROUP);
	made_proc(&made, 44, made_own_root(&made), CGROUP);
	cr_expect_null(containers_of(containers, 42, 7, SECOND));
	c = containers_of(containers, 43, 7, SECOND);
	cr_assert_not_null(c);
	cr_expect_eq(containers_of(containers, 44, 7, SECOND), c);
	/* Proved twice: a process with a root of its own changes nothing now. */
	made_proc(&made, 45, "20 1 8:1 / / rw - ext4 /dev/sda1 rw\n", "0::/\n");
	cr_expect_eq(containers_of(containers, 45, 7, SECOND), c);
	cr_expect_eq(stats()->of_node, 1, "not looked at any more");
}

/* A process changed its root to a mount in the container: it still belongs to the container. */
Test(containers, second_process_says_less)
{
	const struct container *c;

	made_bundle(&made, "k8s.io", MADE_ID, CONFIG);
	made_proc(&made, 42, made_own_root(&made), CGROUP);
	made_proc(&made, 43, "9 8 0:4000 / / rw - tmpfs tmpfs rw\n", CGROUP);
	c = containers_of(containers, 42, 7, SECOND);
	cr_assert_not_null(c);
	cr_expect_eq(containers_of(containers, 43, 7, SECOND), c);
	cr_expect_eq(containers_of(containers, 42, 7, SECOND), c);
	cr_expect_eq(c->source, CONTAINER_FROM_BUNDLE);
	cr_expect_eq(containers_count(containers), 1);
}

/* Roots that are folders of one file system: its number proves nothing. */
Test(containers, roots_on_one_disk)
{
	const struct container *c;
	char text[256];

	made_bundle(&made, "k8s.io", MADE_ID, CONFIG);
	snprintf(text, sizeof(text), "9 8 %u:%u /snapshots/1/fs / rw - ext4 x rw\n", made.major,
		 made.minor);
	made_proc(&made, 42, text, CGROUP);
	c = containers_of(containers, 42, 7, SECOND);
	cr_assert_not_null(c);
	cr_expect_eq(c->source, CONTAINER_FROM_CGROUP);
}

/* A rootfs that is a link to a folder of the right file system is no mount of it. */
Test(containers, rootfs_that_is_a_link)
{
	const struct container *c;

	made_file(&made, MADE_TASKS "/k8s.io/" MADE_ID "/config.json", CONFIG);
	cr_assert_eq(symlink(made.node, made_path(&made, MADE_TASKS "/k8s.io/" MADE_ID "/rootfs")),
		     0);
	made_proc(&made, 42, made_own_root(&made), CGROUP);
	c = containers_of(containers, 42, 7, SECOND);
	cr_assert_not_null(c);
	cr_expect_eq(c->source, CONTAINER_FROM_CGROUP);
}

/* A sandbox that a process of the container made: it has its own mount namespace and root. */
Test(containers, sandbox_inside)
{
	const struct container *c, *inner;

	made_bundle(&made, "k8s.io", MADE_ID, CONFIG);
	made_proc(&made, 42, made_own_root(&made), CGROUP);
	made_proc(&made, 43, "9 8 0:4000 /newroot / rw - tmpfs tmpfs rw\n", CGROUP);
	c = containers_of(containers, 42, 7, SECOND);
	inner = containers_of(containers, 43, 8, SECOND);
	cr_assert(c && inner);
	cr_expect_str_eq(inner->id, MADE_ID);
	cr_expect_str_eq(inner->pod, "rc-worker-x");
}

/* Missing facts are searched again, ever less often. */
Test(containers, bundle_that_comes_later)
{
	const struct container *c;

	made_proc(&made, 42, made_own_root(&made), CGROUP);
	c = containers_of(containers, 42, 7, SECOND);
	cr_assert_not_null(c);
	cr_expect_str_eq(c->pod, "");
	made_bundle(&made, "k8s.io", MADE_ID, CONFIG);
	cr_expect_eq(containers_of(containers, 42, 7, SECOND + SECOND / 2), c);
	cr_expect_str_eq(containers_of(containers, 42, 7, 2 * SECOND)->pod, "rc-worker-x");
	cr_expect_str_eq(c->pod, "", "still borrowed");
}

struct bad {
	const char *name;
	void (*make)(const char *path);
	size_t offset; /* of the counter */
};

static void make_text(const char *path, const char *text)
{
	FILE *file = fopen(path, "we");

	cr_assert_not_null(file);
	fputs(text, file);
	fclose(file);
}

static void make_huge(const char *path)
{
	make_text(path, CONFIG);
	cr_assert_eq(truncate(path, 1 << 30), 0);
}

static void make_fifo(const char *path)
{
	cr_assert_eq(mkfifo(path, 0644), 0);
}

static void make_link(const char *path)
{
	char secret[512];

	snprintf(secret, sizeof(secret), "%s/elsewhere.json", made.root);
	make_text(secret, CONFIG);
	cr_assert_eq(symlink(secret, path), 0);
}

static void make_link_inside(const char *path)
{
	cr_assert_eq(symlink("other.json", path), 0);
}

static void make_folder(const char *path)
{
	cr_assert_eq(mkdir(path, 0755), 0);
}

static void make_rubbish(const char *path)
{
	make_text(path, "{\"annotations\": ELF");
}

static void make_list(const char *path)
{
	make_text(path, "[1,2,3]");
}

static void make_deep(const char *path)
{
	FILE *file = fopen(path, "we");
	int i;

	cr_assert_not_null(file);
	for (i = 0; i < 500000; i++)
		fputc('[', file);
	for (i = 0; i < 500000; i++)
		fputc(']', file);
	fclose(file);
}

static void make_wide(const char *path)
{
	FILE *file = fopen(path, "we");
	int i;

	cr_assert_not_null(file);
	fputs("{\"a\":[", file);
	for (i = 0; i < 80000; i++)
		fputs("[],", file);
	fputs("[]]}", file);
	fclose(file);
}

#define COUNTER(name) offsetof(struct containers_stats, name)

static const struct bad bads[] = {
	{ "a gigabyte", make_huge, COUNTER(config_too_large) },
	{ "a FIFO", make_fifo, COUNTER(config_refused) },
	{ "a link out", make_link, COUNTER(config_refused) },
	{ "a link", make_link_inside, COUNTER(config_refused) },
	{ "a folder", make_folder, COUNTER(config_refused) },
	{ "no JSON", make_rubbish, COUNTER(config_malformed) },
	{ "no object", make_list, COUNTER(config_malformed) },
	{ "deep", make_deep, COUNTER(config_malformed) },
	{ "80,000 arrays", make_wide, COUNTER(config_too_large) },
};

/* The facts are learned anew; again if the machine was too busy to answer in time. */
static const struct container *of_fresh(unsigned int pid)
{
	static uint64_t mnt_ns = 1000;
	const struct container *c;
	uint64_t blocked;
	int tries = 0;

	do {
		blocked = stats()->config_blocked;
		c = containers_of(containers, pid, mnt_ns++, SECOND);
		if (stats()->config_blocked != blocked)
			usleep(200000);
	} while (stats()->config_blocked != blocked && ++tries < 20);
	return c;
}

/* The failure costs that container its names, and is counted; the other container has its own. */
Test(containers, bad_config)
{
	char path[1024];
	const struct container *c;
	size_t i, nr = sizeof(bads) / sizeof(bads[0]);

	made_bundle(&made, "k8s.io", MADE_ID2, CONFIG);
	made_proc(&made, 43, made_own_root(&made), "0::/kubepods/pod" MADE_UID "/" MADE_ID2 "\n");
	made_proc(&made, 42, made_own_root(&made), CGROUP);
	for (i = 0; i < nr; i++) {
		const uint64_t *counter = (const void *)((const char *)stats() + bads[i].offset);
		uint64_t before = *counter;

		snprintf(path, sizeof(path), "%s",
			 made_path(&made, MADE_TASKS "/k8s.io/" MADE_ID "/config.json"));
		bads[i].make(path);
		c = of_fresh(42);
		cr_expect_eq(*counter, before + 1, "%s", bads[i].name);
		cr_assert_not_null(c, "%s", bads[i].name);
		cr_expect_eq(c->source, CONTAINER_FROM_CGROUP, "%s", bads[i].name);
		cr_expect_str_eq(c->id, MADE_ID);
		cr_expect_str_eq(c->pod, "");
		cr_assert_eq(remove(path), 0);
		c = of_fresh(43);
		cr_expect_str_eq(c->pod, "rc-worker-x");
	}
}

/* A bundle that is a link out of the node's file system leads nowhere. */
Test(containers, bundle_that_is_a_link)
{
	char outside[512];

	snprintf(outside, sizeof(outside), "%s/outside", made.root);
	cr_assert_eq(mkdir(outside, 0755), 0);
	snprintf(outside, sizeof(outside), "%s/outside/config.json", made.root);
	make_text(outside, CONFIG);
	snprintf(outside, sizeof(outside), "%s/outside", made.root);
	cr_assert_eq(symlink(outside, made_path(&made, MADE_TASKS "/k8s.io/" MADE_ID)), 0);
	made_proc(&made, 42, made_own_root(&made), CGROUP);
	cr_expect_str_eq(containers_of(containers, 42, 7, SECOND)->pod, "");
}

Test(containers, names_of_all_kinds)
{
	const struct container *c;
	char config[40000], *at = config;
	size_t i;

	at += snprintf(
		at, sizeof(config),
		"{\"annotations\":{\"io.kubernetes.cri.container-name\":\"../../etc/passwd\","
		"\"io.kubernetes.cri.sandbox-name\":\"a\\u001b[31m\\n\\u0000x\","
		"\"io.kubernetes.cri.sandbox-namespace\":7,\"io.kubernetes.cri.image-name\":\"");
	for (i = 0; i < 10240; i++)
		at += snprintf(at, 4, "\xc3\xa9");
	snprintf(at, 100, "\"}}");
	made_bundle(&made, "k8s.io", MADE_ID, config);
	made_proc(&made, 42, made_own_root(&made), CGROUP);
	c = containers_of(containers, 42, 7, SECOND);
	cr_assert_not_null(c);
	cr_expect_str_eq(c->name, "../../etc/passwd");
	cr_expect_str_eq(c->pod, "a?[31m?");
	cr_expect_str_eq(c->namespace, "");
	cr_expect_eq(strlen(c->image), 254, "whole characters: %zu", strlen(c->image));
}

/* A tenant's 100,000 mounts: its root is among the first. */
Test(containers, many_mounts)
{
	char *text = malloc(100001 * 64), *at = text;
	int i;

	cr_assert_not_null(text);
	at += snprintf(at, 256, "%s", made_own_root(&made));
	for (i = 0; i < 100000; i++)
		at += snprintf(at, 64, "9 8 0:55 / /mnt/%d rw - tmpfs tmpfs rw\n", i);
	made_bundle(&made, "k8s.io", MADE_ID, CONFIG);
	made_proc(&made, 42, text, CGROUP);
	cr_expect_str_eq(containers_of(containers, 42, 7, SECOND)->pod, "rc-worker-x");
	cr_expect_eq(stats()->proc_cut, 1);
	free(text);
}

Test(containers, no_more_than_the_maximum, .timeout = 120)
{
	char id[80], cgroup[128];
	uint64_t i;

	for (i = 1; i <= CONTAINERS_MAX + 10; i++) {
		snprintf(id, sizeof(id), "%064lx", (unsigned long)i);
		snprintf(cgroup, sizeof(cgroup), "0::/docker/%s\n", id);
		made_proc(&made, 42, "9 8 0:4000 / / rw - overlay overlay rw\n", cgroup);
		containers_of(containers, 42, i, i <= 100 ? SECOND : 200 * SECOND);
	}
	cr_expect_eq(containers_count(containers), CONTAINERS_MAX);
	cr_expect_eq(stats()->full, 10);
	/* Full: the older ones go sooner. */
	containers_expire(containers, 210 * SECOND);
	cr_expect_eq(containers_count(containers), CONTAINERS_MAX - 100);
}

/* The same container in several mount namespaces is one. */
Test(containers, are_shared)
{
	made_bundle(&made, "k8s.io", MADE_ID, CONFIG);
	made_proc(&made, 42, made_own_root(&made), CGROUP);
	cr_expect_eq(containers_of(containers, 42, 7, SECOND),
		     containers_of(containers, 42, 8, SECOND));
	cr_expect_eq(containers_of(containers, 42, 7, SECOND),
		     containers_of(containers, 42, 0, SECOND));
	cr_expect_eq(containers_count(containers), 1);
}
