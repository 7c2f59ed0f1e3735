// SPDX-License-Identifier: Apache-2.0
#include "profile/short_file.h"

#include "proc/images.h"
#include "python/text.h"

static int has_init(void *arg, const char *folder)
{
	const struct short_file_view *view = arg;

	return images_scan(view->images, view->pid, folder, "__init__.py");
}

const char *short_file(const struct short_file_view *view, const char *path)
{
	return python_short_file(path, view->images && view->pid ? has_init : NULL, (void *)view);
}
