// SPDX-License-Identifier: Apache-2.0
/* The log of memory, the places of tensors in it, and the snapshot that is written of both. */
#include "gpu/memory_log.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "base/strtab.h"
#include "gpu/memory_layout.h"
#include "gpu/memory_snapshot.h"
#include "profile/profile.h"
#include "profile/stats.h"
#include "call_table_made.h"
#include "unpickled.h"

#define MIB_AT(n) (VA + (uint64_t)(n)*MIB)
#define LOST_ROWS 2

static struct gpu_memory_log *memory_log;
static uint64_t clock_ns;

static void setup(void)
{
	table_setup();
	clock_ns = 1000;
	cr_assert_eq(gpu_memory_log_new(&memory_log), 0);
}

static void teardown(void)
{
	gpu_memory_log_free(memory_log);
	table_teardown();
}

TestSuite(gpu_memory_log, .init = setup, .fini = teardown);

static uint32_t add_of(uint16_t process, enum gpu_memory_kind kind, uint64_t va, uint64_t bytes)
{
	const struct gpu_allocation allocation = { .va = va,
						   .bytes = bytes,
						   .begin_ns = ++clock_ns,
						   .stack = 0,
						   .process = process,
						   .kind = (uint8_t)kind };

	return gpu_memory_log_add(memory_log, &allocation);
}

static uint32_t add(enum gpu_memory_kind kind, uint64_t va, uint64_t bytes)
{
	return add_of(0, kind, va, bytes);
}

static void end(uint32_t nr)
{
	gpu_memory_log_end(memory_log, nr, ++clock_ns, GPU_MEMORY_NO_STACK);
}

static uint64_t lost(size_t row)
{
	struct stats_reasons reasons = { 0 };

	gpu_memory_log_lost(memory_log, &reasons);
	cr_assert_eq(reasons.nr, LOST_ROWS);
	return reasons.reasons[row].count;
}

Test(gpu_memory_log, bounds)
{
	const struct gpu_allocation *all;
	uint32_t first = add(GPU_MEMORY_SEGMENT, VA, 1), second = add(GPU_MEMORY_SEGMENT, VA, 2), i;
	uint64_t second_end, left_ns;
	size_t nr;

	end(second);
	second_end = clock_ns;
	for (i = 2; i < GPU_MEMORY_LOG_MAX; i++)
		cr_assert(add(GPU_MEMORY_TENSOR, VA + i, 1));
	cr_expect(!lost(0) && !gpu_memory_log_complete_ns(memory_log));
	/* The one that was freed makes room; then all are in use. */
	cr_expect_eq(add(GPU_MEMORY_TENSOR, VA, 7), second);
	cr_expect_eq(gpu_memory_log_complete_ns(memory_log), second_end);
	cr_expect(!add(GPU_MEMORY_TENSOR, VA, 7) && lost(0) == 2);
	end(first);
	end(first); /* its number is not valid any more */
	end(0);
	end(UINT32_MAX);
	cr_expect_eq(add(GPU_MEMORY_TENSOR, VA, 9), first);
	cr_expect(!add(GPU_MEMORY_TENSOR, VA, 9));
	all = gpu_memory_log_all(memory_log, &nr);
	cr_expect(nr == GPU_MEMORY_LOG_MAX && all[first - 1].bytes == 9 && !all[first - 1].end_ns);
	/* So does memory of a process that has ended, without a gap in the history of others. */
	second_end = gpu_memory_log_complete_ns(memory_log);
	gpu_memory_log_leave(memory_log, second, ++clock_ns);
	left_ns = clock_ns;
	gpu_memory_log_leave(memory_log, 0, ++clock_ns);
	cr_expect(!gpu_memory_log_is_freed(&all[second - 1]), "it is in use in the file");
	cr_expect(!gpu_memory_log_left_ns(memory_log));
	cr_expect_eq(add(GPU_MEMORY_TENSOR, VA, 11), second);
	cr_expect_eq(gpu_memory_log_complete_ns(memory_log), second_end);
	cr_expect_eq(gpu_memory_log_left_ns(memory_log), left_ns);
}

