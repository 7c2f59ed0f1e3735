// SPDX-License-Identifier: Apache-2.0
#include "kernel/waits.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/time.h"
#include "kernel/session.h"
#include "bpfprof.skel.h"

#define ADAPT_NS (NS_PER_SECOND / 10)
/*
 * Limit for the samples of all CPUs per second: at some 4 us each, in user space and in the kernel,
 * this is one percent of a CPU. With more samples the period doubles.
 */
#define SAMPLES_MAX 2500
#define PERIOD_MAX_NS NS_PER_SECOND
/* Limit per CPU, until the period is long enough. */
#define TOKENS_PER_MS 1
#define TOKENS_MAX 250

#define KICK_PAGES 4
#define NR_PROGRAMS 5

/* A ring buffer without a reader. */
struct kick_ring {
	unsigned long *consumer;
	const unsigned long *producer;
};

struct waits {
	struct session *session;
	struct bpf_link *links[NR_PROGRAMS];
	struct bpfprof_wait_control control;
	uint64_t adapted_ns;
	uint64_t base_period_ns, max_period_ns;
	uint64_t nr_kept; /* value at the last adaptation */
	struct kick_ring *rings; /* one per CPU */
	const struct bpfprof_waiter *waiters; /* the map, BPFPROF_WAITER_PLACES */
	size_t page_bytes;
};

static int waiters_map(struct waits *waits)
{
	void *map = mmap(NULL, BPFPROF_WAITER_PLACES * sizeof(*waits->waiters), PROT_READ,
			 MAP_SHARED, bpf_map__fd(waits->session->skel->maps.waiters), 0);

	if (map == MAP_FAILED)
		return -errno;
	waits->waiters = map;
	return 0;
}

/* Occupies all places but the first ones, so that the kernel does not use them. */
static int places_take(const struct waits *waits)
{
	const struct bpfprof_waiter nobody = { .task.tid = UINT32_MAX };
	uint32_t i, free = waits->session->options.waiter_places;

	for (i = free; free && i < BPFPROF_WAITER_PLACES; i++)
		if (bpf_map__update_elem(waits->session->skel->maps.waiters, &i, sizeof(i), &nobody,
					 sizeof(nobody), BPF_ANY))
			return -errno;
	return 0;
}

static int control_write(struct waits *waits)
{
	uint32_t zero = 0;

	return bpf_map__update_elem(waits->session->skel->maps.wait_control, &zero, sizeof(zero),
				    &waits->control, sizeof(waits->control), BPF_ANY);
}

