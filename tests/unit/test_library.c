// SPDX-License-Identifier: Apache-2.0
#include "base/library.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <errno.h>

static double (*cosine)(double);
static void (*missing)(void);

/* All functions are found, or none is kept. */
Test(library, load)
{
	const struct library_function functions[] = { { "cos", &cosine },
						      { "no_such_function", &missing } };
	void *handle = NULL, *first;

	cr_expect_eq(library_load(&handle, "libnowhere.so.1", functions, 1), -ELIBACC);
	cr_expect(handle == NULL);
	cr_expect_eq(library_load(&handle, "libm.so.6", functions, 2), -ELIBACC);
	cr_expect(handle == NULL && missing == NULL);
	cr_assert_eq(library_load(&handle, "libm.so.6", functions, 1), 0);
	cr_expect(cosine(0) == 1);
	first = handle;
	cr_expect_eq(library_load(&handle, "libm.so.6", functions, 1), 0);
	cr_expect(handle == first);
}
