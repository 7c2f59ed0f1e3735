// SPDX-License-Identifier: Apache-2.0
/*
 * A libcuda.so.1 without a device. Its entries have the shape of the real driver's (535 to 550):
 * 32 bytes each, `cmpl $0x321cba00, x(%rip)`; `je +0xc`; `jmp *table(%rip)`, without call frame
 * information. Behind them are C functions that do what can be seen from outside.
 * With OTHER_ENTRIES: entries as a compiler may make them, the first push 8 bytes in.
 */
#include "fake_cuda.h"

#include <errno.h>
#include <pthread.h>
#include <string.h>
#include <time.h>

#define AWAKE_NS 4000000
#define DOZE_NS 60000000
#define API __attribute__((visibility("default")))
#define MAX_NAMES 64
#define NAME_BYTES 4096
#define MAX_FREED 64
#define MAX_MEMORIES 64 /* by handle, and as many mappings */
#define MAX_TIMES 256 /* streams and events */
#define FIRST_VA 0x7f4000000000ULL
#define FIRST_HANDLE 0x5a0000000000ULL
#define FIRST_GRAPH 0x6a0000000000ULL
#define PAGE_BYTES 0x200000ULL
#define PITCH_BYTES 512ULL

/* Functions that are met in the table only. */
#define BODY __attribute__((used, noinline)) static

/* Of a stream or an event: when its work is done. */
struct time_of {
	uint64_t handle, done_ns;
	int used;
};

/* Memory by handle: it is there as long as something refers to it or it is mapped. */
struct memory {
	uint64_t handle, bytes;
	unsigned int refs, nr_mapped; /* both 0: not in use */
};

struct mapping {
	uint64_t va, bytes; /* 0: not in use */
	struct memory *of;
};

static struct {
	pthread_mutex_t lock;
	unsigned int latency_us;
	unsigned int work_us;
	unsigned int nr_waiting;
	unsigned int nr_fail;
	int reuse;
	int nest;
	int spin;
	int ignore_pointers;
	void (*callback)(void);
	uint64_t free_bytes, total_bytes;
	uint64_t next_va;
	uint64_t freed[MAX_FREED];
	unsigned int nr_freed;
	struct memory memories[MAX_MEMORIES];
	struct mapping mappings[MAX_MEMORIES];
	char names[MAX_NAMES][NAME_BYTES]; /* by number of their handles */
	uint64_t modules[MAX_NAMES]; /* and 1, where that is looked up; 0: not in use */
	struct time_of busy[MAX_TIMES], recorded[MAX_TIMES]; /* streams, events */
} fake = { .lock = PTHREAD_MUTEX_INITIALIZER, .next_va = FIRST_VA };

static __thread unsigned int thread_latency_us; /* instead of latency_us, if it is not 0 */
static __thread uint64_t next_graph = FIRST_GRAPH;

/* Exported by their trampolines below. */
int cuMemcpyHtoDAsync_v2(uint64_t dst, const void *src, uint64_t bytes, uint64_t stream);
int cuStreamSynchronize(uint64_t stream);

API void fake_cuda_set_latency_us(unsigned int us)
{
	__atomic_store_n(&fake.latency_us, us, __ATOMIC_RELAXED);
}

API void fake_cuda_next_graph(uint64_t handle)
{
	next_graph = handle;
}

API void fake_cuda_set_thread_latency_us(unsigned int us)
{
	thread_latency_us = us;
}

API void fake_cuda_set_work_us(unsigned int us)
{
	__atomic_store_n(&fake.work_us, us, __ATOMIC_RELAXED);
}

API unsigned int fake_cuda_waiting(void)
{
	return __atomic_load_n(&fake.nr_waiting, __ATOMIC_ACQUIRE);
}

API void fake_cuda_set_memory(uint64_t free_bytes, uint64_t total_bytes)
{
	fake.free_bytes = free_bytes;
	fake.total_bytes = total_bytes;
}

API void fake_cuda_fail_allocations(unsigned int nr)
{
	fake.nr_fail = nr;
}

API void fake_cuda_reuse(int on)
{
	fake.reuse = on;
}

