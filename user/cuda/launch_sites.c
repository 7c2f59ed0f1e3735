// SPDX-License-Identifier: Apache-2.0
#include "cuda/launch_sites.h"

#include <errno.h>
#include <stddef.h>
#include <string.h>

#include "cuda/code_function.h"

#define MAX_STEPS 32 /* host functions that are read */
#define MAX_CALLEES 8
#define MAX_FORWARDERS 3

static bool is_among(const uint64_t *functions, uint32_t nr, uint64_t rva)
{
	uint32_t i;

	for (i = 0; i < nr; i++)
		if (functions[i] == rva)
			return true;
	return false;
}

/* The function of the runtime that is called; *ret_target: its address in this file, or 0. */
static enum registered_function callee_of(const struct launch_file *file,
					  const struct code_target *target, uint64_t *ret_target)
{
	uint64_t word;

	*ret_target = 0;
	if (target->kind == CODE_TARGET_LOADED)
		return registrations_function(file->regs, target->n);
	if (target->kind != CODE_TARGET_CODE)
		return RUNTIME_NONE;
	*ret_target = code_function_behind_jumps(file->reader, target->n);
	if (code_function_plt_word(file->reader, *ret_target, &word)) {
		*ret_target = 0;
		return registrations_function(file->regs, word);
	}
	if (is_among(file->runtime->launch, file->runtime->nr_launch, *ret_target))
		return RUNTIME_LAUNCH;
	if (is_among(file->runtime->get_kernel, file->runtime->nr_get_kernel, *ret_target))
		return RUNTIME_GET_KERNEL;
	return RUNTIME_NONE;
}

static size_t kernel_of(const struct launch_file *file, const struct code_value *value)
{
	if (value->kind == CODE_NUMBER)
		return registrations_find(file->regs, value->n);
	if (value->kind == CODE_LOADED)
		return registrations_find_word(file->regs, value->n);
	return SIZE_MAX;
}

/* Is value the word that pointer points to? */
static bool is_behind(const struct code_value *value, const struct code_value *pointer)
{
	return value->n == pointer->n &&
	       ((value->kind == CODE_LOADED && pointer->kind == CODE_NUMBER) ||
		(value->kind == CODE_LOADED_TWICE && pointer->kind == CODE_LOADED));
}

/* The kernel whose handle the function has stored at the place that value comes from. */
static size_t kernel_of_handle(const struct launch_file *file, const struct code_value *value)
{
	const struct code_function *function = file->function;
	const struct code_call *call;
	size_t kernel = SIZE_MAX, other;
	uint64_t target;

	for (call = function->calls; call < function->calls + function->nr; call++) {
		if (!is_behind(value, &call->arguments[0]) ||
		    callee_of(file, &call->target, &target) != RUNTIME_GET_KERNEL)
			continue;
		other = kernel_of(file, &call->arguments[1]);
		if (other == SIZE_MAX || (kernel != SIZE_MAX && kernel != other))
			return SIZE_MAX;
		kernel = other;
	}
	return kernel;
}

static struct launch_argument argument_of(const struct launch_file *file,
					  const struct code_value *value)
{
	size_t kernel;

	if (value->kind == CODE_ARGUMENT)
		return (struct launch_argument){ .kind = LAUNCH_ARGUMENT,
						 .nr = (uint32_t)value->n };
	kernel = kernel_of(file, value);
	if (kernel == SIZE_MAX)
		kernel = kernel_of_handle(file, value);
	if (kernel == SIZE_MAX)
		return (struct launch_argument){ .kind = LAUNCH_UNKNOWN };
	return (struct launch_argument){ .kind = LAUNCH_KERNEL, .nr = (uint32_t)kernel };
}

static bool is_runtime(const struct launch_file *file, uint64_t rva)
{
	return file->runtime->inner &&
	       code_function_first_call(file->reader, rva) == file->runtime->inner;
}

/* A function of a linked-in runtime launches its first or its second argument. */
static struct launch_argument either(const struct launch_site *site)
{
	const struct launch_argument *a = &site->arguments[0], *b = &site->arguments[1];

	if (a->kind == LAUNCH_KERNEL && b->kind != LAUNCH_KERNEL)
		return *a;
	if (b->kind == LAUNCH_KERNEL && a->kind != LAUNCH_KERNEL)
		return *b;
	return (struct launch_argument){ .kind = LAUNCH_UNKNOWN };
}

