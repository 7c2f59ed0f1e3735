// SPDX-License-Identifier: Apache-2.0
#include "kernel/kernel_view.h"

int kernel_view_read(const struct kernel_view *view, struct kernel_piece *pieces, size_t nr)
{
	int err = view->read(view->arg, pieces, nr);
	size_t i;

	for (i = 0; i < nr && !err; i++)
		err = pieces[i].result;
	return err;
}

int kernel_view_copy(const struct kernel_view *view, uint64_t va, void *dst, uint32_t len)
{
	struct kernel_piece piece = { .va = va, .dst = dst, .len = len };

	return kernel_view_read(view, &piece, 1);
}

int kernel_view_pointer(const struct kernel_view *view, uint64_t va, uint64_t *ret)
{
	return kernel_view_copy(view, va, ret, sizeof(*ret));
}
