// SPDX-License-Identifier: Apache-2.0
#include "base/library.h"

#include <dlfcn.h>
#include <errno.h>
#include <string.h>

int library_load(void **handle, const char *name, const struct library_function *functions,
		 size_t nr)
{
	void *library, *function;
	size_t i;

	if (*handle)
		return 0;
	library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
	for (i = 0; library && i < nr; i++) {
		function = dlsym(library, functions[i].name);
		if (!function) {
			dlclose(library);
			library = NULL;
		} else {
			memcpy(functions[i].pointer, &function, sizeof(function));
		}
	}
	*handle = library;
	return library ? 0 : -ELIBACC;
}
