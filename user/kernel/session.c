// SPDX-License-Identifier: Apache-2.0
#include "kernel/session.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/log.h"
#include "base/time.h"
#include "kernel/core_object.h"
#include "kernel/interrupt_text.h"
#include "kernel/probes/uprobe_multi.h"
#include "bpfprof.skel.h"

#define RING_BYTES (8U << 20)
#define RING_SECONDS 4
#define SAMPLE_BYTES 512 /* of a stack of 60 frames */
#define NR_ROWS (1U << 21) /* 16 MiB */
#define NR_MAPPINGS (1U << 16) /* 1.5 MiB */
/*
 * Enough for few processes. Two walks of 20 us at the same time are rare at 100 Hz; the lost sample
 * is counted (BPFPROF_COUNT_SCRATCH_BUSY).
 */
#define SMALL_SCRATCHES 2
#define SMALL_MAPPINGS (1U << 14) /* 384 KiB */
#define SMALL_PROCESSES 1024
#define SMALL_CODES 4096 /* 416 KiB */
#define SMALL_PAGES 4096
#define MISS_BYTES_PER_MS 25000 /* per node */
#define INIT_PID_NS 0xEFFFFFFCU
#define JITTER_1024 102 /* +- 10% */
#define CALL_STACKS_HZ 100
#define CALL_KEYS 8192 /* half of all keys */
#define CALL_LONG_NS 1000000
#define GRAPHS_MIN 8192 /* graphs and their instances */
#define GRAPHS_MAX 65536 /* eight workers of a large model need half of that */
#define GRAPHS_PER_CPU 512

static uint32_t nr_scratches(const struct session *session)
{
	if (session->options.small)
		return session->nr_cpus < SMALL_SCRATCHES ? session->nr_cpus : SMALL_SCRATCHES;
	return session->nr_cpus +
	       (session->options.gpu || session->options.allocations ? BPFPROF_SPARE_SCRATCHES : 0);
}

/*
 * The number of graphs. Machines with many CPUs have many GPUs and need more. It is a power of two,
 * like the number of the map's buckets.
 */
static uint32_t nr_graphs(const struct session *session)
{
	uint32_t nr = GRAPHS_MIN;

	while (nr < GRAPHS_MAX && nr / GRAPHS_PER_CPU < session->nr_cpus)
		nr *= 2;
	return nr;
}

/* Shrinks the maps that are sized for all processes of a machine. */
static int maps_shrink(struct session *session)
{
	struct bpfprof_bpf *skel = session->skel;

	session->nr_mappings = SMALL_MAPPINGS;
	if (bpf_map__set_max_entries(skel->maps.procs, SMALL_PROCESSES) ||
	    bpf_map__set_max_entries(skel->maps.targets, SMALL_PROCESSES) ||
	    bpf_map__set_max_entries(skel->maps.pythons, SMALL_PROCESSES) ||
	    bpf_map__set_max_entries(skel->maps.codes, SMALL_CODES) ||
	    bpf_map__set_max_entries(skel->maps.pages, SMALL_PAGES))
		return -EINVAL;
	return 0;
}

/*
 * Half of the ring is enough for some seconds of samples at a low rate, and for bursts of processes and titles.
 * Other records, such as calls, waits and pages, have no rate.
 */
static uint32_t default_ring_bytes(const struct session *session)
{
	const struct session_options *options = &session->options;
	uint64_t second = (uint64_t)options->hz * session->nr_cpus * SAMPLE_BYTES;

	if (options->gpu || options->waits || options->pages || options->allocations ||
	    RING_SECONDS * second > RING_BYTES / 2)
		return RING_BYTES;
	return RING_BYTES / 2;
}

