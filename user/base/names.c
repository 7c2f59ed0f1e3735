// SPDX-License-Identifier: Apache-2.0
#include "base/names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/vec.h"

int names_add(char ***list, size_t *nr, const char *name, size_t len)
{
	char *copy = strndup(name, len);

	if (!copy || !vec_fit(*list, *nr + 1)) {
		free(copy);
		return -ENOMEM;
	}
	(*list)[(*nr)++] = copy;
	return 0;
}

void names_free(char **list, size_t nr)
{
	while (nr--)
		free(list[nr]);
	free(list);
}
