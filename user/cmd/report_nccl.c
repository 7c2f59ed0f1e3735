// SPDX-License-Identifier: Apache-2.0
/* bpfprof report --nccl */
#include "cmd/report_job.h"

#include <errno.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/exit_status.h"
#include "base/log.h"
#include "cmd/report_bundle.h"
#include "cmd/report_options.h"
#include "gpu/nccl_report.h"
#include "gpu/report_read.h"

#define TEXT_BYTES ((size_t)256 << 20)
#define NAME_BYTES 1024

static void say(const char *path, int err)
{
	__cleanup(buf_fini) struct buf name;

	buf_init(&name, NAME_BYTES);
	report_file_name(&name, path);
	if (err == -EBADMSG)
		log_error("%s: not what bpfprof gpu --once --json writes", name.data);
	else if (err == -ENODATA)
		log_error("%s: the file is empty: its writer was cut off", name.data);
	else if (err == -E2BIG)
		log_error("%s: larger than can be read, 64 MiB", name.data);
	else
		log_error("%s: %s", name.data, strerror(-err));
}

static int add_file(struct gpu_read *to, const char *path, const char *data, size_t len)
{
	int err = len ? gpu_read_add(to, strcmp(path, "-") ? path : "standard input", data, len)
		      : -ENODATA;

	if (err)
		say(path, err);
	return err;
}

static int add_of_bundle(void *arg, const struct report_bundle_file *file)
{
	return add_file(arg, file->name, file->data, file->len);
}

/* Reports errors. */
static int read_file(struct gpu_read *to, const char *path, bool *bad)
{
	__cleanup(buf_fini) struct buf text;
	int err;

	buf_init(&text, GPU_READ_FILE_BYTES);
	err = report_load(&text, path);
	if (!err && !report_bundle_is(text.data, text.len))
		return add_file(to, path, text.data, text.len);
	if (!err)
		err = report_bundle_read(text.data, text.len, add_of_bundle, to, bad);
	if (err && err != -ECANCELED)
		say(path, err);
	return err;
}

static int print_report(const struct gpu_read *read, const struct report_options *options)
{
	const struct nccl_report_options how = { .rows = options->rows };
	__cleanup(buf_fini) struct buf text;
	int err;

	buf_init(&text, TEXT_BYTES);
	err = nccl_report(&text, read, &how);
	return report_print(&text, err);
}

int report_nccl_run(const struct report_options *options)
{
	struct gpu_read read;
	bool bad = false;
	int err, status;
	size_t i;

	err = gpu_read_init(&read);
	if (err) {
		log_error("%s", strerror(-err));
		return EXIT_FAILED;
	}
	for (i = 0; i < options->nr_files && !err; i++)
		err = read_file(&read, options->files[i], &bad);
	status = err ? EXIT_FAILED : print_report(&read, options);
	gpu_read_fini(&read);
	return status == EXIT_DONE && bad ? EXIT_PARTIAL : status;
}
