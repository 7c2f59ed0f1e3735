// SPDX-License-Identifier: Apache-2.0
#include "daemon/remote_profile.h"

#include <errno.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/exit_status.h"
#include "base/log.h"
#include "base/time.h"
#include "daemon/daemon.h"
#include "daemon/http.h"
#include "daemon/http_later.h"
#include "formats/output.h"
#include "profile/aggregate.h"
#include "profile/aggregate_stats.h"
#include "profile/thread_times.h"

#define WHY_MAX 4096
#define SEND_SECONDS 300 /* until the client has taken the last bytes */
#define RETRY_SECONDS 2
#define PROFILE_SHARE 4 /* of the room for stacks of an interval, for each profile */
#define GROUP(slot) (SAMPLER_GROUP << (3 + (slot))) /* those below are the daemon's own */
#define NOT_RECORDED                                                                               \
	"no recording of the memory of that process runs; the agent may have been restarted "      \
	"since memray attach"

static const char plain[] = OUTPUT_PLAIN;

static const char *name_of(const struct remote_profile_job *job)
{
	return remote_profile_kinds[job->kind].name;
}

static bool is_command(const struct remote_profile_job *job)
{
	return remote_profile_kinds[job->kind].is_command;
}

static void job_end(struct remote_profile_job *job)
{
	struct log_field fields[] = {
		{ .key = "kind", .text = name_of(job) },
		{ .key = "client", .text = job->client },
		{ .key = "status", .number = job->status },
		{ .key = "ms", .number = (time_monotonic_ns() - job->asked_ns) / 1000000 },
	};

	log_event(LOG_INFO, "remote profiling", fields, sizeof(fields) / sizeof(fields[0]));
	process_filter_close(&job->filter, &job->daemon->sampler);
	remote_right_release(&job->right);
	remote_profile_query_fini(&job->query);
	thread_times_free(job->times);
	aggregate_free(job->aggregate);
	free(job->path);
	if (job->fd >= 0)
		close(job->fd);
	if (job->said_fd >= 0)
		close(job->said_fd);
	job->times = NULL;
	job->aggregate = NULL;
	job->path = NULL;
	job->fd = job->said_fd = -1;
}

static bool child_ended(struct remote_profile_job *job)
{
	pid_t pid = job->pid ? waitpid(job->pid, &job->ended, WNOHANG) : 0;

	if (job->pid && (!pid || (pid < 0 && errno == EINTR)))
		return false;
	if (pid < 0)
		job->ended = W_EXITCODE(EXIT_FAILED, 0);
	job->pid = 0;
	return true;
}

static void job_bury(struct remote_profile_job *job)
{
	job->state = child_ended(job) ? REMOTE_PROFILE_FREE : REMOTE_PROFILE_DYING;
}

/* Ends the recording of an attach whose client does not get its id. */
static void attach_drop(struct remote_profile_job *job)
{
	if (job->kind == REMOTE_PROFILE_ATTACH && job->memory && !job->status)
		remote_memory_end(job->memory, SIGKILL);
}

/* The answer was sent, or the client has disconnected: its child is not needed any more. */
static void on_done(void *arg, bool whole)
{
	struct remote_profile_job *job = arg;

	job->later = NULL;
	job->daemon->remote.counts.nr_cut += !whole;
	attach_drop(job);
	if (job->pid)
		kill(job->pid, SIGKILL);
	job_end(job);
	job_bury(job);
}

static void job_reply(struct remote_profile_job *job, unsigned int status, const char *text)
{
	__cleanup(buf_fini) struct buf body = { .max = WHY_MAX };
	const struct http_reply reply = { .status = status, .type = plain, .body = &body };
	size_t len = strlen(text);

	buf_add_str(&body, text);
	if (!len || text[len - 1] != '\n')
		buf_add_char(&body, '\n');
	job->status = status;
	if (status != 200)
		remote_refusal_count(job->daemon, status == 404	  ? "not_found"
						  : status == 403 ? "other_pod"
								  : "failed");
	http_later_reply(job->later, &reply);
}

