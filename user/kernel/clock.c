// SPDX-License-Identifier: Apache-2.0
#include "kernel/clock.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/time.h"
#include "bpfprof.skel.h"

#define ARM_WAIT_US 200
#define STAT_SECONDS 0.01 /* unit of /proc/stat */

struct cpu {
	bool online;
	int perf_fd; /* or -1 */
	struct bpf_link *link;
	uint64_t period_ns;
	uint64_t counted_ns; /* perf count when the period last changed */
	uint64_t enabled_ns; /* time that the event had been enabled at the last clock_tick() */
	double due; /* ticks due so far */
};

/* The fields of a value of the map timers that user space uses. */
struct tick_timer_value {
	uint64_t timer[2];
	uint32_t armed;
	uint32_t pad;
	uint64_t period_ns;
	uint64_t due_ns;
};

struct clock {
	struct session *session;
	struct cpu *cpus;
	struct bpf_link *arm_link;
	uint32_t nr_unarmed;
	uint64_t nr_revived;
	uint64_t nr_skipped; /* maximum returned by clock_nr_skipped() */
	unsigned int seed;
	bool stopped;
	double not_busy_start, not_busy_end;
};

static int perf_open(bool cycles, uint32_t hz, int cpu)
{
	struct perf_event_attr attr = {
		.size = sizeof(attr),
		.type = cycles ? PERF_TYPE_HARDWARE : PERF_TYPE_SOFTWARE,
		.config = cycles ? PERF_COUNT_HW_CPU_CYCLES : PERF_COUNT_SW_CPU_CLOCK,
		.sample_type = PERF_SAMPLE_RAW,
		.read_format = PERF_FORMAT_TOTAL_TIME_ENABLED,
		.disabled = 1,
	};

	if (cycles) {
		attr.freq = 1;
		attr.sample_freq = hz;
	} else {
		attr.sample_period = NS_PER_SECOND / hz;
	}
	return (int)syscall(SYS_perf_event_open, &attr, -1, cpu, -1, PERF_FLAG_FD_CLOEXEC);
}

int clock_probe_perf(bool cycles)
{
	/* CPU 0 may be offline, but the current CPU is online. */
	int fd = perf_open(cycles, 99, sched_getcpu());

	if (fd < 0)
		return -errno;
	close(fd);
	return 0;
}

/* Marks the CPUs of a list like "0-3,5" as online. */
static void online_read(struct clock *clock)
{
	__cleanup(close_file) FILE *file = fopen("/sys/devices/system/cpu/online", "re");
	unsigned long first, last, cpu;
	char line[1024], *at;

	if (!file || !fgets(line, sizeof(line), file))
		return;
	for (cpu = 0; cpu < clock->session->nr_cpus; cpu++)
		clock->cpus[cpu].online = false;
	for (at = line; *at >= '0' && *at <= '9'; at += *at == ',') {
		first = last = strtoul(at, &at, 10);
		if (*at == '-')
			last = strtoul(at + 1, &at, 10);
		for (cpu = first; cpu <= last && cpu < clock->session->nr_cpus; cpu++)
			clock->cpus[cpu].online = true;
	}
}

/* Perf events. */

/* Result of read(). */
struct perf_counts {
	uint64_t count;
	uint64_t enabled_ns;
};

/* If the counts cannot be read, the old values stay. */
static void perf_read(const struct cpu *cpu, struct perf_counts *counts)
{
	struct perf_counts tmp;

	if (cpu->perf_fd >= 0 && read(cpu->perf_fd, &tmp, sizeof(tmp)) == sizeof(tmp))
		*counts = tmp;
}

static void perf_account(struct cpu *cpu)
{
	struct perf_counts now = { .count = cpu->counted_ns };

	perf_read(cpu, &now);
	cpu->due += (double)(now.count - cpu->counted_ns) / (double)cpu->period_ns;
	cpu->counted_ns = now.count;
}

/*
 * An event leaves its CPU for good when the CPU goes offline, although its descriptor stays. On a
 * CPU that is back already, the event is not enabled any more.
 */
static bool perf_is_dead(struct cpu *cpu)
{
	struct perf_counts now = { .enabled_ns = cpu->enabled_ns };
	bool dead;

	perf_read(cpu, &now);
	dead = now.enabled_ns == cpu->enabled_ns;
	cpu->enabled_ns = now.enabled_ns;
	return dead;
}

