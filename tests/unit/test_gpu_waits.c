// SPDX-License-Identifier: Apache-2.0
#include "gpu/waits.h"

#include <criterion/criterion.h>
#include <string.h>

#include "profile/stats.h"

TestSuite(gpu_waits, .timeout = 60);

#define PID 42
#define START 1000
#define STREAM 0x7e00
#define OTHER 0x7f00

static struct gpu_waits *waits;

static void setup(void)
{
	cr_assert_eq(gpu_waits_new(&waits), 0);
}

static void teardown(void)
{
	gpu_waits_free(waits);
}

static struct bpfprof_gpu_wait record_of(uint32_t kind, uint64_t stream, uint64_t now_ns)
{
	return (struct bpfprof_gpu_wait){ .task = { .pid = PID, .tid = PID, .start_ns = START },
					  .kind = kind,
					  .stream = stream,
					  .until_ns = now_ns,
					  .now_ns = now_ns };
}

/* Begun at begin_ns, returned 5 ns later. */
static struct bpfprof_gpu_wait collective_of(uint64_t stream, uint64_t begin_ns, uint64_t bytes)
{
	struct bpfprof_gpu_wait record = record_of(GPU_WAIT_COLLECTIVE, stream, begin_ns + 5);

	record.call.key = (struct bpfprof_gpu_key){
		.start_ns = START, .pid = PID, .function = 3, .handle = 0xc0, .dims = { 7, 0 }
	};
	record.call.begin_ns = begin_ns;
	record.call.bytes = bytes;
	return record;
}

static void collective(uint64_t stream, uint64_t begin_ns, uint64_t bytes)
{
	struct bpfprof_gpu_wait record = collective_of(stream, begin_ns, bytes);

	gpu_waits_record(waits, &record);
}

static void done(uint32_t kind, uint64_t stream, uint64_t until_ns, uint64_t running_ns,
		 uint64_t now_ns)
{
	struct bpfprof_gpu_wait record = record_of(kind, stream, now_ns);

	record.until_ns = until_ns;
	record.running_ns = running_ns;
	gpu_waits_record(waits, &record);
}

static const struct gpu_waits_row *row(size_t at)
{
	const struct gpu_waits_row *rows;
	size_t nr;

	rows = gpu_waits_rows(waits, &nr);
	cr_assert_lt(at, nr);
	return &rows[at];
}

static uint64_t lost(const char *name)
{
	struct stats_reasons reasons = { 0 };
	size_t i;

	gpu_waits_lost(waits, &reasons);
	for (i = 0; i < reasons.nr; i++)
		if (!strcmp(reasons.reasons[i].name, name))
			return reasons.reasons[i].count;
	cr_assert_fail("%s", name);
	return 0;
}

/* A proof completes only earlier work of its stream. */
Test(gpu_waits, by_stream_and_time, .init = setup, .fini = teardown)
{
	collective(STREAM, 100, 64);
	collective(OTHER, 110, 64);
	collective(STREAM, 200, 64);
	collective(STREAM, 210, 128);
	done(GPU_WAIT_DONE, STREAM, 104, 0, 300); /* this collective came later */
	cr_expect_eq(row(0)->count, 0);
	done(GPU_WAIT_DONE, STREAM, 205, 280, 300);
	cr_expect_eq(row(0)->count, 2);
	cr_expect_eq(row(0)->pending, 1);
	cr_expect_eq(row(0)->ns, 200 + 100);
	cr_expect_eq(row(0)->max_ns, 200);
	cr_expect_eq(row(0)->within_ns, 20 + 20);
	cr_expect_eq(row(0)->within_max_ns, 20);
	cr_expect_eq(row(1)->count, 0);
	cr_expect_eq(row(1)->key.bytes, 128);
	done(GPU_WAIT_ALL_DONE, 0, 400, 0, 450); /* proves all streams since the beginning */
	cr_expect_eq(row(0)->count, 3);
	cr_expect_eq(row(0)->pending, 0);
	cr_expect_eq(row(0)->ns, 300 + 340);
	cr_expect_eq(row(0)->within_max_ns, 450 - 115);
	cr_expect_eq(row(1)->count, 1);
	cr_expect_eq(row(1)->within_ns, 450 - 215);
	done(GPU_WAIT_ALL_DONE, 0, 500, 0, 550);
	cr_expect_eq(row(0)->count, 3);
}

