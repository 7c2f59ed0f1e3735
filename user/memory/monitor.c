// SPDX-License-Identifier: Apache-2.0
#include "memory/monitor.h"

#include <errno.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "base/background.h"
#include "base/cleanup.h"
#include "base/exit_status.h"
#include "base/log.h"
#include "base/strtab.h"
#include "base/time.h"
#include "capture/sampler.h"
#include "kernel/held_pages.h"
#include "memory/history.h"
#include "memory/process_row.h"
#include "memory/resident.h"
#include "memory/steady_stacks.h"
#include "proc/processes.h"
#include "proc/usage.h"
#include "profile/aggregate.h"
#include "profile/aggregate_rollover.h"
#include "profile/profile.h"
#include "profile/stats.h"

#define LOOK_NS (NS_PER_SECOND / 4)
#define LOOK_SHARE 100 /* looks take at most this part of the time */
#define PEAK_STEP 100 /* a hundredth */
#define EARLY_SHARE 3 /* while memory grows beyond the peak: this part */
#define MAX_PAGES (2 * BPFPROF_MAX_HELD) /* held ones, and those freed since the last look */
#define MAX_RESIDENTS 16384

/* A page of the sample, from its allocation until a look does not find it any more. */
struct sampled_page {
	struct hash_node node;
	uint64_t page;
	uint64_t ts_ns, start_ns; /* of the sample; of the process */
	uint64_t look; /* number of the last look that found it */
	struct aggregate_call_at at;
	uint32_t pid;
	bool copied; /* counts in copied_bytes of its process */
	bool moved; /* it is another page now: `page` is its number among these */
	uint64_t bytes, pages; /* that it stood for at the last look; 0: none has found it in use */
};

static struct resident *resident_get(struct memory_monitor *m, uint32_t pid, uint64_t start_ns)
{
	struct resident *resident = process_map_find(&m->residents, pid, start_ns);

	if (resident)
		return resident;
	resident = process_map_add(&m->residents, pid, start_ns);
	if (!resident)
		m->nr_residents_full++;
	else if (start_ns >= m->start_boot_ns)
		resident->begin = RESIDENT_FORK;
	return resident;
}

static void on_page(struct memory_monitor *m, const struct aggregate_input *input)
{
	const struct bpfprof_sample *s = input->sample;
	struct resident *resident;
	const uint64_t no_leaf = 0;
	struct sampled_page *page;

	if (!process_is_watched(m, input))
		return;
	resident = resident_get(m, s->task.pid, s->task.start_ns);
	if (resident) {
		resident->own_pid = input->own_pid;
		memcpy(resident->name, s->leader_comm, sizeof(resident->name) - 1);
	}
	page = resident ? hash_table_get(&m->pages, &s->page) : NULL;
	if (page && aggregate_add_call(m->aggregate, input, &no_leaf, 0, &page->at)) {
		hash_table_remove(&m->pages, page);
		page = NULL;
	}
	if (!page) {
		m->nr_pages_full++;
		return;
	}
	page->ts_ns = s->rec.ts_ns;
	page->pid = s->task.pid;
	page->start_ns = s->task.start_ns;
	page->look = m->nr_looks;
	page->copied = false;
	page->moved = false;
	page->bytes = page->pages = 0;
}

/* Its memory is in another page now. The key makes room for that of the next one at the same place. */
static void on_moved(struct memory_monitor *m, const struct bpfprof_page_moved *moved)
{
	struct sampled_page *page = hash_table_find(&m->pages, &moved->page);
	const uint64_t key = ++m->nr_moved; /* no address of the kernel */

	if (!page || page->ts_ns != moved->ts_ns || !page->bytes)
		return;
	page->moved = true;
	hash_table_rekey(&m->pages, page, &key);
}

/* start_ns 0: all processes that had the pid have ended. */
static void on_exit_event(struct memory_monitor *m, const struct bpfprof_task_id *task)
{
	struct resident *resident;

	held_pages_forget(m->held, task->pid);
	hash_table_each(&m->residents, resident)
		if (resident->key.pid == task->pid &&
		    (!task->start_ns || resident->key.start_ns == task->start_ns))
			resident->ended = true;
}

