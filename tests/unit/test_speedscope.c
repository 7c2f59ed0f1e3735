// SPDX-License-Identifier: Apache-2.0
#include "formats/output.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/strtab.h"
#include "profile/stats.h"
#include "made_profile.h"

TestSuite(speedscope, .timeout = 60);

/* Writes the profile and gives what a Python expression over the document d prints. */
static char *ask(const struct profile *profile, const char *expression)
{
	char command[1024], *json, *answer;
	size_t len;
	int status;

	snprintf(command, sizeof(command),
		 "PYTHONIOENCODING=utf-8 python3 -c 'import json,sys\n"
		 "d=json.loads(sys.stdin.buffer.read().decode(\"utf-8\"))\nprint(%s)'",
		 expression);
	json = made_text(speedscope_write, profile, NULL, &len);
	answer = made_run(command, json, len, &status);
	cr_assert_eq(status, 0, "%s\n%s", answer, json);
	free(json);
	return answer;
}

static void expect(const struct profile *profile, const char *expression, const char *want)
{
	char *answer = ask(profile, expression);

	cr_expect_str_eq(answer, want, "%s: %s", expression, answer);
	free(answer);
}

Test(speedscope, golden)
{
	struct profile *profile = made_golden();

	expect(profile, "d[\"$schema\"]", "https://www.speedscope.app/file-format-schema.json\n");
	expect(profile, "len(d[\"shared\"][\"frames\"]), d[\"shared\"][\"frames\"][1]",
	       "9 {'name': 'Trainer.fit (trainer/loop.py:31)', "
	       "'file': '/srv/app/trainer/loop.py', 'line': 31}\n");
	expect(profile, "d[\"shared\"][\"frames\"][6]", "{'name': 'ksys_write_[k]'}\n");
	expect(profile, "[p[\"name\"] for p in d[\"profiles\"]]",
	       "['python3 (pid 42)', 'dd (pid 77)']\n");
	/* Root first. */
	expect(profile, "d[\"profiles\"][0][\"samples\"]",
	       "[[3, 0, 1, 4], [3, 0, 1, 4, 5], [3, 0, 2], [8, 4]]\n");
	expect(profile, "d[\"profiles\"][0][\"weights\"], d[\"profiles\"][0][\"endValue\"]",
	       "[30000000, 20000000, 10000000, 40000000] 100000000\n");
	expect(profile, "{p[\"type\"] + p[\"unit\"] for p in d[\"profiles\"]}",
	       "{'samplednanoseconds'}\n");
	made_free(profile);
}

Test(speedscope, threads_apart)
{
	struct profile *profile = made_new();
	uint32_t process = made_process(profile, 5, "app", ""), f = made_native(profile, "f", 0, 0);
	struct profile_sample *sample;

	profile->threads = true;
	sample = made_add(profile, process, 1, f);
	sample->tid = 7;
	sample->thread = strtab_add(profile->strings, "io");
	made_add(profile, process, 2, f)->tid = 6;
	made_add(profile, process, 3, f)->tid = 7;
	expect(profile, "[(p[\"name\"], p[\"weights\"]) for p in d[\"profiles\"]]",
	       "[('app (pid 5) thread-6', [20000000]), ('app (pid 5) io-7', [10000000, "
	       "30000000])]\n");
	made_free(profile);
}

Test(speedscope, containers)
{
	struct profile *profile = made_new();
	uint32_t process = made_process(profile, 5, "app", "");

	profile->processes[process].container =
		made_container(profile, "c1", "ml", "trainer-0", "worker", NULL);
	made_add(profile, process, 1, made_native(profile, "f", 0, 0));
	expect(profile, "[p[\"name\"] for p in d[\"profiles\"]]",
	       "['app (pid 5) in ml/trainer-0/worker']\n");
	made_free(profile);
}

Test(speedscope, hostile_names_are_strings)
{
	struct profile *profile = made_new();
	uint32_t process = made_process(profile, 5, "\"},{\\", "");

	made_add(profile, process, 1, made_native(profile, "a\"b\\c\x01\xff</script>", 0, 0));
	expect(profile, "ascii(d[\"shared\"][\"frames\"][0][\"name\"])",
	       "'a\"b\\\\c \\ufffd</script>'\n");
	expect(profile, "d[\"profiles\"][0][\"name\"]", "\"},{\\ (pid 5)\n");
	made_free(profile);
}

Test(speedscope, empty)
{
	struct run_stats stats = { .duration_seconds = 1 };
	struct profile *profile = made_new();

	profile->stats = &stats;
	stats_add(&stats.lost, "ring_full", 3);
	expect(profile,
	       "len(d[\"profiles\"]), d[\"profiles\"][0][\"samples\"], d[\"bpfprof\"][\"lost\"]",
	       "1 [] {'ring_full': 3}\n");
	made_free(profile);
}

Test(speedscope, calls)
{
	struct profile *profile = made_calls();

	expect(profile, "d[\"profiles\"][0][\"unit\"], d[\"profiles\"][0][\"weights\"]",
	       "none [9, 2]\n");
	expect(profile, "d[\"profiles\"][0][\"samples\"][0]", "[4, 5, 1, 0]\n");
	expect(profile, "d[\"shared\"][\"frames\"][0]", "{'name': 'void sgemm<128, 4>'}\n");
	made_free(profile);
}
