// SPDX-License-Identifier: Apache-2.0
/* The common part of --push and --notify: pushers start and end, and the log and the metrics have their results. */
#include "daemon/daemon.h"

#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/exit_status.h"
#include "base/log.h"
#include "base/time.h"
#include "daemon/pusher.h"

#define END_NS                                                                                     \
	(10 *                                                                                      \
	 NS_PER_SECOND) /* for the queues when the daemon ends; Kubernetes allows 30 s in all */
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

static int files_check(const struct push_words *words, const struct push_options *options)
{
	if (secret_check("--push-tenant-file", options->tenant_file, NULL, NULL) ||
	    secret_check(words->token_flag, options->bearer_file, NULL, NULL) ||
	    secret_check("--push-basic-auth-file", options->basic_file, ":", "USER:PASSWORD"))
		return EXIT_FAILED;
	if (options->ca_file && access(options->ca_file, R_OK)) {
		log_error("%s %s: %s", words->ca_flag, options->ca_file, strerror(errno));
		return EXIT_FAILED;
	}
	return EXIT_DONE;
}

static int pusher_open(struct daemon_push *push)
{
	const char *flag = push->words->flag;
	int err = pusher_new(&push->pusher, &push->options);

	if (err == -EOPNOTSUPP)
		log_error("%s: this bpfprof was built without libcurl and cannot push", flag);
	else if (err == -ELIBACC)
		log_error("%s: libcurl.so.4 cannot be loaded; install libcurl4", flag);
	else if (err)
		log_error("%s: %s", flag, strerror(-err));
	return err ? EXIT_FAILED : EXIT_DONE;
}

int daemon_push_start(struct daemon_push *push, const struct push_words *words,
		      const struct push_options *options)
{
	struct log_field fields[] = { { .key = "url", .text = push->url },
				      { .key = "queue", .number = push->options.queue } };

	push->words = words;
	if (files_check(words, options))
		return EXIT_FAILED;
	snprintf(push->url, sizeof(push->url), "%.*s",
		 (int)(words->hides_path ? push_url_server(options->url) : strlen(options->url)),
		 options->url);
	push->options.url = options->url;
	push->options.access.tenant_file = options->tenant_file;
	push->options.access.basic_file = options->basic_file;
	push->options.access.bearer_file = options->bearer_file;
	push->options.access.ca_file = options->ca_file;
	if (pusher_open(push))
		return EXIT_FAILED;
	if (!strncasecmp(options->url, "http:", 5) && (options->basic_file || options->bearer_file))
		log_warn("%s: the password or token is sent unencrypted: the URL says http, not "
			 "https",
			 words->flag);
	log_event(LOG_INFO, words->begun, fields, ARRAY_SIZE(fields));
	return EXIT_DONE;
}

static uint64_t sum(const uint64_t *numbers, size_t nr)
{
	uint64_t total = 0;

	while (nr--)
		total += numbers[nr];
	return total;
}

static void say_failed(const struct daemon_push *push, const struct pusher_stats *now)
{
	const struct push_result *last = &now->last_failure;
	struct log_field fields[] = {
		{ .key = "reason", .text = push_outcome_name(last->outcome) },
		{ .key = "error", .text = last->why ? last->why : "the server's answer" },
		{ .key = "status", .number = (uint64_t)last->status },
		{ .key = "failures", .number = now->failures },
		{ .key = "retry_ms", .number = now->failures ? now->wait_ms : 0 },
		{ .key = "waiting", .number = now->waiting },
		{ .key = "url", .text = push->url },
	};

	log_event(LOG_WARN, push->words->failed, fields, ARRAY_SIZE(fields));
}

static void say_dropped(const struct daemon_push *push, const struct pusher_stats *now)
{
	enum push_drop drop;

	for (drop = 0; drop < PUSH_NR_DROPS; drop++) {
		struct log_field fields[] = {
			{ .key = "reason", .text = push_drop_name(drop) },
			{ .key = push->words->things,
			  .number = now->dropped[drop] - push->said.dropped[drop] },
			{ .key = "in_all", .number = sum(now->dropped, PUSH_NR_DROPS) },
		};

		if (fields[1].number)
			log_event(LOG_ERROR, push->words->dropped, fields, ARRAY_SIZE(fields));
	}
}

static void watch(struct daemon_push *push)
{
	struct pusher_stats now, *before = &push->said;
	struct log_field fields[] = { { .key = "failures" }, { .key = "waiting" } };

	if (!push->pusher)
		return;
	pusher_stats_get(push->pusher, &now);
	if (sum(now.failed, PUSH_NR_OUTCOMES) != sum(before->failed, PUSH_NR_OUTCOMES))
		say_failed(push, &now);
	say_dropped(push, &now);
	if (before->failures && !now.failures && now.pushed != before->pushed) {
		fields[0].number = before->failures;
		fields[1].number = now.waiting;
		log_event(LOG_INFO, push->words->again, fields, ARRAY_SIZE(fields));
	}
	*before = now;
}

