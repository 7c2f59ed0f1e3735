// SPDX-License-Identifier: Apache-2.0
#include "memory/growth.h"

#include <errno.h>

#include "base/buf.h"
#include "base/strtab.h"
#include "capture/sampler.h"
#include "findings/findings.h"
#include "memory/history.h"
#include "memory/holders.h"
#include "memory/kills.h"
#include "memory/monitor.h"
#include "memory/resident.h"
#include "memory/table.h"
#include "proc/cgroup_limits.h"
#include "profile/aggregate.h"
#include "profile/aggregate_stats.h"
#include "profile/profile.h"
#include "profile/stats.h"

/* Bytes up to the limit of its cgroup; UINT64_MAX: it has none. */
static uint64_t limit_left(const struct memory_account *account, const char *host_root)
{
	struct cgroup_limits limits;
	struct cgroup_memory memory;

	if (cgroup_limits_find(&limits, host_root ?: "", (pid_t)account->own_pid) ||
	    !*limits.memory)
		return UINT64_MAX;
	if (cgroup_memory_read(&memory, limits.memory) || !memory.max_bytes)
		return UINT64_MAX;
	return memory.max_bytes > memory.used_bytes ? memory.max_bytes - memory.used_bytes : 0;
}

/* Its title as a Ray worker, or else its name, which changes when it executes a program. */
static const char *name_of(const struct profile *profile, const struct memory_account *account)
{
	size_t i;

	for (i = 0; i < profile->nr_processes; i++)
		if (profile->processes[i].kernel_pid == account->key.pid &&
		    (profile->processes[i].task || !*account->name))
			return strtab_get(profile->strings, profile->processes[i].title);
	return account->name;
}

/* The function that holds the most; NULL: none is known. */
static const struct holder *most_of(struct holders *holders, const struct memory_account *account)
{
	size_t i;

	holders_of(holders, account->key.pid, 0);
	for (i = 0; i < holders->nr && holders->list[i].bytes > 0; i++)
		if (*holders->list[i].name != '[')
			return &holders->list[i];
	return NULL;
}

static void growth_of(struct findings *findings, const struct memory_monitor *monitor,
		      const struct memory_account *account, const struct holder *most,
		      const char *name)
{
	const struct resident *resident =
		process_map_find(&monitor->residents, account->key.pid, account->key.start_ns);
	struct memory_fact fact = { .name = name, .pid = account->own_pid };

	if (!resident)
		return;
	fact.series = &resident->series;
	fact.born = resident->begin != RESIDENT_BEFORE;
	fact.exited = resident->ended;
	fact.limit_left_bytes = limit_left(account, monitor->sampler->options->host_root);
	/* With the other questions, the profile has a part of the growth only. */
	if (most && (monitor->question == MEMORY_HELD || monitor->question == MEMORY_GROWN)) {
		fact.holder = most->name;
		fact.holder_bytes = (uint64_t)most->bytes;
	}
	findings_of_memory(findings, &fact);
}

static void kill_of(struct findings *findings, const struct memory_monitor *monitor,
		    const struct memory_account *account, const struct holder *most,
		    const char *name)
{
	const struct memory_kill *kill =
		memory_kills_find(&monitor->kills, account->key.pid, account->key.start_ns);
	struct kill_fact fact = { .name = name,
				  .pid = account->own_pid,
				  .held_bytes = account->rss.anon_bytes };

	if (!kill)
		return;
	fact.seconds =
		kill->ns > monitor->start_ns ? (double)(kill->ns - monitor->start_ns) / 1e9 : 0;
	fact.oom = kill->oom;
	fact.sender = kill->by_kernel ? NULL : kill->sender_name;
	fact.sender_pid = kill->sender;
	fact.limit_above = kill->limit_above;
	fact.limit_bytes = kill->limit_bytes;
	fact.used_bytes = kill->used_bytes;
	if (most) {
		fact.holder = most->name;
		fact.holder_bytes = (uint64_t)most->bytes;
	}
	findings_of_kill(findings, &fact);
}

int memory_findings(struct findings *findings, const struct memory_monitor *monitor,
		    const struct profile *profile)
{
	const struct memory_answer *answer = memory_monitor_answer(monitor);
	const struct memory_account *account;
	const struct holder *most;
	struct holders holders;
	int err = holders_new(&holders, profile);
	size_t i;

	for (i = 0; i < answer->nr_accounts && !err; i++) {
		account = &answer->accounts[i];
		most = most_of(&holders, account);
		growth_of(findings, monitor, account, most, name_of(profile, account));
		kill_of(findings, monitor, account, most, name_of(profile, account));
	}
	holders_fini(&holders);
	return err;
}

int memory_kill_text(struct buf *dst, const struct memory_monitor *monitor,
		     const struct profile *profile, const struct memory_kill *kill)
{
	const struct memory_answer *answer = memory_monitor_answer(monitor);
	const struct memory_account *account = NULL;
	struct findings findings = { 0 };
	struct holders holders;
	size_t i;
	int err;

	for (i = 0; i < answer->nr_accounts; i++)
		if (answer->accounts[i].key.pid == kill->key.pid &&
		    answer->accounts[i].key.start_ns == kill->key.start_ns)
			account = &answer->accounts[i];
	if (!account)
		return -ENOENT;
	err = holders_new(&holders, profile);
	if (!err) {
		kill_of(&findings, monitor, account, most_of(&holders, account),
			name_of(profile, account));
		for (i = 0; i < findings.nr; i++)
			buf_printf(dst, "%s\n\n", findings.list[i].text);
		memory_table_process(dst, &holders, account, monitor, 0);
	}
	holders_fini(&holders);
	return err ?: buf_error(dst);
}

int memory_profile(struct profile *ret, struct findings *findings, struct run_stats *stats,
		   struct stats_reasons *files, struct memory_monitor *monitor)
{
	struct run_stats samples = { 0 };
	struct aggregate_view view;
	int hidden = 0, err;

	err = sampler_profile(monitor->sampler, monitor->aggregate, false, ret, files, &hidden);
	if (err)
		return err;
	aggregate_view_get(monitor->aggregate, &view);
	aggregate_stats(&samples, &view);
	stats_set_samples(stats, &samples);
	memory_profile_values(ret);
	ret->stats = stats;
	memory_history_make(monitor, ret);
	return memory_findings(findings, monitor, ret);
}