static void on_event(void *arg, const struct event *event)
{
	struct memory_monitor *m = arg;
	struct resident *resident;

	switch (event->kind) {
	case EVENT_PAGE:
		on_page(m, event->input);
		break;
	case EVENT_EXEC:
		resident = resident_get(m, event->process->pid, event->process->start_ns);
		if (resident)
			resident_execute(resident);
		break;
	case EVENT_PAGE_MOVED:
		on_moved(m, event->page_moved);
		break;
	case EVENT_KILL:
		if (event->kill->signal == SIGKILL &&
		    memory_kills_add(&m->kills, event->kill, &m->last))
			log_debug("memory: no room for a process that was killed");
		break;
	case EVENT_EXIT:
		on_exit_event(m, event->task);
		break;
	default:
		break;
	}
}

int memory_monitor_open(struct memory_monitor *m, struct sampler *sampler,
			const struct memory_options *options, size_t bytes)
{
	int err;

	*m = (struct memory_monitor){ .sampler = sampler,
				      .question = options->question,
				      .keep_moments = options->timeline,
				      .bytes = bytes };
	steady_stacks_init(&m->steady);
	memory_moments_init(&m->moments);
	hash_table_init(&m->pages, MAX_PAGES, struct sampled_page, page);
	hash_table_init(&m->residents, MAX_RESIDENTS, struct resident, key);
	err = aggregate_new(&m->aggregate, false, bytes);
	if (!err)
		err = held_pages_new(&m->held, &sampler->reader.session, options->sample_bytes);
	if (!err) {
		sampler_observe(sampler, on_event, m);
		return EXIT_DONE;
	}
	log_error("memory cannot be watched: %s", strerror(-err));
	return EXIT_FAILED;
}

void memory_monitor_close(struct memory_monitor *m)
{
	held_pages_free(m->held);
	aggregate_free(m->aggregate);
	hash_table_clear(&m->pages);
	hash_table_clear(&m->residents);
	memory_answer_fini(&m->last);
	memory_answer_fini(&m->peak);
	memory_answer_fini(&m->kills.answer);
	steady_stacks_fini(&m->steady);
	memory_moments_fini(&m->moments);
	*m = (struct memory_monitor){ 0 };
}

/* Opens the account of a process if it is watched. */
static void resident_find(struct memory_monitor *m, const struct process *process)
{
	const struct session *session = &m->sampler->reader.session;
	const struct process_key key = { .pid = process->pid, .start_ns = process->start_ns };
	struct aggregate_input input;
	struct bpfprof_sample sample;
	struct proc_usage usage;
	struct resident *resident;
	uint32_t own_pid = session_own_pid(session, process->pid, process->ns_context.agent_pid);

	if (!own_pid || proc_usage_read(&usage, (pid_t)own_pid))
		usage.comm[0] = '\0';
	if (!process_input_make(m, &key, usage.comm, &sample, &input))
		return;
	resident = resident_get(m, process->pid, process->start_ns);
	if (!resident)
		return;
	resident->own_pid = own_pid;
	memcpy(resident->name, usage.comm, strnlen(usage.comm, sizeof(resident->name) - 1));
	/* The first look settles those that began later: now their pages are not known. */
	if (resident->begin != RESIDENT_BEFORE || !own_pid)
		return;
	resident_begin(resident);
	if (resident->alive)
		resident_settle(resident, 0);
	if (held_pages_old(m->held, m->sampler->reader.runner, own_pid))
		log_debug("pid %u: its mappings cannot be read", own_pid);
}

static bool has_account(const struct memory_monitor *m, const struct process *process)
{
	const struct session *session = &m->sampler->reader.session;

	return process->dead || process_map_find(&m->residents, process->pid, process->start_ns) ||
	       (session->options.filter && !session_is_target(session, (pid_t)process->pid));
}

/* Opens accounts of watched processes that have none. */
static void residents_find(struct memory_monitor *m)
{
	struct processes *processes = m->sampler->reader.processes;
	__cleanup(free_mem) uint32_t *pids = calloc(MAX_RESIDENTS, sizeof(*pids));
	struct process *process;
	size_t nr = 0, i;

	for (process = processes_first(processes); process && pids && nr < MAX_RESIDENTS;
	     process = hash_table_next(process))
		if (!has_account(m, process))
			pids[nr++] = process->pid;
	for (i = 0; i < nr; i++) { /* others may change the table while one is read */
		process = processes_find(processes, pids[i]);
		if (process && !has_account(m, process))
			resident_find(m, process);
	}
}