int launch_site_find(const struct launch_file *file, uint64_t rva, struct launch_site *ret)
{
	const struct code_call *call;
	uint32_t i;
	int err;

	if (!rva)
		return -ENOENT;
	err = code_function_read(file->function, file->reader, file->bounds, rva - 1, rva);
	if (err)
		return err;
	call = code_function_call(file->function, rva);
	if (!call)
		return -ENOENT;
	*ret = (struct launch_site){ .function = file->function->start };
	for (i = 0; i < CODE_NR_ARGUMENTS; i++)
		ret->arguments[i] = argument_of(file, &call->arguments[i]);
	switch (callee_of(file, &call->target, &ret->target)) {
	case RUNTIME_LAUNCH:
		ret->is_launch = true;
		ret->kernel = ret->arguments[0];
		break;
	case RUNTIME_LAUNCH_EX:
		ret->is_launch = true;
		ret->kernel = ret->arguments[1];
		break;
	case RUNTIME_NONE:
		if (!ret->target || !is_runtime(file, ret->target) ||
		    is_runtime(file, ret->function))
			break;
		ret->is_launch = true;
		ret->kernel = either(ret);
		break;
	default:
		break;
	}
	return 0;
}

uint32_t launch_runtime_steps(const struct launch_file *file)
{
	size_t i;

	for (i = 0; i < file->regs->nr_functions; i++)
		if (file->regs->functions[i].what != RUNTIME_GET_KERNEL)
			return 0;
	return file->regs->nr < MAX_STEPS ? (uint32_t)file->regs->nr : MAX_STEPS;
}

static void function_add(uint64_t *functions, uint32_t *nr, uint64_t rva)
{
	if (*nr < LAUNCH_SITES_MAX_FUNCTIONS && !is_among(functions, *nr, rva))
		functions[(*nr)++] = rva;
}

static uint64_t own_target(const struct launch_file *file, const struct code_call *call)
{
	uint64_t word, target;

	if (call->target.kind != CODE_TARGET_CODE)
		return 0;
	target = code_function_behind_jumps(file->reader, call->target.n);
	return code_function_plt_word(file->reader, target, &word) ? 0 : target;
}

/* Unoptimised stubs call the runtime through a function that does nothing else. */
static int behind_forwarders(const struct launch_file *file, uint64_t *rva)
{
	const struct code_function *function = file->function;
	const struct code_value *first = &function->calls[0].arguments[0];
	uint64_t next;
	int i, err;

	for (i = 0; i < MAX_FORWARDERS; i++) {
		err = code_function_read(file->function, file->reader, file->bounds, *rva, 0);
		if (err)
			return err == -ENOMEM ? err : 0;
		if (!function->is_known || function->nr != 1 || first->kind != CODE_ARGUMENT ||
		    first->n)
			return 0;
		next = own_target(file, &function->calls[0]);
		if (!next)
			return 0;
		*rva = next;
	}
	return 0;
}

static void launch_add(const struct launch_file *file, uint64_t rva)
{
	struct launch_runtime *runtime = file->runtime;
	uint64_t inner = code_function_first_call(file->reader, rva);

	if (!runtime->nr_launch)
		runtime->inner = inner;
	else if (runtime->inner != inner)
		runtime->inner = 0;
	function_add(runtime->launch, &runtime->nr_launch, rva);
}

/* The function of the runtime that launches kernel, in this host function of it; 0: not clear. */
static uint64_t learn_from(const struct launch_file *file, size_t kernel)
{
	const struct code_function *function = file->function;
	const struct code_call *call, *getter = NULL;
	uint64_t target;

	for (call = function->calls; call < function->calls + function->nr; call++) {
		target = own_target(file, call);
		if (!target)
			continue;
		if (kernel_of(file, &call->arguments[0]) == kernel)
			return target;
		if (kernel_of(file, &call->arguments[1]) == kernel)
			getter = call;
	}
	if (!getter)
		return 0;
	for (call = function->calls; call < function->calls + function->nr; call++) {
		target = own_target(file, call);
		if (!target || !is_behind(&call->arguments[0], &getter->arguments[0]))
			continue;
		function_add(file->runtime->get_kernel, &file->runtime->nr_get_kernel,
			     own_target(file, getter));
		return target;
	}
	return 0;
}

int launch_runtime_learn(const struct launch_file *file, uint32_t step)
{
	size_t kernel = file->regs->nr * step / launch_runtime_steps(file), i;
	const struct code_function *function = file->function;
	uint64_t functions[MAX_CALLEES], launch, target;
	uint32_t nr = 1, next;
	int err;

	functions[0] = code_function_behind_jumps(file->reader, file->regs->kernels[kernel].host);
	for (next = 0; next < nr; next++) {
		err = code_function_read(file->function, file->reader, file->bounds,
					 functions[next], 0);
		if (err == -ENOMEM)
			return err;
		if (err || !function->is_known)
			continue;
		launch = learn_from(file, kernel);
		if (launch) {
			err = behind_forwarders(file, &launch);
			launch_add(file, launch);
			return err;
		}
		for (i = 0; i < function->nr && nr < MAX_CALLEES; i++) {
			target = own_target(file, &function->calls[i]);
			if (target && !is_among(functions, nr, target))
				functions[nr++] = target;
		}
	}
	return 0;
}