/* The oldest incomplete collective is reported, by kind. */
Test(gpu_waits, oldest, .init = setup, .fini = teardown)
{
	collective(STREAM, 100, 64);
	collective(STREAM, 110, 128);
	collective(OTHER, 130, 64);
	collective(STREAM, 120, 64); /* of another thread, whose record was late */
	gpu_waits_poll(waits);
	cr_expect(row(0)->pending_ns == 100 && row(0)->pending_stream == STREAM);
	cr_expect_eq(row(1)->pending_ns, 110);
	done(GPU_WAIT_DONE, STREAM, 115, 0, 200);
	gpu_waits_poll(waits);
	cr_expect(row(0)->pending_ns == 120 && row(0)->pending_stream == STREAM);
	done(GPU_WAIT_DONE, STREAM, 135, 0, 210);
	gpu_waits_poll(waits);
	cr_expect(row(0)->pending_ns == 130 && row(0)->pending_stream == OTHER);
	cr_expect(!row(1)->pending && !row(1)->pending_ns);
	done(GPU_WAIT_ALL_DONE, 0, 300, 0, 310);
	gpu_waits_poll(waits);
	cr_expect(!row(0)->pending_ns && !row(0)->pending_stream);
}

Test(gpu_waits, groups, .init = setup, .fini = teardown)
{
	struct bpfprof_gpu_wait one = collective_of(STREAM, 100, 64), other = one, end;

	one.flags = BPFPROF_WAIT_GROUPED;
	other.flags = BPFPROF_WAIT_GROUPED;
	other.task.tid = PID + 1;
	other.call.bytes = 65;
	gpu_waits_record(waits, &one);
	gpu_waits_record(waits, &other);
	done(GPU_WAIT_ALL_DONE, 0, 120, 0, 130);
	cr_expect_eq(row(0)->count + row(1)->count, 0);
	end = record_of(GPU_WAIT_GROUP_END, 0, 150);
	gpu_waits_record(waits, &end);
	done(GPU_WAIT_ALL_DONE, 0, 140, 0, 160);
	cr_expect_eq(row(0)->count, 0);
	done(GPU_WAIT_ALL_DONE, 0, 155, 0, 170);
	cr_expect_eq(row(0)->count, 1);
	cr_expect_eq(row(0)->ns, 70);
	cr_expect_eq(row(0)->within_ns, 20);
	cr_expect_eq(row(1)->count, 0);
	end.task.tid = PID + 1; /* this group fails */
	end.call.result = 5;
	gpu_waits_record(waits, &end);
	cr_expect_eq(row(1)->pending, 0);
	cr_expect_eq(row(1)->unknown, 0);
}

/* The collectives in a thread's group while the end of the group does not return. */
Test(gpu_waits, in_a_group, .init = setup, .fini = teardown)
{
	const struct bpfprof_task_id task = { .pid = PID, .tid = PID, .start_ns = START };
	struct bpfprof_task_id others[] = { task, task, task };
	struct bpfprof_gpu_wait record = collective_of(STREAM, 100, 64);
	struct gpu_waits_grouped found[3];
	uint64_t begin_ns;
	size_t nr, i;

	collective(STREAM, 90, 64); /* by itself */
	record.flags = BPFPROF_WAIT_CAPTURED;
	gpu_waits_record(waits, &record);
	record.flags = BPFPROF_WAIT_GROUPED;
	for (begin_ns = 100; begin_ns < 106; begin_ns++) {
		record.call.begin_ns = begin_ns;
		record.stream = begin_ns < 102 ? STREAM : OTHER;
		record.call.key.handle = begin_ns < 104 ? 0xc0 : 0xd0;
		record.call.key.dims[1] = begin_ns == 105;
		gpu_waits_record(waits, &record);
	}
	/* Another group begins: the end has returned, though its record has not come. */
	record.call.begin_ns = 150;
	gpu_waits_record(waits, &record);
	record.task.tid++;
	record.call.begin_ns = 100;
	gpu_waits_record(waits, &record);
	cr_expect_eq(gpu_waits_group(waits, &task, 110, found, 3, &nr), 6);
	cr_assert_eq(nr, 3); /* there is no room for the fourth one */
	cr_expect(found[0].stream == STREAM && found[0].count == 2);
	cr_expect(found[1].stream == OTHER && found[1].count == 2);
	cr_expect(found[1].key.comm == 0xc0 && found[1].key.bytes == 64);
	cr_expect(found[1].key.function == 3 && found[1].key.dims[0] == 7);
	cr_expect(found[2].key.comm == 0xd0 && found[2].count == 1);
	cr_expect_eq(found[2].key.dims[1], 0);
	cr_expect_eq(gpu_waits_group(waits, &task, 110, found, 0, &nr), 6);
	cr_expect_eq(nr, 0);
	others[0].pid++;
	others[1].start_ns++;
	others[2].tid += 2;
	for (i = 0; i < 3; i++) {
		cr_expect_eq(gpu_waits_group(waits, &others[i], 110, found, 3, &nr), 0);
		cr_expect_eq(nr, 0);
	}
	done(GPU_WAIT_GROUP_END, 0, 160, 0, 160);
	cr_expect_eq(gpu_waits_group(waits, &task, 110, found, 3, &nr), 0);
	others[2].tid--;
	cr_expect_eq(gpu_waits_group(waits, &others[2], 110, found, 3, &nr), 1);
}

