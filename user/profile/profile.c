// SPDX-License-Identifier: Apache-2.0
#include "profile/profile.h"

#include "base/strtab.h"

#include <stdlib.h>

void profile_fini(struct profile *profile)
{
	strtab_free(profile->strings);
	free(profile->mappings);
	free(profile->locations);
	free(profile->stack_locations);
	free(profile->stacks);
	free(profile->processes);
	free(profile->samples);
	*profile = (struct profile){ 0 };
}
