/* SPDX-License-Identifier: Apache-2.0 */
#ifndef BPFPROF_CAPTURE_ROOT_CHECK_H
#define BPFPROF_CAPTURE_ROOT_CHECK_H

/*
 * Tells the user to give --host-root where bpfprof has another root folder than the node, and does not
 * find most files of other processes for this reason. A file or two that only one container has are no
 * reason.
 */

#include <stdbool.h>

struct images;

#define ROOT_CHECK_REMEDY "docker run -v /:/host:ro and bpfprof --host-root /host"

struct root_check {
	bool done; /* no later call has an effect */
	bool elsewhere; /* bpfprof has another root folder than process 1 */
};

/* May be called often: the mounts are read once, and on a node itself the files are not looked at. */
void root_check(struct root_check *check, const struct images *images, const char *host_root);

#endif
