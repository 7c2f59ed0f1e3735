// SPDX-License-Identifier: Apache-2.0
#include "container/oci_config.h"

#include <errno.h>
#include <stdbool.h>
#include <stddef.h>
#include <string.h>

#include "base/clean_text.h"
#include "base/wiped_json.h"

#define JSON_MAX_BYTES (8 << 20) /* for parsed JSON, in addition to the limit of the file */
#define ENV_MAX 65536

/* A key and its field. If several keys have the same field, the first one with a value counts. */
struct key {
	const char *name;
	size_t offset;
};

#define KEY(key, field)                                                                            \
	{                                                                                          \
		key, offsetof(struct oci_config, field)                                            \
	}

/*
 * The keys are in containerd (internal/cri/annotations), CRI-O (pkg/annotations) and kubelet
 * (kuberuntime/labels.go).
 */
static const struct key annotation_keys[] = {
	KEY("io.kubernetes.cri.container-name", name),
	KEY("io.kubernetes.cri.sandbox-name", pod),
	KEY("io.kubernetes.cri.sandbox-namespace", namespace),
	KEY("io.kubernetes.cri.sandbox-uid", pod_uid),
	KEY("io.kubernetes.cri.image-name", image),
	KEY("io.kubernetes.cri.podsandbox.image-name", image),
	KEY("io.kubernetes.container.name", name),
	KEY("io.kubernetes.pod.name", pod),
	KEY("io.kubernetes.pod.namespace", namespace),
	KEY("io.kubernetes.pod.uid", pod_uid),
	KEY("io.kubernetes.cri-o.ImageName", image),
	KEY("io.kubernetes.cri-o.KubeName", pod),
	KEY("io.kubernetes.cri-o.Namespace", namespace),
	KEY("nerdctl/name", name),
};

/* The keys are in KubeRay: ray-operator/controllers/ray/common/pod.go. */
static const struct key label_keys[] = {
	KEY("ray.io/cluster", ray_cluster),
	KEY("ray.io/group", ray_group),
	KEY("ray.io/node-type", ray_node_type),
};

/* The allowed variables, beside ranks_variables. Others may be secrets. */
static const struct key env_keys[] = {
	KEY("RAY_CLUSTER_NAME", ray_cluster),
	KEY("RAY_NODE_TYPE_NAME", ray_group),
	KEY("RAY_CLOUD_INSTANCE_ID", pod),
	KEY("RAY_CLUSTER_NAMESPACE", namespace),
};

#define NR(array) (sizeof(array) / sizeof((array)[0]))

static void text_set(char field[OCI_NAME_MAX], const char *text, size_t len)
{
	if (!field[0])
		clean_text(field, OCI_NAME_MAX, text, len);
}

static void field_set(struct oci_config *config, const struct key *key, const char *text,
		      size_t len)
{
	text_set((char *)config + key->offset, text, len);
}

static void take_keys(struct oci_config *config, const json_t *object, const struct key *keys,
		      size_t nr)
{
	const json_t *value;
	size_t i;

	for (i = 0; i < nr; i++) {
		value = json_object_get(object, keys[i].name);
		if (json_is_string(value))
			field_set(config, &keys[i], json_string_value(value),
				  json_string_length(value));
	}
}

static bool has_word(const char *text, const char *word)
{
	const char *at = text;
	size_t len = strlen(word);

	while ((at = strstr(at, word))) {
		if ((at == text || at[-1] == ' ') && (!at[len] || at[len] == ' '))
			return true;
		at += len;
	}
	return false;
}

/* Splits NAME=VALUE. The value is NUL-terminated, since it is the end of a JSON string. */
static const char *value_of(const char *entry, const char *name)
{
	size_t len = strlen(name);

	return !strncmp(entry, name, len) && entry[len] == '=' ? entry + len + 1 : NULL;
}

/*
 * KubeRay's start command shows the type (`ray start --head ...`). Of its other variables, only
 * workers have the head's address.
 */
