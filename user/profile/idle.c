// SPDX-License-Identifier: Apache-2.0
#include "profile/idle.h"

#include <ctype.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "base/cleanup.h"
#include "base/strtab.h"
#include "base/text.h"
#include "base/vec.h"
#include "profile/profile.h"
#include "profile/stats.h"

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))

/*
 * Functions in which native code waits; they do not show why. A name that ends in `:` or `_` is a
 * prefix.
 */
static const char *const native_waits[] = {
	/* libc */
	"syscall",
	"read",
	"__read",
	"poll",
	"__poll",
	"ppoll",
	"select",
	"__select",
	"epoll_wait",
	"epoll_pwait",
	"nanosleep",
	"__nanosleep",
	"clock_nanosleep",
	"__clock_nanosleep",
	"usleep",
	"pthread_cond_",
	"__pthread_cond_",
	"__futex_",
	"sem_",
	"__new_sem_",
	/* libstdc++, Abseil, gRPC */
	"std::condition_variable::",
	"std::this_thread::",
	"absl::",
	"AbslInternalPerThreadSemWait_",
	"gpr_cv_wait",
	"gpr_sleep_until",
	"pollset_work",
	"grpc_pollset_work",
	"cq_next",
	"(anonymous namespace)::non_polling_poller_work",
	"grpc::CompletionQueue::AsyncNextInternal",
};

/* A native thread that waits right below such a function has nothing to do. */
static const struct native_idle {
	const char *function;
	const char *under; /* some frame further out, or NULL: the function alone is enough */
} native_idles[] = {
	/* Boost.Asio: a thread that runs an io_context or a pool, and no handler is due. */
	{ "boost::asio::detail::scheduler::do_run_one", NULL },
	{ "boost::asio::detail::epoll_reactor::run", NULL },
	/* Ray: nothing has come from its other processes. */
	{ "ray::rpc::ClientCallManager::PollEventsFromCompletionQueue", NULL },
	{ "ray::rpc::GrpcServer::PollEventsFromCompletionQueue", NULL },
	{ "ray::IOContextMonitorThread::Run", NULL },
	/*
	 * Ray: the child that it watches still runs, and the output that it copies has no more
	 * lines.
	 */
	{ "ray::Process::Wait", "ray::raylet::AgentManager::StartAgent" },
	{ "ray::(anonymous namespace)::StartStreamDump", NULL },
	{ "boost::iostreams::detail::file_descriptor_impl::read",
	  "std::thread::_State_impl<std::thread::_Invoker<std::tuple<ray::" },
	/*
	 * gRPC: no call, no event, no timer. Calls that the program waits for end in other
	 * functions.
	 */
	{ "grpc::Server::SyncRequestThreadManager::PollForWork", NULL },
	{ "grpc::(anonymous namespace)::CallbackAlternativeCQ::", NULL },
	{ "grpc_event_engine::experimental::Epoll1Poller::DoEpollWait", NULL },
	{ "grpc_event_engine::experimental::OriginalThreadPool::Queue::Step", NULL },
	{ "grpc_event_engine::experimental::TimerManager::WaitUntil", NULL },
	{ "grpc_core::Executor::ThreadMain", NULL },
	{ "timer_thread", "grpc_core::" },
};

/*
 * These libraries make threads for themselves. Such a thread that waits, with no function of the
 * program or of another library on its stack, is between two parallel regions.
 */
static const char *const pool_libraries[] = { "libgomp",	   "libomp",
					      "libiomp5",	   "libopenblas",
					      "libscipy_openblas", "libmkl_" };
/* Every thread begins and waits in these. */
static const char *const thread_libraries[] = { "libc.so", "libc-", "libpthread" };

struct python_function {
	const char *function; /* the last part of its qualified name */
	const char *file; /* in py-spy's short form */
};

/* Functions in which Python code waits. */
static const struct python_function python_waits[] = {
	{ "wait", "threading.py" },
	{ "get", "queue.py" },
	{ "get", "multiprocessing/queues.py" },
	{ "select", "selectors.py" },
};

/* A Python thread that waits right below such a function has nothing to do. */
static const struct python_function python_idles[] = {
	{ "_worker", "concurrent/futures/thread.py" }, /* ThreadPoolExecutor: no work item */
	{ "worker", "multiprocessing/pool.py" }, /* ThreadPool: no task */
	{ "_handle_workers", "multiprocessing/pool.py" }, /* Pool: no task, no result, */
	{ "_handle_tasks", "multiprocessing/pool.py" }, /* nor a worker that ended */
	{ "_handle_results", "multiprocessing/pool.py" },
	{ "_feed", "multiprocessing/queues.py" }, /* Queue: no object to pass on */
	{ "_run_once", "asyncio/base_events.py" }, /* an event loop beside the main thread */
	/* Ray: no error, no line to print, no garbage, and the parent lives. */
	{ "listen_error_messages", "ray/_private/worker.py" },
	{ "print_logs", "ray/_private/worker.py" },
	{ "run", "ray/_private/gc_collect_manager.py" },
	{ "<lambda>", "ray/_private/process_watcher.py" },
	{ "run", "ray/autoscaler/_private/node_launcher.py" },
	{ "main_loop",
	  "ray/_private/worker.py" }, /* a worker without a task, in its first thread */
};

