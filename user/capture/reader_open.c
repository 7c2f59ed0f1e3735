// SPDX-License-Identifier: Apache-2.0
#include "capture/reader_open.h"

#include <errno.h>
#include <sched.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/exit_status.h"
#include "base/log.h"
#include "capture/process_owner.h"
#include "capture/requirements.h"
#include "kernel/tables.h"
#include "proc/processes.h"
#include "python/pythons.h"
#include "threads/thread_reader.h"

#define SHORT_SLICE_NS 100000ULL
#define MESSAGE_MAX 4096

/*
 * bpfprof runs rarely and for short times, but it must read mappings before a short process ends. A
 * short slice (Linux 6.12) gives it a CPU sooner, and no more CPU time.
 */
static void ask_short_slice(void)
{
	struct {
		uint32_t size, policy;
		uint64_t flags;
		int32_t nice;
		uint32_t priority;
		uint64_t runtime, deadline, period;
	} attr = { .size = sizeof(attr), .policy = SCHED_OTHER, .runtime = SHORT_SLICE_NS };

	if (syscall(SYS_sched_setattr, 0, &attr, 0))
		log_debug("no short slice: %s", strerror(errno));
}

static int session_failed(int err)
{
	__cleanup(buf_fini) struct buf message = { .max = MESSAGE_MAX };

	if (requirements_explain(&message) && message.data) {
		log_error("%s", message.data);
		return EXIT_PRIVILEGE;
	}
	if (err == -EMFILE) {
		log_error("this process may not open as many files as it needs; remedy: "
			  "ulimit -n 4096");
		return EXIT_FAILED;
	}
	log_error("the BPF programs cannot be loaded: %s (--verbose shows the kernel's log)",
		  strerror(-err));
	return err == -EPERM || err == -EACCES ? EXIT_PRIVILEGE : EXIT_FAILED;
}

int reader_open(struct thread_reader *reader, const struct session_options *options,
		const char *host_root)
{
	static const struct process_part parts[] = {
		{ PROCESS_PART(pythons), .follows_mappings = true },
		{ PROCESS_PART(tables) },
		{ PROCESS_PART(owner), .clear = process_owner_clear },
	};
	int err;

	ask_short_slice();
	err = thread_reader_open(reader, options, parts, sizeof(parts) / sizeof(parts[0]),
				 host_root);
	if (!err)
		return EXIT_DONE;
	if (!reader->session.skel)
		return session_failed(err);
	log_error("processes cannot be read: %s", strerror(-err));
	return EXIT_FAILED;
}