static int maps_size(struct session *session)
{
	struct bpfprof_bpf *skel = session->skel;
	uint32_t ring_bytes = session->options.ring_bytes ?: default_ring_bytes(session);

	session->nr_rows = session->options.nr_rows ? session->options.nr_rows : NR_ROWS;
	session->nr_mappings = NR_MAPPINGS;
	skel->rodata->cfg.ring_bytes = ring_bytes;
	if (session->options.small && maps_shrink(session))
		return -EINVAL;
	if (bpf_map__set_max_entries(skel->maps.ring, ring_bytes) ||
	    bpf_map__set_max_entries(skel->maps.rows, session->nr_rows) ||
	    bpf_map__set_max_entries(skel->maps.mappings, session->nr_mappings) ||
	    bpf_map__set_max_entries(skel->maps.scratches, nr_scratches(session)) ||
	    bpf_map__set_max_entries(skel->maps.gpu_graphs, nr_graphs(session)) ||
	    bpf_map__set_max_entries(skel->maps.timers, session->nr_cpus) ||
	    (session->options.async &&
	     bpf_map__set_max_entries(skel->maps.asyncs,
				      bpf_map__max_entries(skel->maps.pythons))) ||
	    bpf_map__set_max_entries(skel->maps.kicks, session->nr_cpus))
		return -EINVAL;
	return 0;
}

/* The initial namespace has had this inode number since Linux 3.8. */
static uint32_t own_pid_ns(void)
{
	struct stat st;

	if (stat("/proc/self/ns/pid", &st) || st.st_ino == INIT_PID_NS)
		return 0;
	return (uint32_t)st.st_ino;
}

bool session_pids_are_the_nodes(const struct session *session)
{
	return !session->skel->rodata->cfg.pid_ns;
}

uint32_t session_call_stacks_hz(const struct session *session)
{
	return session->skel->rodata->cfg.call_tokens;
}

uint32_t session_own_pid(const struct session *session, uint32_t pid, uint32_t agent_pid)
{
	return session->skel->rodata->cfg.pid_ns ? agent_pid : pid;
}

bool session_knows_interrupts(const struct session *session)
{
	return session->skel->rodata->cfg.irq_start;
}

static void config_set(struct session *session)
{
	struct bpfprof_cfg *cfg = &session->skel->rodata->cfg;
	const struct session_options *options = &session->options;

	cfg->nr_cpus = session->nr_cpus;
	cfg->few_scratches = options->small ? nr_scratches(session) : 0;
	cfg->period_ns = 1000000000ULL / options->hz;
	cfg->miss_bytes_per_ms = MISS_BYTES_PER_MS / nr_scratches(session);
	cfg->filter = options->filter;
	cfg->follow = options->follow;
	cfg->period_is_ns = !options->cycles;
	cfg->jitter = JITTER_1024;
	cfg->mmap_nr = SYS_mmap;
	cfg->pid_ns = own_pid_ns();
	cfg->call_tokens = CALL_STACKS_HZ;
	cfg->call_token_ns = NS_PER_SECOND / cfg->call_tokens;
	cfg->call_long_ns = CALL_LONG_NS;
	cfg->gpu_trace = options->gpu_trace;
	cfg->gpu_waits = options->gpu_waits;
	cfg->gaps_alone = options->gaps_alone;
	cfg->fork_wakes = options->fork_wakes;
	cfg->call_keys = options->call_keys ? options->call_keys : CALL_KEYS;
	cfg->wall = options->waits == SESSION_WALL;
	cfg->async = options->async;
	cfg->deaths = options->deaths;
	while (1U << cfg->code_giver_bits < nr_scratches(session))
		cfg->code_giver_bits++;
	if (getrandom(&cfg->hash_seed, sizeof(cfg->hash_seed), GRND_NONBLOCK) < 0)
		cfg->hash_seed = time_monotonic_ns();
	if (options->clock == SESSION_CLOCK_TIMER || options->wakers)
		interrupt_text_find(cfg, "/proc/kallsyms",
				    interrupt_text_has_fred("/proc/cpuinfo"));
	if (options->wakers)
		interrupt_text_find_wakes(cfg, "/proc/kallsyms");
}

/*
 * The memory of the map. If the map is not created, memory of the same size that the kernel does
 * not use.
 */
