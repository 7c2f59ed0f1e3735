// SPDX-License-Identifier: Apache-2.0
#include "kernel/probes/uprobe_perf.h"

#include <bpf/bpf.h>
#include <errno.h>
#include <linux/bpf.h>
#include <linux/perf_event.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/file_read.h"
#include "kernel/probes/uprobe_multi.h"

#define TYPE_PATH "/sys/bus/event_source/devices/uprobe/type"
#define RETPROBE 1U /* bit of config: format/retprobe in the same folder */
#define SEMAPHORE_SHIFT 32 /* the rest of it: format/ref_ctr_offset */

static int type_read(uint32_t *ret)
{
	char text[16];
	int err = (int)file_read_text(text, sizeof(text), TYPE_PATH);
	uint32_t type = (uint32_t)strtoul(text, NULL, 10);

	if (err <= 0 || !type)
		return err < 0 ? err : -ENOENT;
	*ret = type;
	return 0;
}

/* A descriptor or -errno. The event lives as long as the link. */
static int event_open(uint32_t type, const struct uprobe_multi *probes, size_t i)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = type,
		.config = probes->returns ? RETPROBE : 0,
		.uprobe_path = (uintptr_t)probes->path,
		.probe_offset = probes->offsets[i],
	};
	long fd;

	if (probes->semaphores)
		attr.config |= probes->semaphores[i] << SEMAPHORE_SHIFT;
	/* Without a process, one CPU means all. */
	fd = syscall(SYS_perf_event_open, &attr, -1, 0, -1, PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : (int)fd;
}

static int link_open(uint32_t type, const struct uprobe_multi *probes, size_t i)
{
	LIBBPF_OPTS(bpf_link_create_opts, opts, .perf_event.bpf_cookie = probes->cookies[i]);
	__cleanup(close_fd) int event_fd = event_open(type, probes, i);
	int fd;

	if (event_fd < 0)
		return event_fd;
	fd = bpf_link_create(probes->prog_fd, event_fd, BPF_PERF_EVENT, &opts);
	return fd < 0 ? -errno : fd;
}

int uprobe_perf_attach(const struct uprobe_multi *probes, int *fds)
{
	uint32_t type;
	size_t i;
	int err = type_read(&type), fd = 0;

	if (err)
		return err;
	for (i = 0; i < probes->nr && fd >= 0; i++) {
		fd = link_open(type, probes, i);
		fds[i] = fd;
	}
	if (fd >= 0)
		return 0;
	for (i--; i > 0; i--)
		close(fds[i - 1]);
	return fd;
}

/* A folder has no places: a kernel that says so would make the event. */
int uprobe_perf_probe(void)
{
	const uint64_t nothing = 0;
	const struct uprobe_multi folder = { .path = "/", .offsets = &nothing, .nr = 1 };
	uint32_t type;
	int err = type_read(&type), fd;

	if (err)
		return err;
	fd = event_open(type, &folder, 0);
	if (fd >= 0)
		close(fd);
	return fd >= 0 || fd == -EINVAL ? 0 : fd;
}