static void find_job(void *arg, const void *data, size_t bytes, bool late)
{
	(void)data;
	(void)bytes;
	(void)late;
	residents_find(arg);
}

/* Reading mappings may take long: a job does it, if there is a thread for jobs. */
static void residents_find_soon(struct memory_monitor *m)
{
	const struct background_job job = { .fn = find_job, .arg = m };
	struct background *background = m->sampler->background;

	if (!background)
		residents_find(m);
	else if (!background_has(background, job.key))
		background_post(background, &job);
}

int memory_monitor_start(struct memory_monitor *m)
{
	int err;

	m->start_ns = time_monotonic_ns();
	memory_moments_begin(&m->moments, m->start_ns);
	m->start_boot_ns = time_of_clock_ns(CLOCK_BOOTTIME);
	err = held_pages_start(m->held);
	if (!err) {
		residents_find(m);
		log_debug("memory: watching %zu processes", m->residents.nr);
		return EXIT_DONE;
	}
	if (err == -ENOENT)
		log_error("memory cannot be watched: this kernel lacks the tracepoints "
			  "kmem:mm_page_alloc and kmem:mm_page_free");
	else
		log_error("memory cannot be watched: %s", strerror(-err));
	return err == -ENOENT || err == -EPERM || err == -EACCES ? EXIT_PRIVILEGE : EXIT_FAILED;
}

struct look {
	struct memory_monitor *monitor;
	uint64_t begin_ns; /* samples up to here have been read */
	struct memory_answer answer;
	int error;
};

/* A page whose sample was lost, or is still on its way. */
static void look_unknown(struct look *look, const struct held_page *held)
{
	struct resident *resident;

	if (held->ts_ns >= look->begin_ns || !held->anon)
		return;
	hash_table_each(&look->monitor->residents, resident) {
		if (resident->key.pid != held->pid || resident->ended)
			continue;
		resident->lost_bytes += held->bytes;
		return;
	}
	held_pages_drop(look->monitor->held, held->page);
}

static void look_page(void *arg, const struct held_page *held)
{
	struct look *look = arg;
	struct memory_monitor *m = look->monitor;
	struct sampled_page *page = hash_table_find(&m->pages, &held->page);
	struct resident *resident;
	struct held_row row;

	if (!page || page->ts_ns != held->ts_ns) {
		look_unknown(look, held);
		return;
	}
	page->look = m->nr_looks;
	resident = process_map_find(&m->residents, page->pid, page->start_ns);
	/* A page that came after the kernel's count is for the next look. */
	if (!held->anon || !resident || held->ts_ns > resident->rss_ns)
		return;
	resident->held_bytes += held->bytes;
	if (!held->copy)
		resident->first_bytes += held->bytes;
	else if (!page->copied)
		resident->copied_bytes += held->bytes;
	page->copied = held->copy;
	page->bytes = held->bytes;
	page->pages = held->pages;
	if (held->pages > 1)
		look->answer.variance += (double)held->bytes * (double)held->bytes;
	row = (struct held_row){ .at = page->at,
				 .pid = page->pid,
				 .ts_ns = page->ts_ns,
				 .bytes = held->bytes,
				 .pages = held->pages };
	look->error = memory_answer_add_row(&look->answer, &row) ?: look->error;
}

/* Sums what the pages that were moved would hold. */
static void moved_sum(struct look *look)
{
	struct memory_monitor *m = look->monitor;
	struct resident *resident;
	struct sampled_page *page;

	hash_table_each(&m->pages, page) {
		if (!page->moved)
			continue;
		resident = process_map_find(&m->residents, page->pid, page->start_ns);
		if (resident && !resident->ended)
			resident->moved_bytes += page->bytes;
	}
}