static void *array_map(const struct bpf_map *map)
{
	size_t bytes = (size_t)bpf_map__max_entries(map) * bpf_map__value_size(map);
	void *mem = bpf_map__autocreate(map) ? mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED,
						    bpf_map__fd(map), 0)
					     : mmap(NULL, bytes, PROT_READ | PROT_WRITE,
						    MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	return mem == MAP_FAILED ? NULL : mem;
}

int session_map_set(const struct bpf_map *map, const void *key, const void *value)
{
	return bpf_map__autocreate(map) ? bpf_map_update_elem(bpf_map__fd(map), key, value, BPF_ANY)
					: 0;
}

void session_map_delete(const struct bpf_map *map, const void *key)
{
	if (bpf_map__autocreate(map))
		bpf_map_delete_elem(bpf_map__fd(map), key);
}

/* Loads only the four programs that read tasks and their memory, and their maps. */
static void iterators_only(struct session *session)
{
	struct bpfprof_bpf *skel = session->skel;
	struct bpf_program *const programs[] = { skel->progs.task_vmas, skel->progs.task_memory,
						 skel->progs.task_states, skel->progs.task_pages };
	struct bpf_map *const maps[] = {
		skel->maps.vma_scratches,   skel->maps.vma_all_parts, skel->maps.memory_requests,
		skel->maps.memory_slot,	    skel->maps.task_reads,    skel->maps.task_read_slot,
		skel->maps.state_scratches,
	};
	struct bpf_program *program;
	struct bpf_map *map;
	size_t i;

	bpf_object__for_each_program(program, skel->obj) bpf_program__set_autoload(program, false);
	for (i = 0; i < sizeof(programs) / sizeof(programs[0]); i++)
		bpf_program__set_autoload(programs[i], true);
	bpf_program__set_autoload(skel->progs.task_files, session->options.files);
	bpf_program__set_autoload(skel->progs.task_environ, session->options.files);
	bpf_object__for_each_map(map, skel->obj)
		bpf_map__set_autocreate(map, bpf_map__is_internal(map));
	for (i = 0; i < sizeof(maps) / sizeof(maps[0]); i++)
		bpf_map__set_autocreate(maps[i], true);
}

/* Loads the programs and maps for hooked calls, or none of them. */
static void gpu_choose(struct session *session)
{
	struct bpfprof_bpf *skel = session->skel;
	struct bpf_program *const programs[] = { skel->progs.gpu_enter, skel->progs.gpu_return,
						 skel->progs.gpu_stack };
	struct bpf_map *const maps[] = {
		skel->maps.gpu_functions, skel->maps.gpu_files,	     skel->maps.gpu_counts,
		skel->maps.gpu_threads,	  skel->maps.gpu_new_thread, skel->maps.gpu_comms,
		skel->maps.gpu_memory,	  skel->maps.gpu_counters,   skel->maps.gpu_programs,
		skel->maps.gpu_steps,	  skel->maps.gpu_windows,    skel->maps.gpu_stepping,
		skel->maps.gpu_processes, skel->maps.gpu_waits,	     skel->maps.gpu_events,
		skel->maps.gpu_graphs,	  skel->maps.gpu_kernels,
	};
	struct bpf_map *const for_windows[] = { skel->maps.gpu_functions, skel->maps.gpu_files,
						skel->maps.gpu_programs, skel->maps.gpu_stepping };
	bool windows = session->options.gpu_windows && !session->options.gpu;
	bool multi = (session->options.gpu || windows) && uprobe_multi_probe();
	bool sites = session->options.gpu_tensors || session->options.gpu_gc;
	size_t i;

	for (i = 0; i < sizeof(programs) / sizeof(programs[0]); i++) {
		bpf_program__set_autoload(programs[i], session->options.gpu);
		if (multi) /* otherwise perf's uprobes are used */
			uprobe_multi_prepare(programs[i]);
	}
	for (i = 0; i < sizeof(maps) / sizeof(maps[0]); i++)
		bpf_map__set_autocreate(maps[i], session->options.gpu);
	bpf_program__set_autoload(skel->progs.gpu_site, sites);
	if (multi)
		uprobe_multi_prepare(skel->progs.gpu_site);
	bpf_map__set_autocreate(skel->maps.gpu_sites, sites);
	bpf_program__set_autoload(skel->progs.window_called, windows);
	if (multi)
		uprobe_multi_prepare(skel->progs.window_called);
	for (i = 0; i < sizeof(for_windows) / sizeof(for_windows[0]) && windows; i++)
		bpf_map__set_autocreate(for_windows[i], true);
}

