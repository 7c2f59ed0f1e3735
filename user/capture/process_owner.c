// SPDX-License-Identifier: Apache-2.0
#include "capture/process_owner.h"

#include <stdlib.h>

void process_owner_forget_container(struct process_owner *owner)
{
	owner->container = NULL;
	owner->container_due_ns = 0;
	owner->container_wait_ns = 0;
}

void process_owner_place(struct process_owner *owner, uint64_t mnt_ns)
{
	if (mnt_ns == owner->mnt_ns)
		return;
	owner->mnt_ns = mnt_ns;
	process_owner_forget_container(owner);
}

void process_owner_clear(void *owner)
{
	free(((struct process_owner *)owner)->role);
}
