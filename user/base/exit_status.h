/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_BASE_EXIT_STATUS_H
#define BPFPROF_BASE_EXIT_STATUS_H

/* The exit status of every command. A function that returns one has printed the error. */

enum exit_status {
	EXIT_DONE = 0, /* also when the target was idle */
	EXIT_FAILED = 1,
	EXIT_USAGE = 2,
	EXIT_PRIVILEGE = 3, /* missing privilege or kernel feature; the remedy was printed */
	EXIT_NO_TARGET = 4,
	EXIT_PARTIAL = 5, /* a file of a bundle is not in the result; it was named */
};

#endif
