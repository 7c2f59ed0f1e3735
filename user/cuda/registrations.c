// SPDX-License-Identifier: Apache-2.0
#include "cuda/registrations.h"

#include <stdlib.h>

#include "base/sorted.h"

void registrations_fini(struct registrations *regs)
{
	free(regs->kernels);
	free(regs->words);
	*regs = (struct registrations){ 0 };
}

size_t registrations_find(const struct registrations *regs, uint64_t host)
{
	const struct registration *found = NULL;

	if (regs->nr)
		found = bsearch(&host, regs->kernels, regs->nr, sizeof(*found), sorted_by_u64);
	return found ? (size_t)(found - regs->kernels) : SIZE_MAX;
}

size_t registrations_find_word(const struct registrations *regs, uint64_t rva)
{
	const struct registration_word *found = NULL;

	if (regs->nr_words)
		found = bsearch(&rva, regs->words, regs->nr_words, sizeof(*found), sorted_by_u64);
	return found ? found->what : SIZE_MAX;
}

enum registered_function registrations_function(const struct registrations *regs, uint64_t rva)
{
	size_t i;

	for (i = 0; i < regs->nr_functions; i++)
		if (regs->functions[i].rva == rva)
			return regs->functions[i].what;
	return RUNTIME_NONE;
}
