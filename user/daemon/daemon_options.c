// SPDX-License-Identifier: Apache-2.0
#include "daemon/daemon_options.h"

#include <ctype.h>
#include <errno.h>
#include <grp.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/time.h"
#include "daemon/http.h"
#include "formats/output.h"
#include "options/config.h"
#include "options/values.h"
#include "options/watch_options.h"

#define AT(field) FLAG_AT(struct daemon_options, field)
#define CHOICE_AT(list) FLAG_LIST_AT(struct daemon_options, choice.list, choice.nr_##list)
#define BYTES_REFUSAL "must be a number of bytes, like 500M or 1G"
#define TOKEN_FILE_BYTES 65536
#define TOKEN_OTHERS (S_IROTH | S_IWOTH)

static int take_output(void *object, const char *value, struct buf *why)
{
	struct daemon_options *options = object;
	const struct output_names names = { .host = "h", .worker = "w" };
	__cleanup(buf_fini) struct buf expanded = { .max = PATH_MAX - NAME_MAX };
	int err;

	if (!*value || !strcmp(value, "-"))
		return value_refuse(why, "must be a folder");
	err = output_expand_path(&expanded, value, &names);
	if (err == -EINVAL)
		return value_refuse(why, "after % only h, p, t, w, {NAME} and % are understood");
	if (err == -ENOENT)
		return value_refuse(why, "names an environment variable that is not set");
	if (err && err != -ENOMEM)
		return value_refuse(why, "the name is too long");
	return err ? err : value_string(&options->output, value);
}

static int take_file_mode(void *object, const char *value, struct buf *why)
{
	struct daemon_options *options = object;
	unsigned long mode = strtoul(value, NULL, 8);

	(void)why;
	if (!*value || value[strspn(value, "01234567")] ||
	    (mode != 0600 && mode != 0640 && mode != 0644))
		return -EINVAL;
	options->access.file_mode = (unsigned int)mode;
	return 0;
}

static int take_group(void *object, const char *value, struct buf *why)
{
	struct daemon_options *options = object;
	const struct group *group;
	char *end;
	unsigned long number = strtoul(value, &end, 10);

	if (!isdigit((unsigned char)*value) || *end) {
		group = *value ? getgrnam(value) : NULL;
		if (!group)
			return value_refuse(why, "there is no such group on this machine");
		number = group->gr_gid;
	} else if (number >= (gid_t)-1) { /* chown(2) takes this number as no group */
		return value_refuse(why, "is no number of a group");
	}
	options->access.group = (gid_t)number;
	options->access.has_group = true;
	return 0;
}

/*
 * The group may read the file: files of a Kubernetes Secret with fsGroup are readable by their group. All
 * users may not.
 */
static int take_tokens(void *object, const char *value, struct buf *why)
{
	__cleanup(buf_fini) struct buf text = { .max = TOKEN_FILE_BYTES };
	struct tokens *tokens = object, read;
	mode_t mode = 0;
	int err = *value ? config_file_read(value, &mode, &text) : -ENOENT;

	if (err == -ENOMEM)
		return err;
	if (err) {
		buf_printf(why, "cannot be read: %s",
			   err == -EINVAL  ? "not a text file"
			   : err == -E2BIG ? "too large for tokens"
					   : strerror(-err));
		return -EINVAL;
	}
	err = tokens_parse(&read, text.data, why);
	if (err)
		return err;
	if (mode & TOKEN_OTHERS) {
		tokens_fini(&read);
		buf_printf(why,
			   "every user can read or change this file (mode %04o): use `chmod 0640`, "
			   "or defaultMode: 0440 if it is a Secret of Kubernetes",
			   mode & 07777);
		return -EINVAL;
	}
	tokens_fini(tokens);
	*tokens = read;
	return 0;
}

static void release_tokens(void *object)
{
	tokens_fini(object);
}

/* The rows of this table are of the field tokens. */
static const struct flag token_flags[] = {
	{ "allow-remote-profiling", "FILE",
	  "HTTP with /profile, /dump, /record, /top, /memory/\nand /files/ too, for clients that "
	  "send a token in FILE",
	  FLAG_CUSTOM, FLAG_AT(struct tokens, nr), .take = take_tokens, .release = release_tokens },
	{ .type = FLAG_END },
};

static int take_listen(void *object, const char *value, struct buf *why)
{
	struct daemon_options *options = object;

	(void)why;
	return strcmp(value, "none") && http_check_address(value)
		       ? -EINVAL
		       : value_string(&options->listen, value);
}