static bool is_named(const char *name, const char *entry)
{
	size_t len = strlen(entry);
	char last = entry[len - 1];

	if (strncmp(name, entry, len))
		return false;
	return last == ':' || last == '_' ||
	       !(isalnum((unsigned char)name[len]) || name[len] == '_');
}

static bool is_one_of(const char *name, const char *const *entries, size_t nr)
{
	size_t i;

	for (i = 0; i < nr; i++)
		if (is_named(name, entries[i]))
			return true;
	return false;
}

static const char *name_of(const struct profile *profile, const struct profile_location *location)
{
	return strtab_get(profile->strings, location->name);
}

static bool is_python_of(const struct profile *profile, const struct profile_location *location,
			 const struct python_function *functions, size_t nr)
{
	const char *name = name_of(profile, location), *dot = strrchr(name, '.');
	const char *file = strtab_get(profile->strings, location->short_file);
	size_t i;

	for (i = 0; i < nr; i++)
		if (!strcmp(dot ? dot + 1 : name, functions[i].function) &&
		    !strcmp(file, functions[i].file))
			return true;
	return false;
}

/* Judges by the innermost Python functions. */
static bool python_is_idle(const struct profile *profile, uint32_t stack)
{
	const struct profile_location *location;
	uint32_t at;

	stack_each(at, profile->stack_callers, stack) {
		location = profile_frame(profile, at);
		if (location->kind == LOCATION_PYTHON &&
		    !is_python_of(profile, location, python_waits, ARRAY_SIZE(python_waits)))
			return is_python_of(profile, location, python_idles,
					    ARRAY_SIZE(python_idles));
	}
	return false;
}

static bool is_under(const struct profile *profile, uint32_t stack, const char *name)
{
	uint32_t at;

	if (!name)
		return true;
	stack_each(at, profile->stack_callers, stack)
		if (is_named(name_of(profile, profile_frame(profile, at)), name))
			return true;
	return false;
}

/* Judges by the innermost native function that does not only wait. */
static bool native_is_idle(const struct profile *profile, uint32_t stack)
{
	const char *name = NULL;
	uint32_t at;
	size_t k;

	stack_each(at, profile->stack_callers, stack) {
		name = name_of(profile, profile_frame(profile, at));
		if (!is_one_of(name, native_waits, ARRAY_SIZE(native_waits)))
			break;
	}
	for (k = 0; at && k < ARRAY_SIZE(native_idles); k++)
		if (is_named(name, native_idles[k].function))
			return is_under(profile, profile->stack_callers[at], native_idles[k].under);
	return false;
}

static bool is_library(const char *base, const char *const *names, size_t nr)
{
	size_t i;

	for (i = 0; i < nr; i++)
		if (!strncmp(base, names[i], strlen(names[i])))
			return true;
	return false;
}

/* Judges by the libraries of all frames. */
static bool pool_is_idle(const struct profile *profile, uint32_t stack)
{
	const struct profile_location *location;
	const char *path;
	bool pool = false;
	uint32_t at;

	stack_each(at, profile->stack_callers, stack) {
		location = profile_frame(profile, at);
		if (location->kind != LOCATION_NATIVE || !location->mapping)
			return false;
		path = text_base_name(strtab_get(profile->strings,
						 profile->mappings[location->mapping - 1].path));
		if (is_library(path, pool_libraries, ARRAY_SIZE(pool_libraries)))
			pool = true;
		else if (!is_library(path, thread_libraries, ARRAY_SIZE(thread_libraries)))
			return false;
	}
	return pool;
}

bool profile_stack_is_idle(const struct profile *profile, uint32_t stack)
{
	uint32_t user = profile_wait_part(profile, stack), at;

	while (user && profile_frame(profile, user)->kind == LOCATION_KERNEL)
		user = profile->stack_callers[user];
	stack_each(at, profile->stack_callers, user)
		if (profile_frame(profile, at)->kind == LOCATION_PYTHON)
			return python_is_idle(profile, at);
	return native_is_idle(profile, user) || pool_is_idle(profile, user);
}