struct bpf_program *session_clock_program(const struct session *session)
{
	const struct bpfprof_bpf *skel = session->skel;

	if (session->options.clock == SESSION_CLOCK_TIMER)
		return session->options.gpu ? skel->progs.arm_timer_hooked : skel->progs.arm_timer;
	return session->options.gpu ? skel->progs.sample_perf_hooked : skel->progs.sample_perf;
}

/* Loads one of the four programs of the clock, or none. */
static void clock_choose(struct session *session)
{
	struct bpfprof_bpf *skel = session->skel;
	bool timer = session->options.clock == SESSION_CLOCK_TIMER;

	bpf_program__set_autoload(skel->progs.sample_perf, false);
	bpf_program__set_autoload(skel->progs.sample_perf_hooked, false);
	bpf_program__set_autoload(skel->progs.arm_timer, false);
	bpf_program__set_autoload(skel->progs.arm_timer_hooked, false);
	bpf_program__set_autoload(session_clock_program(session), !session->options.no_clock);
	bpf_map__set_autocreate(skel->maps.timers, timer && !session->options.no_clock);
}

/*
 * Loads the programs for waits, or none. The program of samples also uses the map waiters, but not
 * without waits.
 */
static void waits_choose(struct session *session)
{
	struct bpfprof_bpf *skel = session->skel;
	bool load = session->options.waits != SESSION_NO_WAITS;
	struct bpf_program *const programs[] = { skel->progs.thread_switched,
						 skel->progs.thread_execs, skel->progs.thread_woken,
						 skel->progs.wait_stack };
	struct bpf_map *const maps[] = { skel->maps.waiters, skel->maps.wait_control,
					 skel->maps.wait_counters, skel->maps.kicks,
					 skel->maps.waits_due };
	size_t i;

	for (i = 0; i < sizeof(programs) / sizeof(programs[0]); i++)
		bpf_program__set_autoload(programs[i], load);
	for (i = 0; i < sizeof(maps) / sizeof(maps[0]); i++)
		bpf_map__set_autocreate(maps[i], load);
	bpf_program__set_autoload(skel->progs.thread_wakes, load && session->options.wakers);
	bpf_map__set_autocreate(skel->maps.waker_tokens, load && session->options.wakers);
}

/* Loads the programs and maps for resident memory, or none of them. */
static void pages_choose(struct session *session)
{
	struct bpfprof_bpf *skel = session->skel;
	struct bpf_program *const programs[] = { skel->progs.page_allocated, skel->progs.page_freed,
						 skel->progs.page_looks,
						 skel->progs.old_mappings_read };
	struct bpf_map *const maps[] = { skel->maps.held_pages, skel->maps.old_mappings,
					 skel->maps.old_freed, skel->maps.page_control };
	size_t i;

	for (i = 0; i < sizeof(programs) / sizeof(programs[0]); i++)
		bpf_program__set_autoload(programs[i], session->options.pages);
	for (i = 0; i < sizeof(maps) / sizeof(maps[0]); i++)
		bpf_map__set_autocreate(maps[i], session->options.pages);
}

/* Loads the programs and maps for kills and deaths, or none of them. */
static void deaths_choose(struct session *session)
{
	struct bpfprof_bpf *skel = session->skel;
	bool kills = session->options.pages || session->options.deaths;

	bpf_program__set_autoload(skel->progs.signal_sent, kills);
	bpf_program__set_autoload(skel->progs.oom_victim, kills);
	bpf_program__set_autoload(skel->progs.signals_end, session->options.deaths);
	bpf_map__set_autocreate(skel->maps.signals_sent, kills);
	bpf_program__set_autoload(skel->progs.signal_taken, session->options.deaths);
	bpf_map__set_autocreate(skel->maps.handled_rates, session->options.deaths);
	bpf_map__set_autocreate(skel->maps.handled_cpu, session->options.deaths);
}