/* Adds their rows, once all processes are settled. */
static void moved_add(struct look *look)
{
	struct memory_monitor *m = look->monitor;
	struct resident *resident;
	struct sampled_page *page;
	struct held_row row;

	hash_table_each(&m->pages, page) {
		if (!page->moved)
			continue;
		resident = process_map_find(&m->residents, page->pid, page->start_ns);
		if (!resident || resident->ended || resident->moved_share <= 0)
			continue;
		page->look = m->nr_looks;
		row = (struct held_row){ .at = page->at,
					 .pid = page->pid,
					 .ts_ns = page->ts_ns,
					 .bytes = (uint64_t)(resident->moved_share *
							     (double)page->bytes),
					 .pages = page->pages };
		look->error = memory_answer_add_row(&look->answer, &row) ?: look->error;
	}
}

/* Forgets pages that are freed. */
static void pages_prune(struct memory_monitor *m, uint64_t begin_ns)
{
	struct sampled_page *page;

	hash_table_each(&m->pages, page)
		if (page->look != m->nr_looks && page->ts_ns < begin_ns)
			hash_table_remove(&m->pages, page);
}

/* Settles all, and makes their accounts. False: no process is left. */
static bool residents_settle(struct look *look)
{
	struct memory_monitor *m = look->monitor;
	struct resident *resident;
	bool any = false;

	hash_table_each(&m->residents, resident) {
		if (resident->ended || !resident->alive)
			continue;
		resident_settle(resident, held_pages_old_freed(m->held, resident->key.pid));
		resident->moved_share = resident_moved_share(resident);
		any = true;
		resident_limit(resident, m->sampler->options->host_root);
		if (resident->rss.anon_bytes || resident->rss.swap_bytes)
			look->error =
				memory_answer_add_account(&look->answer, resident) ?: look->error;
	}
	return any;
}

/* Forgets processes that have ended, unless all have: then the last answer is of these. */
static void residents_prune(struct memory_monitor *m)
{
	struct resident *resident;
	bool any = false;

	hash_table_each(&m->residents, resident)
		any |= !resident->ended;
	hash_table_each(&m->residents, resident)
		if (any && resident->ended)
			hash_table_remove(&m->residents, resident);
}

/* Keeps what the question needs of the answer. 0 or -ENOMEM. */
static int answer_keep(struct memory_monitor *m, struct memory_answer *answer)
{
	memory_answer_fini(&m->last);
	m->last = *answer;
	*answer = (struct memory_answer){ 0 };
	if (m->question == MEMORY_LEAKS)
		steady_stacks_look(&m->steady, &m->last, held_pages_sample_bytes(m->held));
	if (m->keep_moments && memory_history_look(m))
		log_debug("memory: no room for a moment of the time line");
	if (m->question == MEMORY_PEAK && m->last.anon_bytes > m->peak.anon_bytes)
		return memory_answer_copy(&m->peak, &m->last);
	return 0;
}

static int look_at_all(struct memory_monitor *m)
{
	struct look look = { .monitor = m };
	struct resident *resident;
	bool keep = true;
	int err;

	m->nr_looks++;
	/* The kernel's counts come first: the samples of all pages in them are in the ring then. */
	hash_table_each(&m->residents, resident)
		if (!resident->ended)
			resident_begin(resident);
	look.begin_ns = look.answer.ns = time_monotonic_ns();
	sampler_run(m->sampler);
	err = held_pages_look(m->held, look_page, &look) ?: look.error;
	moved_sum(&look);
	if (!err && residents_settle(&look))
		moved_add(&look);
	else
		keep = !m->last.ns; /* no process is left: the last answer stays */
	if (!err && keep)
		err = look.error ?: answer_keep(m, &look.answer);
	memory_answer_fini(&look.answer);
	pages_prune(m, look.begin_ns);
	residents_prune(m);
	return err;
}

/* Are more pages held than at the peak, so that a look may find another one? */
static bool is_beyond_peak(const struct memory_monitor *m, uint64_t now_ns)
{
	return m->question == MEMORY_PEAK && now_ns >= m->early_ns &&
	       held_pages_nr(m->held) > m->peak_pages + m->peak_pages / PEAK_STEP + 4;
}

static void peak_pages_note(struct memory_monitor *m)
{
	uint64_t pages = held_pages_nr(m->held), sample_bytes = held_pages_sample_bytes(m->held);

	if (pages > m->peak_pages || sample_bytes != m->peak_sample_bytes)
		m->peak_pages = pages;
	m->peak_sample_bytes = sample_bytes;
}

