/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PYTHON_OTHERS_H
#define BPFPROF_PYTHON_OTHERS_H

/*
 * Recognizes Pythons other than CPython by the names of their files: their frames are not known, and the
 * user gets a message.
 */

struct images;
struct process;

/* The Python that a file belongs to ("PyPy"), by its base name; NULL: none. */
const char *python_other_of_file(const char *path);
/* The Python that a Java program with this command line is; NULL: none. */
const char *python_other_of_java(const char *cmdline);
/* The Python that the process runs, by its mapped files; NULL: none. */
const char *python_other_of(struct images *images, const struct process *process,
			    const char *cmdline);

#endif