/* Loads the programs and maps for allocations, or none of them. */
static void allocations_choose(struct session *session)
{
	struct bpfprof_bpf *skel = session->skel;
	bool load = session->options.allocations, sessions = load && uprobe_multi_has_sessions();
	struct bpf_map *const maps[] = { skel->maps.held_blocks,   skel->maps.open_allocations,
					 skel->maps.alloc_costs,   skel->maps.alloc_codes,
					 skel->maps.alloc_control, skel->maps.alloc_programs };
	size_t i;

	bpf_program__set_autoload(skel->progs.alloc_session, sessions);
	bpf_program__set_autoload(skel->progs.alloc_enter, load && !sessions);
	bpf_program__set_autoload(skel->progs.alloc_return, load && !sessions);
	uprobe_multi_prepare_session(skel->progs.alloc_session);
	uprobe_multi_prepare(skel->progs.alloc_enter);
	uprobe_multi_prepare(skel->progs.alloc_return);
	for (i = 0; i < sizeof(maps) / sizeof(maps[0]); i++)
		bpf_map__set_autocreate(maps[i], load);
}

/* Does not load the programs and maps that read sleeping threads if nothing needs them. */
static void iterators_spare(struct session *session)
{
	struct bpfprof_bpf *skel = session->skel;

	/* With waits, threads that sleep during the whole run are read at the end. */
	if (session->options.waits != SESSION_NO_WAITS || session->options.threads)
		return;
	bpf_program__set_autoload(skel->progs.task_states, session->options.states);
	bpf_program__set_autoload(skel->progs.task_pages, false);
	bpf_map__set_autocreate(skel->maps.state_scratches, session->options.states);
	bpf_map__set_autocreate(skel->maps.task_reads, false);
	bpf_map__set_autocreate(skel->maps.task_read_slot, false);
}

int session_open(struct session *session, const struct session_options *options)
{
	LIBBPF_OPTS(bpf_object_open_opts, open_options);
	struct core_types types;
	size_t bytes;
	const void *elf = bpfprof_bpf__elf_bytes(&bytes);
	int err;

	*session = (struct session){ .options = *options };
	err = libbpf_num_possible_cpus();
	if (err < 0)
		return err;
	session->nr_cpus = (uint32_t)err;
	core_object_opens(&types, elf, bytes, &open_options);
	session->skel = bpfprof_bpf__open_opts(&open_options);
	if (!session->skel) {
		err = -errno;
		goto fail;
	}
	clock_choose(session);
	bpf_program__set_autoload(session->skel->progs.locked_memory,
				  options->gpu || options->gpu_windows || options->allocations);
	bpf_program__set_autoload(session->skel->progs.title_changed, options->titles);
	bpf_map__set_autocreate(session->skel->maps.titled, options->titles);
	bpf_map__set_autocreate(session->skel->maps.title_verdicts, options->titles);
	bpf_map__set_autocreate(session->skel->maps.long_title_verdicts, options->titles);
	bpf_map__set_autocreate(session->skel->maps.title_scratch, options->titles);
	gpu_choose(session);
	waits_choose(session);
	pages_choose(session);
	deaths_choose(session);
	allocations_choose(session);
	if (options->iterators)
		iterators_only(session);
	else
		iterators_spare(session);
	err = maps_size(session);
	if (!err) {
		config_set(session);
		err = bpfprof_bpf__load(session->skel);
	}
	if (err)
		goto fail;
	session->rows = array_map(session->skel->maps.rows);
	session->mappings = array_map(session->skel->maps.mappings);
	err = session->rows && session->mappings ? 0 : -ENOMEM;
	if (!err) {
		core_object_loaded(&types);
		return 0;
	}
fail:
	core_object_loaded(&types);
	session_close(session);
	return err;
}