static void take_ray_node_type(struct oci_config *config, const char *entry)
{
	static const struct key key = KEY("", ray_node_type);
	const char *command = value_of(entry, "KUBERAY_GEN_RAY_START_CMD");
	const char *head = value_of(entry, "FQ_RAY_IP");

	if (command && *command)
		field_set(config, &key, has_word(command, "--head") ? "head" : "worker", 6);
	else if (head && *head)
		field_set(config, &key, "worker", 6);
}

static void take_env(struct oci_config *config, const json_t *env)
{
	size_t i, j, nr = json_array_size(env);
	const char *entry, *value;

	for (i = 0; i < nr && i < ENV_MAX; i++) {
		entry = json_string_value(json_array_get(env, i));
		if (!entry)
			continue;
		for (j = 0; j < NR(env_keys); j++) {
			value = value_of(entry, env_keys[j].name);
			if (value)
				field_set(config, &env_keys[j], value, strlen(value));
		}
		for (j = 0; j < RANKS_NR; j++) {
			value = value_of(entry, ranks_variables[j].name);
			if (value)
				text_set(config->ranks[j], value, strlen(value));
		}
		take_ray_node_type(config, entry);
	}
}

/* CRI-O keeps the pod's labels as JSON in an annotation. */
static void take_crio_labels(struct oci_config *config, const json_t *annotations)
{
	const json_t *text = json_object_get(annotations, "io.kubernetes.cri-o.Labels");
	json_t *labels;

	if (!json_is_string(text) || wiped_json_load(&labels, json_string_value(text),
						     json_string_length(text), JSON_MAX_BYTES))
		return;
	take_keys(config, labels, label_keys, NR(label_keys));
	json_decref(labels);
}

/* Names the container that only holds the pod's namespaces as the other containers name it. */
static void name_sandbox(struct oci_config *config, const json_t *annotations)
{
	static const struct key key = KEY("", name);
	const char *type =
		json_string_value(json_object_get(annotations, "io.kubernetes.cri.container-type"));

	if (type && !strcmp(type, "sandbox"))
		field_set(config, &key, "POD", 3);
}

static void take_config(struct oci_config *config, const json_t *json)
{
	const json_t *annotations = json_object_get(json, "annotations");
	const json_t *root = json_object_get(json_object_get(json, "root"), "path");

	take_keys(config, annotations, annotation_keys, NR(annotation_keys));
	name_sandbox(config, annotations);
	take_crio_labels(config, annotations);
	take_env(config, json_object_get(json_object_get(json, "process"), "env"));
	if (json_is_string(root) && json_string_length(root) < OCI_PATH_MAX)
		memcpy(config->root_path, json_string_value(root),
		       strlen(json_string_value(root)) + 1);
}

/*
 * Reads dockerd's description (container/container.go and api/types/container). Its Name is /NAME.
 */
static void take_docker(struct oci_config *config, const json_t *json)
{
	static const struct key name_key = KEY("", name), image_key = KEY("", image);
	const json_t *inner = json_object_get(json, "Config");
	const char *name = json_string_value(json_object_get(json, "Name"));
	const char *image = json_string_value(json_object_get(inner, "Image"));

	take_keys(config, json_object_get(inner, "Labels"), annotation_keys, NR(annotation_keys));
	take_keys(config, json_object_get(inner, "Labels"), label_keys, NR(label_keys));
	take_env(config, json_object_get(inner, "Env"));
	if (name)
		field_set(config, &name_key, name + (*name == '/'), strlen(name));
	if (image)
		field_set(config, &image_key, image, strlen(image));
}

static int parse(struct oci_config *ret, const char *text, size_t len,
		 void (*take)(struct oci_config *config, const json_t *json))
{
	struct oci_config config = { 0 };
	json_t *json;
	int err = wiped_json_load(&json, text, len, JSON_MAX_BYTES);

	if (err)
		return err;
	if (!json_is_object(json)) {
		json_decref(json);
		return -EBADMSG;
	}
	take(&config, json);
	json_decref(json);
	*ret = config;
	return 0;
}

int oci_config_parse(struct oci_config *ret, const char *text, size_t len)
{
	return parse(ret, text, len, take_config);
}

int oci_config_parse_docker(struct oci_config *ret, const char *text, size_t len)
{
	return parse(ret, text, len, take_docker);
}
