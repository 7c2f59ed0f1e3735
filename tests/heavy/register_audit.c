// SPDX-License-Identifier: Apache-2.0
/*
 * An auditor of the dynamic loader (rtld-audit(7)): writes down what libraries register with the CUDA
 * runtime, in place of the runtime that is linked into each of them. REGISTER_AT has, for each, "NAME:RVA "
 * of the function that is called to register a kernel. Writes to REGISTER_OUT "object BASE PATH" and
 * "kernel CALLER HOST NAME", addresses in hexadecimal.
 */
#define _GNU_SOURCE
#include <fcntl.h>
#include <link.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#define PAGE_BYTES 4096UL

static int out;

static void record(void **fat, const void *host, char *device, const char *name)
{
	(void)fat, (void)device;
	dprintf(out, "kernel %p %p %s\n", __builtin_return_address(0), host, name);
}

unsigned int la_version(unsigned int version)
{
	out = open(getenv("REGISTER_OUT"), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
	return out < 0 ? 0 : version;
}

/* mov $record,%rax; jmp *%rax */
static void divert(uint8_t *code)
{
	uint8_t *page = (uint8_t *)((uintptr_t)code & ~(PAGE_BYTES - 1));
	uint8_t jump[] = { 0x48, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xe0 };
	void (*target)(void **, const void *, char *, const char *) = record;

	memcpy(jump + 2, &target, sizeof(target));
	if (mprotect(page, 2 * PAGE_BYTES, PROT_READ | PROT_WRITE | PROT_EXEC))
		_exit(9);
	memcpy(code, jump, sizeof(jump));
	mprotect(page, 2 * PAGE_BYTES, PROT_READ | PROT_EXEC);
}

/* Nothing of it has run yet. */
unsigned int la_objopen(struct link_map *map, Lmid_t namespace, uintptr_t *cookie)
{
	const char *name = strrchr(map->l_name, '/'), *at = getenv("REGISTER_AT");
	size_t len;

	(void)namespace, (void)cookie;
	if (!name)
		return 0;
	dprintf(out, "object %lx %s\n", (unsigned long)map->l_addr, map->l_name);
	len = strlen(++name);
	for (; at && *at; at = strchr(at, ' ') + 1)
		if (!strncmp(at, name, len) && at[len] == ':')
			divert((uint8_t *)map->l_addr + strtoul(at + len + 1, NULL, 16));
	return 0;
}
