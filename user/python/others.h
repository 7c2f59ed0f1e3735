/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_PYTHON_OTHERS_H
#define BPFPROF_PYTHON_OTHERS_H

/*
 * Pythons that are not CPython, told by the names of their files: their frames are not known, and
 * a person is told so.
 */

struct images;
struct process;

/* Which one this file is of ("PyPy"), by its base name; NULL: none. */
const char *python_other_of_file(const char *path);
/* Which one a Java program with this command line is; NULL: none. */
const char *python_other_of_java(const char *cmdline);
/* Which one the process runs, by the files that it has mapped; NULL: none. */
const char *python_other_of(struct images *images, const struct process *process,
			    const char *cmdline);

#endif