static void job_stream(struct remote_profile_job *job, uint64_t size)
{
	const char *name = NULL, *type = plain;

	if (job->kind == REMOTE_PROFILE_PROFILE || job->kind == REMOTE_PROFILE_RECORD) {
		type = output_content_type(job->query.format);
		name = job->query.format == OUTPUT_PPROF ? "profile.pb.gz" : NULL;
	} else if (job->kind == REMOTE_PROFILE_REPORT) {
		type = output_content_type(OUTPUT_HTML);
	} else if (job->kind == REMOTE_PROFILE_FILES) {
		name = strrchr(job->path, '/') ? strrchr(job->path, '/') + 1 : job->path;
		type = output_content_type(output_format_by_path(name));
		if (!*name) {
			name = NULL;
			type = plain;
		}
	}
	job->status = 200;
	job->state = REMOTE_PROFILE_SENDING;
	job->deadline_ns = time_monotonic_ns() + SEND_SECONDS * NS_PER_SECOND;
	if (job->kind == REMOTE_PROFILE_TOP)
		job->deadline_ns += job->query.duration_ns;
	http_later_stream(job->later, job->fd, size, type, name);
}

/* A command has ended without any output. */
static void command_ended(struct remote_profile_job *job)
{
	__cleanup(buf_fini) struct buf said = { .max = WHY_MAX };
	int result = WIFEXITED(job->ended) ? WEXITSTATUS(job->ended) : EXIT_FAILED;

	remote_profile_child_said(job, &said);
	if (buf_error(&said) || !said.len)
		buf_printf(&said, "the %s failed", name_of(job));
	if (result == EXIT_DONE || result == EXIT_NO_TARGET)
		job_reply(job, 404, said.data);
	else if (result == REMOTE_TARGET_REFUSED)
		job_reply(job, 403, said.data);
	else
		job_reply(job, result == EXIT_USAGE ? 400 : 500, said.data);
}

/* Has the command written output, or ended without? */
static void command_look(struct remote_profile_job *job)
{
	bool ended = child_ended(job); /* first: all output of an ended child is in the pipe */
	int nr = 0;

	if (!ioctl(job->fd, FIONREAD, &nr) && nr > 0)
		job_stream(job, HTTP_LATER_SIZE_UNKNOWN);
	else if (ended)
		command_ended(job);
}

/* The child of an attach has found the process. */
static void attach_begin(struct remote_profile_job *job, const struct remote_target *target)
{
	__cleanup(buf_fini) struct buf why = { .max = WHY_MAX };
	const struct remote_profile_query *query = &job->query;
	const struct remote_memory_request request = {
		.target = *target,
		.pod_pid = query->choice.pids[0],
		.owner = job->right.owner,
		.subprocesses = query->subprocesses,
		.allocations = query->allocations,
		.lease_ns = query->duration_ns,
	};
	int err = remote_memory_begin(&job->memory, job->daemon, &request, &why);

	if (err)
		job_reply(job, err == -EEXIST || err == -EBUSY ? 409 : 500,
			  why.len ? why.data : strerror(-err));
}

/* Answers once the recording of an attach runs, or that of a detach has ended. */
static void memory_look(struct remote_profile_job *job)
{
	__cleanup(buf_fini) struct buf said = { .max = WHY_MAX };
	bool is_due = job->memory->state != REMOTE_MEMORY_RUNNING;

	remote_memory_said(job->memory, &said);
	if (job->kind == REMOTE_PROFILE_ATTACH)
		is_due |= said.len || remote_memory_is_ready(job->memory);
	if (!is_due)
		return;
	if (said.len) {
		attach_drop(job);
		job_reply(job, 500, said.data);
	} else {
		job_reply(job, 200, job->memory->id);
	}
}

/* The child of an attach, or of a detach by the Unix socket, has answered. */
static void memory_begin(struct remote_profile_job *job, const struct remote_profile_head *head)
{
	const struct remote_profile_query *query = &job->query;

	if (job->right.by_socket)
		snprintf(job->right.owner, sizeof(job->right.owner), "%.*s",
			 (int)sizeof(job->right.owner) - 1, head->text);
	if (job->kind == REMOTE_PROFILE_ATTACH) {
		attach_begin(job, &head->target);
		return;
	}
	job->memory = remote_memory_find(job->daemon, query->choice.pids[0], query->start_ticks,
					 job->right.owner, false);
	if (job->memory)
		remote_memory_end(job->memory, SIGINT);
	else
		job_reply(job, 404, NOT_RECORDED);
}

