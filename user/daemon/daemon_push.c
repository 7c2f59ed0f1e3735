// SPDX-License-Identifier: Apache-2.0
/* --push: finished files are sent to a Pyroscope server. */
#include "daemon/daemon.h"

#include <limits.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/exit_status.h"
#include "base/host_name.h"
#include "daemon/push_queue.h"
#include "daemon/pusher.h"

static const struct push_words words = {
	.flag = "--push",
	.token_flag = "--push-bearer-token-file",
	.ca_flag = "--push-ca-file",
	.begun = "pushing",
	.failed = "push failed",
	.dropped = "profiles not pushed",
	.again = "pushing works again",
	.left = "ended before all was pushed",
	.things = "profiles",
	.done = "pushed",
	.metric = "push",
};

int push_start(struct daemon *daemon)
{
	const struct push_options *options = &daemon->options->push;
	struct daemon_push *push = &daemon->push;

	if (!options->url)
		return EXIT_DONE;
	host_name(push->host);
	push->options = (struct pusher_options){
		.access = { .content_type = "application/octet-stream",
			    .timeout_ms = options->timeout_ms },
		.labels = { .host = push->host,
			    .more = options->labels,
			    .nr_more = options->nr_labels,
			    .hz = daemon->options->capture.session.hz },
		.queue = options->queue,
	};
	return daemon_push_start(push, &words, options);
}

static void file_push(struct daemon *daemon, const struct push_item *what, enum store_file file)
{
	__cleanup(buf_fini) struct buf path = { .max = 2 * PATH_MAX };
	struct pusher *pusher = daemon->push.pusher;
	const char *slash = strrchr(what->path, '/'), *set = slash ? slash + 1 : what->path;
	char name[STORE_NAME_MAX];
	struct push_item item;

	store_file_name(name, set, file);
	buf_printf(&path, "%s/%.*s%s", daemon->output, (int)(set - what->path), what->path, name);
	if (buf_error(&path) || push_item_init(&item, path.data, what->namespace, what->pod)) {
		pusher_no_memory(pusher);
		return;
	}
	item.start = what->start;
	item.until = what->until;
	pusher_add(pusher, &item);
}

void push_written(struct daemon *daemon, const struct push_item *what, bool calls)
{
	if (!daemon->push.pusher)
		return;
	file_push(daemon, what, STORE_PPROF);
	if (calls)
		file_push(daemon, what, STORE_CUDA_PPROF);
}
