/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_TESTS_UNPICKLED_H
#define BPFPROF_TESTS_UNPICKLED_H

#include <stddef.h>

/*
 * The value of a pickle of formats/pickle.h as text, like JSON without blanks and quotes: {a:1,b:[x,(0,0)]}.
 * The caller frees it. Fails the test for any other bytes.
 */
char *unpickled(const char *data, size_t len);

#endif
