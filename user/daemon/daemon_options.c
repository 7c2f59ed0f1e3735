// SPDX-License-Identifier: Apache-2.0
#include "daemon/daemon_options.h"

#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/duration.h"
#include "base/time.h"
#include "daemon/http.h"
#include "formats/output.h"
#include "options/config.h"
#include "options/flags.h"
#include "options/options.h"
#include "options/values.h"

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))
#define INTERVAL_MAX_SECONDS 86400
#define MEMORY_MIN (48ULL << 20)
#define TOKEN_FILE_BYTES 4096
#define TOKEN_BLANKS " \t\r\n"

enum key {
	KEY_OUTPUT,
	KEY_INTERVAL,
	KEY_RETAIN_AGE,
	KEY_RETAIN_BYTES,
	KEY_RATE,
	KEY_CLOCK,
	KEY_THREADS,
	KEY_GPU,
	KEY_TENSORS,
	KEY_GC,
	KEY_WALL,
	KEY_PARKED,
	KEY_SPLIT,
	KEY_LISTEN,
	KEY_REMOTE,
	KEY_PID,
	KEY_CONTAINER,
	KEY_POD,
	KEY_WORKER,
	KEY_MAX_MEMORY,
	KEY_PUSH,
	KEY_PUSH_TENANT,
	KEY_PUSH_BASIC,
	KEY_PUSH_BEARER,
	KEY_PUSH_CA,
	KEY_PUSH_LABEL,
	KEY_PUSH_TIMEOUT,
	KEY_PUSH_QUEUE,
	KEY_CONFIG,
	KEY_LOG_FORMAT,
	KEY_LOG_LEVEL,
	KEY_HOST_ROOT,
	KEY_VERBOSE,
};

static int refuse(struct buf *why, const char *text)
{
	buf_add_str(why, text);
	return -EINVAL;
}

static int take_output(char **dst, const char *value, struct buf *why)
{
	const struct output_names names = { .host = "h", .worker = "w" };
	__cleanup(buf_fini) struct buf expanded = { .max = PATH_MAX - NAME_MAX };
	int err;

	if (!*value || !strcmp(value, "-"))
		return refuse(why, "must be a folder");
	err = output_expand_path(&expanded, value, &names);
	if (err == -EINVAL)
		return refuse(why, "after % only h, p, t, w, {NAME} and % are understood");
	if (err == -ENOENT)
		return refuse(why, "names an environment variable that is not set");
	if (err && err != -ENOMEM)
		return refuse(why, "the name is too long");
	return err ? err : value_string(dst, value);
}

static int take_interval(uint64_t *dst, const char *value, struct buf *why)
{
	uint64_t ns;

	if (duration_parse(value, &ns) || ns % NS_PER_SECOND || ns / NS_PER_SECOND < 1 ||
	    ns / NS_PER_SECOND > INTERVAL_MAX_SECONDS)
		return refuse(why, "interval must be whole seconds from 1s to 24h, like 60s or 5m");
	*dst = ns / NS_PER_SECOND;
	return 0;
}

static int take_age(uint64_t *dst, const char *value, struct buf *why)
{
	uint64_t ns;

	if (duration_parse(value, &ns) || ns < NS_PER_SECOND)
		return refuse(why, "must be a duration from 1s to 366 days, like 24h");
	*dst = ns / NS_PER_SECOND;
	return 0;
}

static int take_bytes(uint64_t *dst, uint64_t min, const char *value, struct buf *why)
{
	uint64_t bytes;

	if (value_bytes(value, &bytes))
		return refuse(why, "must be a number of bytes, like 500M or 1G");
	if (bytes < min) {
		buf_printf(why, "must be at least %lluM", (unsigned long long)min >> 20);
		return -EINVAL;
	}
	*dst = bytes;
	return 0;
}

static int take_split(enum daemon_split *dst, const char *value, struct buf *why)
{
	static const char *const names[] = { "node", "pod" };
	static const enum daemon_split splits[] = { DAEMON_SPLIT_NODE, DAEMON_SPLIT_POD };
	int choice = value_choice(value, names, ARRAY_SIZE(names));

	if (choice < 0)
		return refuse(why, "must be node or pod");
	*dst = splits[choice];
	return 0;
}

/* The only word in a file, which may end in a newline. */
static int take_token(char **dst, const char *value, struct buf *why)
{
	__cleanup(buf_fini) struct buf text = { .max = TOKEN_FILE_BYTES };
	char *at, *end;
	int err = *value ? config_file_read(value, &text) : -ENOENT;

	if (err == -ENOMEM)
		return err;
	if (err) {
		buf_printf(why, "cannot be read: %s",
			   err == -EINVAL  ? "not a text file"
			   : err == -E2BIG ? "too large for a token"
					   : strerror(-err));
		return -EINVAL;
	}
	at = text.data ? text.data + strspn(text.data, TOKEN_BLANKS) : text.data;
	end = at ? at + strlen(at) : at;
	while (end > at && strchr(TOKEN_BLANKS, end[-1]))
		*--end = 0;
	if (!at || !*at)
		return refuse(why, "there is no token in that file");
	for (end = at; *end; end++)
		if (*end <= ' ' || *end > '~')
			return refuse(why, "a token is one word of printable ASCII characters");
	return value_string(dst, at);
}

