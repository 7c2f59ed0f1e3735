// SPDX-License-Identifier: Apache-2.0
/*
 * --notify: events that the log has are sent to a server, too. The child that writes an event makes its notification, as
 * it has the names, and puts it into a memory file, as one line; the pusher of the parent sends it.
 */
#include "daemon/daemon.h"

#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/counters.h"
#include "base/exit_status.h"
#include "base/host_name.h"
#include "daemon/push_queue.h"
#include "daemon/pusher.h"
#include "watch/notification.h"

#define TIMEOUT_MS 10000 /* of a try, as of --push */
#define QUEUE 128 /* about as many as the deaths that are written in an hour */

static const struct push_words words = {
	.flag = "--notify",
	.token_flag = "--notify-token-file",
	.ca_flag = "--notify-ca-file",
	.begun = "notifying",
	.failed = "notification failed",
	.dropped = "notifications not sent",
	.again = "notifying works again",
	.left = "ended before all notifications were sent",
	.things = "notifications",
	.done = "sent",
	.metric = "notify",
	.hides_path = true,
};

int notify_start(struct daemon *daemon)
{
	const struct push_options *options = &daemon->options->notify;
	struct daemon_push *push = &daemon->notify.push;

	daemon->notify.lines_fd = -1;
	if (!options->url)
		return EXIT_DONE;
	host_name(push->host);
	push->options = (struct pusher_options){
		.as_is = true,
		.access = { .content_type = "application/json", .timeout_ms = TIMEOUT_MS },
		.queue = QUEUE,
	};
	return daemon_push_start(push, &words, options);
}

void notify_begin(const struct daemon *daemon, struct buf *dst, const char *event, const char *why,
		  uint64_t wall_ns)
{
	buf_init(dst, NOTIFICATION_BYTES);
	notification_begin(dst, event, why, wall_ns, daemon->notify.push.host);
}

/* Takes the text over. NULL: there was no memory for it. */
static void text_send(struct daemon *daemon, char *text)
{
	const struct push_item item = { .body = text };

	if (text)
		pusher_add(daemon->notify.push.pusher, &item);
	else
		pusher_no_memory(daemon->notify.push.pusher);
}

void notify_send(struct daemon *daemon, struct buf *text)
{
	if (daemon->notify.push.pusher)
		text_send(daemon, buf_take(text));
	buf_fini(text);
}

void notify_child_open(struct daemon *daemon)
{
	struct daemon_notify *notify = &daemon->notify;

	if (notify->push.pusher)
		notify->lines_fd = memfd_create("bpfprof-notifications", MFD_CLOEXEC);
	notify->lines_at = 0;
	notify->nr_taken = 0;
}

void notify_child_put(struct daemon *daemon, struct buf *text)
{
	struct daemon_notify *notify = &daemon->notify;

	buf_add_char(text, '\n');
	/* The next line replaces one that was not written whole. */
	if (!buf_error(text) && notify->lines_fd >= 0 &&
	    pwrite(notify->lines_fd, text->data, text->len, notify->lines_at) == (ssize_t)text->len)
		notify->lines_at += (off_t)text->len;
	buf_fini(text);
}

/* The child may be about to write a line: only whole lines are taken. */
void notify_child_take(struct daemon *daemon)
{
	struct daemon_notify *notify = &daemon->notify;
	__cleanup(free_mem) char *lines = NULL;
	char *line, *end;
	ssize_t len;

	if (notify->lines_fd < 0)
		return;
	lines = malloc(NOTIFICATION_BYTES);
	while (lines &&
	       (len = pread(notify->lines_fd, lines, NOTIFICATION_BYTES, notify->lines_at)) > 0) {
		for (line = lines; (end = memchr(line, '\n', (size_t)(lines + len - line)));
		     line = end + 1) {
			text_send(daemon, strndup(line, (size_t)(end - line)));
			notify->nr_taken++;
		}
		if (line == lines)
			break;
		notify->lines_at += line - lines;
	}
}

void notify_child_close(struct daemon *daemon, uint64_t nr)
{
	struct daemon_notify *notify = &daemon->notify;

	notify_child_take(daemon);
	for (; notify->push.pusher && notify->nr_taken < nr; notify->nr_taken++)
		pusher_no_memory(notify->push.pusher);
	if (notify->lines_fd >= 0)
		close(notify->lines_fd);
	notify->lines_fd = -1;
}

#define AT(field) offsetof(struct pushed, field)

struct pushed {
	uint64_t sent, failed, dropped;
};

const struct counter notify_counters[] = {
	{ COUNTER_WALK, "notifications_sent", AT(sent),
	  .help = "notifications that the server of `--notify` has taken" },
	{ COUNTER_WALK, "notifications_failed", AT(failed),
	  .help = "tries to send a notification that failed; the log has the reason" },
	{ COUNTER_WALK, "notifications_dropped", AT(dropped),
	  .help = "notifications that will not be sent: the server refused them, or more than 128 "
		  "waited for it" },
	{ 0 },
};

void notify_stats(const struct daemon *daemon, struct stats_reasons *dst)
{
	struct pusher_stats stats;
	struct pushed pushed = { 0 };
	size_t i;

	if (!daemon->notify.push.pusher)
		return;
	pusher_stats_get(daemon->notify.push.pusher, &stats);
	pushed.sent = stats.pushed;
	for (i = 0; i < PUSH_NR_OUTCOMES; i++)
		pushed.failed += stats.failed[i];
	for (i = 0; i < PUSH_NR_DROPS; i++)
		pushed.dropped += stats.dropped[i];
	stats_add_rows(dst, notify_counters, &pushed, false);
}
