// SPDX-License-Identifier: Apache-2.0
/*
 * reference HZ LEAN [PID]...: samples PIDs on every CPU with reference.bpf.c until
 * SIGINT, then prints what was counted as one JSON object.
 */
#include <bpf/libbpf.h>
#include <linux/perf_event.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "reference.h"
#include "reference.skel.h"

#define DRAIN_US 20000

struct seen {
	unsigned long long records, user_frames, kernel_frames;
};

static volatile sig_atomic_t stop;

static void on_signal(int signal_nr)
{
	(void)signal_nr;
	stop = 1;
}

static int on_record(void *ctx, void *data, size_t len)
{
	const struct reference_record *rec = data;
	struct seen *seen = ctx;

	(void)len;
	seen->records++;
	seen->user_frames += rec->user_bytes / 8;
	seen->kernel_frames += rec->kernel_bytes / 8;
	return 0;
}

/* The event's descriptor on cpu, with the program attached, or -1. CPUs may be offline. */
static int sample_cpu(struct bpf_program *prog, int cpu, unsigned long hz)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = PERF_TYPE_SOFTWARE,
		.config = PERF_COUNT_SW_CPU_CLOCK,
		.sample_type = PERF_SAMPLE_RAW,
		.sample_period = 1000000000 / hz,
		.disabled = 1,
	};
	int fd = (int)syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);

	if (fd >= 0 && !bpf_program__attach_perf_event(prog, fd)) {
		close(fd);
		return -1;
	}
	return fd;
}

static int record(struct reference_bpf *skel, unsigned long hz)
{
	struct seen seen = { 0 };
	struct ring_buffer *ring =
		ring_buffer__new(bpf_map__fd(skel->maps.ring), on_record, &seen, NULL);
	int cpu, nr = 0;

	if (!ring)
		return 1;
	for (cpu = 0; cpu < libbpf_num_possible_cpus(); cpu++)
		nr += sample_cpu(skel->progs.take_sample, cpu, hz) >= 0;
	if (!nr) {
		fprintf(stderr, "reference: no perf event could be opened\n");
		ring_buffer__free(ring);
		return 1;
	}
	while (!stop) {
		usleep(DRAIN_US);
		ring_buffer__consume(ring);
	}
	printf("{\"taken\": %llu, \"others\": %llu, \"lost\": %llu, \"records\": %llu, "
	       "\"user_frames\": %llu, \"kernel_frames\": %llu}\n",
	       (unsigned long long)skel->bss->nr_taken, (unsigned long long)skel->bss->nr_others,
	       (unsigned long long)skel->bss->nr_lost, seen.records, seen.user_frames,
	       seen.kernel_frames);
	ring_buffer__free(ring);
	return 0;
}

int main(int argc, char **argv)
{
	unsigned long hz = argc > 2 ? strtoul(argv[1], NULL, 10) : 0;
	struct sigaction action = { .sa_handler = on_signal };
	struct reference_bpf *skel;
	__u32 pid, one = 1;
	int i, status = 1;

	if (!hz || hz > 100000) {
		fprintf(stderr, "usage: reference HZ LEAN [PID]...\n");
		return 2;
	}
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	sigaction(SIGINT, &action, NULL);
	skel = reference_bpf__open();
	if (!skel)
		return 1;
	skel->rodata->lean = argv[2][0] == '1';
	if (reference_bpf__load(skel))
		goto out;
	for (i = 3; i < argc; i++) {
		pid = (__u32)strtoul(argv[i], NULL, 10);
		if (bpf_map__update_elem(skel->maps.targets, &pid, sizeof(pid), &one, sizeof(one),
					 BPF_ANY))
			goto out;
	}
	status = record(skel, hz);
out:
	reference_bpf__destroy(skel);
	return status;
}
