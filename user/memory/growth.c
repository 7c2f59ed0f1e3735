// SPDX-License-Identifier: Apache-2.0
#include "memory/growth.h"

#include "base/strtab.h"
#include "findings/findings.h"
#include "memory/holders.h"
#include "memory/monitor.h"
#include "memory/resident.h"
#include "proc/cgroup_limits.h"
#include "profile/profile.h"

/* Bytes up to the limit of its cgroup; UINT64_MAX: it has none. */
static uint64_t limit_left(const struct memory_account *account, const char *host_root)
{
	struct cgroup_limits limits;
	struct cgroup_memory memory;

	if (cgroup_limits_find(&limits, host_root, (pid_t)account->own_pid) || !*limits.memory)
		return UINT64_MAX;
	cgroup_memory_read(&memory, limits.memory);
	if (!memory.max_bytes)
		return UINT64_MAX;
	return memory.max_bytes > memory.used_bytes ? memory.max_bytes - memory.used_bytes : 0;
}

/* Its title as a Ray worker, or else its name. */
static const char *name_of(const struct profile *profile, const struct memory_account *account)
{
	size_t i;

	for (i = 0; i < profile->nr_processes; i++)
		if (profile->processes[i].kernel_pid == account->key.pid)
			return strtab_get(profile->strings, profile->processes[i].title);
	return account->name;
}

static void growth_of(struct findings *findings, const struct memory_monitor *monitor,
		      const struct memory_account *account, struct holders *holders,
		      const char *host_root)
{
	const struct resident *resident =
		process_map_find(&monitor->residents, account->key.pid, account->key.start_ns);
	struct memory_fact fact = { .name = name_of(holders->profile, account),
				    .pid = account->own_pid };
	size_t nr, i;

	if (!resident)
		return;
	fact.series = &resident->series;
	fact.born = resident->begin != RESIDENT_BEFORE;
	fact.exited = resident->ended;
	fact.limit_left_bytes = limit_left(account, host_root);
	holders_of(holders, account->key.pid, 0);
	/* With the other questions, the profile has a part of the growth only. */
	nr = monitor->question == MEMORY_HELD || monitor->question == MEMORY_GROWN ? holders->nr
										   : 0;
	for (i = 0; i < nr && holders->list[i].bytes > 0 && !fact.holder; i++) {
		if (*holders->list[i].name == '[')
			continue;
		fact.holder = holders->list[i].name;
		fact.holder_bytes = (uint64_t)holders->list[i].bytes;
	}
	findings_of_memory(findings, &fact);
}

int memory_findings(struct findings *findings, const struct memory_monitor *monitor,
		    const struct profile *profile, const char *host_root)
{
	const struct memory_answer *answer = memory_monitor_answer(monitor);
	struct holders holders;
	int err = holders_new(&holders, profile);
	size_t i;

	for (i = 0; i < answer->nr_accounts && !err; i++)
		growth_of(findings, monitor, &answer->accounts[i], &holders, host_root);
	holders_fini(&holders);
	return err;
}
