// SPDX-License-Identifier: Apache-2.0
/* fuzz: max_len=4096 */
#include "container/oci_config.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/clean_text.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* What comes out is clean: cleaning it again changes nothing. */
static void check(const char *text)
{
	char copy[OCI_NAME_MAX];

	if (!memchr(text, 0, OCI_NAME_MAX))
		abort();
	clean_text(copy, sizeof(copy), text, strlen(text));
	if (strcmp(copy, text))
		abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	int (*const parsers[])(struct oci_config * ret, const char *text,
			       size_t len) = { oci_config_parse, oci_config_parse_docker };
	struct oci_config config;
	char *text = malloc(size ? size : 1); /* reads beyond its end are seen */
	size_t i;

	if (!text)
		abort();
	memcpy(text, data, size);
	for (i = 0; i < 2; i++) {
		if (parsers[i](&config, text, size))
			continue;
		check(config.name);
		check(config.pod);
		check(config.namespace);
		check(config.pod_uid);
		check(config.image);
		check(config.ray_cluster);
		check(config.ray_group);
		check(config.ray_node_type);
		for (size_t i = 0; i < RANKS_NR; i++)
			check(config.ranks[i]);
		if (!memchr(config.root_path, 0, OCI_PATH_MAX))
			abort();
	}
	free(text);
	return 0;
}
