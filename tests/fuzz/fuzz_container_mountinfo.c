// SPDX-License-Identifier: Apache-2.0
/* fuzz: max_len=4096 */
#include "proc/mountinfo.h"

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "container/kubelet_mounts.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

struct seen {
	struct kubelet_mounts kubelet;
	size_t nr, nr_lines;
};

static bool note(void *arg, const struct mount_line *line)
{
	struct seen *seen = arg;

	if (line->point[0] == 0 || !line->root || !line->type || !line->options ||
	    strlen(line->root) + strlen(line->point) > MOUNTINFO_LINE_MAX)
		abort();
	kubelet_mounts_note(&seen->kubelet, line);
	if (memchr(seen->kubelet.pod_uid, 0, CGROUP_POD_UID_MAX) == NULL ||
	    memchr(seen->kubelet.container, 0, KUBELET_NAME_MAX) == NULL)
		abort();
	seen->nr++;
	return true;
}

/* No more lines come out than went in. */
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
	static int fd = -1;
	struct seen seen = { 0 };
	size_t i;

	if (fd < 0)
		fd = memfd_create("mountinfo", MFD_CLOEXEC);
	if (fd < 0 || ftruncate(fd, 0) || pwrite(fd, data, size, 0) != (ssize_t)size ||
	    lseek(fd, 0, SEEK_SET))
		abort();
	for (i = 0; i < size; i++)
		seen.nr_lines += data[i] == '\n';
	if (mountinfo_read(fd, SIZE_MAX, note, &seen) || seen.nr > seen.nr_lines)
		abort();
	return 0;
}
