// SPDX-License-Identifier: Apache-2.0
#include "watch/place.h"

#include <stddef.h>
#include <string.h>

#include "base/text.h"

bool place_is_of_system(const char *file, bool python)
{
	static const char *const libraries[] = { "libc.",      "libc-",	    "ld-",
						 "libpthread", "libstdc++", "libgcc_s",
						 "[vdso]",     "libm.",	    "libm-" };
	size_t i;

	if (python)
		return *file == '<' || strstr(file, "/lib/python3") ||
		       strstr(file, "/site-packages/");
	file = text_base_name(file);
	for (i = 0; i < sizeof(libraries) / sizeof(libraries[0]); i++)
		if (text_begins(file, libraries[i]))
			return true;
	return false;
}