void memory_monitor_run(struct memory_monitor *m, uint64_t now_ns)
{
	uint64_t cpu_ns = time_thread_cpu_ns();

	if (now_ns < m->next_ns && !held_pages_are_many(m->held) &&
	    m->pages.nr < MAX_PAGES / 4 * 3 && !is_beyond_peak(m, now_ns))
		return;
	residents_find_soon(m);
	/* Before the look: pages that are allocated during it may lack in its answer. */
	peak_pages_note(m);
	if (look_at_all(m))
		log_debug("memory: a look failed");
	cpu_ns = time_thread_cpu_ns() - cpu_ns;
	m->next_ns = now_ns + (cpu_ns * LOOK_SHARE > LOOK_NS ? cpu_ns * LOOK_SHARE : LOOK_NS);
	m->early_ns = now_ns + cpu_ns * EARLY_SHARE;
}

static int labels_add(struct memory_monitor *m, const struct memory_account *account)
{
	struct memory_label labels[MEMORY_NR_LABELS];
	struct aggregate_call_at at;
	int err = 0, i;

	memory_account_labels(account, labels);
	if (m->question == MEMORY_GROWN)
		labels[MEMORY_LABEL_OLD].bytes = labels[MEMORY_LABEL_SWAPPED].bytes = 0;
	for (i = 0; i < MEMORY_NR_LABELS && !err; i++) {
		if (labels[i].bytes <= 0) /* a profile has no room for negative drift */
			continue;
		err = process_row_add(m, account, labels[i].label, &at);
		err = err ?: aggregate_count(m->aggregate, &at, 1, (uint64_t)labels[i].bytes);
	}
	return err;
}

const struct memory_answer *memory_monitor_answer(const struct memory_monitor *m)
{
	return m->question == MEMORY_PEAK ? &m->peak : &m->last;
}

/* Is that page part of the answer? A leak has been held for half of the time, and its stack is steady. */
static bool is_wanted(const struct memory_monitor *m, const struct held_row *row)
{
	return m->question != MEMORY_LEAKS ||
	       (row->ts_ns < m->start_ns + (m->last.ns - m->start_ns) / 2 &&
		steady_stacks_has(&m->steady, row));
}

int memory_monitor_fill(struct memory_monitor *m)
{
	const struct memory_answer *answer = memory_monitor_answer(m);
	int err = 0;
	size_t i;

	if (m->question == MEMORY_HELD || m->question == MEMORY_GROWN)
		err = memory_kills_merge(&m->kills, &m->last);
	for (i = 0; i < answer->nr_rows && !err; i++)
		if (is_wanted(m, &answer->rows[i]))
			err = aggregate_count(m->aggregate, &answer->rows[i].at,
					      answer->rows[i].pages, answer->rows[i].bytes);
	for (i = 0; i < answer->nr_accounts && !err && m->question != MEMORY_LEAKS; i++)
		err = labels_add(m, &answer->accounts[i]);
	memory_history_hold(m);
	return err;
}

int memory_monitor_finish(struct memory_monitor *m)
{
	residents_find(m);
	return look_at_all(m) ?: memory_monitor_fill(m);
}

/* Moves the stacks of pages to another aggregate. */
static void stacks_move(struct memory_monitor *m, struct aggregate *to)
{
	struct memory_answer *last = &m->last;
	struct aggregate_view view;
	struct sampled_page *page;
	size_t i, nr = 0;

	aggregate_view_get(m->aggregate, &view);
	hash_table_each(&m->pages, page)
		if (aggregate_rollover(to, &view, &page->at, &page->at)) {
			m->nr_pages_full++;
			hash_table_remove(&m->pages, page);
		}
	for (i = 0; i < last->nr_rows; i++) {
		last->rows[nr] = last->rows[i];
		nr += !aggregate_rollover(to, &view, &last->rows[i].at, &last->rows[nr].at);
	}
	last->nr_rows = nr;
}

