// SPDX-License-Identifier: Apache-2.0
#include "base/names.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

int names_add(char ***list, size_t *nr, const char *name, size_t len)
{
	char **names = reallocarray(*list, *nr + 1, sizeof(*names));

	if (!names)
		return -ENOMEM;
	*list = names;
	names[*nr] = strndup(name, len);
	if (!names[*nr])
		return -ENOMEM;
	(*nr)++;
	return 0;
}

void names_free(char **list, size_t nr)
{
	while (nr--)
		free(list[nr]);
	free(list);
}
