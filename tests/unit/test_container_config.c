// SPDX-License-Identifier: Apache-2.0
#include "container/oci_config.h"

#include <criterion/criterion.h>
#include <criterion/parameterized.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/clean_text.h"
#include "base/cleanup.h"
#include "base/deadline.h"
#include "base/wiped_json.h"
#include "container/containers.h"
#include "made_node.h"

struct config_case {
	char name[32];
	char json[512];
	/* name pod namespace uid image cluster group type, one a word, - for none */
	char expect[160];
};

#define ENV(list) "{\"process\":{\"env\":[" list "]}}"
#define NOTE(list) "{\"annotations\":{" list "}}"

static struct config_case config_cases[] = {
	{ "nothing", "{}", "- - - - - - - -" },
	{ "containerd",
	  NOTE("\"io.kubernetes.cri.container-name\":\"c\",\"io.kubernetes.cri.sandbox-name\":"
	       "\"p\","
	       "\"io.kubernetes.cri.sandbox-namespace\":\"n\",\"io.kubernetes.cri.sandbox-uid\":"
	       "\"u\","
	       "\"io.kubernetes.cri.image-name\":\"i\",\"io.kubernetes.cri.container-type\":"
	       "\"container\""),
	  "c p n u i - - -" },
	{ "containerd's sandbox",
	  NOTE("\"io.kubernetes.cri.container-type\":\"sandbox\",\"io.kubernetes.cri.sandbox-"
	       "name\":\"p\","
	       "\"io.kubernetes.cri.podsandbox.image-name\":\"pause\""),
	  "POD p - - pause - - -" },
	{ "CRI-O",
	  NOTE("\"io.kubernetes.container.name\":\"c\",\"io.kubernetes.pod.name\":\"p\","
	       "\"io.kubernetes.pod.namespace\":\"n\",\"io.kubernetes.pod.uid\":\"u\","
	       "\"io.kubernetes.cri-o.ImageName\":\"i\",\"io.kubernetes.cri-o.Labels\":"
	       "\"{\\\"ray.io/cluster\\\":\\\"rc\\\",\\\"ray.io/group\\\":\\\"g\\\",\\\"ray.io/"
	       "node-type\\\":\\\"head\\\"}\""),
	  "c p n u i rc g head" },
	{ "CRI-O's labels are no JSON", NOTE("\"io.kubernetes.cri-o.Labels\":\"{\""),
	  "- - - - - - - -" },
	{ "CRI-O's labels are a list", NOTE("\"io.kubernetes.cri-o.Labels\":\"[1]\""),
	  "- - - - - - - -" },
	{ "nerdctl", NOTE("\"nerdctl/name\":\"c\""), "c - - - - - - -" },
	{ "a Ray worker",
	  ENV("\"RAY_CLUSTER_NAME=rc\",\"RAY_NODE_TYPE_NAME=g\",\"RAY_CLOUD_INSTANCE_ID=p\","
	      "\"RAY_CLUSTER_NAMESPACE=n\",\"KUBERAY_GEN_RAY_START_CMD=ray start --address=h:1 \""),
	  "- p n - - rc g worker" },
	{ "a Ray head",
	  ENV("\"KUBERAY_GEN_RAY_START_CMD=ray start --head  --dashboard-host=0.0.0.0 \""),
	  "- - - - - - - head" },
	{ "--headless is no head", ENV("\"KUBERAY_GEN_RAY_START_CMD=ray start --headless\""),
	  "- - - - - - - worker" },
	{ "a Ray worker, old", ENV("\"FQ_RAY_IP=head-svc.ml.svc\""), "- - - - - - - worker" },
	{ "empty values",
	  ENV("\"FQ_RAY_IP=\",\"RAY_CLUSTER_NAME=\",\"\",\"=\",\"RAY_CLUSTER_NAME\""),
	  "- - - - - - - -" },
	{ "names that only begin so", ENV("\"RAY_CLUSTER_NAME2=x\",\"XRAY_CLUSTER_NAME=x\""),
	  "- - - - - - - -" },
	{ "annotation before environment",
	  "{\"annotations\":{\"io.kubernetes.cri.sandbox-name\":\"p\"},"
	  "\"process\":{\"env\":[\"RAY_CLOUD_INSTANCE_ID=q\"]}}",
	  "- p - - - - - -" },
	{ "other types", "{\"annotations\":[\"x\"],\"process\":{\"env\":{\"a\":1}},\"root\":\"x\"}",
	  "- - - - - - - -" },
	{ "other types within",
	  "{\"annotations\":{\"nerdctl/name\":null},\"process\":{\"env\":[1,null,{},[]]}}",
	  "- - - - - - - -" },
};

