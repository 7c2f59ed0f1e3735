// SPDX-License-Identifier: Apache-2.0
#include "proc/folder_checks.h"

#include <string.h>

#define XXH_INLINE_ALL
#include <xxhash.h>

#include "base/time.h"
#include "proc/image_file.h"
#include "proc/origins.h"

#define TIMEOUT_MS 500
#define AGAIN_NS (5 * NS_PER_SECOND) /* after an error */
#define KEEP_NS (300 * NS_PER_SECOND)

static uint64_t key_of(const struct origin *origin, const char *folder, const char *name)
{
	uint64_t space[] = { origin->mnt_ns, origin->facts.root_ino };

	return XXH3_64bits_withSeed(
		folder, strlen(folder),
		XXH3_64bits_withSeed(space, sizeof(space), XXH3_64bits(name, strlen(name))));
}

int folder_checks_ask(struct folder_checks *checks, struct deadline_runner *runner,
		      const struct origin *origin, const struct image_place *folder,
		      const char *name)
{
	uint64_t now_ns = time_monotonic_ns(), key = key_of(origin, folder->path, name);
	size_t at = key % FOLDER_CHECKS_MAX;

	if (checks->cached[at].key != key || now_ns >= checks->cached[at].until_ns) {
		checks->cached[at].answer = image_file_check(runner, folder, name, TIMEOUT_MS);
		checks->cached[at].key = key;
		/*
		 * A process that has exited shows nothing; another process may show the same
		 * folder.
		 */
		checks->cached[at].until_ns =
			now_ns + (checks->cached[at].answer < 0 ? AGAIN_NS : KEEP_NS);
	}
	return checks->cached[at].answer;
}