static void on_readable(void *arg)
{
	struct remote_profile_job *job = arg;
	struct remote_profile_head head;

	if (job->status) /* the job already has another answer */
		return;
	if (is_command(job)) {
		command_look(job); /* a child that has closed the pipe ends in a moment */
		return;
	}
	if (read(job->fd, &head, sizeof(head)) != sizeof(head)) {
		job_reply(job, 500, "the process that was to answer has failed");
		return;
	}
	head.text[sizeof(head.text) - 1] = 0;
	if (head.status != 200)
		job_reply(job, head.status, head.text);
	else if (job->kind == REMOTE_PROFILE_ATTACH || job->kind == REMOTE_PROFILE_DETACH)
		memory_begin(job, &head);
	else
		job_stream(job, head.size);
}

static void command_log(const struct remote_profile_job *job)
{
	__cleanup(buf_fini) struct buf said = { .max = WHY_MAX };

	remote_profile_child_said(job, &said);
	if (said.len && !buf_error(&said))
		log_info("%s for %s: %s", name_of(job), job->client, said.data);
}

static int on_ended(void *arg)
{
	struct remote_profile_job *job = arg;

	if (!child_ended(job))
		return -EAGAIN;
	if (!is_command(job))
		return job->ended ? -EIO : 0;
	if (job->kind == REMOTE_PROFILE_DUMP) /* a record ends with a table */
		command_log(job);
	/* One of several processes may have ended. The stacks of the others are an answer. */
	return WIFEXITED(job->ended) && WEXITSTATUS(job->ended) != EXIT_FAILED ? 0 : -EIO;
}

/* The parent does this, since a child has no descriptors of the kernel's counters. */
static void profile_stats(struct remote_profile_job *job)
{
	const struct run_stats before = job->stats;
	struct aggregate_view view;

	job->stats = (struct run_stats){ 0 };
	sampler_stats(&job->daemon->sampler, &job->stats);
	stats_since(&job->stats, &before);
	aggregate_view_get(job->aggregate, &view);
	aggregate_stats(&job->stats, &view);
	job->stats.duration_seconds = (double)(job->end_ns - job->start_ns) / 1e9;
}

/* The time until a child that begins now has written its first byte. */
static uint64_t patience_ns(const struct remote_profile_job *job)
{
	return remote_profile_kinds[job->kind].patience_seconds * NS_PER_SECOND +
	       (job->kind == REMOTE_PROFILE_RECORD ? job->query.duration_ns : 0) +
	       (job->kind == REMOTE_PROFILE_TOP ? job->query.delay_ns : 0);
}

static void job_work(struct remote_profile_job *job, uint64_t now_ns)
{
	int err;

	if (job->kind == REMOTE_PROFILE_PROFILE) {
		job_waits_rotate(job);
		profile_stats(job);
	}
	err = remote_profile_child_start(job);
	remote_right_release(&job->right);
	job->state = REMOTE_PROFILE_WORKING;
	job->deadline_ns = now_ns + patience_ns(job);
	process_filter_close(&job->filter, &job->daemon->sampler);
	aggregate_free(job->aggregate);
	job->aggregate = NULL;
	if (!err)
		err = http_later_wait(job->later, job->fd);
	if (err)
		job_reply(job, 500, strerror(-err));
}

static struct remote_profile_job *job_find(struct daemon *daemon, enum remote_profile_kind kind,
					   const struct remote_right *right, size_t *slot)
{
	const struct remote_profile_kind_facts *facts = &remote_profile_kinds[kind];
	struct remote_profile_job *job = daemon->remote.jobs;
	enum remote_profile_kind before;
	size_t i, first = 0, nr_own = 0;

	/* A tenant leaves a place to others: a record may take an hour. */
	for (i = 0; i < REMOTE_PROFILE_MAX_JOBS && facts->places_of_one; i++)
		nr_own += job[i].state != REMOTE_PROFILE_FREE && job[i].kind == kind &&
			  !strcmp(job[i].right.owner, right->owner);
	if (facts->places_of_one && nr_own >= facts->places_of_one)
		return NULL;

	for (before = 0; before < kind; before++)
		first += remote_profile_kinds[before].places;
	for (*slot = first; *slot < first + facts->places; ++*slot)
		if (job[*slot].state == REMOTE_PROFILE_FREE)
			return &job[*slot];
	return NULL;
}