ParameterizedTestParameters(container_config, keys)
{
	return cr_make_param_array(struct config_case, config_cases,
				   sizeof(config_cases) / sizeof(config_cases[0]));
}

static const char *or_none(const char *text)
{
	return text[0] ? text : "-";
}

ParameterizedTest(struct config_case *c, container_config, keys)
{
	struct oci_config config;
	char found[2400];

	cr_assert_eq(oci_config_parse(&config, c->json, strlen(c->json)), 0, "%s", c->name);
	snprintf(found, sizeof(found), "%s %s %s %s %s %s %s %s", or_none(config.name),
		 or_none(config.pod), or_none(config.namespace), or_none(config.pod_uid),
		 or_none(config.image), or_none(config.ray_cluster), or_none(config.ray_group),
		 or_none(config.ray_node_type));
	cr_expect_str_eq(found, c->expect, "%s: %s", c->name, found);
}

Test(container_config, ranks_and_root)
{
	static const char text[] =
		"{\"root\":{\"path\":\"/a/b\"},\"process\":{\"env\":[\"RANK=3\","
		"\"LOCAL_RANK=1\",\"WORLD_SIZE=8\",\"SLURM_JOB_ID=77\",\"SLURM_NODEID=2\"]}}";
	struct oci_config config;

	cr_assert_eq(oci_config_parse(&config, text, strlen(text)), 0);
	cr_expect_str_eq(config.ranks[0], "3");
	cr_expect_str_eq(config.ranks[1], "1");
	cr_expect_str_eq(config.ranks[2], "8");
	cr_expect_str_eq(config.ranks[3], "77");
	cr_expect_str_eq(config.ranks[4], "2");
	cr_expect_str_eq(config.root_path, "/a/b");
}

/* A failure leaves what was there. */
Test(container_config, no_config)
{
	static const char *const bad[] = { "",	"x",	      "{",	    "[]",
					   "7", "{\"a\":1}x", "\xff\xfe{}", "{\"a\":\"\xff\"}" };
	struct oci_config config = { .name = "kept" };
	size_t i;

	for (i = 0; i < sizeof(bad) / sizeof(bad[0]); i++)
		cr_expect_eq(oci_config_parse(&config, bad[i], strlen(bad[i])), -EBADMSG, "%s",
			     bad[i]);
	cr_expect_str_eq(config.name, "kept");
}

/* Brackets in strings are no depth; 64 levels are allowed. */
Test(container_config, depth)
{
	char text[200];
	json_t *json;

	memset(text, '[', 64);
	memset(text + 64, ']', 64);
	cr_assert_eq(wiped_json_load(&json, text, 128, 1 << 20), 0);
	json_decref(json);
	memset(text, '[', 65);
	memset(text + 65, ']', 65);
	cr_expect_eq(wiped_json_load(&json, text, 130, 1 << 20), -EBADMSG);
	memset(text, '[', sizeof(text));
	memcpy(text, "[\"\\\"", 4);
	memcpy(text + sizeof(text) - 2, "\"]", 2);
	cr_assert_eq(wiped_json_load(&json, text, sizeof(text), 1 << 20), 0);
	json_decref(json);
}