static const struct flag rows[] = {
	{ "output", "DIR", "write into this folder, made if need be", FLAG_TEXT, AT(output),
	  .letter = 'o', .take = take_output },
	{ "file-mode", "MODE",
	  "0600, 0640 or 0644: who may read files, and list and\n"
	  "enter folders, with DIR if that exists (0640)",
	  FLAG_CUSTOM, AT(access.file_mode), .take = take_file_mode,
	  .refusal = "must be 0600, 0640 or 0644" },
	{ "group", "GROUP", "the group of files and folders, a name or a number", FLAG_CUSTOM,
	  AT(access.has_group), .take = take_group },
	{ "interval", "DURATION", "time of one profile, 1s to 24h (60s)", FLAG_DURATION,
	  AT(interval_seconds), .min = NS_PER_SECOND, .max = 86400 * NS_PER_SECOND,
	  .unit_ns = NS_PER_SECOND, .whole = true, .initial = 60,
	  .refusal = "interval must be whole seconds from 1s to 24h, like 60s or 5m" },
	{ "retain-age", "DURATION", "remove profiles older than that (24h)", FLAG_DURATION,
	  AT(limits.age_seconds), .min = NS_PER_SECOND, .unit_ns = NS_PER_SECOND, .initial = 86400,
	  .refusal = "must be a duration from 1s to 366 days, like 24h" },
	{ "retain-bytes", "BYTES", "remove the oldest over that: 500M, 1G (1G)", FLAG_BYTES,
	  AT(limits.bytes), .initial = 1ULL << 30, .refusal = BYTES_REFUSAL },
	FLAG_GROUP(rate_flags, struct daemon_options, capture),
	FLAG_GROUP(clock_flags, struct daemon_options, capture),
	{ "threads", NULL, "keep threads apart", FLAG_BOOL, AT(threads) },
	{ "gpu", NULL, "CUDA and NCCL calls too: cuda-... files beside cpu-...", FLAG_BOOL,
	  AT(capture.session.gpu) },
	{ "tensors", NULL, "--gpu: memory that PyTorch hands out for tensors, too", FLAG_BOOL,
	  AT(capture.session.gpu_tensors) },
	{ "gc", NULL, "--gpu: garbage collections of Python, too, in\nprocesses that launch",
	  FLAG_BOOL, AT(capture.session.gpu_gc) },
	{ "memory", NULL,
	  "which functions hold resident memory, too: memory-...\nfiles beside cpu-...; 16 MiB "
	  "more are used",
	  FLAG_BOOL, AT(capture.session.pages) },
	{ "watch", NULL,
	  "deaths of processes of Ray, of ranks and of CUDA, or of\n"
	  "those of the filters, too: folders death-... beside cpu-...",
	  FLAG_BOOL, AT(capture.session.deaths) },
	FLAG_GROUP(stall_flags, struct daemon_options, stall),
	FLAG_GROUP(notify_flags, struct daemon_options, notify),
	{ "wall", NULL, "all time of threads, running and waiting, and what\nthey wait for",
	  FLAG_SET, AT(capture.session.waits), .min = SESSION_WALL },
	{ "parked", NULL, "--wall: stacks of idle pool threads and pollers too,\nnot only [parked]",
	  FLAG_BOOL, AT(parked) },
	{ "split", "node|pod",
	  "a profile of the node, or one per pod in\nDIR/NAMESPACE/POD and one of the rest (node)",
	  FLAG_CHOICE, AT(split), FLAG_WORDS("node", "pod"), .refusal = "must be node or pod" },
	{ "listen", "ADDRESS",
	  "HTTP with /metrics, /healthz and /readyz, or none\n(127.0.0.1:9464)", FLAG_TEXT,
	  AT(listen), .take = take_listen,
	  .refusal = "must be ADDRESS:PORT, like 127.0.0.1:9464 or [::1]:9464, or none" },
	FLAG_GROUP(token_flags, struct daemon_options, tokens),
	{ "socket", "FILE",
	  "a Unix socket with /dump, /record, /top and /memory/\nfor clients that ask about their "
	  "own "
	  "pod",
	  FLAG_TEXT, AT(socket), .refusal = "must be a file name" },
	{ "pid", "PID", "write this process only, its threads and children", FLAG_PIDS,
	  CHOICE_AT(pids), .letter = 'p', .repeatable = true },
	FLAG_GROUP(container_flags, struct daemon_options, choice.containers),
	{ "worker", "LIST",
	  "write Ray workers only whose task, class or name\n"
	  "matches one of the patterns ('*policy*,sort_numbers')",
	  FLAG_PATTERNS, CHOICE_AT(workers) },
	{ "max-memory", "BYTES",
	  "of user space and BPF maps together, from 48M (64M,\n"
	  "512K more for each CPU above 32)",
	  FLAG_BYTES, AT(max_memory), .min = 48ULL << 20, .refusal = BYTES_REFUSAL,
	  .out_of_range = "must be at least 48M" },
	FLAG_GROUP(push_flags, struct daemon_options, push),
	{ "config", "FILE", "read BPFPROF_NAME=VALUE lines; again on SIGHUP", FLAG_TEXT, AT(config),
	  .refusal = "must be a file name" },
	{ "log-format", "FORMAT", "logfmt or json (logfmt)", FLAG_CHOICE, AT(log_format),
	  FLAG_WORDS("logfmt", "json"), .min = LOG_LOGFMT, .initial = LOG_LOGFMT,
	  .refusal = "log format must be logfmt or json" },
	{ "log-level", "LEVEL", "error, warn, info or debug (info)", FLAG_CHOICE, AT(log_level),
	  FLAG_WORDS("error", "warn", "info", "debug"), .initial = LOG_INFO,
	  .refusal = "log level must be error, warn, info or debug" },
	FLAG_GROUP(host_root_flags, struct daemon_options, capture.host_root),
	{ "verbose", NULL, "the same as --log-level debug", FLAG_SET, AT(log_level), .letter = 'v',
	  .min = LOG_DEBUG },
	{ .type = FLAG_END },
};

