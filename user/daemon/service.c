// SPDX-License-Identifier: Apache-2.0
#include "daemon/service.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"

void service_notify(const char *state)
{
	struct sockaddr_un address = { .sun_family = AF_UNIX };
	const char *path = getenv("NOTIFY_SOCKET");
	__cleanup(close_fd) int fd = -1;
	size_t len = path ? strlen(path) : 0;

	if (len < 2 || len >= sizeof(address.sun_path) || (*path != '/' && *path != '@'))
		return;
	memcpy(address.sun_path, path, len);
	if (*path == '@') /* a name in the abstract namespace */
		address.sun_path[0] = 0;
	fd = socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
	if (fd < 0 || sendto(fd, state, strlen(state), 0, (struct sockaddr *)&address,
			     (socklen_t)(offsetof(struct sockaddr_un, sun_path) + len)) < 0)
		log_debug("the service manager does not listen: %m");
}
