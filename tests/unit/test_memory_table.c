// SPDX-License-Identifier: Apache-2.0
#include "memory/table.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/buf.h"
#include "made_profile.h"
#include "memory/monitor.h"
#include "memory/resident.h"

TestSuite(memory_table, .timeout = 60);

#define MIB (1ULL << 20)

static struct memory_monitor monitor;
static struct profile *profile;

static struct resident *resident_add(uint32_t pid, const char *name, uint64_t anon_mib)
{
	struct resident *resident;

	if (!monitor.residents.bytes)
		hash_table_init(&monitor.residents, 100, struct resident, key);
	resident = process_map_add(&monitor.residents, pid, 1);
	cr_assert(resident);
	resident->own_pid = pid;
	strncpy(resident->name, name, sizeof(resident->name) - 1);
	resident->rss.anon_bytes = anon_mib * MIB;
	return resident;
}

static void add(uint32_t process, uint64_t mib, const uint32_t *stack, uint32_t nr)
{
	struct profile_sample *sample =
		made_sample(profile, process, made_stack(profile, stack, nr), mib * 256);

	sample->value_ns = mib * MIB;
}

static void expect(size_t rows, const char *text)
{
	const struct resident *resident;
	struct buf got;

	buf_init(&got, 1 << 20);
	hash_table_each(&monitor.residents, resident)
		if (resident->rss.anon_bytes)
			cr_assert_eq(memory_answer_add_account(&monitor.last, resident), 0);
	cr_assert_eq(memory_table(&got, &monitor, profile, rows), 0);
	cr_expect_str_eq(got.data, text);
	buf_fini(&got);
	memory_answer_fini(&monitor.last);
	hash_table_clear(&monitor.residents);
	made_free(profile);
}

#define ERROR "Sampling error of the sum:    2.0 MiB (2 standard deviations)\n"

/* Python's innermost function, else the innermost one outside of allocators; signed drift. */
Test(memory_table, holders)
{
	uint32_t libc, own, memset_, malloc_, fill, main_, keep, module, before;
	struct resident *resident;

	profile = made_new();
	made_process(profile, 7, "app", "");
	libc = made_mapping(profile, "/usr/lib/libc.so.6", "", 0, 0x1000);
	own = made_mapping(profile, "/opt/app", "", 0, 0x1000);
	memset_ = made_native(profile, "__memset_avx2", libc, 1);
	malloc_ = made_native(profile, "malloc", own, 2); /* one of its own */
	fill = made_native(profile, "fill", own, 3);
	main_ = made_native(profile, "main", own, 4);
	keep = made_python(profile, "keep", "/srv/leak.py", "leak.py", 12, 10);
	module = made_python(profile, "<module>", "/srv/leak.py", "leak.py", 20, 1);
	before = made_call(profile, MEMORY_BEFORE);
	add(0, 40, (const uint32_t[]){ memset_, fill, main_ }, 3);
	add(0, 20, (const uint32_t[]){ malloc_, fill, main_ }, 3);
	add(0, 100, (const uint32_t[]){ memset_, fill, keep, module }, 4);
	add(0, 10, (const uint32_t[]){ memset_ }, 1);
	add(0, 30, (const uint32_t[]){ before }, 1);
	profile->samples[profile->nr_samples - 1].count = 1;
	resident = resident_add(7, "app", 196);
	resident->settled = true;
	resident->held_bytes = 170 * MIB;
	resident->old_bytes = 30 * MIB;
	resident->rss.file_bytes = 2048;
	monitor.last.variance = (double)MIB * MIB;
	expect(20, "Process 7: app\n"
		   "  196.0 MiB anonymous,    2.0 KiB of files,      0 B   shared\n\n"
		   "     Held  Share     Pages  Function\n"
		   "  100.0 MiB  51.0%     25600  keep (leak.py:12)\n"
		   "   60.0 MiB  30.6%     15360  fill\n"
		   "   30.0 MiB  15.3%            [before bpfprof]\n"
		   "   10.0 MiB   5.1%      2560  __memset_avx2\n"
		   "   -4.0 MiB  -2.0%            [drift]\n\n" ERROR);
}

/* The largest process comes first; rows over the limit are one, but for drift. */
Test(memory_table, limits)
{
	uint32_t a, b, c;
	struct resident *resident;

	profile = made_new();
	made_process(profile, 1, "one", "");
	made_process(profile, 2, "two", "");
	a = made_native(profile, "a", 0, 1);
	b = made_native(profile, "b", 0, 2);
	c = made_native(profile, "c", 0, 3);
	add(0, 8, &a, 1);
	add(1, 16, &a, 1);
	add(1, 8, &b, 1);
	add(1, 4, &c, 1);
	resident_add(1, "one", 8)->held_bytes = 8 * MIB;
	resident = resident_add(2, "two", 27);
	resident->held_bytes = 28 * MIB;
	resident_add(3, "gone", 0);
	monitor.last.variance = (double)MIB * MIB;
	expect(1, "Process 2: two\n"
		  "   27.0 MiB anonymous,      0 B   of files,      0 B   shared\n\n"
		  "     Held  Share     Pages  Function\n"
		  "   16.0 MiB  59.3%      4096  a\n"
		  "   -1.0 MiB  -3.7%            [drift]\n"
		  "   12.0 MiB                   2 more\n\n"
		  "Process 1: one\n"
		  "    8.0 MiB anonymous,      0 B   of files,      0 B   shared\n\n"
		  "     Held  Share     Pages  Function\n"
		  "    8.0 MiB 100.0%      2048  a\n\n" ERROR);
}

Test(memory_table, nothing)
{
	profile = made_new();
	monitor.last.variance = (double)MIB * MIB;
	expect(20, "No process with memory was watched.\n" ERROR);
}
