// SPDX-License-Identifier: Apache-2.0
#include "capture/memory_watch.h"

#include <malloc.h>

#include "base/background.h"
#include "base/time.h"
#include "capture/sampler.h"
#include "kernel/session.h"
#include "proc/images.h"
#include "proc/self.h"

#define POLL_NS (NS_PER_SECOND / 2)
#define WRITER_WORK_BYTES (5U << 20)

void memory_watch_begin(struct memory_watch *watch, struct sampler *sampler, uint64_t budget,
			const struct self_usage *self)
{
	uint64_t taken = session_map_bytes(&sampler->reader.session) + self->own_bytes -
			 self_anonymous_bytes();

	*watch = (struct memory_watch){ .sampler = sampler,
					.max_bytes = taken < budget ? budget - taken : 0 };
}

bool memory_watch_poll(struct memory_watch *watch, size_t reserved, uint64_t now_ns)
{
	struct background *background;

	if (!watch->sampler || now_ns < watch->next_ns)
		return true;
	watch->next_ns = now_ns + POLL_NS;
	if (self_anonymous_bytes() + reserved <= watch->max_bytes)
		return true;
	background = watch->sampler->background;
	if (!background_try_pause(background))
		return true; /* the next poll comes soon */
	images_cool(watch->sampler->reader.images);
	background_resume(background);
	malloc_trim(0);
	return self_anonymous_bytes() + reserved <= watch->max_bytes;
}

void memory_watch_fork(struct memory_watch *watch, uint64_t spare)
{
	uint64_t anonymous = self_anonymous_bytes();
	/* A busy daemon changed three fifths of its memory while a writer lived, and each page that it changes is there twice. */
	uint64_t writer = WRITER_WORK_BYTES + anonymous / 5 * 3;

	if (watch->sampler && anonymous + writer > watch->max_bytes + spare)
		images_cool(watch->sampler->reader.images);
	malloc_trim(0); /* free pages would be copied once they are used beside the writer */
}
