// SPDX-License-Identifier: Apache-2.0
#include "cuda/sites.h"

#include <elf.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

#include "cuda/functions.h"
#include "elf/image.h"
#include "elf/usdt.h"

#define WORD 4 /* addresses and sizes have no fewer bytes */
#define MAX_PROBES 64 /* probes of a provider in one file; most are not wanted */

/* The prefix of the probes of a layer. */
static const char *const providers[GPU_NR_LAYERS] = {
	[GPU_LAYER_TORCH] = "pytorch", [GPU_LAYER_PYTHON] = "python"
};

/* The function of a probe; 0: none. */
static uint32_t function_find(const struct usdt_probe *probe, enum bpfprof_gpu_layer layer)
{
	const struct gpu_function *functions;
	char name[sizeof(probe->name) + 16];
	size_t nr, i;

	snprintf(name, sizeof(name), "%s:%s", providers[layer], probe->name);
	functions = gpu_functions(&nr);
	for (i = 1; i < nr; i++)
		if (functions[i].wire.layer == layer && !strcmp(functions[i].name, name))
			return (uint32_t)i;
	return 0;
}

static const uint8_t value_kinds[] = { [USDT_REGISTER] = GPU_VALUE_REGISTER,
				       [USDT_MEMORY] = GPU_VALUE_MEMORY,
				       [USDT_CONSTANT] = GPU_VALUE_CONSTANT };

/* nr 0: there is no such argument. False: it cannot be read, or has fewer bytes. */
static bool value_fill(const struct usdt_probe *probe, unsigned int nr, unsigned int least_bytes,
		       struct bpfprof_gpu_value *ret)
{
	struct usdt_argument argument;

	if (!nr)
		return true;
	if (usdt_argument(probe->arguments, nr, &argument) || argument.bytes < least_bytes)
		return false;
	if (argument.bytes == 4) /* only the low half is used */
		argument.off = (int32_t)argument.off;
	if (argument.off != (int32_t)argument.off)
		return false;
	*ret = (struct bpfprof_gpu_value){ .kind = value_kinds[argument.kind],
					   .reg = argument.reg,
					   .bytes = argument.bytes,
					   .off = (int32_t)argument.off };
	return true;
}

/* A constant is no address, but a call that frees nothing may pass one. */
static bool is_address(const struct bpfprof_gpu_value *value)
{
	return value->kind != GPU_VALUE_CONSTANT || !value->off;
}

static bool is_taken(const struct gpu_site *sites, size_t nr, uint64_t off)
{
	size_t i;

	for (i = 0; i < nr; i++)
		if (sites[i].off == off)
			return true;
	return false;
}

static bool has_site(const struct gpu_site *sites, size_t nr, uint32_t function)
{
	size_t i;

	for (i = 0; i < nr; i++)
		if (sites[i].wire.function == function)
			return true;
	return false;
}

/* The number of functions without a probe: allocations without frees, or the other way round. */
static uint32_t missing(const struct gpu_site *sites, size_t nr, enum bpfprof_gpu_layer layer)
{
	const struct gpu_function *functions;
	uint32_t i, count = 0;
	size_t nr_functions;

	functions = gpu_functions(&nr_functions);
	for (i = 1; i < nr_functions; i++)
		count += functions[i].wire.layer == layer && !has_site(sites, nr, i);
	return count;
}

int gpu_sites_read(struct gpu_site sites[GPU_SITES_MAX], size_t *ret_nr, uint32_t *ret_bad,
		   struct elf_image *img, enum bpfprof_gpu_layer layer)
{
	struct usdt_probe probes[MAX_PROBES];
	const struct bpfprof_gpu_function *wire;
	size_t nr_probes, nr = 0, i;
	struct gpu_site site;
	uint32_t bad = 0;
	int err;

	if (!elf_image_is_native(img))
		return -ENODATA;
	err = usdt_find(img, providers[layer], probes, MAX_PROBES, &nr_probes);
	if (err)
		return err;
	if (nr_probes == MAX_PROBES) /* there may be more */
		return -E2BIG;
	for (i = 0; i < nr_probes; i++) {
		site = (struct gpu_site){ .wire.function = function_find(&probes[i], layer),
					  .off = probes[i].off,
					  .semaphore_off = probes[i].semaphore_off };
		if (!site.wire.function || is_taken(sites, nr, site.off))
			continue;
		if (nr == GPU_SITES_MAX)
			return -E2BIG;
		wire = &gpu_function(site.wire.function)->wire;
		/* Without its stream and device, which not each probe has, a call still counts. */
		value_fill(&probes[i], wire->stream, WORD, &site.wire.stream);
		if (wire->kind == GPU_KIND_ALLOC)
			value_fill(&probes[i], wire->extra, 1, &site.wire.device);
		if (value_fill(&probes[i], wire->handle ? wire->handle : wire->extra, WORD,
			       &site.wire.va) &&
		    (!wire->handle || is_address(&site.wire.va)) &&
		    value_fill(&probes[i], wire->size[0], WORD, &site.wire.bytes))
			sites[nr++] = site;
		else
			bad++;
	}
	if (!nr && !bad)
		return -ENODATA;
	*ret_nr = nr;
	*ret_bad = bad ? bad : missing(sites, nr, layer);
	return 0;
}