API void fake_cuda_nest(int on)
{
	fake.nest = on;
}

API void fake_cuda_ignore_pointers(int on)
{
	fake.ignore_pointers = on;
}

API void fake_cuda_set_callback(void (*callback)(void))
{
	fake.callback = callback;
}

API void fake_cuda_spin(int on)
{
	__atomic_store_n(&fake.spin, on, __ATOMIC_RELAXED);
}

static uint64_t clock_ns(clockid_t clock)
{
	struct timespec t;

	clock_gettime(clock, &t);
	return (uint64_t)t.tv_sec * 1000000000 + (uint64_t)t.tv_nsec;
}

static uint64_t cpu_ns(void)
{
	return clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

static uint64_t now_ns(void)
{
	return clock_ns(CLOCK_MONOTONIC);
}

/* The lock is held. NULL: there are too many. */
static struct time_of *time_of(struct time_of *table, uint64_t handle)
{
	unsigned int i;

	for (i = 0; i < MAX_TIMES; i++) {
		if (!table[i].used)
			table[i] = (struct time_of){ .handle = handle, .used = 1 };
		if (table[i].handle == handle)
			return &table[i];
	}
	return NULL;
}

/* When all of it is done; handle NULL: of the whole table. */
static uint64_t done_ns(struct time_of *table, const uint64_t *handle)
{
	uint64_t done = 0;
	unsigned int i;

	pthread_mutex_lock(&fake.lock);
	for (i = 0; i < MAX_TIMES && table[i].used; i++)
		if ((!handle || table[i].handle == *handle) && table[i].done_ns > done)
			done = table[i].done_ns;
	pthread_mutex_unlock(&fake.lock);
	return done;
}

static int work(uint64_t stream)
{
	unsigned int us = __atomic_load_n(&fake.work_us, __ATOMIC_RELAXED);
	uint64_t now;
	struct time_of *time;

	if (!us)
		return 0;
	now = now_ns();
	pthread_mutex_lock(&fake.lock);
	time = time_of(fake.busy, stream);
	if (time)
		time->done_ns = (time->done_ns > now ? time->done_ns : now) + us * 1000ULL;
	pthread_mutex_unlock(&fake.lock);
	return 0;
}

static void wait_until(uint64_t ns)
{
	uint64_t now = now_ns();
	struct timespec left = { (time_t)((ns - now) / 1000000000),
				 (long)((ns - now) % 1000000000) };

	__atomic_add_fetch(&fake.nr_waiting, 1, __ATOMIC_RELEASE);
	while (ns > now && nanosleep(&left, &left) < 0 && errno == EINTR)
		;
	__atomic_sub_fetch(&fake.nr_waiting, 1, __ATOMIC_RELEASE);
}

/* Until that CPU time is used up: some of it, and asleep for far longer. */
static void doze(uint64_t end_ns)
{
	const struct timespec rest = { .tv_nsec = DOZE_NS };
	uint64_t wake_ns = cpu_ns() + AWAKE_NS;

	while (cpu_ns() < wake_ns && cpu_ns() < end_ns)
		;
	nanosleep(&rest, NULL);
}

static void wait_for_device(void)
{
	unsigned int us = thread_latency_us ?: __atomic_load_n(&fake.latency_us, __ATOMIC_RELAXED);
	struct timespec left = { us / 1000000, us % 1000000 * 1000L };
	uint64_t end_ns;

	if (fake.callback)
		fake.callback();
	if (fake.spin) {
		__atomic_add_fetch(&fake.nr_waiting, 1, __ATOMIC_RELEASE);
		end_ns = cpu_ns() + us * 1000ULL;
		while (cpu_ns() < end_ns && __atomic_load_n(&fake.spin, __ATOMIC_RELAXED))
			if (fake.spin == FAKE_CUDA_DOZES)
				doze(end_ns);
		__atomic_sub_fetch(&fake.nr_waiting, 1, __ATOMIC_RELEASE);
		return;
	}

	__atomic_add_fetch(&fake.nr_waiting, 1, __ATOMIC_RELEASE);
	while (us && nanosleep(&left, &left) < 0 && errno == EINTR)
		;
	__atomic_sub_fetch(&fake.nr_waiting, 1, __ATOMIC_RELEASE);
}

static int put(uint64_t *out, uint64_t value)
{
	if (fake.ignore_pointers)
		return 0;
	if (!out)
		return CUDA_ERROR_INVALID_VALUE;
	*out = value;
	return 0;
}

static int allocate(uint64_t *out, uint64_t bytes)
{
	uint64_t va;
	int err;

	pthread_mutex_lock(&fake.lock);
	if (fake.nr_fail) {
		fake.nr_fail--;
		err = CUDA_ERROR_OUT_OF_MEMORY;
	} else {
		if (fake.reuse && fake.nr_freed) {
			va = fake.freed[--fake.nr_freed];
		} else {
			va = fake.next_va;
			fake.next_va += (bytes + PAGE_BYTES - 1) / PAGE_BYTES * PAGE_BYTES;
		}
		err = put(out, va);
	}
	pthread_mutex_unlock(&fake.lock);
	return err;
}

static int release(uint64_t va)
{
	pthread_mutex_lock(&fake.lock);
	if (va && fake.nr_freed < MAX_FREED)
		fake.freed[fake.nr_freed++] = va;
	pthread_mutex_unlock(&fake.lock);
	return 0;
}

/* The lock is held. NULL: there is none. */
static struct memory *memory_find(uint64_t handle)
{
	unsigned int i;

	for (i = 0; i < MAX_MEMORIES; i++)
		if (fake.memories[i].handle == handle &&
		    (fake.memories[i].refs || fake.memories[i].nr_mapped))
			return &fake.memories[i];
	return NULL;
}

static int memory_add(uint64_t *out, uint64_t bytes, int is_own)
{
	uint64_t handle = 0;
	int err = allocate(&handle, bytes);
	unsigned int i;

	if (err)
		return err;
	pthread_mutex_lock(&fake.lock);
	for (i = 0; i < MAX_MEMORIES; i++)
		if (!fake.memories[i].refs && !fake.memories[i].nr_mapped)
			break;
	if (i < MAX_MEMORIES)
		fake.memories[i] =
			(struct memory){ .handle = handle, .bytes = is_own ? bytes : 0, .refs = 1 };
	pthread_mutex_unlock(&fake.lock);
	return i < MAX_MEMORIES ? put(out, handle) : CUDA_ERROR_OUT_OF_MEMORY;
}

/* The lock is held. */
static void memory_settle(const struct memory *memory)
{
	if (!memory->refs && !memory->nr_mapped && fake.nr_freed < MAX_FREED)
		fake.freed[fake.nr_freed++] = memory->handle;
}

/* What this process has allocated by handle, and is there. */
API uint64_t fake_cuda_memory_by_handle(void)
{
	uint64_t bytes = 0;
	unsigned int i;

	pthread_mutex_lock(&fake.lock);
	for (i = 0; i < MAX_MEMORIES; i++)
		if (fake.memories[i].refs || fake.memories[i].nr_mapped)
			bytes += fake.memories[i].bytes;
	pthread_mutex_unlock(&fake.lock);
	return bytes;
}

/* One handle for each name and sort; of what was unloaded the next name has it. */
static int look_up(uint64_t *out, uint64_t module, const char *name, uint64_t sort)
{
	unsigned int i, at = MAX_NAMES;

	if (fake.ignore_pointers)
		return 0;
	if (!name || strlen(name) >= NAME_BYTES)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&fake.lock);
	for (i = MAX_NAMES; i > 0 && (at == MAX_NAMES || strcmp(fake.names[at], name)); i--)
		if (!fake.modules[i - 1] || !strcmp(fake.names[i - 1], name))
			at = i - 1;
	if (at < MAX_NAMES) {
		fake.modules[at] = module + 1;
		memcpy(fake.names[at], name, strlen(name) + 1);
	}
	pthread_mutex_unlock(&fake.lock);
	return at < MAX_NAMES ? put(out, FIRST_HANDLE + (sort << 32) + at * 0x40)
			      : CUDA_ERROR_OUT_OF_MEMORY;
}