/* The time until the first running profile ends. */
static unsigned int retry_seconds(const struct daemon *daemon, enum remote_profile_kind kind)
{
	uint64_t now_ns = time_monotonic_ns(), least_ns = UINT64_MAX;
	const struct remote_profile_job *job = daemon->remote.jobs;
	size_t i;

	for (i = 0; kind == REMOTE_PROFILE_PROFILE && i < REMOTE_PROFILE_MAX_PROFILES; i++)
		if (job[i].state == REMOTE_PROFILE_SAMPLING && job[i].end_ns < least_ns)
			least_ns = job[i].end_ns;
	if (least_ns == UINT64_MAX || least_ns < now_ns)
		return RETRY_SECONDS;
	return (unsigned int)((least_ns - now_ns) / NS_PER_SECOND) + 1;
}

static int profile_begin(struct remote_profile_job *job, size_t slot, struct buf *why)
{
	struct daemon *daemon = job->daemon;
	int err;

	err = process_filter_open(&job->filter, &daemon->sampler, &job->query.choice, GROUP(slot),
				  why);
	if (!err)
		err = aggregate_new(&job->aggregate, daemon->options->threads,
				    daemon->aggregate_bytes / PROFILE_SHARE);
	if (err)
		return err;
	sampler_stats(&daemon->sampler, &job->stats);
	job->start_ns = time_monotonic_ns();
	job->end_ns = job->start_ns + job->query.duration_ns;
	err = job_waits_open(job);
	if (err)
		return err;
	job->offset_ns = daemon->running.offset_ns;
	job->state = REMOTE_PROFILE_SAMPLING;
	return 0;
}

struct query_parse {
	struct remote_profile_query *query;
	enum remote_profile_kind kind;
	struct buf *why;
};

static int take(void *arg, const char *name, const char *value)
{
	const struct query_parse *parse = arg;

	return remote_profile_query_take(parse->query, parse->kind, name, value, parse->why);
}

/* The recording of a detach or a report, and the file of the latter. */
static int memory_find(struct remote_profile_job *job, struct buf *why)
{
	const struct remote_profile_query *query = &job->query;
	struct daemon *daemon = job->daemon;

	if (job->kind == REMOTE_PROFILE_DETACH) {
		job->memory = remote_memory_find(daemon, query->choice.pids[0], query->start_ticks,
						 job->right.owner, !job->right.bound);
		if (!job->memory)
			buf_add_str(why, NOT_RECORDED);
		return job->memory ? 0 : -ENOENT;
	}
	job->memory = remote_memory_by_id(daemon, query->id);
	if (!job->memory) {
		buf_add_str(why, "that recording is not there any more: results are kept for ten "
				 "minutes, and end with the agent");
		return -ENOENT;
	}
	if (job->memory->state == REMOTE_MEMORY_RUNNING) {
		buf_add_str(why, "that recording still runs; memray detach ends it");
		return -EINVAL;
	}
	if (job->memory->children[query->leaks].status) {
		remote_memory_said(job->memory, why);
		return -EIO;
	}
	if (query->table)
		job->fd = remote_memory_table(job->memory, query->leaks);
	else
		job->fd = remote_memory_html(job->memory, query->leaks);
	return job->fd < 0 ? job->fd : 0;
}

static void detach_begin(struct remote_profile_job *job)
{
	remote_memory_end(job->memory, SIGINT);
	job->state = REMOTE_PROFILE_WORKING;
	job->deadline_ns = job->asked_ns + patience_ns(job);
}

static const struct http_later_events later_events = { .readable = on_readable,
						       .ended = on_ended,
						       .done = on_done };

