// SPDX-License-Identifier: Apache-2.0
/*
 * Allocates in functions that know how much. It reads lines `FUNCTION MIB` and answers each with
 * `PID FUNCTION ALLOCATED HELD`, in bytes as they were asked for. With OWN_MALLOC the program is its
 * own allocator, whose malloc can leave by longjmp, and whose realloc can fail; as a shared
 * library it can be preloaded.
 */
#ifdef LOADS
#include <dlfcn.h>
#endif
#include <malloc.h>
#include <pthread.h>
#include <setjmp.h>
#include <sys/mman.h>
#include <sys/wait.h>

#define TARGET_MAIN
#include "target.h"

#define MIB (1UL << 20)
#define MAX_KEPT (1 << 18)
#define NR_THREADS 4
#define HUGE_BYTES (1UL << 60)

static void *volatile kept[MAX_KEPT];
static size_t nr_kept, allocated, held;

#ifdef OWN_MALLOC
#define POOL_BYTES (1UL << 32)
#define JUMP_BYTES 7777777 /* malloc leaves by longjmp */
#define FAIL_BYTES 8888888 /* realloc fails */
#define SIGNAL_BYTES 30000 /* a signal arrives in malloc */

static jmp_buf jump;
static char *pool;
static size_t used;

NOINLINE void *malloc(size_t bytes)
{
	size_t at;

	if (bytes == JUMP_BYTES)
		longjmp(jump, 1);
	if (bytes == SIGNAL_BYTES)
		raise(SIGUSR1);
	if (bytes >= HUGE_BYTES)
		return NULL;
	if (!pool)
		pool = mmap(NULL, POOL_BYTES, PROT_READ | PROT_WRITE,
			    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
	at = __atomic_fetch_add(&used, (bytes + 31) & ~15UL, __ATOMIC_RELAXED);
	*(size_t *)(pool + at) = bytes;
	return pool + at + 16;
}

NOINLINE void free(void *p)
{
	BARRIER();
	(void)p;
}

NOINLINE void *calloc(size_t nr, size_t bytes)
{
	return malloc(nr * bytes); /* nothing is ever handed out again */
}

NOINLINE void *realloc(void *old, size_t bytes)
{
	void *p = bytes == FAIL_BYTES ? NULL : malloc(bytes);
	size_t had = old ? ((size_t *)old)[-2] : 0;

	if (p && old)
		memcpy(p, old, had < bytes ? had : bytes);
	return p;
}
#endif

static void *keep(void *p, size_t bytes)
{
	size_t at;

	if (!p)
		exit(1);
	*(volatile char *)p = 1;
	at = __atomic_fetch_add(&nr_kept, 1, __ATOMIC_RELAXED);
	if (at >= MAX_KEPT)
		exit(1);
	kept[at] = p;
	__atomic_fetch_add(&allocated, bytes, __ATOMIC_RELAXED);
	__atomic_fetch_add(&held, bytes, __ATOMIC_RELAXED);
	return p;
}

NOINLINE static void small(size_t mib)
{
	size_t i;

	for (i = 0; i < mib * MIB / 1000; i++)
		keep(malloc(1000), 1000);
	BARRIER();
}

/* By realloc of no block. */
NOINLINE static void fresh(size_t mib)
{
	void *volatile none = NULL;
	size_t i;

	for (i = 0; i < mib * MIB / 1000; i++)
		keep(realloc(none, 1000), 1000);
	BARRIER();
}

NOINLINE static void big(size_t mib)
{
	while (mib--)
		keep(malloc(MIB), MIB);
	BARRIER();
}

NOINLINE static void before(size_t mib)
{
	small(mib);
	BARRIER();
}

NOINLINE static void zeroed(size_t mib)
{
	size_t i;

	for (i = 0; i < mib * MIB / 65536; i++)
		keep(calloc(16, 4096), 65536);
	BARRIER();
}

/* 10,000 bytes at addresses that are multiples of 4096. */
NOINLINE static void aligned(size_t mib)
{
	size_t i;
	void *p;

	for (i = 0; i < mib * MIB / 10000; i++) {
		if (i % 3 == 0) {
			if (posix_memalign(&p, 4096, 10000))
				exit(1);
			keep(p, 10000);
		} else {
			keep(i % 3 == 1 ? memalign(4096, 10000) : aligned_alloc(4096, 10000),
			     10000);
		}
	}
	BARRIER();
}

/* A block that grows to so many MiB in steps of 64 KiB: each of them allocates it anew. */
NOINLINE static void grown(size_t mib)
{
	void *volatile p = NULL;
	size_t bytes;

	for (bytes = 65536; bytes <= mib * MIB; bytes += 65536) {
		p = realloc(p, bytes);
		allocated += bytes;
	}
	keep(p, 0);
	held += mib * MIB;
	BARRIER();
}

NOINLINE static void churn(size_t mib)
{
	void *volatile p;
	size_t i;

	for (i = 0; i < mib * MIB / 65536; i++) {
		p = malloc(65536);
		*(volatile char *)p = 1;
		free(p);
	}
	allocated += mib * MIB;
	BARRIER();
}

/* Holds blocks for a twentieth of a second. */
NOINLINE static void spike(size_t mib)
{
	void *volatile blocks[mib + 1];
	size_t i;

	for (i = 0; i < mib; i++)
		blocks[i] = malloc(MIB);
	usleep(50000);
	for (i = 0; i < mib; i++)
		free(blocks[i]);
	allocated += mib * MIB;
	BARRIER();
}

NOINLINE static void *of_thread(void *mib)
{
	size_t i;

	for (i = 0; i < (size_t)mib * MIB / 20000; i++)
		keep(malloc(20000), 20000);
	BARRIER();
	return NULL;
}

NOINLINE static void threads(size_t mib)
{
	pthread_t list[NR_THREADS];
	int i;

	for (i = 0; i < NR_THREADS; i++)
		pthread_create(&list[i], NULL, of_thread, (void *)(mib / NR_THREADS));
	for (i = 0; i < NR_THREADS; i++)
		pthread_join(list[i], NULL);
	BARRIER();
}

/* Frees all that is kept, in a thread that allocated none of it. */
static void *all_free(void *arg)
{
	while (nr_kept)
		free(kept[--nr_kept]);
	return arg;
}

NOINLINE static void drop(size_t mib)
{
	pthread_t thread;

	(void)mib;
	pthread_create(&thread, NULL, all_free, NULL);
	pthread_join(thread, NULL);
	held = 0;
	BARRIER();
}

/* A child frees all that it has inherited, and ends. */
NOINLINE static void orphan(size_t mib)
{
	pid_t pid = fork();

	(void)mib;
	if (!pid) {
		usleep(300000); /* until it is hooked */
		all_free(NULL);
		usleep(100000);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
	BARRIER();
}

/* Half of the maps stay, others are given back, or are no memory that can be written to. */
NOINLINE static void mapped(size_t mib)
{
	size_t i;
	char *p;

	for (i = 0; i < mib; i++) {
		p = mmap(NULL, MIB, i % 4 ? PROT_READ | PROT_WRITE : PROT_NONE,
			 MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
		if (p == MAP_FAILED)
			exit(1);
		allocated += i % 4 ? MIB : 0;
		held += i % 2 ? MIB : 0;
		if (i % 2 == 0)
			munmap(p, MIB);
	}
	BARRIER();
}

/* Maps over the same place again and again. */
NOINLINE static void over(size_t mib)
{
	size_t i;
	char *p = NULL;

	for (i = 0; i < mib; i++) {
		p = mmap(p, MIB, PROT_READ | PROT_WRITE,
			 MAP_PRIVATE | MAP_ANONYMOUS | (p ? MAP_FIXED : 0), -1, 0);
		if (p == MAP_FAILED)
			exit(1);
	}
	allocated += mib * MIB;
	held += MIB;
	BARRIER();
}

/* Calls that return no block. */
NOINLINE static void failing(size_t mib)
{
	void *volatile p;
	size_t i;

	for (i = 0; i < mib; i++) {
		p = malloc(HUGE_BYTES);
		if (p)
			exit(1);
	}
	BARRIER();
}

#ifdef LOADS
/* A library that has a malloc of its own, which is bound to no name. */
NOINLINE static void loads(size_t mib)
{
	(void)mib;
	if (!dlopen(LOADS, RTLD_NOW))
		exit(1);
	BARRIER();
}
#endif

#ifdef OWN_MALLOC
NOINLINE static void jumps(size_t mib)
{
	volatile size_t i;
	void *volatile p;

	for (i = 0; i < mib; i++)
		if (!setjmp(jump))
			p = malloc(JUMP_BYTES);
	(void)p;
	BARRIER();
}

/* A block whose realloc fails stays as it is. */
NOINLINE static void stays(size_t mib)
{
	void *volatile p = keep(malloc(mib * MIB), mib * MIB);

	if (realloc(p, FAIL_BYTES))
		exit(1);
	BARRIER();
}

static void on_signal(int signal)
{
	(void)signal;
	keep(malloc(40000), 40000);
}

/* A signal handler that allocates, while the same thread does. */
NOINLINE static void handled(size_t mib)
{
	size_t i;

	signal(SIGUSR1, on_signal);
	for (i = 0; i < mib * MIB / 70000; i++)
		keep(malloc(SIGNAL_BYTES), SIGNAL_BYTES);
	BARRIER();
}
#endif

static void *exec_run(void *argv)
{
	execv(((char **)argv)[0], argv);
	exit(1);
}

static const struct {
	const char *name;
	void (*run)(size_t mib);
} functions[] = {
	{ "small", small },   { "big", big },	      { "before", before },
	{ "zeroed", zeroed }, { "aligned", aligned }, { "grown", grown },
	{ "churn", churn },   { "threads", threads }, { "drop", drop },
	{ "orphan", orphan }, { "failing", failing }, { "mapped", mapped },
	{ "spike", spike },   { "over", over },	      { "fresh", fresh },
#ifdef LOADS
	{ "loads", loads },
#endif
#ifdef OWN_MALLOC
	{ "jumps", jumps },   { "stays", stays },     { "handled", handled },
#endif
};

int main(int argc, char **argv)
{
	char name[32];
	size_t mib, i, old_held;

	target_init(argc, argv);
	printf("%d ready 0 0\n", getpid());
	fflush(stdout);
	while (scanf("%31s %zu", name, &mib) == 2) {
		allocated = 0;
		old_held = held;
		if (!strcmp(name, "exec"))
			execv(argv[0], argv);
		if (!strcmp(name, "thread-exec")) { /* by a thread that is not the first one */
			pthread_t thread;

			pthread_create(&thread, NULL, exec_run, argv);
			pause();
		}
		for (i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
			if (!strcmp(name, functions[i].name))
				functions[i].run(mib);
		printf("%d %s %zu %ld\n", getpid(), name, allocated, (long)(held - old_held));
		fflush(stdout);
	}
	return 0;
}