static int take_log_format(enum log_format *dst, const char *value, struct buf *why)
{
	static const char *const names[] = { "logfmt", "json" };
	static const enum log_format formats[] = { LOG_LOGFMT, LOG_JSON };
	int choice = value_choice(value, names, ARRAY_SIZE(names));

	if (choice < 0)
		return refuse(why, "log format must be logfmt or json");
	*dst = formats[choice];
	return 0;
}

static int take_log_level(enum log_level *dst, const char *value, struct buf *why)
{
	static const char *const names[] = { "error", "warn", "info", "debug" };
	int choice = value_choice(value, names, ARRAY_SIZE(names));

	if (choice < 0)
		return refuse(why, "log level must be error, warn, info or debug");
	*dst = (enum log_level)choice;
	return 0;
}

static int take_daemon(void *target, int key, const char *value, struct buf *why)
{
	struct daemon_options *options = target;

	switch ((enum key)key) {
	case KEY_OUTPUT:
		return take_output(&options->output, value, why);
	case KEY_INTERVAL:
		return take_interval(&options->interval_seconds, value, why);
	case KEY_RETAIN_AGE:
		return take_age(&options->limits.age_seconds, value, why);
	case KEY_RETAIN_BYTES:
		return take_bytes(&options->limits.bytes, 1, value, why);
	case KEY_RATE:
		return value_rate(&options->hz, value, why);
	case KEY_CLOCK:
		return value_clock(&options->clock, value, why);
	case KEY_THREADS:
		options->threads = true;
		return 0;
	case KEY_GPU:
		options->gpu = true;
		return 0;
	case KEY_TENSORS:
		options->tensors = true;
		return 0;
	case KEY_GC:
		options->gc = true;
		return 0;
	case KEY_WALL:
		options->wall = true;
		return 0;
	case KEY_PARKED:
		options->parked = true;
		return 0;
	case KEY_SPLIT:
		return take_split(&options->split, value, why);
	case KEY_LISTEN:
		if (strcmp(value, "none") && http_check_address(value))
			return refuse(why,
				      "must be ADDRESS:PORT, like 127.0.0.1:9464 or [::1]:9464, "
				      "or none");
		return value_string(&options->listen, value);
	case KEY_REMOTE:
		return take_token(&options->token, value, why);
	case KEY_PID:
		return value_add_pids(&options->choice.pids, &options->choice.nr_pids, value, why);
	case KEY_CONTAINER:
		return container_filter_add_id(&options->choice.containers, value, why);
	case KEY_POD:
		return container_filter_add_pod(&options->choice.containers, value, why);
	case KEY_WORKER:
		return value_add_patterns(&options->choice.workers, &options->choice.nr_workers,
					  value, why);
	case KEY_MAX_MEMORY:
		return take_bytes(&options->max_memory, MEMORY_MIN, value, why);
	case KEY_PUSH:
		return value_string(&options->push.url, value);
	case KEY_PUSH_TENANT:
		return push_file_take(&options->push.tenant_file, value, why);
	case KEY_PUSH_BASIC:
		return push_file_take(&options->push.basic_file, value, why);
	case KEY_PUSH_BEARER:
		return push_file_take(&options->push.bearer_file, value, why);
	case KEY_PUSH_CA:
		return push_file_take(&options->push.ca_file, value, why);
	case KEY_PUSH_LABEL:
		return push_label_take(&options->push, value, why);
	case KEY_PUSH_TIMEOUT:
		return push_timeout_take(&options->push, value, why);
	case KEY_PUSH_QUEUE:
		return push_queue_take_size(&options->push, value, why);
	case KEY_CONFIG:
		return *value ? value_string(&options->config, value)
			      : refuse(why, "must be a file name");
	case KEY_LOG_FORMAT:
		return take_log_format(&options->log_format, value, why);
	case KEY_LOG_LEVEL:
		return take_log_level(&options->log_level, value, why);
	case KEY_HOST_ROOT:
		return value_folder(&options->host_root, value, why);
	case KEY_VERBOSE:
		options->log_level = LOG_DEBUG;
		return 0;
	}
	return refuse(why, "not understood");
}

