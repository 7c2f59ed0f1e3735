// SPDX-License-Identifier: Apache-2.0
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/exit_status.h"
#include "base/log.h"
#include "base/print.h"
#include "capture/memory_requirements.h"
#include "capture/requirements.h"
#include "cmd/command.h"
#include "cmd/doctor_files.h"
#include "options/options.h"

#define REPORT_MAX (1U << 20)

static const char *const status_names[] = {
	[REQUIREMENT_OK] = "ok",
	[REQUIREMENT_WARN] = "warn",
	[REQUIREMENT_FAIL] = "fail",
};

static void add_text(struct buf *dst, const struct requirement *req)
{
	buf_printf(dst, "%-5s%-20s %s", status_names[req->status], req->name, req->found);
	if (req->remedy)
		buf_printf(dst, "; remedy: %s", req->remedy);
	buf_add_char(dst, '\n');
}

static void add_json_string(struct buf *dst, const char *text)
{
	buf_add_char(dst, '"');
	for (; *text; text++) {
		unsigned char c = (unsigned char)*text;

		if (c == '"' || c == '\\')
			buf_printf(dst, "\\%c", c);
		else if (c < 0x20 || c >= 0x7f)
			buf_printf(dst, "\\u%04x", c < 0x20 || c == 0x7f ? c : '?');
		else
			buf_add_char(dst, (char)c);
	}
	buf_add_char(dst, '"');
}

static void add_json(struct buf *dst, const struct requirement *req)
{
	buf_printf(dst, "{\"name\": \"%s\", \"status\": \"%s\", \"found\": ", req->name,
		   status_names[req->status]);
	add_json_string(dst, req->found);
	buf_add_str(dst, ", \"remedy\": ");
	add_json_string(dst, req->remedy ? req->remedy : "");
	buf_add_char(dst, '}');
}

static void add_report(struct buf *dst, const struct requirements *reqs, bool json)
{
	if (json)
		buf_add_str(dst, "[\n");
	for (size_t i = 0; i < reqs->nr; i++) {
		if (!json) {
			add_text(dst, &reqs->items[i]);
			continue;
		}
		add_json(dst, &reqs->items[i]);
		buf_add_str(dst, i + 1 < reqs->nr ? ",\n" : "\n");
	}
	if (json)
		buf_add_str(dst, "]\n");
}

static bool failed(const struct requirements *reqs, size_t first, size_t end)
{
	for (size_t i = first; i < end; i++) {
		if (reqs->items[i].status == REQUIREMENT_FAIL)
			return true;
	}
	return false;
}

static void add_files(struct requirements *reqs, const struct doctor_options *options)
{
	int err = doctor_files(reqs, options->pid, options->host_root);

	if (err &&
	    /* A kernel thread has no files; another line reports that the process has exited. */
	    err != -ESRCH)
		requirements_add(reqs, "files", REQUIREMENT_WARN, NULL,
				 "its mappings cannot be read: %s", strerror(-err));
}

int doctor_run(const struct doctor_options *options)
{
	__cleanup(buf_fini) struct buf report = { .max = REPORT_MAX };
	struct requirements reqs;
	int status = EXIT_DONE, err;
	size_t nr_machine;

	libbpf_log_init();
	err = requirements_probe(&reqs, options->host_root);
	if (!err && !failed(&reqs, 0, reqs.nr))
		memory_requirements_add(&reqs);
	nr_machine = reqs.nr;
	if (!err && options->pid)
		err = requirements_probe_target(&reqs, options->pid);
	if (!err && options->pid && !failed(&reqs, 0, reqs.nr))
		add_files(&reqs, options);
	if (!err) {
		add_report(&report, &reqs, options->json);
		err = buf_error(&report);
	}
	if (failed(&reqs, 0, nr_machine))
		status = EXIT_PRIVILEGE;
	else if (failed(&reqs, nr_machine, reqs.nr))
		status = EXIT_NO_TARGET;
	requirements_fini(&reqs);
	if (err) {
		log_error("doctor: %s", strerror(-err));
		return EXIT_FAILED;
	}
	err = print_lines(stdout, report.data, report.len);
	if (err) {
		log_error("standard output: %s", strerror(-err));
		return EXIT_FAILED;
	}
	return status;
}