/* Uniform in frequency within 10% of hz, so that the mean rate is the requested one. */
static uint64_t random_period(struct clock *clock)
{
	double spread = (double)rand_r(&clock->seed) / RAND_MAX * 0.2 - 0.1;

	return (uint64_t)(1e9 / (clock->session->options.hz * (1 + spread)));
}

static int perf_start_cpu(struct clock *clock, int nr)
{
	const struct session_options *options = &clock->session->options;
	struct cpu *cpu = &clock->cpus[nr];
	int err;

	cpu->perf_fd = perf_open(options->cycles, options->hz, nr);
	if (cpu->perf_fd < 0)
		return -errno;
	cpu->period_ns = NS_PER_SECOND / options->hz;
	cpu->counted_ns = 0;
	cpu->enabled_ns = 0;
	cpu->link =
		bpf_program__attach_perf_event(session_clock_program(clock->session), cpu->perf_fd);
	if (!cpu->link) {
		err = -errno;
		close(cpu->perf_fd);
		cpu->perf_fd = -1;
		return err;
	}
	if (!options->cycles) {
		cpu->period_ns = random_period(clock);
		ioctl(cpu->perf_fd, PERF_EVENT_IOC_PERIOD, &cpu->period_ns);
	}
	return 0;
}

static void perf_stop_cpu(struct cpu *cpu)
{
	if (!cpu->link)
		return;
	perf_account(cpu);
	bpf_link__destroy(cpu->link); /* closes perf_fd too */
	cpu->link = NULL;
	cpu->perf_fd = -1;
}

static int perf_update(struct clock *clock)
{
	struct cpu *cpu;
	uint32_t i;
	int err = 0, e;

	clock->nr_unarmed = 0;
	for (i = 0; i < clock->session->nr_cpus; i++) {
		cpu = &clock->cpus[i];
		if (!cpu->online) {
			perf_stop_cpu(cpu);
			continue;
		}
		if (cpu->link && perf_is_dead(cpu)) {
			perf_stop_cpu(cpu);
			clock->nr_revived++;
		}
		if (!cpu->link) {
			e = perf_start_cpu(clock, (int)i);
			clock->nr_unarmed += e != 0;
			err = err ? err : e;
		} else if (!clock->session->options.cycles) {
			perf_account(cpu);
			cpu->period_ns = random_period(clock);
			ioctl(cpu->perf_fd, PERF_EVENT_IOC_PERIOD, &cpu->period_ns);
		}
	}
	return err;
}

/* BPF timers. */

static uint32_t timers_unarmed(struct clock *clock)
{
	int fd = bpf_map__fd(clock->session->skel->maps.timers);
	struct tick_timer_value value;
	uint32_t i, nr = 0;

	for (i = 0; i < clock->session->nr_cpus; i++)
		if (clock->cpus[i].online && !bpf_map_lookup_elem(fd, &i, &value))
			nr += !value.armed;
	return nr;
}

/*
 * A timer is armed when its CPU next switches tasks. To hurry this, the thread runs on each CPU for
 * a moment. A cpuset may forbid it; then the timer is armed when the CPU switches by itself.
 */
static void timers_visit(struct clock *clock)
{
	cpu_set_t *before = CPU_ALLOC(clock->session->nr_cpus);
	cpu_set_t *one = CPU_ALLOC(clock->session->nr_cpus);
	size_t bytes = CPU_ALLOC_SIZE(clock->session->nr_cpus);
	uint32_t i;

	if (before && one && !sched_getaffinity(0, bytes, before)) {
		for (i = 0; i < clock->session->nr_cpus; i++) {
			if (!clock->cpus[i].online)
				continue;
			CPU_ZERO_S(bytes, one);
			CPU_SET_S(i, bytes, one);
			if (!sched_setaffinity(0, bytes, one))
				usleep(ARM_WAIT_US);
		}
		sched_setaffinity(0, bytes, before);
	}
	CPU_FREE(before);
	CPU_FREE(one);
}

static int timers_update(struct clock *clock)
{
	struct bpf_program *arm = session_clock_program(clock->session);

	clock->nr_unarmed = timers_unarmed(clock);
	if (!clock->nr_unarmed) {
		bpf_link__destroy(clock->arm_link);
		clock->arm_link = NULL;
		return 0;
	}
	if (!clock->arm_link)
		clock->arm_link = bpf_program__attach(arm);
	if (!clock->arm_link)
		return -errno;
	timers_visit(clock);
	clock->nr_unarmed = timers_unarmed(clock);
	if (!clock->nr_unarmed) {
		bpf_link__destroy(clock->arm_link);
		clock->arm_link = NULL;
	}
	return 0;
}