static const struct flag daemon_flags[] = {
	{ KEY_OUTPUT, 'o', 0, "output", "DIR", "write into this folder, made if need be", false },
	{ KEY_INTERVAL, 0, 0, "interval", "DURATION", "time of one profile, 1s to 24h (60s)",
	  false },
	{ KEY_RETAIN_AGE, 0, 0, "retain-age", "DURATION", "remove profiles older than that (24h)",
	  false },
	{ KEY_RETAIN_BYTES, 0, 0, "retain-bytes", "BYTES",
	  "remove the oldest over that: 500M, 1G (1G)", false },
	{ KEY_RATE, 'F', 'r', "rate", "HZ", "samples per second and CPU, 1 to 10000 (99)", false },
	{ KEY_CLOCK, 0, 0, "clock", "CLOCK",
	  "auto, perf or timer (auto: perf events, and BPF\ntimers where the kernel refuses those)",
	  false },
	{ KEY_THREADS, 0, 0, "threads", NULL, "keep threads apart", false },
	{ KEY_GPU, 0, 0, "gpu", NULL, "CUDA and NCCL calls too: cuda-... files beside cpu-...",
	  false },
	{ KEY_TENSORS, 0, 0, "tensors", NULL,
	  "--gpu: memory that PyTorch hands out for tensors, too", false },
	{ KEY_GC, 0, 0, "gc", NULL,
	  "--gpu: garbage collections of Python, too, in\nprocesses that launch", false },
	{ KEY_WALL, 0, 0, "wall", NULL,
	  "all time of threads, running and waiting, and what\nthey wait for", false },
	{ KEY_PARKED, 0, 0, "parked", NULL,
	  "--wall: stacks of idle pool threads and pollers too,\nnot only [parked]", false },
	{ KEY_SPLIT, 0, 0, "split", "node|pod",
	  "a profile of the node, or one per pod in\nDIR/NAMESPACE/POD and one of the rest (node)",
	  false },
	{ KEY_LISTEN, 0, 0, "listen", "ADDRESS",
	  "HTTP with /metrics, /healthz and /readyz, or none\n(127.0.0.1:9464)", false },
	{ KEY_REMOTE, 0, 0, "allow-remote-profiling", "FILE",
	  "HTTP with /profile, /dump and /files/ too, for who\nsends the token in FILE", false },
	{ KEY_PID, 'p', 0, "pid", "PID", "write this process only, its threads and children",
	  true },
	{ KEY_CONTAINER, 0, 0, "container", "ID",
	  "of that, only what lives in this container: its id,\nor how the id begins", true },
	{ KEY_POD, 0, 0, "pod", "[NS/]GLOB",
	  "of that, only pods with this name ('ml/trainer-*');\n-p is then the pid inside the pod",
	  true },
	{ KEY_WORKER, 0, 0, "worker", "LIST",
	  "write Ray workers only whose task, class or name\n"
	  "matches one of the patterns ('*policy*,sort_numbers')",
	  false },
	{ KEY_MAX_MEMORY, 0, 0, "max-memory", "BYTES",
	  "of user space and BPF maps together, from 48M (64M,\n"
	  "512K more for each CPU above 32)",
	  false },
	{ KEY_PUSH, 0, 0, "push", "URL", "send each profile to this Pyroscope server too", false },
	{ KEY_PUSH_TENANT, 0, 0, "push-tenant-file", "FILE", "its tenant (X-Scope-OrgID)", false },
	{ KEY_PUSH_BASIC, 0, 0, "push-basic-auth-file", "FILE", "USER:PASSWORD for it", false },
	{ KEY_PUSH_BEARER, 0, 0, "push-bearer-token-file", "FILE", "a token for it, instead",
	  false },
	{ KEY_PUSH_CA, 0, 0, "push-ca-file", "FILE",
	  "certificates that it is trusted by, instead of the\nsystem's", false },
	{ KEY_PUSH_LABEL, 0, 0, "push-label", "NAME=VALUE",
	  "one more label of all that is sent; may be given again", true },
	{ KEY_PUSH_TIMEOUT, 0, 0, "push-timeout", "DURATION", "for one try (10s)", false },
	{ KEY_PUSH_QUEUE, 0, 0, "push-queue", "N",
	  "profiles that wait for the server, then the oldest is\ndropped (1000)", false },
	{ KEY_CONFIG, 0, 0, "config", "FILE", "read BPFPROF_NAME=VALUE lines; again on SIGHUP",
	  false },
	{ KEY_LOG_FORMAT, 0, 0, "log-format", "FORMAT", "logfmt or json (logfmt)", false },
	{ KEY_LOG_LEVEL, 0, 0, "log-level", "LEVEL", "error, warn, info or debug (info)", false },
	{ KEY_HOST_ROOT, 0, 0, "host-root", "DIR",
	  "the node's file system as this container sees it", false },
	{ KEY_VERBOSE, 'v', 0, "verbose", NULL, "the same as --log-level debug", false },
};