/* Adds a location and a stack that is only this location. Returns its index in *ret. */
static int idle_stack_add(struct profile *profile, uint32_t *ret)
{
	if (!vec_fit(profile->locations, profile->nr_locations + 1) ||
	    profile_stacks_fit(profile, 1))
		return -ENOMEM;
	profile->locations[profile->nr_locations] = (struct profile_location){
		.kind = LOCATION_CALL,
		.has_symbol = true,
		.name = strtab_add(profile->strings, IDLE_FRAME),
		.system_name = strtab_add(profile->strings, IDLE_FRAME),
	};
	*ret = profile_stack_put(profile, 0, (uint32_t)profile->nr_locations++);
	return 0;
}

static int compare_places(const void *a, const void *b)
{
	const struct profile_sample *x = a, *y = b;

	if (x->stack != y->stack)
		return x->stack < y->stack ? -1 : 1;
	if (x->process != y->process)
		return x->process < y->process ? -1 : 1;
	if (x->tid != y->tid)
		return x->tid < y->tid ? -1 : 1;
	if (x->thread != y->thread)
		return x->thread < y->thread ? -1 : 1;
	return x->gil < y->gil ? -1 : x->gil > y->gil;
}

/* Joins equal samples among the last nr, which all have the idle stack. */
static void idle_merge(struct profile *profile, size_t nr)
{
	struct profile_sample *all = profile->samples + profile->nr_samples - nr;
	size_t kept = 0, i;

	qsort(all, nr, sizeof(*all), compare_places);
	for (i = 1; i < nr; i++) {
		if (compare_places(&all[kept], &all[i])) {
			all[++kept] = all[i];
			continue;
		}
		all[kept].count += all[i].count;
		all[kept].value_ns += all[i].value_ns;
	}
	profile->nr_samples -= nr - kept - 1;
}

/*
 * Gives samples with a marked stack the new stack and moves them to the end. Returns their number.
 */
static size_t samples_fold(struct profile *profile, const bool *idle, uint32_t stack,
			   struct idle_counts *counts)
{
	struct profile_sample *all = profile->samples, swapped;
	size_t end = profile->nr_samples, i = 0;

	while (i < end) {
		if (all[i].sleeper != PROFILE_HELPER_SLEEPS || !idle[all[i].stack]) {
			i++;
			continue;
		}
		counts->samples += all[i].count;
		counts->ns += all[i].value_ns;
		all[i].stack = stack;
		swapped = all[i];
		all[i] = all[--end];
		all[end] = swapped;
	}
	return profile->nr_samples - end;
}

int profile_fold_idle(struct profile *profile, struct idle_counts *ret)
{
	__cleanup(free_mem) bool *idle = calloc(profile->nr_stacks + 1, sizeof(*idle));
	__cleanup(free_mem) bool *asked = calloc(profile->nr_stacks + 1, sizeof(*asked));
	struct idle_counts counts = { 0 };
	const struct profile_sample *s;
	uint32_t stack;
	size_t i;

	if (!idle || !asked)
		return -ENOMEM;
	/*
	 * Values of calls lie beside the samples, so samples with them must not move; and calls do
	 * not wait.
	 */
	for (i = 0; i < profile->nr_samples && !profile->call_values; i++) {
		s = &profile->samples[i];
		if (s->sleeper != PROFILE_HELPER_SLEEPS || asked[s->stack])
			continue;
		asked[s->stack] = true;
		idle[s->stack] = profile_stack_is_idle(profile, s->stack);
		counts.nr_stacks += idle[s->stack];
	}
	if (counts.nr_stacks) {
		if (idle_stack_add(profile, &stack))
			return -ENOMEM;
		idle_merge(profile, samples_fold(profile, idle, stack, &counts));
	}
	*ret = counts;
	return 0;
}

/* The values that the rows read. */
struct idle_values {
	uint64_t samples, stacks, ms;
};

#define AT(field) offsetof(struct idle_values, field)

const struct counter idle_counters[] = {
	{ COUNTER_WAITS, "parked_samples", AT(samples),
	  .help = "samples of threads that waited all the time" },
	{ COUNTER_WAITS, "parked_stacks", AT(stacks), .help = "different stacks of such threads" },
	{ COUNTER_WAITS, "parked_ms", AT(ms), .help = "time of such threads" },
	{ 0 },
};

int profile_fold_idle_counted(struct profile *profile, struct stats_reasons *waits)
{
	struct idle_counts counts;
	struct idle_values idle;
	int err = profile_fold_idle(profile, &counts);

	if (err || !counts.nr_stacks)
		return err;
	idle = (struct idle_values){ counts.samples, counts.nr_stacks, counts.ns / 1000000 };
	stats_add_rows(waits, idle_counters, &idle, true);
	return 0;
}