static void timers_stop(struct clock *clock)
{
	int fd = bpf_map__fd(clock->session->skel->maps.timers);
	struct tick_timer_value zero = { 0 };
	uint32_t i;

	bpf_link__destroy(clock->arm_link);
	clock->arm_link = NULL;
	/* Replacing the value cancels the timer in it. */
	for (i = 0; i < clock->session->nr_cpus; i++)
		bpf_map_update_elem(fd, &i, &zero, BPF_ANY);
}

/* Time that all CPUs together were idle, waiting for disks, or taken away by a hypervisor. */
static double not_busy_seconds(void)
{
	__cleanup(close_file) FILE *file = fopen("/proc/stat", "re");
	unsigned long long user, nice, system, idle, iowait, irq, softirq, steal;

	/* The text comes from the kernel. */
	if (!file || fscanf(file, "cpu %llu %llu %llu %llu %llu %llu %llu %llu", &user, &nice,
			    &system, &idle, &iowait, &irq, &softirq, &steal) != 8)
		return 0;
	return (double)(idle + iowait + steal) * STAT_SECONDS;
}

static int clock_update(struct clock *clock)
{
	online_read(clock);
	if (clock->session->options.clock == SESSION_CLOCK_PERF)
		return perf_update(clock);
	return timers_update(clock);
}

int clock_start(struct clock **ret, struct session *session)
{
	struct clock *clock = calloc(1, sizeof(*clock));
	uint32_t i;
	int err;

	if (!clock)
		return -ENOMEM;
	clock->session = session;
	clock->not_busy_start = not_busy_seconds();
	clock->seed = (unsigned int)time_monotonic_ns();
	clock->cpus = calloc(session->nr_cpus, sizeof(*clock->cpus));
	if (!clock->cpus) {
		free(clock);
		return -ENOMEM;
	}
	for (i = 0; i < session->nr_cpus; i++)
		clock->cpus[i].perf_fd = -1;
	err = clock_update(clock);
	if (err) {
		clock_free(clock);
		return err;
	}
	*ret = clock;
	return 0;
}

void clock_tick(struct clock *clock)
{
	if (!clock->stopped)
		clock_update(clock);
}

void clock_stop(struct clock *clock)
{
	uint32_t i;

	if (clock->stopped)
		return;
	clock->stopped = true;
	clock->not_busy_end = not_busy_seconds();
	if (clock->session->options.clock == SESSION_CLOCK_TIMER)
		timers_stop(clock);
	for (i = 0; i < clock->session->nr_cpus; i++)
		perf_stop_cpu(&clock->cpus[i]);
}

void clock_free(struct clock *clock)
{
	if (!clock)
		return;
	clock_stop(clock);
	free(clock->cpus);
	free(clock);
}

uint32_t clock_nr_unarmed(const struct clock *clock)
{
	return clock->nr_unarmed;
}

uint64_t clock_nr_revived(const struct clock *clock)
{
	return clock->nr_revived;
}

uint64_t clock_nr_skipped(struct clock *clock, uint64_t busy_runs)
{
	double due = 0, hz = clock->session->options.hz, not_busy;
	uint32_t i;

	if (clock->session->options.clock != SESSION_CLOCK_PERF || clock->session->options.cycles)
		return 0;
	for (i = 0; i < clock->session->nr_cpus; i++) {
		if (clock->cpus[i].link)
			perf_account(&clock->cpus[i]);
		due += clock->cpus[i].due;
	}
	if (!clock->stopped)
		clock->not_busy_end = not_busy_seconds();
	not_busy = clock->not_busy_end - clock->not_busy_start;
	/* /proc/stat counts in hundredths, and each CPU always has a tick in progress. */
	due -= (not_busy + clock->session->nr_cpus * 2 * STAT_SECONDS) * hz +
	       clock->session->nr_cpus;
	/* An estimate may fall a little; the reported number never falls. */
	if (due - (double)busy_runs > (double)clock->nr_skipped)
		clock->nr_skipped = (uint64_t)(due - (double)busy_runs);
	return clock->nr_skipped;
}