static const struct flag_set daemon_set = {
	.flags = daemon_flags,
	.nr_flags = ARRAY_SIZE(daemon_flags),
	.no_operand = "no such argument; the folder goes after --output",
	.take = take_daemon,
	.twins = "DAEMON",
};

int daemon_options_parse(struct daemon_options *options, const struct config *config, int argc,
			 char *const argv[], struct buf *error)
{
	struct flag_set set = daemon_set;
	struct daemon_options result = {
		.interval_seconds = 60,
		.limits = { .age_seconds = 86400, .bytes = 1ULL << 30 },
		.hz = RECORD_HZ_DEFAULT,
		.push = { .timeout_ms = PUSH_TIMEOUT_MS, .queue = PUSH_QUEUE },
		.log_format = LOG_LOGFMT,
		.log_level = LOG_INFO,
	};
	int err, command;

	set.config = config;
	err = flags_parse(&set, argc, argv, &result, &command, error);
	if (err) {
		daemon_options_fini(&result);
		return err == -ECANCELED ? OPTIONS_HELP : err;
	}
	*options = result;
	return OPTIONS_RUN;
}

int daemon_configure(struct daemon_options *options, struct config *config, int argc,
		     char *const argv[], struct buf *error)
{
	struct daemon_options first = { 0 };
	int err;

	/* Once to learn the name of the file, once with what is in it. */
	*config = (struct config){ 0 };
	err = daemon_options_parse(&first, NULL, argc, argv, error);
	if (!err && first.config)
		err = config_load(config, first.config, error);
	if (!err && first.config) {
		daemon_options_fini(&first);
		err = daemon_options_parse(&first, config, argc, argv, error);
	}
	if (!err && !first.output)
		err = refuse(error, "--output is missing: which folder?");
	if (!err && first.wall && first.gpu)
		err = refuse(error, "--gpu: waits and hooked calls cannot be recorded together, "
				    "leave --wall out");
	if (!err)
		err = gpu_parts_check(first.gpu, first.tensors, first.gc, error);
	if (!err && first.parked && !first.wall)
		err = refuse(error, "--parked: is about time that threads wait, add --wall");
	if (!err)
		err = push_options_check(&first.push, error);
	if (err) {
		daemon_options_fini(&first);
		config_unload(config);
		return err;
	}
	*options = first;
	return OPTIONS_RUN;
}

void daemon_options_fini(struct daemon_options *options)
{
	free(options->output);
	free(options->config);
	free(options->host_root);
	free(options->listen);
	push_options_fini(&options->push);
	free(options->token);
	process_choice_fini(&options->choice);
	*options = (struct daemon_options){ 0 };
}

void daemon_help(struct buf *dst)
{
	buf_add_str(
		dst,
		"Usage: bpfprof daemon --output DIR [FLAG]...\n"
		"Profiles the whole machine for ever: a set of files per interval,\n"
		"DIR/cpu-<start, UTC>-<seconds>s.pb.gz, .folded and .html, and links latest.*\n"
		"to the newest; with --gpu cuda-... of CUDA's and NCCL's calls beside them, with\n"
		"links latest.cuda.*. SIGTERM writes what there is and ends.\n\n");
	flags_help(dst, &daemon_set);
	buf_add_str(
		dst,
		"\n"
		"Every flag can also be set in the environment, BPFPROF_RETAIN_AGE=48h, or in the\n"
		"file of --config; the command line wins, then the environment. On SIGHUP that\n"
		"file is read again: --retain-age, --retain-bytes, --log-level, --pid,\n"
		"--container, --pod, --worker and the token hold from then on.\n"
		"\n"
		"Examples:\n"
		"  bpfprof daemon --output /var/lib/bpfprof\n"
		"  bpfprof daemon --output /shared/profiles/%h --interval 5m --retain-bytes 20G\n"
		"  bpfprof daemon --output /var/lib/bpfprof --gpu\n"
		"  bpfprof daemon --output /var/lib/bpfprof --wall    where all threads wait\n"
		"  bpfprof daemon --output /var/lib/bpfprof --push http://pyroscope:4040\n"
		"  BPFPROF_OUTPUT=/out BPFPROF_LOG_FORMAT=json bpfprof daemon\n"
		"  go tool pprof -http :8080 /var/lib/bpfprof/latest.pb.gz\n"
		"  bpfprof daemon --output /out --allow-remote-profiling /etc/bpfprof.token\n"
		"  curl -H \"Authorization: Bearer $(cat /etc/bpfprof.token)\" -o x.pb.gz \\\n"
		"       '127.0.0.1:9464/profile?seconds=10&pod=ml/trainer-0'\n");
	buf_add_str(dst, exit_text);
}
