/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CONTAINER_OCI_CONFIG_H
#define BPFPROF_CONTAINER_OCI_CONFIG_H

/*
 * The identity of a container in the description that its runtime keeps: the OCI config.json of the
 * bundle (opencontainers/runtime-spec, config.md) with the annotations of containerd's CRI plugin, CRI-O,
 * nerdctl and podman, or dockerd's config.v2.json with the labels of kubelet. The environment in it holds
 * secrets: only the variables listed in oci_config.c are kept, and the parsed text is wiped.
 */

#include <stddef.h>

#include "proc/ranks.h"

#define OCI_NAME_MAX 256
#define OCI_PATH_MAX 4096

/* Clean text (base/clean_text.h), "": not set; all but root_path may be cut. */
struct oci_config {
	char name[OCI_NAME_MAX];
	char pod[OCI_NAME_MAX];
	char namespace[OCI_NAME_MAX];
	char pod_uid[OCI_NAME_MAX];
	char image[OCI_NAME_MAX];
	char ray_cluster[OCI_NAME_MAX];
	char ray_group[OCI_NAME_MAX];
	char ray_node_type[OCI_NAME_MAX]; /* head or worker */
	char ranks[RANKS_NR][OCI_NAME_MAX]; /* in the order of ranks_variables */
	/* As written: a path of any bytes, absolute or relative to the bundle. */
	char root_path[OCI_PATH_MAX];
};

/* text[len] is the whole file; the caller wipes it. 0, or as wiped_json_load(). */
int oci_config_parse(struct oci_config *ret, const char *text, size_t len);
int oci_config_parse_docker(struct oci_config *ret, const char *text, size_t len);

#endif
