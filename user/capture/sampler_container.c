// SPDX-License-Identifier: Apache-2.0
/*
 * Finds the container of a process when its program starts, and with its first sample. Without an
 * answer the search is repeated, ever less often: the files of a container may appear after its
 * process.
 */
#include "capture/sampler.h"

#include <stdio.h>

#include "base/background.h"
#include "base/refusals.h"
#include "base/tenant.h"
#include "base/time.h"
#include "capture/container_filter.h"
#include "capture/process_owner.h"
#include "container/containers.h"
#include "proc/processes.h"

/*
 * The search for a new container reads some files, and samples wait meanwhile: at most 10% of the
 * time for one tenant, and a fifth of a second at once.
 */
#define ASK_SHARE 10
#define ASK_SAVED_NS (NS_PER_SECOND / 5)
#define ASK_AGAIN_NS NS_PER_SECOND
#define ASK_AGAIN_FACTOR 4
#define ASK_AGAIN_MAX_NS (64 * NS_PER_SECOND)
#define EXPIRE_EVERY_NS (60 * NS_PER_SECOND)
#define SHORT_ID 12 /* characters of an id */

/* A process outside of bpfprof's pid namespace has no /proc here; it is counted once. */
static bool is_outside(struct sampler *sampler, struct process *process)
{
	if (process->ns_context.agent_pid)
		return false;
	if (process->ns_context.mnt_ns && !process->owner->container_due_ns) {
		process->owner->container_due_ns = UINT64_MAX;
		sampler->nr_container_outside++;
	}
	return true;
}

/* Is the container final? An answer from its cgroup or mounts may be replaced by its bundle. */
static bool is_known(const struct container *container)
{
	return container && container->source == CONTAINER_FROM_BUNDLE;
}

static uint32_t tenant_of(const struct container *container)
{
	const char *at;
	uint32_t hash = 0;

	for (at = container->id; *at; at++)
		hash = (hash ^ (uint8_t)*at) * 0x9e3779b1U;
	return hash | TENANT_CONTAINER;
}

bool sampler_container_is_settled(const struct process *process, uint64_t now_ns)
{
	const struct process_owner *owner = process->owner;

	if (process->ns_context.mnt_ns != owner->mnt_ns)
		return false;
	return is_known(owner->container) || !process->ns_context.agent_pid ||
	       now_ns < owner->container_due_ns;
}

const struct container *sampler_container(struct sampler *sampler, struct process *process)
{
	struct process_owner *owner = process->owner;
	struct budget *budget = budget_of(&sampler->asking, background_tenant());
	const struct container *found;
	uint64_t now_ns;

	process_owner_place(owner, process->ns_context.mnt_ns);
	if (is_known(owner->container) || is_outside(sampler, process))
		return owner->container;
	now_ns = time_monotonic_ns();
	if (now_ns < owner->container_due_ns || !background_may_wait(sampler->background))
		return owner->container;
	if (!budget_allows(budget, ASK_SHARE, ASK_SAVED_NS, now_ns)) {
		sampler->nr_container_deferred++;
		refusals_count(&sampler->reader.refusals, process->tenant, REFUSAL_CONTAINER);
		return owner->container;
	}
	found = containers_of(sampler->reader.containers, process->ns_context.agent_pid,
			      process->ns_context.mnt_ns, now_ns);
	if (found) {
		owner->container = found;
		process->tenant = tenant_of(found);
	}
	budget_spend(budget, time_monotonic_ns() - now_ns);
	owner->container_wait_ns = owner->container_wait_ns
					   ? owner->container_wait_ns * ASK_AGAIN_FACTOR
					   : ASK_AGAIN_NS;
	if (owner->container_wait_ns > ASK_AGAIN_MAX_NS)
		owner->container_wait_ns = ASK_AGAIN_MAX_NS;
	owner->container_due_ns = now_ns + owner->container_wait_ns;
	return owner->container;
}

/* The pod and the name of a container in it, or the short id that users know. */
static void name_container(void *arg, const struct container *container)
{
	char name[REFUSALS_NAME_BYTES];

	if (container->pod[0])
		snprintf(name, sizeof(name), "%s/%s/%s", container->namespace, container->pod,
			 container->name);
	else
		snprintf(name, sizeof(name), "%.*s", SHORT_ID, container->id);
	refusals_name(arg, tenant_of(container), name);
}

void sampler_refusals_name(struct sampler *sampler)
{
	struct refusals *refusals = &sampler->reader.refusals;

	if (!refusals->nameless)
		return;
	containers_each(sampler->reader.containers, name_container, refusals);
	refusals_name_rest(refusals);
}

void sampler_containers_tick(struct sampler *sampler, uint64_t now_ns)
{
	struct process *process;

	if (now_ns < sampler->expire_ns)
		return;
	if (sampler->expire_ns) {
		for (process = processes_first(sampler->reader.processes); process;
		     process = hash_table_next(process))
			process_owner_forget_container(process->owner);
		containers_expire(sampler->reader.containers, now_ns);
	}
	sampler->expire_ns = now_ns + EXPIRE_EVERY_NS;
}