/* All that only hands something to the device. */
BODY int done(void)
{
	return 0;
}

BODY int blocking(void)
{
	wait_for_device();
	return 0;
}

BODY int launched(uint64_t kernel, unsigned int gx, unsigned int gy, unsigned int gz,
		  unsigned int bx, unsigned int by, unsigned int bz, unsigned int shared,
		  uint64_t stream)
{
	(void)kernel, (void)gx, (void)gy, (void)gz, (void)bx, (void)by, (void)bz, (void)shared;
	if (fake.callback)
		fake.callback();
	return work(stream);
}

BODY int launched_config(const struct cuda_launch_config *config)
{
	return fake.ignore_pointers ? 0 : work(config->stream);
}

BODY int launched_graph(uint64_t graph, uint64_t stream)
{
	(void)graph;
	return work(stream);
}

BODY int stream_wait(uint64_t stream)
{
	wait_until(done_ns(fake.busy, &stream));
	return blocking();
}

BODY int context_wait(void)
{
	wait_until(done_ns(fake.busy, NULL));
	return blocking();
}

BODY int event_wait(uint64_t event)
{
	wait_until(done_ns(fake.recorded, &event));
	return blocking();
}

BODY int stream_query(uint64_t stream)
{
	return done_ns(fake.busy, &stream) > now_ns() ? CUDA_ERROR_NOT_READY : 0;
}