/* The kernel's own kills are not seen where a tracepoint is missing; all else goes on. 0 or -errno. */
static int deaths_attach(struct session *session)
{
	struct bpfprof_bpf *skel = session->skel;

	if (!session->options.pages && !session->options.deaths)
		return 0;
	skel->links.signal_sent = bpf_program__attach(skel->progs.signal_sent);
	skel->links.oom_victim = bpf_program__attach(skel->progs.oom_victim);
	if (!skel->links.signal_sent || !skel->links.oom_victim)
		log_info("this kernel does not report the processes that it kills");
	if (!session->options.deaths)
		return 0;
	skel->links.signals_end = bpf_program__attach(skel->progs.signals_end);
	skel->links.signal_taken = bpf_program__attach(skel->progs.signal_taken);
	return skel->links.signals_end && skel->links.signal_taken ? 0 : -errno;
}

int session_attach(struct session *session)
{
	struct bpfprof_bpf *skel = session->skel;
	int err = deaths_attach(session); /* before process_exit */

	if (err)
		return err;
	skel->links.process_exec = bpf_program__attach(skel->progs.process_exec);
	skel->links.process_fork = bpf_program__attach(skel->progs.process_fork);
	skel->links.process_exit = bpf_program__attach(skel->progs.process_exit);
	skel->links.range_handed_out = bpf_program__attach(skel->progs.range_handed_out);
	if (!skel->links.process_exec || !skel->links.process_fork || !skel->links.process_exit ||
	    !skel->links.range_handed_out)
		return -errno;
	if (!session->options.titles)
		return 0;
	skel->links.title_changed = bpf_program__attach(skel->progs.title_changed);
	return skel->links.title_changed ? 0 : -errno;
}

void session_close(struct session *session)
{
	if (session->rows)
		munmap(session->rows, session->nr_rows * sizeof(*session->rows));
	if (session->mappings)
		munmap(session->mappings, session->nr_mappings * sizeof(*session->mappings));
	bpfprof_bpf__destroy(session->skel);
	*session = (struct session){ 0 };
}

uint32_t session_target_groups(const struct session *session, pid_t pid)
{
	uint32_t key = (uint32_t)pid, groups;

	return bpf_map__lookup_elem(session->skel->maps.targets, &key, sizeof(key), &groups,
				    sizeof(groups), 0)
		       ? 0
		       : groups;
}

int session_target_add(struct session *session, pid_t pid, uint32_t groups)
{
	uint32_t key = (uint32_t)pid;

	session->had_targets = true;
	groups |= session_target_groups(session, pid);
	/* A bit is never cleared: other processes may share it. */
	__atomic_fetch_or(&session->skel->bss->target_bits[key / 64 % (BPFPROF_TARGET_BITS / 64)],
			  1ULL << key % 64, __ATOMIC_SEQ_CST);
	return bpf_map__update_elem(session->skel->maps.targets, &key, sizeof(key), &groups,
				    sizeof(groups), BPF_ANY);
}

void session_target_remove(struct session *session, pid_t pid)
{
	uint32_t key = (uint32_t)pid;

	bpf_map__delete_elem(session->skel->maps.targets, &key, sizeof(key), 0);
}

uint64_t session_target_forks(const struct session *session)
{
	return __atomic_load_n(&session->skel->bss->target_forks, __ATOMIC_RELAXED);
}

bool session_is_target(const struct session *session, pid_t pid)
{
	return session_target_groups(session, pid) != 0;
}

void session_targets_clear(struct session *session, uint32_t groups)
{
	struct bpf_map *map = session->skel->maps.targets;
	uint32_t key, next, left;
	bool more = !bpf_map__get_next_key(map, NULL, &next, sizeof(next));

	while (more) {
		key = next;
		/*
		 * The next key is read before the delete: after it, the iteration would begin
		 * again.
		 */
		more = !bpf_map__get_next_key(map, &key, &next, sizeof(next));
		left = session_target_groups(session, (pid_t)key) & ~groups;
		if (left)
			bpf_map__update_elem(map, &key, sizeof(key), &left, sizeof(left),
					     BPF_EXIST);
		else
			bpf_map__delete_elem(map, &key, sizeof(key), 0);
	}
}