/* Streams and processes end before it is known. */
Test(gpu_waits, given_up, .init = setup, .fini = teardown)
{
	struct bpfprof_gpu_wait captured = collective_of(STREAM, 100, 64);

	captured.flags = BPFPROF_WAIT_CAPTURED;
	gpu_waits_record(waits, &captured);
	cr_expect_eq(lost("collectives_in_graphs_not_timed"), 1);
	collective(STREAM, 100, 64);
	collective(OTHER, 110, 64);
	collective(STREAM, 120, 64);
	done(GPU_WAIT_STREAM_END, STREAM, 0, 0, 130);
	cr_expect_eq(row(0)->unknown, 2);
	cr_expect_eq(row(0)->pending, 1);
	collective(STREAM, 140, 64);
	done(GPU_WAIT_DONE, STREAM, 150, 0, 160);
	cr_expect_eq(row(0)->count, 1);
	gpu_waits_exit(waits, PID + 1, START, 0);
	gpu_waits_exit(waits, PID, START + 1, 0);
	cr_expect_eq(row(0)->pending, 1);
	gpu_waits_exit(waits, PID, START, 0);
	cr_expect_eq(row(0)->pending, 0);
	cr_expect_eq(row(0)->unknown, 3);
}

struct reported {
	struct bpfprof_gpu_key key;
	uint64_t nr, ns;
};

static void on_complete(void *arg, const struct bpfprof_gpu_key *key, uint64_t ns)
{
	struct reported *reported = arg;

	reported->key = *key;
	reported->nr++;
	reported->ns += ns;
}

/* Each complete collective is reported with its key, with rows or without. */
Test(gpu_waits, reported_one_by_one, .init = setup, .fini = teardown)
{
	const struct bpfprof_gpu_key key = collective_of(STREAM, 100, 64).call.key;
	struct reported reported = { 0 };
	size_t nr;

	gpu_waits_notify(waits, on_complete, &reported);
	collective(STREAM, 100, 64);
	collective(STREAM, 120, 65);
	collective(OTHER, 120, 65);
	done(GPU_WAIT_DONE, STREAM, 150, 0, 300);
	cr_expect_eq(reported.nr, 2);
	cr_expect_eq(reported.ns, 200 + 180);
	cr_expect_eq(row(0)->count, 1);
	cr_expect(!memcmp(&reported.key, &key, sizeof(key)));
	gpu_waits_no_rows(waits, 1);
	collective(STREAM, 310, 66);
	done(GPU_WAIT_ALL_DONE, 0, 350, 0, 400);
	cr_expect_eq(reported.nr, 4);
	gpu_waits_rows(waits, &nr);
	cr_expect_eq(nr, 2);
}

/* A daemon keeps nothing about ended processes, and each process has a part of the room. */
Test(gpu_waits, without_rows, .init = setup, .fini = teardown)
{
	struct bpfprof_gpu_wait record = collective_of(STREAM, 100, 64);
	size_t nr, i;

	gpu_waits_no_rows(waits, 4);
	for (i = 0; i < GPU_WAITS_MAX_PROCESS_PENDING / 4 + 2; i++)
		collective(STREAM, 100, i);
	cr_expect_eq(lost("collectives_under_way_no_room"), 2);
	cr_expect_eq(lost("kinds_of_collectives_no_room"), 0);
	gpu_waits_exit(waits, PID, START, 0);
	cr_expect_eq(lost("collectives_never_known_complete"), GPU_WAITS_MAX_PROCESS_PENDING / 4);
	gpu_waits_rows(waits, &nr);
	cr_expect_eq(nr, 0);
	for (i = 0; i < 2 * GPU_WAITS_MAX_PROCESSES; i++) {
		record.task.pid = 5000 + (uint32_t)i;
		gpu_waits_record(waits, &record);
		gpu_waits_exit(waits, record.task.pid, START, 0);
	}
	cr_expect_eq(lost("processes_of_waits_no_room"), 0);
	for (i = 0; i < GPU_WAITS_MAX_PROCESSES / 4 + 3; i++) {
		record.task.pid = 5000 + (uint32_t)i;
		gpu_waits_record(waits, &record);
	}
	cr_expect_eq(lost("processes_of_waits_no_room"), 3);
}

