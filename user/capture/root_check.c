// SPDX-License-Identifier: Apache-2.0
#include "capture/root_check.h"

#include <inttypes.h>

#include "base/log.h"
#include "proc/images.h"
#include "proc/node_root.h"

#define MIN_LOST 3

void root_check(struct root_check *check, const struct images *images, const char *host_root)
{
	uint32_t nr, lost;

	if (check->done)
		return;
	if (!check->elsewhere) {
		check->elsewhere = !host_root && node_root_look("/proc") == NODE_ROOT_ELSEWHERE;
		check->done = !check->elsewhere;
		if (check->done)
			return;
	}
	lost = images_nr_lost(images, &nr);
	if (lost < MIN_LOST || lost <= nr / 2)
		return;
	check->done = true;
	log_warn("%" PRIu32 " of %" PRIu32
		 " files of other processes are not in bpfprof's own root "
		 "folder: mount the node's root folder here, at /host, and give --host-root /host",
		 lost, nr);
}