void memory_monitor_next(struct memory_monitor *m)
{
	struct aggregate *next;

	memory_answer_fini(&m->kills.answer);
	m->kills = (struct memory_kills){ .nr_over = m->kills.nr_over };
	memory_moments_begin(&m->moments, time_monotonic_ns());
	if (aggregate_bytes(m->aggregate) < m->bytes / 2 || aggregate_new(&next, false, m->bytes))
		return;
	stacks_move(m, next);
	aggregate_free(m->aggregate);
	m->aggregate = next;
}

void memory_profile_values(struct profile *profile)
{
	profile->hz = 0;
	profile->value.count_type = strtab_add(profile->strings, "inuse_objects");
	profile->value.type = strtab_add(profile->strings, "inuse_space");
	profile->value.unit = strtab_add(profile->strings, "bytes");
}

/* The values that the rows read. */
struct memory_counts {
	uint64_t kernel[PAGE_NR_COUNTERS];
	uint64_t looks, moved, not_seen, pages_full, residents_full, stacks_full, kills_full,
		moments_full;
};

#define AT(field) offsetof(struct memory_counts, field)

const struct counter memory_counters[] = {
	{ COUNTER_MEMORY, "pages_sampled", AT(kernel[PAGE_COUNT_SAMPLED]),
	  .help = "pages that watched processes allocated, and whose stack was taken" },
	{ COUNTER_MEMORY, "pages_freed", AT(kernel[PAGE_COUNT_FREED]), .help = "of these, freed" },
	{ COUNTER_MEMORY, "looks", AT(looks),
	  .help = "times that bpfprof looked which pages are still in use" },
	{ COUNTER_MEMORY, "pages_moved", AT(moved),
	  .help = "pages of the sample that the kernel moved elsewhere, or to swap: how much of "
		  "them is "
		  "still held follows from the kernel's count" },
	{ COUNTER_MEMORY, "pages_not_seen", AT(not_seen),
	  .help = "pages that were allocated or freed while the CPU ran a program of bpfprof: "
		  "few of them are in the sample" },
	{ COUNTER_MEMORY, "pages_kernel_no_room", AT(kernel[PAGE_COUNT_FULL]),
	  .help = "pages that are missing in the sample: no room in the kernel" },
	{ COUNTER_MEMORY, "pages_scratch_busy", AT(kernel[PAGE_COUNT_BUSY]),
	  .help = "pages that are missing in the sample: the CPU took another one" },
	{ COUNTER_MEMORY, "pages_end_not_seen", AT(kernel[PAGE_COUNT_REPLACED]),
	  .help = "pages that were allocated again, and whose end was not seen" },
	{ COUNTER_MEMORY, "old_pages_no_room", AT(kernel[PAGE_COUNT_OLD_FULL]),
	  .help = "memory from before the recording whose end is not seen: mappings over the "
		  "limit" },
	{ COUNTER_MEMORY, "pages_no_room", AT(pages_full),
	  .help = "pages whose stack is not kept: shown as `[stack lost]`" },
	{ COUNTER_MEMORY, "processes_no_room", AT(residents_full),
	  .help = "processes over the limit" },
	{ COUNTER_MEMORY, "stacks_no_room", AT(stacks_full),
	  .help = "`--leaks`: pages of stacks over the limit, which are left out" },
	{ COUNTER_MEMORY, "kills_no_room", AT(kills_full),
	  .help = "processes that were killed after the first 32: not shown as they were" },
	{ COUNTER_MEMORY, "timeline_no_room", AT(moments_full),
	  .help = "stacks that the time line has in `other`: over the limit" },
	{ 0 },
};

void memory_monitor_stats(const struct memory_monitor *m, struct stats_reasons *dst)
{
	struct memory_counts counts = { .looks = m->nr_looks,
					.moved = m->nr_moved,
					.not_seen = session_nr_pages_not_seen(
						&m->sampler->reader.session),
					.pages_full = m->nr_pages_full,
					.residents_full = m->nr_residents_full,
					.stacks_full = m->steady.nr_full,
					.kills_full = m->kills.nr_over,
					.moments_full = m->moments.nr_over };
	int i;

	for (i = 0; i < PAGE_NR_COUNTERS; i++)
		counts.kernel[i] = held_pages_count(m->held, (enum bpfprof_page_counter)i);
	stats_add_rows(dst, memory_counters, &counts, true);
}
