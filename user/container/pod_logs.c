// SPDX-License-Identifier: Apache-2.0
#include "container/pod_logs.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/openat2.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/clean_text.h"

#define MAX_PODS 4096 /* kubelet allows some hundred; logs of old pods stay for a while */

static DIR *open_pods(int host)
{
	struct open_how how = { .flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC,
				.resolve = RESOLVE_IN_ROOT | RESOLVE_NO_MAGICLINKS };
	int fd = (int)syscall(SYS_openat2, host, "/var/log/pods", &how, sizeof(how));
	DIR *dir = fd < 0 ? NULL : fdopendir(fd);

	if (!dir && fd >= 0)
		close(fd);
	return dir;
}

int pod_logs_find(int host, const char *pod_uid, char *namespace, size_t namespace_cap, char *pod,
		  size_t pod_cap)
{
	DIR *dir = open_pods(host);
	struct dirent *entry;
	const char *first, *last;
	int err = -ENOENT;
	unsigned int i;

	for (i = 0; dir && i < MAX_PODS && err && (entry = readdir(dir)); i++) {
		/* Names of namespaces and pods have no '_'. */
		first = strchr(entry->d_name, '_');
		last = strrchr(entry->d_name, '_');
		if (!first || first == last || strcmp(last + 1, pod_uid))
			continue;
		clean_text(namespace, namespace_cap, entry->d_name,
			   (size_t)(first - entry->d_name));
		clean_text(pod, pod_cap, first + 1, (size_t)(last - first - 1));
		err = 0;
	}
	if (dir)
		closedir(dir);
	return err;
}