Test(gpu_memory_log, implausible)
{
	cr_expect(!add(GPU_MEMORY_SEGMENT, VA, 0));
	cr_expect(!add(GPU_MEMORY_SEGMENT, UINT64_MAX, 2));
	cr_expect(!add(GPU_MEMORY_SEGMENT, VA, UINT64_MAX));
	cr_expect(!add(GPU_MEMORY_SEGMENT, GPU_MEMORY_LOG_MAX_VA, 1));
	cr_expect(!add(GPU_MEMORY_TENSOR, VA, GPU_MEMORY_LOG_MAX_BYTES + 1));
	cr_expect(add(GPU_MEMORY_SEGMENT, GPU_MEMORY_LOG_MAX_VA - 1, 1));
	cr_expect(add(GPU_MEMORY_TENSOR, VA, GPU_MEMORY_LOG_MAX_BYTES));
	cr_expect_eq(lost(1), 5);
}

static struct gpu_memory_layout layout;

static uint8_t place(uint32_t nr)
{
	return layout.places[nr - 1];
}

Test(gpu_memory_log, places)
{
	uint32_t segment = add(GPU_MEMORY_SEGMENT, MIB_AT(0), 20 * MIB);
	uint32_t in_it = add(GPU_MEMORY_TENSOR, MIB_AT(2), MIB);
	uint32_t outside = add(GPU_MEMORY_TENSOR, MIB_AT(100), MIB);
	uint32_t near_it = add(GPU_MEMORY_TENSOR, MIB_AT(102), MIB);
	uint32_t far_away = add(GPU_MEMORY_TENSOR, MIB_AT(200), MIB);
	uint32_t both = add(GPU_MEMORY_TENSOR, MIB_AT(19), 2 * MIB); /* half of it is in it */
	uint32_t first = add(GPU_MEMORY_MAPPING, MIB_AT(300), 20 * MIB);
	uint32_t second = add(GPU_MEMORY_MAPPING, MIB_AT(320), 20 * MIB);
	uint32_t unused = add(GPU_MEMORY_SEGMENT, MIB_AT(400), MIB);
	uint32_t in_two = add(GPU_MEMORY_TENSOR, MIB_AT(310), 20 * MIB);
	uint32_t other = add_of(3, GPU_MEMORY_TENSOR, MIB_AT(2), MIB);
	const struct gpu_memory_process *process;

	end(in_it);
	end(segment);
	end(outside);
	cr_assert_eq(gpu_memory_layout_init(&layout, memory_log), 0);
	cr_expect(!place(segment) && !place(in_it) && !place(in_two) && !place(unused));
	cr_expect(layout.tensors[segment - 1] == in_it && !layout.tensors[unused - 1]);
	cr_expect(layout.tensors[first - 1] == in_two && layout.tensors[second - 1] == in_two);
	cr_expect(place(outside) == GPU_PLACE_OUTSIDE && place(near_it) == GPU_PLACE_OUTSIDE);
	cr_expect(place(far_away) == GPU_PLACE_OUTSIDE && place(other) == GPU_PLACE_OUTSIDE);
	cr_expect(place(both) & GPU_PLACE_OMIT && layout.nr_omitted == 1);
	cr_assert(layout.nr_processes == 2 && layout.processes[1].process == 3);
	process = &layout.processes[0];
	cr_assert(process->nr_guessed == 2 && layout.processes[1].nr_guessed == 1);
	cr_expect(process->guessed[0].va == MIB_AT(100) && process->guessed[0].end == MIB_AT(103));
	cr_expect(process->guessed[1].va == MIB_AT(200) && process->guessed[1].end == MIB_AT(201));
	gpu_memory_layout_fini(&layout);
}