/* Records may come in any order and with any content. */
Test(gpu_waits, nonsense, .init = setup, .fini = teardown)
{
	uint32_t kind;

	for (kind = 0; kind < 10; kind++)
		done(kind, STREAM, UINT64_MAX, UINT64_MAX, 0);
	collective(STREAM, UINT64_MAX - 10, UINT64_MAX);
	done(GPU_WAIT_DONE, STREAM, UINT64_MAX, UINT64_MAX, 0);
	cr_expect_eq(row(0)->count, 1);
	cr_expect_eq(row(0)->ns, 0);
	cr_expect_eq(row(0)->within_ns, 0);
}

Test(gpu_waits, bounds, .init = setup, .fini = teardown)
{
	struct bpfprof_gpu_wait record;
	size_t nr, i;

	for (i = 0; i < GPU_WAITS_MAX_PROCESS_ROWS + 3; i++)
		collective(STREAM, 100, i);
	gpu_waits_rows(waits, &nr);
	cr_expect_eq(nr, GPU_WAITS_MAX_PROCESS_ROWS);
	cr_expect_eq(lost("kinds_of_collectives_no_room"), 3);
	for (i = nr; i < GPU_WAITS_MAX_PROCESS_PENDING + 2; i++)
		collective(STREAM, 100, 0);
	cr_expect_eq(lost("collectives_under_way_no_room"), 2);
	cr_expect_eq(row(0)->unknown, 2);
	for (i = 0; i < GPU_WAITS_MAX_PROCESSES; i++) {
		record = collective_of(STREAM, 100, 64);
		record.task.start_ns += i;
		gpu_waits_record(waits, &record);
	}
	record.task.start_ns++;
	gpu_waits_record(waits, &record);
	cr_expect_eq(lost("processes_of_waits_no_room"), 1);
	done(GPU_WAIT_ALL_DONE, 0, 200, 0, 300);
	cr_expect_eq(row(0)->pending, 0);
	cr_expect_eq(row(0)->count + row(0)->unknown,
		     GPU_WAITS_MAX_PROCESS_PENDING - GPU_WAITS_MAX_PROCESS_ROWS + 1 + 2);
}

Test(gpu_waits, device_idle, .init = setup, .fini = teardown)
{
	const struct bpfprof_gpu_waits process = { .start_ns = START,
						   .pid = PID,
						   .idle_ns = 77,
						   .device_idle_ns = 500,
						   .device_idle_copy_ns = 60,
						   .device_idle_max_ns = 300,
						   .gaps = 4,
						   .span_ns = 1000,
						   .spans = 5,
						   .spans_ns = 800,
						   .span_max_ns = 200 };
	const struct gpu_waits_times *times;

	cr_expect_null(gpu_waits_times(waits, PID, START));
	gpu_waits_process(waits, &process);
	times = gpu_waits_times(waits, PID, START);
	cr_assert_not_null(times);
	cr_expect_eq(times->device_idle.ns, 500);
	cr_expect_eq(times->device_idle.copy_ns, 60);
	cr_expect_eq(times->device_idle.max_ns, 300);
	cr_expect_eq(times->device_idle.gaps, 4);
	cr_expect_eq(times->device_idle.since_ns, 77);
	cr_expect(times->spans.count == 5 && times->spans.ns == 800 && times->spans.max_ns == 200);
	cr_expect_eq(times->spans.since_ns, 1000);
	gpu_waits_exit(waits, PID, START, 1300); /* its device can no longer be idle */
	times = gpu_waits_times(waits, PID, START);
	cr_assert_not_null(times);
	cr_expect_eq(times->device_idle.ns, 500);
	cr_expect_eq(times->device_idle.since_ns, 0);
	/* The last span ends with the process. */
	cr_expect(times->spans.count == 6 && times->spans.ns == 1100 && times->spans.max_ns == 300);
	cr_expect_eq(times->spans.since_ns, 0);
	gpu_waits_process(waits, &process);
	gpu_waits_exit(waits, PID, START, 0); /* the time of its end is not known */
	times = gpu_waits_times(waits, PID, START);
	cr_assert_not_null(times);
	cr_expect(times->spans.count == 5 && !times->spans.since_ns);
}