void pushers_watch(struct daemon *daemon)
{
	watch(&daemon->push);
	watch(&daemon->notify.push);
}

static void end(struct daemon_push *push, uint64_t until_ns)
{
	struct pusher_stats stats;
	struct log_field fields[2];

	if (!push->pusher)
		return;
	pusher_drain_wait(push->pusher, until_ns);
	watch(push);
	pusher_stats_get(push->pusher, &stats);
	fields[0] = (struct log_field){ .key = push->words->things, .number = stats.waiting };
	fields[1] = (struct log_field){ .key = push->words->done, .number = stats.pushed };
	if (stats.waiting)
		log_event(LOG_ERROR, push->words->left, fields, ARRAY_SIZE(fields));
	pusher_free(push->pusher);
	push->pusher = NULL;
}

/* Both queues have the same time: one server that hangs leaves the other one all of it. */
void pushers_end(struct daemon *daemon)
{
	uint64_t until_ns = time_monotonic_ns() + END_NS;

	if (daemon->push.pusher)
		pusher_drain_begin(daemon->push.pusher);
	if (daemon->notify.push.pusher)
		pusher_drain_begin(daemon->notify.push.pusher);
	end(&daemon->push, until_ns);
	end(&daemon->notify.push, until_ns);
}

#define NAME_BYTES 64

/* The name of a metric: bpfprof_, and three parts. */
static void name_make(char dst[NAME_BYTES], const char *before, const char *word, const char *after)
{
	snprintf(dst, NAME_BYTES, "bpfprof_%s%s%s", before, word, after);
}

static void head(struct buf *dst, const struct daemon_push *push, const char *name,
		 const char *type, const char *subject, const char *help)
{
	buf_printf(dst, "# HELP %s %s: %s %s\n# TYPE %s %s\n", name, push->words->flag, subject,
		   help, name, type);
}

static void metric(struct buf *dst, const struct daemon_push *push, const char *name,
		   const char *type, uint64_t value, const char *help)
{
	head(dst, push, name, type, push->words->things, help);
	buf_printf(dst, "%s %" PRIu64 "\n", name, value);
}

static void labelled(struct buf *dst, const char *name, const char *reason, uint64_t value)
{
	buf_printf(dst, "%s{reason=\"%s\"} %" PRIu64 "\n", name, reason, value);
}

static void counts_add(struct buf *dst, const struct daemon_push *push,
		       const struct pusher_stats *stats)
{
	const struct push_words *words = push->words;
	char name[NAME_BYTES];

	snprintf(name, sizeof(name), "bpfprof_%s_%s_total", words->things, words->done);
	metric(dst, push, name, "counter", stats->pushed, "that the server has taken.");
	name_make(name, "", words->metric, "_bytes_total");
	metric(dst, push, name, "counter", stats->bytes, "that it has taken, in bytes.");
	name_make(name, "", words->metric, "_queued");
	metric(dst, push, name, "gauge", stats->waiting, "that wait for being sent.");
	name_make(name, "last_", words->metric, "_timestamp_seconds");
	metric(dst, push, name, "gauge", stats->last_pushed_s,
	       "that it has taken: the time of the last one, 0 if there is none.");
}

static void metrics(struct buf *dst, const struct daemon_push *push)
{
	struct pusher_stats stats;
	enum push_outcome outcome;
	char name[NAME_BYTES];
	enum push_drop drop;

	if (!push->pusher)
		return;
	pusher_stats_get(push->pusher, &stats);
	counts_add(dst, push, &stats);
	name_make(name, "", push->words->metric, "_errors_total");
	head(dst, push, name, "counter", "tries", "that failed, by reason.");
	for (outcome = PUSH_RESOLVE; outcome < PUSH_STOPPED; outcome++)
		labelled(dst, name, push_outcome_name(outcome), stats.failed[outcome]);
	name_make(name, "", push->words->metric, "_dropped_total");
	head(dst, push, name, "counter", push->words->things, "that will not be sent, by reason.");
	for (drop = 0; drop < PUSH_NR_DROPS; drop++)
		labelled(dst, name, push_drop_name(drop), stats.dropped[drop]);
}

void pushers_metrics(struct buf *dst, const struct daemon *daemon)
{
	metrics(dst, &daemon->push);
	metrics(dst, &daemon->notify.push);
}
