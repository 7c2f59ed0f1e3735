// SPDX-License-Identifier: Apache-2.0
#include "capture/memory_watch.h"

#include <criterion/criterion.h>
#include <criterion/new/assert.h>
#include <stdatomic.h>
#include <unistd.h>

#include "base/background.h"
#include "base/time.h"
#include "capture/sampler.h"
#include "images_made.h"
#include "test_elf_fixture.h"

TestSuite(memory_watch, .init = images_setup, .fini = images_teardown, .timeout = 30);

/* A program whose unwind tables are in memory. */
static struct image *warm_image(void)
{
	struct image *image;

	fixture_run("cp /bin/true prog");
	image = image_add("prog");
	cr_assert_eq(images_open_cfi(images, image, NOW), 0);
	cr_assert_neq(image->cfi, NULL);
	return image;
}

/* Tables are freed once the memory is over the limit, not before, and not more often than twice a second. */
Test(memory_watch, frees_tables)
{
	struct sampler sampler = { .reader.images = images };
	struct memory_watch watch = { .sampler = &sampler, .max_bytes = UINT64_MAX };
	struct image *image = warm_image();

	cr_expect(memory_watch_poll(&watch, 0, NOW));
	cr_expect_neq(image->cfi, NULL);
	watch.max_bytes = 0;
	cr_expect(memory_watch_poll(&watch, 0, NOW + SECOND / 4));
	cr_expect_neq(image->cfi, NULL);
	cr_expect_not(memory_watch_poll(&watch, 0, NOW + SECOND));
	cr_expect_eq(image->cfi, NULL);
	/* Reserved bytes count as used. */
	watch.max_bytes = 1ULL << 40;
	cr_expect(memory_watch_poll(&watch, 0, NOW + 2 * SECOND));
	cr_expect_not(memory_watch_poll(&watch, 1ULL << 40, NOW + 3 * SECOND));
}

static atomic_bool done;

static void wait_long(void *arg, const void *data, size_t bytes, bool late)
{
	(void)arg;
	(void)data;
	(void)bytes;
	(void)late;
	background_wait_begin();
	while (!done)
		usleep(1000);
	background_wait_end();
}

/* A job may use the tables: they stay until it has ended. */
Test(memory_watch, waits_for_jobs)
{
	const struct background_job job = { .fn = wait_long };
	struct sampler sampler = { .reader.images = images };
	struct memory_watch watch = { .sampler = &sampler };
	struct image *image = warm_image();
	uint64_t now_ns = NOW;

	cr_assert_eq(background_new(&sampler.background, NULL, 1), 0);
	cr_assert_eq(background_post(sampler.background, &job), 0);
	while (background_try_pause(sampler.background)) {
		background_resume(sampler.background);
		background_poll(sampler.background, NULL, 0, 1);
	}
	cr_expect(memory_watch_poll(&watch, 0, now_ns));
	cr_expect_neq(image->cfi, NULL);
	done = true;
	while (memory_watch_poll(&watch, 0, now_ns += SECOND))
		background_poll(sampler.background, NULL, 0, 1);
	cr_expect_eq(image->cfi, NULL);
	background_free(sampler.background);
}
