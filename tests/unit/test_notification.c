// SPDX-License-Identifier: Apache-2.0
#include "watch/notification.h"

#include <criterion/criterion.h>

#include <jansson.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "base/json.h"
#include "base/strtab.h"
#include "made_profile.h"
#include "profile/profile.h"

TestSuite(notification, .timeout = 60);

#define WALL_NS 1706702400042000000ULL /* 2024-01-31 12:00:00.042 UTC */

/* The text must be one line of JSON; the caller frees it. */
static json_t *parsed(struct buf *text)
{
	json_t *object;

	cr_assert_eq(buf_error(text), 0);
	cr_expect_lt(text->len, NOTIFICATION_BYTES);
	cr_expect_null(strchr(text->data, '\n'));
	object = json_loads(text->data, JSON_REJECT_DUPLICATES, NULL);
	cr_assert(object && json_is_object(object), "%s", text->data);
	return object;
}

static void expect_text(const json_t *object, const char *key, const char *wanted)
{
	const char *found = json_string_value(json_object_get(object, key));

	cr_expect(found && !strcmp(found, wanted), "%s: %s", key, found);
}

Test(notification, facts)
{
	struct profile *profile = made_new();
	uint32_t process = made_process(profile, 42, "python3", "python3 train.py");
	struct buf text = { .max = NOTIFICATION_BYTES };
	json_t *object;

	profile->processes[process].container =
		made_container(profile, "c1", "ml", "trainer-0", "worker", NULL);
	profile->processes[process].task = strtab_add(profile->strings, "ray::Trainer.fit");
	profile->processes[process].ranks.rank = strtab_add(profile->strings, "3");
	profile->processes[process].ranks.slurm_job = strtab_add(profile->strings, "77");
	notification_begin(&text, "death", "it \"died\"", WALL_NS, "node-1");
	notification_text(&text, "signal", "SIGSEGV");
	notification_text(&text, "folder", NULL);
	json_key_number(&text, "pid", 42);
	notification_process(&text, profile, &profile->processes[process]);
	notification_end(&text, "a\nb\n");
	object = parsed(&text);
	expect_text(object, "event", "death");
	expect_text(object, "why", "it \"died\"");
	expect_text(object, "time", "2024-01-31T12:00:00.042Z");
	expect_text(object, "host", "node-1");
	expect_text(object, "signal", "SIGSEGV");
	expect_text(object, "namespace", "ml");
	expect_text(object, "pod", "trainer-0");
	expect_text(object, "container", "worker");
	expect_text(object, "container_id", "c1");
	expect_text(object, "ray_task", "ray::Trainer.fit");
	expect_text(object, "rank", "3");
	expect_text(object, "slurm_job", "77");
	expect_text(object, "summary", "a\nb\n");
	cr_expect_eq(json_integer_value(json_object_get(object, "pid")), 42);
	/* A fact that is not known has no key. */
	cr_expect_eq(json_object_size(object), 14, "%s", text.data);
	json_decref(object);
	buf_fini(&text);
	made_free(profile);
}

/* Each text may be as long as a hostile process likes, and each of its bytes may need two in JSON. */
Test(notification, bounds)
{
	static const char *const fillers[] = { "\"", "\\", "\xc3\xa4", "a" };
	const size_t size = 1 << 20;
	char *large = malloc(size + 1);

	for (size_t i = 0; i < sizeof(fillers) / sizeof(fillers[0]); i++) {
		struct buf text = { .max = NOTIFICATION_BYTES };
		size_t len = strlen(fillers[i]), at;
		const char *summary;
		json_t *object;

		for (at = 0; at < size; at++)
			large[at] = fillers[i][at % len];
		large[size] = 0;
		notification_begin(&text, "death", large, WALL_NS, large);
		for (at = 0; at < 16; at++) {
			char name[8];

			snprintf(name, sizeof(name), "key%zu", at);
			notification_text(&text, name, large);
		}
		notification_end(&text, large);
		object = parsed(&text);
		summary = json_string_value(json_object_get(object, "summary"));
		cr_expect(strlen(summary) > 16000 &&
				  !strcmp(summary + strlen(summary) - 4, "...\n"),
			  "%zu", strlen(summary));
		cr_expect_gt(strlen(json_string_value(json_object_get(object, "why"))), 2000);
		json_decref(object);
		buf_fini(&text);
	}
	free(large);
}
