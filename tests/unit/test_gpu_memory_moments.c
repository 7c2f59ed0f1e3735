// SPDX-License-Identifier: Apache-2.0
#include "cmd/gpu_memory_moments.h"

#include <criterion/criterion.h>
#include <string.h>

#include "base/strtab.h"
#include "gpu/monitor.h"
#include "profile/aggregate.h"
#include "profile/stats.h"
#include "call_table_made.h"

#define MS 1000000ULL

static struct gpu_memory_log *memory_log;
static struct memory_moments moments;
static struct gpu_monitor watch;
static struct stats_reasons lost;

static void setup(void)
{
	table_setup();
	cr_assert_eq(gpu_memory_log_new(&memory_log), 0);
	call_table_log_memory(table, memory_log);
	watch = (struct gpu_monitor){ .table = table, .aggregate = table_aggregate };
}

static void teardown(void)
{
	memory_moments_fini(&moments);
	gpu_memory_log_free(memory_log);
	table_teardown();
}

TestSuite(gpu_memory_moments, .init = setup, .fini = teardown, .timeout = 60);

static void tensor(uint64_t va, uint64_t bytes, uint32_t device)
{
	struct bpfprof_gpu_call call = call_of(key_of(7, "pytorch:malloc"));

	call.va = va;
	call.bytes = bytes;
	call.ns = 5; /* after its segment */
	call.flags |= (device + 1) << BPFPROF_CALL_DEVICE_SHIFT;
	send_call(&call, 7);
}

static void fill(uint64_t end_ms)
{
	lost = (struct stats_reasons){ 0 };
	gpu_memory_moments_fill(&moments, &watch, memory_log, 0, end_ms * MS, &lost);
}

static uint64_t lost_by(const char *name)
{
	size_t i;

	for (i = 0; i < lost.nr; i++)
		if (!strcmp(lost.reasons[i].name, name))
			return lost.reasons[i].count;
	return 0;
}

static size_t moment_at(uint64_t ns)
{
	size_t i = 0;

	while (i + 1 < moments.nr && moments.ns[i + 1] <= ns)
		i++;
	return i;
}

/* KiB at that moment of all stacks with that innermost frame. */
static int64_t kib_of(const char *label, size_t moment)
{
	const struct moment_line *line;
	struct aggregate_view view;
	int64_t sum = 0;

	aggregate_view_get(table_aggregate, &view);
	hash_table_each(&moments.lines, line) {
		uint64_t frame = view.frames[line->key.stack];

		if (aggregate_frame_kind(frame) == BPFPROF_FRAME_LABEL &&
		    !strcmp(strtab_get(view.labels, (uint32_t)(frame & BPFPROF_FRAME_MASK)), label))
			sum += line->kib[moment];
	}
	return sum;
}

/* Moments have the bytes between two changes, the peak is a moment of its own, and the rest of a segment is a row. */
Test(gpu_memory_moments, replayed)
{
	size_t at;

	made_clock_ns = 100 * MS;
	send_alloc(7, VA, 64 * MIB);
	made_clock_ns = 300 * MS;
	send_release(7, VA);
	made_clock_ns = 500 * MS;
	send_alloc(7, VA, 96 * MIB);
	tensor(VA, 40 * MIB, 3);
	made_clock_ns = 701 * MS;
	send_alloc(7, 2 * VA, 512 * MIB);
	made_clock_ns = 702 * MS;
	send_release(7, 2 * VA);
	fill(1000);
	cr_expect_eq(moments.nr, 252);
	cr_expect_eq(moments.ns[moments.nr - 1], 1000 * MS);
	cr_expect_eq(moments.total_kib[moment_at(50 * MS)], 0);
	cr_expect_eq(moments.total_kib[moment_at(200 * MS)], 64 << 10);
	cr_expect_eq(moments.total_kib[moment_at(400 * MS)], 0);
	at = moment_at(900 * MS);
	cr_expect_eq(moments.total_kib[at], 96 << 10);
	cr_expect_eq(kib_of(GPU_MEMORY_CACHED, at), 56 << 10);
	cr_expect_eq(moments.total_kib[moments.peak], (96 + 512) << 10);
	cr_expect(moments.ns[moments.peak] > 701 * MS && moments.ns[moments.peak] < 702 * MS);
}

