/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CAPTURE_MEMORY_REQUIREMENTS_H
#define BPFPROF_CAPTURE_MEMORY_REQUIREMENTS_H

/* The features of this kernel that `bpfprof memory` needs, beside those that everything needs. */

struct requirements;

/* Adds a line for each part. Where BPF programs can be loaded. */
void memory_requirements_add(struct requirements *reqs);

#endif
