// SPDX-License-Identifier: Apache-2.0
#include "capture/ray_roles.h"

#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/background.h"
#include "base/text.h"
#include "base/time.h"
#include "capture/process_owner.h"
#include "capture/sampler.h"
#include "proc/images.h"
#include "proc/processes.h"
#include "proc/usage.h"
#include "python/pythons.h"
#include "ray/ray_role.h"
#include "bpfprof.h"

#define SCAN_EVERY_NS (3 * NS_PER_SECOND)
#define LIBRARY "/ray/_raylet.so"
#define DRIVER "driver:"

static bool maps_ray(const struct sampler *sampler, const struct process *process)
{
	const struct image *image;
	size_t i;

	for (i = 0; i < process->nr_mappings; i++) {
		image = images_get(sampler->reader.images, (uint32_t)process->mappings[i].image);
		if (image && image->path && text_ends(image->path, LIBRARY))
			return true;
	}
	return false;
}

/*
 * Can the process be a part of a Ray cluster? Reading its arguments costs time, so only candidates
 * are read.
 */
static bool is_candidate(const struct sampler *sampler, const struct process *process,
			 const struct bpfprof_sample *sample)
{
	return process->title || !strncmp(sample->leader_comm, "raylet", BPFPROF_COMM_LEN) ||
	       !strncmp(sample->leader_comm, "gcs_server", BPFPROF_COMM_LEN) ||
	       (process->pythons->nr && maps_ray(sampler, process));
}

bool ray_roles_are_settled(const struct sampler *sampler, const struct process *process,
			   const struct bpfprof_sample *sample, uint64_t now_ns)
{
	return process->owner->role || now_ns < process->owner->role_due_ns ||
	       !is_candidate(sampler, process, sample);
}

void ray_roles_poll(struct sampler *sampler, struct process *process,
		    const struct bpfprof_sample *sample, uint64_t now_ns)
{
	char argv[PROC_CMDLINE_MAX], text[RAY_ROLE_TEXT_MAX] = DRIVER;
	const size_t prefix = sizeof(DRIVER) - 1;
	uint32_t pid = session_own_pid(&sampler->reader.session, process->pid,
				       process->ns_context.agent_pid);
	enum ray_role role;
	bool candidate;
	ssize_t len;

	if (process->owner->role || !pid || now_ns < process->owner->role_due_ns)
		return;
	candidate = process->start_ns == sample->task.start_ns &&
		    process->exec_id == sample->task.exec_id &&
		    is_candidate(sampler, process, sample);
	if (candidate && !background_may_wait(sampler->background))
		return;
	process->owner->role_due_ns = now_ns + SCAN_EVERY_NS;
	if (!candidate)
		return;
	len = proc_argv_read(sampler->reader.runner, argv, sizeof(argv), (pid_t)pid);
	if (len == -ETIMEDOUT) /* another read would take as long */
		process->owner->role_due_ns = UINT64_MAX;
	if (len < 0)
		return;
	role = ray_role_of_argv(argv, (size_t)len);
	if (role != RAY_ROLE_NONE)
		snprintf(text, sizeof(text), "%s", ray_role_name(role));
	else if (process->title || !process->pythons->nr || !ray_role_has_joined((pid_t)pid) ||
		 ray_role_script(text + prefix, sizeof(text) - prefix, argv, (size_t)len))
		return;
	process->owner->role = strdup(text);
}

const char *ray_roles_script(const char *role)
{
	if (!role || strncmp(role, DRIVER, sizeof(DRIVER) - 1))
		return NULL;
	return role + sizeof(DRIVER) - 1;
}