BODY int event_query(uint64_t event)
{
	return done_ns(fake.recorded, &event) > now_ns() ? CUDA_ERROR_NOT_READY : 0;
}

BODY int event_record(uint64_t event, uint64_t stream)
{
	uint64_t done = done_ns(fake.busy, &stream);
	struct time_of *time;

	pthread_mutex_lock(&fake.lock);
	time = time_of(fake.recorded, event);
	if (time)
		time->done_ns = done;
	pthread_mutex_unlock(&fake.lock);
	return time ? 0 : CUDA_ERROR_OUT_OF_MEMORY;
}

/* Event 0 does not exist. */
BODY int stream_wait_event(uint64_t stream, uint64_t event)
{
	uint64_t done = done_ns(fake.recorded, &event);
	struct time_of *time;

	if (!event)
		return CUDA_ERROR_INVALID_VALUE;
	pthread_mutex_lock(&fake.lock);
	time = time_of(fake.busy, stream);
	if (time && time->done_ns < done)
		time->done_ns = done;
	pthread_mutex_unlock(&fake.lock);
	return time ? 0 : CUDA_ERROR_OUT_OF_MEMORY;
}

BODY int copy_to_device(uint64_t dst, const void *src, uint64_t bytes)
{
	if (!fake.nest)
		return blocking();
	return cuMemcpyHtoDAsync_v2(dst, src, bytes, 0) | cuStreamSynchronize(0);
}

BODY int allocate_plain(uint64_t *out, uint64_t bytes)
{
	return allocate(out, bytes);
}

BODY int allocate_pitch(uint64_t *out, uint64_t *out_pitch, uint64_t width, uint64_t height,
			unsigned int element)
{
	uint64_t pitch = (width + PITCH_BYTES - 1) / PITCH_BYTES * PITCH_BYTES;
	int err = allocate(out, pitch * height);

	(void)element;
	return err ? err : put(out_pitch, pitch);
}

BODY int release_plain(uint64_t va)
{
	return release(va);
}

BODY int create_memory(uint64_t *out, uint64_t bytes)
{
	return memory_add(out, bytes, 1);
}

BODY int import_memory(uint64_t *out)
{
	return memory_add(out, PAGE_BYTES, 0);
}

/* What is done with a handle that is none is not defined: nothing. */
BODY int release_memory(uint64_t handle)
{
	struct memory *memory;

	pthread_mutex_lock(&fake.lock);
	memory = memory_find(handle);
	if (memory && memory->refs) {
		memory->refs--;
		memory_settle(memory);
	}
	pthread_mutex_unlock(&fake.lock);
	return 0;
}