/* The free of a segment was lost: memory that overlaps it proves that. */
Test(gpu_memory_log, contradictions)
{
	uint32_t old = add(GPU_MEMORY_SEGMENT, MIB_AT(0), 20 * MIB);
	uint32_t old_tensor = add(GPU_MEMORY_TENSOR, MIB_AT(1), MIB), newer, tensor, freed;

	freed = add(GPU_MEMORY_TENSOR, MIB_AT(3), MIB);
	end(freed);
	newer = add(GPU_MEMORY_SEGMENT, MIB_AT(2), 2 * MIB);
	tensor = add(GPU_MEMORY_TENSOR, MIB_AT(2), MIB);
	cr_assert_eq(gpu_memory_layout_init(&layout, memory_log), 0);
	cr_expect(place(old) & GPU_PLACE_OMIT && !place(newer) && !place(tensor));
	cr_expect_eq(layout.tensors[newer - 1], tensor);
	/* One has a segment guessed for it; the newer one overlaps what would be guessed for the other. */
	cr_expect(place(old_tensor) == GPU_PLACE_OUTSIDE && place(freed) & GPU_PLACE_OMIT);
	cr_expect(layout.nr_omitted == 2 && layout.processes[0].nr_guessed == 1);
	gpu_memory_layout_fini(&layout);
}

static uint32_t add_on(uint8_t device, enum gpu_memory_kind kind, uint64_t va, uint64_t bytes)
{
	const struct gpu_allocation allocation = { .va = va,
						   .bytes = bytes,
						   .begin_ns = ++clock_ns,
						   .kind = (uint8_t)kind,
						   .device = device };

	return gpu_memory_log_add(memory_log, &allocation);
}

/* A tensor is on the device of its memory, whatever it names; of tensors that overlap, one device has all. */
Test(gpu_memory_log, devices)
{
	uint32_t segment = add(GPU_MEMORY_SEGMENT, MIB_AT(0), 20 * MIB);
	uint32_t first = add_on(1, GPU_MEMORY_TENSOR, MIB_AT(2), MIB);
	uint32_t other = add_on(2, GPU_MEMORY_TENSOR, MIB_AT(4), MIB);
	uint32_t mapping = add_on(2, GPU_MEMORY_MAPPING, MIB_AT(20), 20 * MIB);
	uint32_t in_two = add_on(1, GPU_MEMORY_TENSOR, MIB_AT(19), 2 * MIB);
	uint32_t outside = add_on(1, GPU_MEMORY_TENSOR, MIB_AT(100), 4 * MIB);
	uint32_t over = add_on(2, GPU_MEMORY_TENSOR, MIB_AT(102), 8 * MIB);
	uint32_t near_it = add_on(1, GPU_MEMORY_TENSOR, MIB_AT(105), MIB);
	const struct gpu_memory_process *process;

	cr_assert_eq(gpu_memory_layout_init(&layout, memory_log), 0);
	cr_expect(!place(segment) && !place(first) && !place(other) && !place(mapping));
	cr_expect(layout.devices[segment - 1] == 1 && layout.devices[first - 1] == 1);
	cr_expect(layout.devices[other - 1] == 1 && layout.devices[mapping - 1] == 2);
	cr_expect(place(in_two) & GPU_PLACE_OMIT && place(over) & GPU_PLACE_OMIT);
	cr_expect(place(outside) == GPU_PLACE_OUTSIDE && place(near_it) == GPU_PLACE_OUTSIDE);
	process = &layout.processes[0];
	cr_assert(process->several && process->nr_guessed == 1);
	cr_expect(process->guessed[0].device == 1 && process->guessed[0].end == MIB_AT(106));
	gpu_memory_layout_fini(&layout);
}

/* Is the tensor in memory that lives as long? */
static bool has_place(const struct gpu_allocation *tensor, const struct gpu_memory_process *process,
		      uint64_t ns)
{
	uint64_t va = tensor->va, end = tensor->va + tensor->bytes, before;
	size_t i;

	for (i = 0; i < process->nr_guessed; i++)
		if (process->guessed[i].va <= va && end <= process->guessed[i].end)
			return true;
	do {
		before = va;
		for (i = 0; i < layout.nr; i++) {
			const struct gpu_allocation *one = &layout.all[i];

			if (one->kind != GPU_MEMORY_TENSOR &&
			    !(layout.places[i] & GPU_PLACE_OMIT) && one->va <= va &&
			    one->va + one->bytes > va && one->begin_ns <= ns &&
			    (!one->end_ns || one->end_ns >= ns))
				va = one->va + one->bytes;
		}
	} while (va != before && va < end);
	return va >= end;
}

