// SPDX-License-Identifier: Apache-2.0
#include "formats/output.h"

#include "base/buf.h"
#include "formats/profile_text.h"
#include "formats/stack_order.h"
#include "profile/profile.h"
#include "profile/stats.h"

#include <stdint.h>

#define MAX_STATS_BYTES (1U << 20)

static int write_stats(FILE *out, const struct run_stats *stats)
{
	struct buf json;
	int err;

	if (!stats)
		return 0;
	buf_init(&json, MAX_STATS_BYTES);
	stats_json(&json, stats);
	err = buf_error(&json);
	if (!err)
		fprintf(out, "# %s\n", json.data);
	buf_fini(&json);
	return err;
}

/*
 * Adds the pod, which readers recognize by two slashes. A container without a pod has its labels
 * only in pprof.
 */
static void add_pod(struct buf *dst, const struct profile *profile,
		    const struct profile_process *process)
{
	if (process->container && profile->containers[process->container - 1].pod)
		container_text(dst, profile, process);
}

int folded_write(FILE *out, const struct profile *profile, const struct output_options *options)
{
	const struct stack_rules rules = { .location = frame_text,
					   .process = process_text,
					   .container = add_pod,
					   .threads = options->threads };
	int err = write_stats(out, profile->stats);

	return err ? err : stack_order_write(out, profile, &rules);
}