Test(container_config, memory_is_bounded)
{
	size_t len = 300000, i;
	char *text = malloc(len);
	json_t *json;

	cr_assert_not_null(text);
	text[0] = '[';
	for (i = 1; i < len - 1; i += 2)
		memcpy(text + i, "1,", 2);
	memcpy(text + len - 3, "1 ]", 3);
	cr_expect_eq(wiped_json_load(&json, text, len, 1 << 20), -E2BIG);
	/* The limit is of that call only. */
	cr_assert_eq(wiped_json_load(&json, text, len, 64 << 20), 0);
	cr_expect_eq(json_array_size(json), (len - 2) / 2);
	json_decref(json);
	free(text);
}

struct text_case {
	char src[40];
	size_t len, cap;
	char expect[40];
};

static struct text_case text_cases[] = {
	{ "plain", 5, 40, "plain" },
	{ "plain", 3, 40, "pla" },
	{ "plain", 5, 4, "pla" },
	{ "plain", 5, 1, "" },
	{ "a\0b", 3, 40, "a" },
	{ "a\tb\x1b[0m\x7f", 8, 40, "a?b?[0m?" },
	{ "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", 9, 40, "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80" },
	{ "\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80", 9, 9, "\xc3\xa9\xe2\x82\xac" },
	{ "\xc2\x85 C1", 5, 40, "?? C1" },
	{ "\xe2\x82", 2, 40, "??" },
	{ "\xed\xa0\x80", 3, 40, "???" }, /* half a pair */
	{ "\xc0\x80", 2, 40, "??" }, /* too long for its character */
	{ "\xe0\x80\xaf", 3, 40, "???" },
	{ "\xf4\x90\x80\x80", 4, 40, "????" }, /* beyond Unicode */
	{ "\x80\xbfx", 3, 40, "??x" },
};

ParameterizedTestParameters(container_config, text)
{
	return cr_make_param_array(struct text_case, text_cases,
				   sizeof(text_cases) / sizeof(text_cases[0]));
}

ParameterizedTest(struct text_case *c, container_config, text)
{
	char dst[40];

	clean_text(dst, c->cap, c->src, c->len);
	cr_expect_str_eq(dst, c->expect, "%s", c->src);
}

/*
 * The secret. This process may hold it only during the parsing: it is kept scrambled here, and a
 * child writes it into the file.
 */
#define MIX 0x5a
static const unsigned char secret[] = { 's' ^ MIX, '3' ^ MIX, 'c' ^ MIX, 'r' ^ MIX, '3' ^ MIX,
					't' ^ MIX, '-' ^ MIX, 'q' ^ MIX, '7' ^ MIX, 'K' ^ MIX,
					'z' ^ MIX, 'W' ^ MIX, '9' ^ MIX, 'v' ^ MIX };

static size_t count_in(const unsigned char *data, size_t len)
{
	size_t nr = 0, i, j;

	for (i = 0; i + sizeof(secret) <= len; i++) {
		for (j = 0; j < sizeof(secret) && data[i + j] == (secret[j] ^ MIX); j++)
			;
		nr += j == sizeof(secret);
	}
	return nr;
}