static void expect_places(const struct gpu_memory_process *process)
{
	const struct gpu_allocation *one;
	size_t i, k;

	for (i = 0; i < layout.nr; i++) {
		one = &layout.all[i];
		if (layout.places[i] & GPU_PLACE_OMIT)
			continue;
		if (one->kind == GPU_MEMORY_TENSOR) {
			cr_assert(has_place(one, process, one->begin_ns));
			cr_assert(has_place(one, process, one->end_ns ?: UINT64_MAX - 1));
			continue;
		}
		for (k = 0; k < process->nr_guessed; k++)
			cr_assert(process->guessed[k].end <= one->va ||
				  one->va + one->bytes <= process->guessed[k].va);
	}
}

/* Whatever comes, each tensor that is shown is inside of something. */
Test(gpu_memory_log, any_order)
{
	unsigned int seed, i, nr, nr_live;
	uint32_t live[400];

	for (seed = 0; seed < 200; seed++) {
		gpu_memory_log_free(memory_log);
		cr_assert_eq(gpu_memory_log_new(&memory_log), 0);
		srand(seed);
		for (i = 0, nr_live = 0; i < 400; i++) {
			if (nr_live && rand() % 3 == 0) {
				nr = (unsigned int)rand() % nr_live;
				end(live[nr]);
				live[nr] = live[--nr_live];
			} else {
				live[nr_live++] =
					add(1 + (unsigned int)rand() % 3,
					    VA + (uint64_t)(rand() % 300) * (MIB / 4),
					    (1 + (uint64_t)rand() % (seed % 9 + 1)) * (MIB / 4));
			}
		}
		cr_assert_eq(gpu_memory_layout_init(&layout, memory_log), 0);
		cr_assert_eq(layout.nr_processes, 1);
		expect_places(&layout.processes[0]);
		gpu_memory_layout_fini(&layout);
	}
}

static struct profile made_profile(void)
{
	struct profile profile = { 0 };
	static struct profile_location locations[2];
	/* The numbers up to 4 have the same locations. */
	static uint32_t of_stack[] = { 0, 1, 0, 0, 0 }, callers[] = { 0, 0, 1, 1, 1 };
	static struct profile_mapping mappings[1];

	cr_assert_eq(strtab_new(&profile.strings, 1 << 16), 0);
	mappings[0].path = strtab_add(profile.strings, "/lib/c.so");
	locations[0] = (struct profile_location){ .kind = LOCATION_NATIVE,
						  .name = strtab_add(profile.strings, "grow"),
						  .mapping = 1 };
	locations[1] = (struct profile_location){ .kind = LOCATION_PYTHON,
						  .name = strtab_add(profile.strings, "train"),
						  .file = strtab_add(profile.strings, "t.py"),
						  .line = 12 };
	profile.locations = locations;
	profile.nr_locations = 2;
	profile.stack_locations = of_stack;
	profile.stack_callers = callers;
	profile.nr_stacks = 5;
	profile.mappings = mappings;
	profile.nr_mappings = 1;
	return profile;
}

#define FRAMES "[{filename:/lib/c.so,line:0,name:grow},{filename:t.py,line:12,name:train}]"

static void expect_written(const char *wanted)
{
	struct profile profile = made_profile();
	struct gpu_memory_snapshot snapshot = { .log = memory_log,
						.table = table,
						.profile = &profile,
						.start_ns = 1000,
						.start_wall_ns = 5000000 };
	char *data, *text;
	size_t len;
	FILE *out = open_memstream(&data, &len);

	cr_assert_eq(gpu_memory_snapshot_write(out, &snapshot), 0);
	cr_assert_eq(fclose(out), 0);
	text = unpickled(data, len);
	cr_expect_str_eq(text, wanted);
	free(text);
	free(data);
	strtab_free(profile.strings);
}

Test(gpu_memory_log, nothing)
{
	expect_written("{segments:[],device_traces:[],processes:[]}");
}