void session_sum(const struct session *session, const struct bpf_map *map, uint64_t *ret, size_t nr)
{
	uint32_t key = 0, cpu;
	__cleanup(free_mem) uint64_t *values = calloc(session->nr_cpus * nr, sizeof(*values));
	size_t i;

	memset(ret, 0, nr * sizeof(*ret));
	if (!values || bpf_map_lookup_elem(bpf_map__fd(map), &key, values))
		return;
	for (cpu = 0; cpu < session->nr_cpus; cpu++)
		for (i = 0; i < nr; i++)
			ret[i] += values[cpu * nr + i];
}

void session_counters(const struct session *session, uint64_t counters[BPFPROF_NR_COUNTERS])
{
	session_sum(session, session->skel->maps.counters, counters, BPFPROF_NR_COUNTERS);
}

/* The number after `key:` in the fdinfo of a map or program of bpfprof. */
static uint64_t fdinfo_read(int fd, const char *key)
{
	__cleanup(close_file) FILE *file = NULL;
	size_t len = strlen(key);
	char path[48], line[256];

	snprintf(path, sizeof(path), "/proc/self/fdinfo/%d", fd);
	file = fopen(path, "re");
	while (file && fgets(line, sizeof(line), file))
		if (!strncmp(line, key, len) && line[len] == ':')
			return strtoull(line + len + 1, NULL, 10);
	return 0;
}

/*
 * The memory of a map, by the kernel's count. Before Linux 6.4 (map_mem_usage) the kernel counts a
 * key for each entry, although arrays have no keys: twice the real size for rows. For hash maps the
 * count covers the full capacity, without overhead per entry.
 */
static uint64_t map_bytes(const struct bpf_map *map)
{
	uint64_t charged = fdinfo_read(bpf_map__fd(map), "memlock"), page = (uint64_t)getpagesize(),
		 most = ((uint64_t)bpf_map__value_size(map) + 7) / 8 * 8 *
			bpf_map__max_entries(map);

	if (bpf_map__type(map) != BPF_MAP_TYPE_ARRAY)
		return charged;
	most = (most + page - 1) / page * page + page; /* one page for the map's head */
	return charged < most ? charged : most;
}

uint64_t session_object_bytes(const struct bpf_object *object)
{
	struct bpf_map *map;
	uint64_t bytes = 0;

	bpf_object__for_each_map(map, object)
	{
		if (bpf_map__fd(map) >= 0)
			bytes += map_bytes(map);
	}
	return bytes;
}

uint64_t session_map_bytes(const struct session *session)
{
	return session->skel ? session_object_bytes(session->skel->obj) : 0;
}

bool session_run_stats(const struct session *session, uint64_t *ret_runs, uint64_t *ret_ns)
{
	struct bpf_prog_info info = { 0 };
	__u32 len = sizeof(info);
	int fd = bpf_program__fd(session_clock_program(session));

	if (session->options.clock != SESSION_CLOCK_PERF || fd < 0 ||
	    bpf_obj_get_info_by_fd(fd, &info, &len) || !info.run_cnt)
		return false;
	*ret_runs = info.run_cnt;
	*ret_ns = info.run_time_ns;
	return true;
}

static uint64_t nr_not_run(const struct bpf_program *program)
{
	struct bpf_prog_info info = { 0 };
	__u32 len = sizeof(info);
	int fd = bpf_program__fd(program);

	return fd >= 0 && !bpf_obj_get_info_by_fd(fd, &info, &len) ? info.recursion_misses : 0;
}

uint64_t session_nr_pages_not_seen(const struct session *session)
{
	return nr_not_run(session->skel->progs.page_allocated) +
	       nr_not_run(session->skel->progs.page_freed);
}

uint64_t session_nr_not_run(const struct session *session)
{
	struct bpf_program *program;
	uint64_t nr = 0;

	bpf_object__for_each_program(program, session->skel->obj) nr += nr_not_run(program);
	return nr - session_nr_pages_not_seen(session);
}
