// SPDX-License-Identifier: Apache-2.0
#include "kernel/open_files.h"

#include <bpf/libbpf.h>
#include <errno.h>

#include "kernel/iterate.h"
#include "kernel/session.h"
#include "bpfprof.skel.h"

struct visit {
	int (*each)(void *arg, const struct bpfprof_open_file *file);
	void *arg;
};

static int file_visit(void *arg, const void *record)
{
	const struct visit *visit = arg;

	return visit->each(visit->arg, record);
}

int open_files_each(struct session *session, uint32_t pid,
		    int (*each)(void *arg, const struct bpfprof_open_file *file), void *arg)
{
	struct visit visit = { .each = each, .arg = arg };
	int err = iterate_each(bpf_program__fd(session->skel->progs.task_files), pid,
			       sizeof(struct bpfprof_open_file), file_visit, &visit);

	return err == -ESRCH ? 0 : err;
}
