// SPDX-License-Identifier: Apache-2.0
/* --push: finished files are sent to a server; the log and the metrics have the results. */
#include "daemon/daemon.h"

#include <errno.h>
#include <inttypes.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/exit_status.h"
#include "base/host_name.h"
#include "base/log.h"
#include "base/time.h"
#include "daemon/push_queue.h"
#include "daemon/pusher.h"

#define END_MS 10000 /* for the queue when the daemon ends; Kubernetes allows 30 s in all */
#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))

/* Reports a bad file once at the start, not with each try. */
static int secret_check(const char *flag, const char *path, const char *must_hold, const char *what)
{
	__cleanup(buf_fini) struct buf text = { .max = PUSH_SECRET_MAX + 1 };
	int err = path ? push_secret_read(&text, path) : 0;

	if (err)
		log_error("%s %s: %s", flag, path,
			  err == -EINVAL ? "must hold one line of text" : strerror(-err));
	else if (path && must_hold && !strstr(text.data, must_hold))
		log_error("%s %s: must hold %s", flag, path, what), err = -EINVAL;
	if (text.data)
		explicit_bzero(text.data, text.cap);
	return err;
}

int push_start(struct daemon *daemon)
{
	const struct push_options *push = &daemon->options->push;
	struct daemon_push *state = &daemon->push;
	struct log_field fields[] = { { .key = "url", .text = push->url },
				      { .key = "queue", .number = push->queue } };
	int err;

	if (!push->url)
		return EXIT_DONE;
	if (secret_check("--push-tenant-file", push->tenant_file, NULL, NULL) ||
	    secret_check("--push-bearer-token-file", push->bearer_file, NULL, NULL) ||
	    secret_check("--push-basic-auth-file", push->basic_file, ":", "USER:PASSWORD"))
		return EXIT_FAILED;
	if (push->ca_file && access(push->ca_file, R_OK)) {
		log_error("--push-ca-file %s: %s", push->ca_file, strerror(errno));
		return EXIT_FAILED;
	}
	host_name(state->host);
	state->options = (struct pusher_options){
		.url = push->url,
		.access = { .tenant_file = push->tenant_file,
			    .basic_file = push->basic_file,
			    .bearer_file = push->bearer_file,
			    .ca_file = push->ca_file,
			    .timeout_ms = push->timeout_ms },
		.labels = { .host = state->host,
			    .more = push->labels,
			    .nr_more = push->nr_labels,
			    .hz = daemon->options->capture.session.hz },
		.queue = push->queue,
	};
	err = pusher_new(&state->pusher, &state->options);
	if (err == -EOPNOTSUPP)
		log_error("--push: this bpfprof was built without libcurl and cannot push");
	else if (err == -ELIBACC)
		log_error("--push: libcurl.so.4 cannot be loaded; install libcurl4");
	else if (err)
		log_error("--push: %s", strerror(-err));
	if (err)
		return EXIT_FAILED;
	if (!strncasecmp(push->url, "http:", 5) && (push->basic_file || push->bearer_file))
		log_warn("--push: the password or token is sent unencrypted: the URL "
			 "says http, not https");
	log_event(LOG_INFO, "pushing", fields, ARRAY_SIZE(fields));
	return EXIT_DONE;
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

static uint64_t sum(const uint64_t *numbers, size_t nr)
{
	uint64_t total = 0;

	while (nr--)
		total += numbers[nr];
	return total;
}

static void say_failed(const struct daemon *daemon, const struct pusher_stats *now)
{
	const struct push_result *last = &now->last_failure;
	struct log_field fields[] = {
		{ .key = "reason", .text = push_outcome_name(last->outcome) },
		{ .key = "error", .text = last->why ? last->why : "the server's answer" },
		{ .key = "status", .number = (uint64_t)last->status },
		{ .key = "failures", .number = now->failures },
		{ .key = "retry_ms", .number = now->failures ? now->wait_ms : 0 },
		{ .key = "waiting", .number = now->waiting },
		{ .key = "url", .text = daemon->options->push.url },
	};

	log_event(LOG_WARN, "push failed", fields, ARRAY_SIZE(fields));
}

static void say_dropped(const struct pusher_stats *now, const struct pusher_stats *before)
{
	enum push_drop drop;

	for (drop = 0; drop < PUSH_NR_DROPS; drop++) {
		struct log_field fields[] = {
			{ .key = "reason", .text = push_drop_name(drop) },
			{ .key = "profiles", .number = now->dropped[drop] - before->dropped[drop] },
			{ .key = "in_all", .number = sum(now->dropped, PUSH_NR_DROPS) },
		};

		if (fields[1].number)
			log_event(LOG_ERROR, "profiles not pushed", fields, ARRAY_SIZE(fields));
	}
}

void push_watch(struct daemon *daemon)
{
	struct pusher_stats now, *before = &daemon->push.said;
	struct log_field fields[] = { { .key = "failures" }, { .key = "waiting" } };

	if (!daemon->push.pusher)
		return;
	pusher_stats_get(daemon->push.pusher, &now);
	if (sum(now.failed, PUSH_NR_OUTCOMES) != sum(before->failed, PUSH_NR_OUTCOMES))
		say_failed(daemon, &now);
	say_dropped(&now, before);
	if (before->failures && !now.failures && now.pushed != before->pushed) {
		fields[0].number = before->failures;
		fields[1].number = now.waiting;
		log_event(LOG_INFO, "pushing works again", fields, ARRAY_SIZE(fields));
	}
	*before = now;
}

void push_end(struct daemon *daemon)
{
	struct pusher_stats stats;
	struct log_field fields[] = { { .key = "profiles" }, { .key = "pushed" } };

	if (!daemon->push.pusher)
		return;
	pusher_drain(daemon->push.pusher, END_MS);
	push_watch(daemon);
	pusher_stats_get(daemon->push.pusher, &stats);
	fields[0].number = stats.waiting;
	fields[1].number = stats.pushed;
	if (stats.waiting)
		log_event(LOG_ERROR, "ended before all was pushed", fields, ARRAY_SIZE(fields));
	pusher_free(daemon->push.pusher);
	daemon->push.pusher = NULL;
}

static void metric(struct buf *dst, const char *name, const char *type, uint64_t value,
		   const char *help)
{
	buf_printf(dst, "# HELP %s %s\n# TYPE %s %s\n%s %" PRIu64 "\n", name, help, name, type,
		   name, value);
}

static void labelled(struct buf *dst, const char *name, const char *reason, uint64_t value)
{
	buf_printf(dst, "%s{reason=\"%s\"} %" PRIu64 "\n", name, reason, value);
}

void push_metrics(struct buf *dst, struct daemon *daemon)
{
	static const char errors[] = "bpfprof_push_errors_total",
			  dropped[] = "bpfprof_push_dropped_total";
	struct pusher_stats stats;
	enum push_outcome outcome;
	enum push_drop drop;

	if (!daemon->push.pusher)
		return;
	pusher_stats_get(daemon->push.pusher, &stats);
	metric(dst, "bpfprof_profiles_pushed_total", "counter", stats.pushed,
	       "Profiles that the server of --push has taken.");
	metric(dst, "bpfprof_push_bytes_total", "counter", stats.bytes, "Their bytes.");
	metric(dst, "bpfprof_push_queued", "gauge", stats.waiting,
	       "Profiles that wait for being pushed.");
	metric(dst, "bpfprof_last_push_timestamp_seconds", "gauge", stats.last_pushed_s,
	       "When the server took the last one, 0 if it took none.");
	buf_printf(dst, "# HELP %s Tries that failed, by reason.\n# TYPE %s counter\n", errors,
		   errors);
	for (outcome = PUSH_RESOLVE; outcome < PUSH_STOPPED; outcome++)
		labelled(dst, errors, push_outcome_name(outcome), stats.failed[outcome]);
	buf_printf(dst,
		   "# HELP %s Profiles that will not be pushed, by reason.\n# TYPE %s counter\n",
		   dropped, dropped);
	for (drop = 0; drop < PUSH_NR_DROPS; drop++)
		labelled(dst, dropped, push_drop_name(drop), stats.dropped[drop]);
}
