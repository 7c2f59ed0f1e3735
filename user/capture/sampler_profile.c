// SPDX-License-Identifier: Apache-2.0
/* Makes the profile of an interval from its samples. */
#include "capture/sampler.h"

#include "base/host_name.h"
#include "base/log.h"
#include "base/strtab.h"
#include "base/time.h"
#include "profile/aggregate.h"
#include "profile/jit_names.h"
#include "profile/profile.h"
#include "profile/symbolize.h"

int sampler_profile(struct sampler *sampler, struct aggregate *aggregate, bool release,
		    struct profile *ret, struct stats_reasons *files, int *kernel_names_hidden)
{
	struct symbolize_options options = { .kallsyms = "/proc/kallsyms",
					     .codes = sampler->codes,
					     .runner = sampler->reader.runner,
					     .target_program = sampler->target_program,
					     .release = release ? aggregate : NULL,
					     .name_bytes = sampler->options->name_bytes,
					     .now_ns = time_monotonic_ns() };
	struct aggregate_view view;
	char cut_map[JIT_NAMES_PATH_BYTES] = "";
	char host[HOST_NAME_BYTES];
	int err;

	options.cut_map = cut_map;
	aggregate_view_get(aggregate, &view);
	err = symbolize(ret, &view, sampler->reader.images, &options, files, kernel_names_hidden);
	if (err)
		return err;
	profile_lead(ret, sampler->options->pids, sampler->options->nr_pids);
	if (cut_map[0] && !sampler->cut_map_reported)
		log_warn("%s is too large, or was swapped out in part: some names are missing",
			 cut_map);
	sampler->cut_map_reported |= cut_map[0] != '\0';
	host_name(host);
	ret->host = strtab_add(ret->strings, host);
	ret->hz = sampler->options->session.hz;
	if (sampler->options->session.waits == SESSION_WALL)
		ret->time = PROFILE_TIME_WALL;
	else if (sampler->options->session.waits == SESSION_OFF_CPU)
		ret->time = PROFILE_TIME_OFF_CPU;
	return 0;
}

void sampler_warn_kernel_names(void)
{
	log_warn("kernel functions have no names: /proc/kallsyms hides its addresses (needs "
		 "CAP_SYSLOG and kernel.kptr_restrict below 2)");
}