BODY int retain_memory(uint64_t *out, uint64_t va)
{
	struct mapping *mapping = NULL;
	unsigned int i;

	pthread_mutex_lock(&fake.lock);
	for (i = 0; i < MAX_MEMORIES; i++)
		if (va - fake.mappings[i].va < fake.mappings[i].bytes)
			mapping = &fake.mappings[i];
	if (mapping)
		mapping->of->refs++;
	pthread_mutex_unlock(&fake.lock);
	return mapping ? put(out, mapping->of->handle) : CUDA_ERROR_INVALID_VALUE;
}

/* Something of a mapping lies in the range. */
static int touches(const struct mapping *mapping, uint64_t va, uint64_t bytes)
{
	return mapping->bytes && mapping->va < va + bytes && va < mapping->va + mapping->bytes;
}

BODY int map_memory(uint64_t va, uint64_t bytes, uint64_t offset, uint64_t handle)
{
	struct mapping *room = NULL;
	struct memory *memory;
	unsigned int i;
	int taken = 0;

	pthread_mutex_lock(&fake.lock);
	memory = memory_find(handle);
	for (i = 0; i < MAX_MEMORIES; i++) {
		taken |= touches(&fake.mappings[i], va, bytes);
		if (!fake.mappings[i].bytes)
			room = &fake.mappings[i];
	}
	if (memory && room && !taken && !offset) {
		*room = (struct mapping){ va, bytes, memory };
		memory->nr_mapped++;
	}
	pthread_mutex_unlock(&fake.lock);
	return memory && room && !taken && !offset ? 0 : CUDA_ERROR_INVALID_VALUE;
}

/* As a whole, or not at all. */
BODY int unmap_memory(uint64_t va, uint64_t bytes)
{
	struct mapping *mapping;
	unsigned int i;
	int found = 0, cut = 0;

	pthread_mutex_lock(&fake.lock);
	for (i = 0; i < MAX_MEMORIES; i++) {
		mapping = &fake.mappings[i];
		found |= touches(mapping, va, bytes);
		cut |= touches(mapping, va, bytes) &&
		       (mapping->va < va || mapping->va + mapping->bytes > va + bytes);
	}
	for (i = 0; i < MAX_MEMORIES && found && !cut; i++) {
		mapping = &fake.mappings[i];
		if (!touches(mapping, va, bytes))
			continue;
		mapping->bytes = 0;
		mapping->of->nr_mapped--;
		memory_settle(mapping->of);
	}
	pthread_mutex_unlock(&fake.lock);
	return found && !cut ? 0 : CUDA_ERROR_INVALID_VALUE;
}

BODY int register_host(uint64_t va, uint64_t bytes, unsigned int flags)
{
	uint64_t unused;

	(void)va, (void)flags;
	return allocate(&unused, bytes);
}

BODY int module_function(uint64_t *out, uint64_t module, const char *name)
{
	return look_up(out, module, name, 0);
}

BODY int library_kernel(uint64_t *out, uint64_t library, const char *name)
{
	return look_up(out, library, name, 1);
}

BODY int unload(uint64_t module)
{
	unsigned int i;

	pthread_mutex_lock(&fake.lock);
	for (i = 0; i < MAX_NAMES; i++)
		if (fake.modules[i] == module + 1)
			fake.modules[i] = fake.names[i][0] = 0;
	pthread_mutex_unlock(&fake.lock);
	return 0;
}

BODY int kernel_function(uint64_t *out, uint64_t kernel)
{
	return put(out, kernel + (1ULL << 33));
}

BODY int memory_info(uint64_t *out_free, uint64_t *out_total)
{
	int err = put(out_free, fake.free_bytes);

	return err ? err : put(out_total, fake.total_bytes);
}

/* An instantiation, or the same of what has its result second. */
BODY int instantiate(uint64_t *out)
{
	if (next_graph == FAKE_CUDA_NO_GRAPH)
		return CUDA_ERROR_CAPTURE_INVALIDATED;
	return put(out, next_graph);
}

BODY int end_capture(uint64_t stream, uint64_t *out)
{
	(void)stream;
	return instantiate(out);
}

BODY int update_graph(void)
{
	return next_graph == FAKE_CUDA_NO_GRAPH ? CUDA_ERROR_INVALID_VALUE : 0;
}

#include "fake_cuda_entries.h"
