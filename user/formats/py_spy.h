/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_FORMATS_PY_SPY_H
#define BPFPROF_FORMATS_PY_SPY_H

/*
 * Stacks as py-spy shows them: frames of Python, with --native also native ones that have names; no frame for
 * the process unless there are several, each below its parent. Flame graphs and raw files share the rules.
 */

#include <stdbool.h>

struct buf;
struct output_options;
struct profile;
struct profile_location;
struct profile_process;
struct stack_rules;

/* The frames that are left, and what they show. */
struct py_spy_form {
	bool native; /* native frames, too */
	bool function; /* a Python frame has the first line of its function, not the one that runs */
	bool no_lines; /* it has no line */
	bool full_filenames; /* it has the whole name of its file */
};

/*
 * Changes frames, leaves the others out, and the samples without any. Time that includes waiting becomes a
 * number of samples at the rate of the profile, since py-spy samples idle threads, too. 0 or -ENOMEM.
 */
int py_spy_shape(struct profile *profile, const struct py_spy_form *form);

/* For collapsed stacks and flame graphs of such a profile. */
struct stack_rules py_spy_rules(const struct output_options *options);
/* The root frame of one of several processes: `process PID:"CMDLINE"`. */
void py_spy_process(struct buf *dst, const struct profile *profile,
		    const struct profile_process *process);

#endif
