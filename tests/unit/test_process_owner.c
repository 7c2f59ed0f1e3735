// SPDX-License-Identifier: Apache-2.0
#include <criterion/criterion.h>
#include <string.h>

#include "capture/process_owner.h"

/* A process in another mount namespace may be in another container. */
Test(process_owner, place)
{
	struct process_owner owner = { 0 };
	const struct container *container = (const void *)&owner;

	process_owner_place(&owner, 7);
	owner.container = container;
	owner.container_due_ns = 5;
	owner.container_wait_ns = 6;
	process_owner_place(&owner, 7);
	cr_expect_eq(owner.container, container);
	cr_expect_eq(owner.container_due_ns, 5);
	process_owner_place(&owner, 8);
	cr_expect_eq(owner.mnt_ns, 8);
	cr_expect_null(owner.container);
	cr_expect_eq(owner.container_due_ns, 0);
	cr_expect_eq(owner.container_wait_ns, 0);
}

Test(process_owner, forget_container)
{
	struct process_owner owner = { .mnt_ns = 7, .container_due_ns = 5, .role_due_ns = 9 };

	owner.container = (const void *)&owner;
	process_owner_forget_container(&owner);
	cr_expect_null(owner.container);
	cr_expect_eq(owner.container_due_ns, 0);
	cr_expect_eq(owner.role_due_ns, 9);
	owner.role = strdup("raylet");
	process_owner_clear(&owner);
}