/* Takes over query and right. */
static void job_begin(struct daemon *daemon, enum remote_profile_kind kind,
		      struct remote_profile_query *query, struct remote_right *right,
		      const struct http_request *request, struct http_reply *reply)
{
	__cleanup(buf_fini) struct buf why = { .max = WHY_MAX };
	struct remote_profile_job *job;
	size_t slot;
	int err = 0;

	job = job_find(daemon, kind, right, &slot);
	if (!job) {
		remote_refuse(daemon, reply, 503, "busy", "busy with others: come again");
		reply->retry_seconds = retry_seconds(daemon, kind);
		remote_profile_query_fini(query);
		remote_right_release(right);
		return;
	}
	*job = (struct remote_profile_job){ .daemon = daemon,
					    .kind = kind,
					    .query = *query,
					    .right = *right,
					    .asked_ns = time_monotonic_ns(),
					    .fd = -1,
					    .said_fd = -1 };
	snprintf(job->client, sizeof(job->client), "%s", request->client);
	daemon->remote.counts.requests[kind]++;
	if (kind == REMOTE_PROFILE_FILES)
		job->path = strdup(request->path + sizeof(REMOTE_PROFILE_FILES_PREFIX) - 1);
	if (kind == REMOTE_PROFILE_FILES && !job->path)
		err = -ENOMEM;
	if (kind == REMOTE_PROFILE_PROFILE)
		err = profile_begin(job, slot, &why);
	if ((kind == REMOTE_PROFILE_DETACH && !job->right.by_socket) ||
	    kind == REMOTE_PROFILE_REPORT)
		err = memory_find(job, &why);
	if (!err)
		job->later = http_later_new(request, reply, &later_events, job);
	if (!err && !job->later)
		err = -ENOMEM;
	if (err) {
		job->status = err == -ENOENT ? 404 : err == -EINVAL ? 400 : 500;
		remote_refuse(daemon, reply, job->status, err == -ENOENT ? "not_found" : "failed",
			      why.len ? why.data : strerror(-err));
		job_end(job);
		job->state = REMOTE_PROFILE_FREE;
		return;
	}
	if (kind == REMOTE_PROFILE_REPORT)
		job_stream(job, HTTP_LATER_SIZE_UNKNOWN);
	else if (kind == REMOTE_PROFILE_DETACH && !job->right.by_socket)
		detach_begin(job);
	else if (kind != REMOTE_PROFILE_PROFILE)
		job_work(job, job->asked_ns);
}

bool remote_profile_answer(struct daemon *daemon, const struct http_request *request,
			   struct http_reply *reply)
{
	__cleanup(buf_fini) struct buf why = { .max = WHY_MAX };
	struct remote_profile_query query;
	enum remote_profile_kind kind;
	struct query_parse parse = { .query = &query, .why = &why };
	struct remote_right right;
	bool bound;
	int err;

	if (!remote_profile_kind_of(request->path, &kind))
		return false;
	err = remote_right_find(&right, daemon, request, reply);
	if (err)
		return err != -ENOENT;
	bound = right.bound || right.by_socket;
	if (kind != REMOTE_PROFILE_FILES && request->head) {
		remote_refuse(daemon, reply, 405, "bad_request", "GET only");
		reply->allow = "GET";
		remote_right_release(&right);
		return true;
	}
	if (!bound && kind == REMOTE_PROFILE_FILES &&
	    (!strcmp(request->path, "/files") ||
	     remote_profile_path_check(request->path + sizeof(REMOTE_PROFILE_FILES_PREFIX) - 1))) {
		remote_refuse(daemon, reply, 404, "not_found",
			      "not found; /files/ lists what there is");
		remote_right_release(&right);
		return true;
	}
	remote_profile_query_init(&query);
	if (kind == REMOTE_PROFILE_ATTACH)
		query.duration_ns = REMOTE_PROFILE_LEASE_SECONDS * NS_PER_SECOND;
	parse.kind = kind;
	err = http_query(request, take, &parse);
	if (!err && bound)
		err = remote_profile_query_check_bound(&query, kind, &why);
	if (!err)
		err = remote_profile_query_check(&query, kind, &why);
	if (err) {
		remote_refuse(daemon, reply, err == -ENOMEM ? 500 : 400, "bad_request",
			      why.len && !buf_error(&why) ? why.data
							  : "the query is not understood");
		remote_profile_query_fini(&query);
		remote_right_release(&right);
		return true;
	}
	job_begin(daemon, kind, &query, &right, request, reply);
	return true;
}