/* The number of copies of the secret in the writable memory of this process. */
static size_t count_secrets(void)
{
	size_t room = 1 << 20, nr = 0;
	/* The room for copies is no memory of the process's that counts. */
	unsigned char *data =
		mmap(NULL, room, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	__cleanup(close_file) FILE *maps = fopen("/proc/self/maps", "re");
	int mem = open("/proc/self/mem", O_RDONLY | O_CLOEXEC);
	unsigned long start, end, at;
	char line[512], mode[8];
	ssize_t n;

	cr_assert(data != MAP_FAILED && maps && mem >= 0);
	while (fgets(line, sizeof(line), maps)) {
		cr_assert_eq(sscanf(line, "%lx-%lx %7s", &start, &end, mode), 3);
		/* A sanitizer's own terabytes are memory that was never written. */
		if (mode[0] != 'r' || mode[1] != 'w' || end - start > 1UL << 30)
			continue;
		if ((unsigned long)data >= start && (unsigned long)data < end) {
			/* Neighbours may have been joined with it. */
			n = 0;
			nr += count_in((const unsigned char *)start, (unsigned long)data - start);
			nr += count_in(data + room, end - (unsigned long)data - room);
			continue;
		}
		for (at = start; at < end;
		     at += (unsigned long)n - (at + (unsigned long)n < end ? sizeof(secret) : 0)) {
			n = pread(mem, data, end - at < room ? end - at : room, (off_t)at);
			if (n <= (ssize_t)sizeof(secret))
				break;
			nr += count_in(data, (size_t)n);
		}
	}
	close(mem);
	munmap(data, room);
	return nr;
}

static void write_secret(const char *path, const char *format)
{
	char plain[sizeof(secret) + 1];
	pid_t child = fork();
	int status;
	size_t i;

	cr_assert_geq(child, 0);
	if (!child) {
		FILE *file = fopen(path, "we");

		for (i = 0; i < sizeof(secret); i++)
			plain[i] = (char)(secret[i] ^ MIX);
		plain[sizeof(secret)] = 0;
		if (!file)
			_exit(1);
		for (; *format; format++)
			if (*format == '@')
				fputs(plain, file);
			else
				fputc(*format, file);
		_exit(fclose(file) ? 1 : 0);
	}
	cr_assert_eq(waitpid(child, &status, 0), child);
	cr_assert_eq(status, 0);
}

Test(container_config, secrets_are_wiped, .timeout = 60)
{
	static const char *const files[] = {
		/* Read and used. */
		"{\"process\":{\"env\":[\"REDIS_PASSWORD=@\",\"KUBERAY_GEN_RAY_START_CMD=ray start "
		"--head --redis-password=@\","
		"\"x@\"],\"args\":[\"--token\",\"@\"]},\"@\":{\"@\":[\"@\"]},"
		"\"annotations\":{\"io.kubernetes.cri.sandbox-name\":\"p\",\"last-applied\":\"{"
		"\\\"@\\\":1}\","
		"\"io.kubernetes.cri-o.Labels\":\"{\\\"x\\\":\\\"@\\\",\\\"ray.io/"
		"cluster\\\":\\\"rc\\\"}\"}}",
		/* The file is refused at several stages. */
		"{\"process\":{\"env\":[\"REDIS_PASSWORD=@\" \"@\"]}}",
		"{\"process\":{\"env\":[\"REDIS_PASSWORD=@",
		"{\"process\":{\"env\":[\"REDIS_PASSWORD=@\\q\"",
		"{\"process\":{\"env\":[@]",
	};
	struct made_node made;
	struct deadline_runner *runner;
	struct containers *containers;
	char *control = malloc(4096);
	char path[1024];
	size_t i, j;

	made_node_init(&made);
	made_bundle(&made, "k8s.io", MADE_ID, "{}");
	made_proc(&made, 42, made_own_root(&made), "0::/docker/" MADE_ID "\n");
	snprintf(path, sizeof(path), "%s",
		 made_path(&made, MADE_TASKS "/k8s.io/" MADE_ID "/config.json"));
	cr_assert_eq(deadline_runner_new(&runner), 0);
	cr_assert_eq(containers_new(&containers, runner, made.proc, made.node), 0);
	for (i = 0; i < sizeof(files) / sizeof(files[0]); i++) {
		write_secret(path, files[i]);
		containers_of(containers, 42, i + 1, 1000000000);
		cr_expect_eq(count_secrets(), 0, "file %zu: %zu", i, count_secrets());
		if (!i)
			cr_expect_str_eq(containers_of(containers, 42, 1, 1000000000)->pod, "p");
	}
	/* The search finds what is there. */
	cr_assert_not_null(control);
	for (j = 0; j < sizeof(secret); j++)
		control[100 + j] = (char)(secret[j] ^ MIX);
	cr_expect_eq(count_secrets(), 1);
	explicit_bzero(control, 4096);
	free(control);
	containers_free(containers);
	deadline_runner_free(runner);
	made_node_fini(&made);
}
