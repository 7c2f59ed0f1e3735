// SPDX-License-Identifier: Apache-2.0
/* fuzz: max_len=2048 */
#include "container/cgroup_path.h"

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

/* An id is one part of the text, fit to be a folder's name. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	struct cgroup_ids ids;
	char *text = malloc(size + 1);
	size_t i;

	if (!text)
		abort();
	memcpy(text, data, size);
	text[size] = 0;
	cgroup_ids_parse(&ids, text);
	if (ids.nr > CGROUP_MAX_IDS || ids.nr_sure > ids.nr)
		abort();
	if (ids.pod_uid[0] && !cgroup_is_pod_uid(ids.pod_uid, strlen(ids.pod_uid)))
		abort();
	for (i = 0; i < ids.nr; i++)
		if (!ids.ids[i][0] || strchr(ids.ids[i], '/') || !strcmp(ids.ids[i], ".") ||
		    !strcmp(ids.ids[i], "..") || !strstr(text, ids.ids[i]))
			abort();
	free(text);
	return 0;
}