void remote_profile_sample(struct daemon *daemon, const struct aggregate_input *input)
{
	struct remote_profile_job *job = daemon->remote.jobs;
	uint64_t ts_ns = input->sample->rec.ts_ns;
	size_t i;

	for (i = 0; i < REMOTE_PROFILE_MAX_PROFILES; i++)
		if (job[i].state == REMOTE_PROFILE_SAMPLING && job[i].times &&
		    ts_ns >= job[i].start_ns)
			job_waits_sample(&job[i], input);
		else if (job[i].state == REMOTE_PROFILE_SAMPLING && ts_ns >= job[i].start_ns &&
			 ts_ns < job[i].end_ns &&
			 process_filter_wants(&job[i].filter, &daemon->sampler, input))
			aggregate_add(job[i].aggregate, input);
}

void remote_profile_exit(struct daemon *daemon, const struct bpfprof_task_id *task, uint64_t cpu_ns)
{
	size_t i;

	for (i = 0; i < REMOTE_PROFILE_MAX_PROFILES; i++)
		if (daemon->remote.jobs[i].state == REMOTE_PROFILE_SAMPLING)
			aggregate_exit(daemon->remote.jobs[i].aggregate, task, cpu_ns);
}

static void job_run(struct remote_profile_job *job, uint64_t now_ns)
{
	switch (job->state) {
	case REMOTE_PROFILE_SAMPLING:
		if (now_ns >= job->end_ns)
			job_work(job, now_ns);
		break;
	case REMOTE_PROFILE_WORKING:
		if (is_command(job) && !job->status)
			command_look(job);
		if (job->memory && !job->status)
			memory_look(job);
		if (job->state != REMOTE_PROFILE_WORKING)
			break;
		if (!job->status && now_ns >= job->deadline_ns) {
			attach_drop(job);
			job_reply(job, 504, "it took too long");
		} else if (job->status &&
			   now_ns >= job->deadline_ns + SEND_SECONDS * NS_PER_SECOND) {
			http_later_cut(job->later);
		}
		break;
	case REMOTE_PROFILE_SENDING:
		if (now_ns >= job->deadline_ns)
			http_later_cut(job->later);
		else
			http_later_again(job->later);
		break;
	case REMOTE_PROFILE_DYING:
		job_bury(job);
		break;
	case REMOTE_PROFILE_FREE:
		break;
	}
}

void remote_profile_run(struct daemon *daemon, uint64_t now_ns)
{
	size_t i;

	remote_memory_run(daemon, now_ns);
	for (i = 0; i < REMOTE_PROFILE_MAX_JOBS; i++)
		job_run(&daemon->remote.jobs[i], now_ns);
}

size_t remote_profile_aggregates(const struct daemon *daemon, const struct aggregate **ret)
{
	size_t i, nr = 0;

	for (i = 0; i < REMOTE_PROFILE_MAX_PROFILES; i++)
		if (daemon->remote.jobs[i].aggregate)
			ret[nr++] = daemon->remote.jobs[i].aggregate;
	return nr;
}

void remote_profile_metrics(struct buf *dst, const struct daemon *daemon)
{
	static const char requests[] = "bpfprof_remote_requests_total",
			  refused[] = "bpfprof_remote_refused_total",
			  cut[] = "bpfprof_remote_cut_total";
	const struct remote_profile_counts *counts = &daemon->remote.counts;
	size_t i;

	buf_printf(dst, "# HELP %s Remote profiling that was begun, by kind.\n# TYPE %s counter\n",
		   requests, requests);
	for (i = 0; i < REMOTE_PROFILE_NR_KINDS; i++)
		buf_printf(dst, "%s{kind=\"%s\"} %" PRIu64 "\n", requests,
			   remote_profile_kinds[i].name, counts->requests[i]);
	buf_printf(dst, "# HELP %s Remote profiling refused or failed, by reason.\n", refused);
	buf_printf(dst, "# TYPE %s counter\n", refused);
	for (i = 0; i < counts->refused.nr; i++)
		buf_printf(dst, "%s{reason=\"%s\"} %" PRIu64 "\n", refused,
			   counts->refused.reasons[i].name, counts->refused.reasons[i].count);
	buf_printf(dst, "# HELP %s Clients that went away or were too slow.\n", cut);
	buf_printf(dst, "# TYPE %s counter\n%s %" PRIu64 "\n", cut, cut, counts->nr_cut);
}