Test(gpu_memory_log, snapshot)
{
	call_table_log_memory(table, memory_log);
	made_clock_ns = 2000000;
	send_alloc(7, 4096, 4096);
	made_clock_ns = 3000000;
	release_by("cuMemFree_v2", 7, 4096);
	made_clock_ns = 4000000;
	send_alloc(7, 65536, 8192);
	alloc_by("pytorch:malloc", 7, START_NS, 65536, 512);
	/* Each stack of the table, of whatever number, is the same here. */
	expect_written(
		"{segments:[{device:0,address:65536,total_size:8192,stream:0,segment_type:small,"
		"segment_pool_id:(0,0),is_expandable:False,frames:" FRAMES ",blocks:["
		"{address:65536,size:512,requested_size:512,state:active_allocated,frames:" FRAMES
		"},"
		"{address:66048,size:7680,requested_size:0,state:inactive,frames:[]}],"
		"allocated_size:512,active_size:512,requested_size:512}],"
		"device_traces:[["
		"{action:segment_alloc,addr:4096,size:4096,stream:0,time_us:6999,frames:" FRAMES
		"},"
		"{action:alloc,addr:4096,size:4096,stream:0,time_us:6999,frames:" FRAMES "},"
		"{action:free_requested,addr:4096,size:4096,stream:0,time_us:7999,frames:[]},"
		"{action:free_completed,addr:4096,size:4096,stream:0,time_us:7999,frames:[]},"
		"{action:segment_free,addr:4096,size:4096,stream:0,time_us:7999,frames:[]},"
		"{action:segment_alloc,addr:65536,size:8192,stream:0,time_us:8999,frames:" FRAMES
		"},"
		"{action:alloc,addr:65536,size:512,stream:0,time_us:8999,frames:" FRAMES "}]],"
		"processes:[{device:0,pid:7}]}");
}

/* Memory by handle is where it is mapped; memory of others, and what was never mapped, is nowhere. */
Test(gpu_memory_log, handles)
{
	const struct gpu_allocation *all;
	struct bpfprof_gpu_call call = call_of(key_of(7, "cuMemMap"));
	size_t nr;

	call_table_log_memory(table, memory_log);
	alloc_by("cuMemCreate", 7, START_NS, 0x10, 4 * MIB);
	alloc_by("cuMemHostAlloc", 7, START_NS, VA, MIB);
	call.key.handle = 0x10;
	call.va = MIB_AT(8);
	call.bytes = 4 * MIB;
	send_call(&call, 7);
	call.key.handle = 0x20;
	call.va = MIB_AT(16);
	send_call(&call, 7);
	release_by("cuMemRelease", 7, 0x10);
	all = gpu_memory_log_all(memory_log, &nr);
	cr_assert_eq(nr, 1);
	cr_expect(all[0].va == MIB_AT(8) && all[0].kind == GPU_MEMORY_MAPPING && !all[0].end_ns);
	call = call_of(key_of(7, "cuMemUnmap"));
	call.va = MIB_AT(8);
	call.bytes = 4 * MIB;
	send_call(&call, 7);
	cr_expect(all[0].end_ns && all[0].bytes == 4 * MIB);
	/* The end of a process frees nothing here: its last state is what people want to see. */
	send_alloc(7, VA, 100);
	call_table_exit(table, &(struct bpfprof_task_id){ .pid = 7, .start_ns = START_NS },
			made_clock_ns + 77);
	all = gpu_memory_log_all(memory_log, &nr);
	cr_expect(nr == 2 && all[1].end_stack == GPU_MEMORY_LEFT &&
		  !gpu_memory_log_is_freed(&all[1]) && all[1].end_ns == made_clock_ns + 77);
	cr_expect_eq(memory_of(7).live_bytes, 0);
	/* Its free raised no event: the address comes again. */
	send_alloc(8, VA, 100);
	send_alloc(8, VA, 200);
	all = gpu_memory_log_all(memory_log, &nr);
	cr_expect(nr == 4 && all[2].end_ns == all[3].begin_ns && !all[3].end_ns);
}