static int ring_map(const struct waits *waits, struct kick_ring *ring, int fd)
{
	void *page;

	page = mmap(NULL, waits->page_bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	if (page == MAP_FAILED)
		return -errno;
	ring->consumer = page;
	page = mmap(NULL, waits->page_bytes, PROT_READ, MAP_SHARED, fd, (off_t)waits->page_bytes);
	if (page == MAP_FAILED)
		return -errno;
	ring->producer = page;
	return 0;
}

static int ring_new(struct waits *waits, uint32_t cpu)
{
	__cleanup(close_fd) int fd = bpf_map_create(BPF_MAP_TYPE_RINGBUF, "kick", 0, 0,
						    (uint32_t)waits->page_bytes * KICK_PAGES, NULL);
	int err;

	if (fd < 0)
		return -errno;
	err = ring_map(waits, &waits->rings[cpu], fd);
	if (!err && bpf_map__update_elem(waits->session->skel->maps.kicks, &cpu, sizeof(cpu), &fd,
					 sizeof(fd), BPF_ANY))
		err = -errno;
	return err;
}

static int rings_new(struct waits *waits)
{
	uint32_t cpu;
	int err = 0;

	waits->page_bytes = (size_t)sysconf(_SC_PAGESIZE);
	waits->rings = calloc(waits->session->nr_cpus, sizeof(*waits->rings));
	if (!waits->rings)
		return -ENOMEM;
	for (cpu = 0; cpu < waits->session->nr_cpus && !err; cpu++)
		err = ring_new(waits, cpu);
	return err;
}

static void rings_empty(const struct waits *waits)
{
	uint32_t cpu;

	for (cpu = 0; cpu < waits->session->nr_cpus; cpu++)
		__atomic_store_n(waits->rings[cpu].consumer,
				 __atomic_load_n(waits->rings[cpu].producer, __ATOMIC_ACQUIRE),
				 __ATOMIC_RELEASE);
}

static void rings_free(struct waits *waits)
{
	uint32_t cpu;

	for (cpu = 0; waits->rings && cpu < waits->session->nr_cpus; cpu++) {
		if (waits->rings[cpu].consumer)
			munmap(waits->rings[cpu].consumer, waits->page_bytes);
		if (waits->rings[cpu].producer)
			munmap((void *)waits->rings[cpu].producer, waits->page_bytes);
	}
	free(waits->rings);
}

/* Does this kernel count how long threads wait for a CPU (CONFIG_SCHED_INFO)? */
static bool delays_are_counted(void)
{
	struct btf *btf = btf__load_vmlinux_btf();
	int id = btf ? btf__find_by_name_kind(btf, "sched_info", BTF_KIND_STRUCT) : -ENOENT;
	const struct btf_type *type = id > 0 ? btf__type_by_id(btf, (uint32_t)id) : NULL;
	bool found = false;
	uint32_t i;

	for (i = 0; type && i < btf_vlen(type) && !found; i++)
		found = !strcmp(btf__name_by_offset(btf, btf_members(type)[i].name_off),
				"run_delay");
	btf__free(btf);
	return found;
}

static int attach(struct waits *waits)
{
	struct bpfprof_bpf *skel = waits->session->skel;
	const struct session_options *options = &waits->session->options;
	/* The kernel counts waits for a CPU too late for --off-cpu, or not at all. */
	bool woken = options->waits != SESSION_WALL || !delays_are_counted();
	/* The first programs have no effect until the last one is attached. */
	struct bpf_program *programs[NR_PROGRAMS] = {
		skel->progs.wait_stack,
		woken ? skel->progs.thread_woken : NULL,
		options->wakers ? skel->progs.thread_wakes : NULL,
		skel->progs.thread_execs,
		skel->progs.thread_switched,
	};
	size_t i;

	for (i = 0; i < NR_PROGRAMS; i++) {
		if (!programs[i])
			continue;
		waits->links[i] = bpf_program__attach(programs[i]);
		if (!waits->links[i])
			return -errno;
	}
	return 0;
}

int waits_start(struct waits **ret, struct session *session, uint32_t hz, uint64_t at_ns)
{
	struct waits *waits = calloc(1, sizeof(*waits));
	uint64_t now_ns;
	int err;

	if (!waits)
		return -ENOMEM;
	waits->session = session;
	waits->base_period_ns = waits->max_period_ns = NS_PER_SECOND / hz;
	waits->control = (struct bpfprof_wait_control){
		.period_ns = waits->base_period_ns,
		.tokens_per_ms = TOKENS_PER_MS,
		.tokens_max = TOKENS_MAX,
	};
	err = rings_new(waits);
	if (!err)
		err = waiters_map(waits);
	if (!err)
		err = places_take(waits);
	if (!err)
		err = control_write(waits);
	if (!err)
		err = attach(waits);
	/*
	 * Attaching takes time, in which only some programs run. So the time of waits begins here.
	 */
	now_ns = time_monotonic_ns();
	waits->control.start_ns = at_ns > now_ns ? at_ns : now_ns;
	waits->control.start_boot_ns =
		time_of_clock_ns(CLOCK_BOOTTIME) + waits->control.start_ns - now_ns;
	if (!err)
		err = control_write(waits);
	if (err) {
		waits_free(waits);
		return err;
	}
	*ret = waits;
	return 0;
}

void waits_run(struct waits *waits, uint64_t now_ns)
{
	uint64_t c[WAIT_NR_COUNTERS], max = SAMPLES_MAX / (NS_PER_SECOND / ADAPT_NS), nr;
	struct bpfprof_wait_control *control = &waits->control;

	rings_empty(waits);
	if (now_ns - waits->adapted_ns < ADAPT_NS)
		return;
	waits_counters(waits, c);
	nr = c[WAIT_COUNT_KEPT] + c[WAIT_COUNT_LIMITED] - waits->nr_kept;
	/* If the call is late, samples of more time have come. */
	if (waits->adapted_ns)
		nr = nr * ADAPT_NS / (now_ns - waits->adapted_ns);
	else
		nr = 0;
	waits->nr_kept = c[WAIT_COUNT_KEPT] + c[WAIT_COUNT_LIMITED];
	waits->adapted_ns = now_ns;
	if (nr > max && control->period_ns < PERIOD_MAX_NS)
		control->period_ns *= 2;
	else if (nr < max / 4 && control->period_ns > waits->base_period_ns)
		control->period_ns /= 2;
	else
		return;
	if (control->period_ns > waits->max_period_ns)
		waits->max_period_ns = control->period_ns;
	control_write(waits);
}

void waits_end(struct waits *waits)
{
	waits->control.end_ns = time_monotonic_ns();
	control_write(waits);
}

/* The kernel may write to the entry at any time. NULL: there is none. */
static const struct bpfprof_waiter *waiter_find(const struct waits *waits,
						const struct bpfprof_task_id *task)
{
	const struct bpfprof_waiter *waiter;
	uint32_t i;

	for (i = 0; i < BPFPROF_WAITER_PROBES; i++) {
		waiter = &waits->waiters[waiter_place(task->tid, i)];
		if (__atomic_load_n(&waiter->task.tid, __ATOMIC_ACQUIRE) == task->tid)
			return __atomic_load_n(&waiter->task.start_ns, __ATOMIC_ACQUIRE) ==
					       task->start_ns
				       ? waiter
				       : NULL;
	}
	return NULL;
}

int waits_find(const struct waits *waits, const struct bpfprof_task_id *task,
	       struct bpfprof_waiter *ret)
{
	const struct bpfprof_waiter *waiter = waiter_find(waits, task);

	if (waiter) {
		*ret = *waiter;
		return 1;
	}
	*ret = (struct bpfprof_waiter){ .task = *task,
					.since_ns = waits->control.start_ns,
					.state = THREAD_SLEEPS };
	waiter = &waits->waiters[waiter_place(task->tid, 0)];
	return __atomic_load_n(&waiter->refused, __ATOMIC_RELAXED) ? -ENOENT : 0;
}

uint64_t waits_open_since_ns(const struct waits *waits, const struct bpfprof_waiter *waiter)
{
	/* Without --wall, a wait for a CPU alone does not count. */
	if (waiter->state == THREAD_RUNS ||
	    (waiter->state == THREAD_RUNNABLE && waits->session->options.waits != SESSION_WALL))
		return 0;
	return waiter->since_ns;
}

void waits_stop(struct waits *waits)
{
	size_t i;

	for (i = NR_PROGRAMS; i--;) {
		bpf_link__destroy(waits->links[i]);
		waits->links[i] = NULL;
	}
}

void waits_free(struct waits *waits)
{
	if (!waits)
		return;
	waits_stop(waits);
	rings_free(waits);
	if (waits->waiters)
		munmap((void *)waits->waiters, BPFPROF_WAITER_PLACES * sizeof(*waits->waiters));
	free(waits);
}

uint64_t waits_start_ns(const struct waits *waits)
{
	return waits->control.start_ns;
}

uint64_t waits_end_ns(const struct waits *waits)
{
	return waits->control.end_ns;
}

uint64_t waits_base_period_ns(const struct waits *waits)
{
	return waits->base_period_ns;
}

uint64_t waits_max_period_ns(const struct waits *waits)
{
	return waits->max_period_ns;
}

void waits_max_period_restart(struct waits *waits)
{
	waits->max_period_ns = waits->control.period_ns;
}

void waits_each(struct waits *waits, void (*each)(void *arg, const struct bpfprof_waiter *waiter),
		void *arg)
{
	struct bpfprof_waiter waiter;
	uint32_t i;

	for (i = 0; i < BPFPROF_WAITER_PLACES; i++) {
		waiter = waits->waiters[i]; /* a copy, because the kernel goes on writing */
		if (waiter.task.tid && waiter.state)
			each(arg, &waiter);
	}
}

void waits_counters(const struct waits *waits, uint64_t counters[WAIT_NR_COUNTERS])
{
	session_sum(waits->session, waits->session->skel->maps.wait_counters, counters,
		    WAIT_NR_COUNTERS);
}