static int64_t kib_on(uint32_t gpu)
{
	const struct moment_line *line;
	int64_t sum = 0;

	hash_table_each(&moments.lines, line)
		sum += line->key.gpu == gpu ? line->kib[moments.nr - 1] : 0;
	return sum;
}

static size_t nr_stacks(void)
{
	struct aggregate_view view;

	aggregate_view_get(table_aggregate, &view);
	return view.nr_stacks;
}

/* With several devices, each stack has its device; memory that names none has none. The aggregate gets rows alone. */
Test(gpu_memory_moments, devices)
{
	size_t before;

	made_clock_ns = 100 * MS;
	send_alloc(7, VA, 4 * MIB);
	tensor(VA, MIB, 0);
	send_alloc(7, VA + 8 * MIB, 4 * MIB);
	tensor(VA + 8 * MIB, 2 * MIB, 1);
	send_alloc(7, VA + 16 * MIB, 8 * MIB);
	before = nr_stacks();
	fill(200);
	cr_expect_eq(kib_on(2), 4 << 10);
	cr_expect_eq(kib_on(3), 4 << 10);
	cr_expect_eq(kib_on(1), 8 << 10);
	cr_expect(nr_stacks() <= before + 2);
}

/* Nothing of processes that do not count, and no moment without memory. */
Test(gpu_memory_moments, of_others)
{
	send_alloc(7, VA, 4 * MIB);
	watch.chosen = true; /* no stack of the process was passed on */
	fill(1000);
	cr_expect_eq(moments.nr, 0);
}

static void log_add(uint64_t va, uint64_t bytes, uint64_t begin_ns, uint16_t process, bool left)
{
	const struct gpu_allocation one = { .va = va,
					    .bytes = bytes,
					    .begin_ns = begin_ns,
					    .stack = GPU_MEMORY_NO_STACK,
					    .process = process,
					    .kind = GPU_MEMORY_SEGMENT };
	uint32_t nr = gpu_memory_log_add(memory_log, &one);

	cr_assert(nr);
	if (left)
		gpu_memory_log_leave(memory_log, nr, 600 * MS);
}

/* Memory of a process that ended made room: what it held is not known, so there is no moment before its end. */
Test(gpu_memory_moments, full)
{
	size_t i;

	made_clock_ns = 0;
	send_alloc(8, VA, MIB);
	for (i = 0; i < 1000; i++)
		log_add(VA + (i + 1) * MIB, MIB, 100 * MS, 0, true);
	for (i = 0; i < GPU_MEMORY_LOG_MAX - 2; i++)
		log_add(VA + (i + 2000) * MIB, MIB / 16, 700 * MS, 0, false);
	cr_assert(!gpu_memory_log_complete_ns(memory_log));
	fill(1000);
	cr_assert(moments.nr);
	cr_expect_eq(moments.ns[0], 600 * MS);
	cr_expect_eq(moments.total_kib[0], 1 << 10);
	cr_expect_eq(lost_by("memory_history_no_room"), 999);
	memory_moments_fini(&moments);
	/* The recording ended before. */
	fill(500);
	cr_expect(moments.nr <= 1);
}

/* The counters have the stacks over the limit, and the allocations that contradict others. */
Test(gpu_memory_moments, left_out)
{
	struct gpu_allocation one = { .bytes = MIB, .begin_ns = MS, .kind = GPU_MEMORY_SEGMENT };
	uint32_t i;

	send_alloc(7, VA, MIB);
	for (i = 0; i < MOMENTS_MAX_LINES + 100; i++) {
		one.va = VA + (i + 1ULL) * MIB;
		one.stack = i;
		cr_assert(gpu_memory_log_add(memory_log, &one));
	}
	cr_assert(gpu_memory_log_add(memory_log, &one)); /* the free of the older one was lost */
	fill(1000);
	cr_expect(lost_by("memory_timeline_no_room") >= 100);
	cr_expect_eq(lost_by("memory_timeline_omitted"), 1);
}