static int check_urls(void *object, struct buf *error)
{
	const struct daemon_options *options = object;

	return push_options_check_url(&options->push, error)
		       ?: notify_options_check_url(&options->notify, error);
}

static const struct flag_rule rules[] = {
	{ NULL, FLAG_NEEDS, "output", .sentence = "--output is missing: which folder?" },
	{ "gpu", FLAG_EXCLUDES, "wall",
	  .sentence =
		  "--gpu: waits and hooked calls cannot be recorded together, leave --wall out" },
	GPU_PART_RULES,
	{ "parked", FLAG_NEEDS, "wall",
	  .sentence = "--parked: shows stacks of threads that wait, add --wall" },
	{ "push-tenant-file push-basic-auth-file push-bearer-token-file push-ca-file push-label",
	  FLAG_NEEDS, "push",
	  .sentence = "--push is missing: the other --push flags need its server" },
	{ "stall stall-busy", FLAG_NEEDS, "watch",
	  .sentence = "--stall, --stall-busy: go with --watch" },
	{ "notify", FLAG_NEEDS, "watch",
	  .sentence = "--notify: sends deaths and stalls, add --watch" },
	{ "notify-token-file notify-ca-file", FLAG_NEEDS, "notify",
	  .sentence = "--notify is missing: the other --notify flags need its server" },
	{ "push-basic-auth-file", FLAG_EXCLUDES, "push-bearer-token-file",
	  .sentence =
		  "--push-basic-auth-file and --push-bearer-token-file: only one of them can be "
		  "sent" },
	{ .check = check_urls },
	{ 0 },
};

static const char daemon_about[] =
	"Usage: bpfprof daemon --output DIR [FLAG]...\n"
	"Profiles the whole machine for ever: a set of files per interval,\n"
	"DIR/cpu-<start, UTC>-<seconds>s.pb.gz, .folded and .html, and links latest.*\n"
	"to the newest; with --gpu cuda-... of CUDA's and NCCL's calls beside them, with\n"
	"links latest.cuda.*; with --memory memory-... of the resident memory at its end,\n"
	"with links latest.memory.*. SIGTERM writes what there is and ends.\n";
static const char daemon_notes[] =
	"Every flag can also be set in the environment, BPFPROF_RETAIN_AGE=48h, or in the\n"
	"file of --config; the command line wins, then the environment. On SIGHUP that\n"
	"file is read again: --retain-age, --retain-bytes, --log-level, --pid,\n"
	"--container, --pod, --worker and tokens hold from then on.\n"
	"\n"
	"Examples:\n"
	"  bpfprof daemon --output /var/lib/bpfprof\n"
	"  bpfprof daemon --output /shared/profiles/%h --interval 5m --retain-bytes 20G\n"
	"  bpfprof daemon --output /var/lib/bpfprof --gpu\n"
	"  bpfprof daemon --output /var/lib/bpfprof --wall    where all threads wait\n"
	"  bpfprof daemon --output /var/lib/bpfprof --push http://pyroscope:4040\n"
	"  BPFPROF_OUTPUT=/out BPFPROF_LOG_FORMAT=json bpfprof daemon\n"
	"  sudo go tool pprof -top /var/lib/bpfprof/latest.pb.gz\n"
	"  bpfprof daemon --output /out --allow-remote-profiling /etc/bpfprof.token\n"
	"  curl -H \"Authorization: Bearer $(cat /etc/bpfprof.token)\" -o x.pb.gz \\\n"
	"       '127.0.0.1:9464/profile?seconds=10&pod=ml/trainer-0'\n";

const struct flag_set daemon_flags = {
	.flags = rows,
	.rules = rules,
	.size = sizeof(struct daemon_options),
	.no_operand = "no such argument; the folder goes after --output",
	.twins = "DAEMON",
	.about = daemon_about,
	.notes = daemon_notes,
};

int daemon_configure(struct daemon_options *options, struct config *config, int argc,
		     char *const argv[], struct buf *error)
{
	int err;

	/*
	 * The flags are parsed twice: once for the name of the file, then with the settings in it.
	 */
	*config = (struct config){ 0 };
	err = options_read(&daemon_flags, options, NULL, argc, argv, error);
	if (err)
		return err;
	if (options->config)
		err = config_load(config, options->config, error);
	options_fini(&daemon_flags, options);
	err = err ?: options_parse(&daemon_flags, options, config, argc, argv, error);
	if (err)
		config_unload(config);
	return err;
}
