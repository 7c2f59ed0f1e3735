// SPDX-License-Identifier: Apache-2.0
/*
 * Holds memory in functions that know how much. It reads lines `FUNCTION MIB` and answers each with
 * `PID FUNCTION BYTES`, the growth of its own RssAnon meanwhile.
 */
#include <sys/mman.h>

#define TARGET_MAIN
#include "target.h"

#define MIB (1UL << 20)
#define HUGE (2 * MIB)
#define MAX_KEPT (1 << 20)

static void *volatile kept[MAX_KEPT];
static size_t nr_kept;

static long rss_anon(void)
{
	char line[256];
	FILE *file = fopen("/proc/self/status", "r");
	long kib = 0;

	while (file && fgets(line, sizeof(line), file))
		if (sscanf(line, "RssAnon: %ld", &kib) == 1)
			break;
	if (file)
		fclose(file);
	return kib * 1024;
}

static void keep(void *p)
{
	if (nr_kept < MAX_KEPT)
		kept[nr_kept++] = p;
}

/* mib of address space that begins at a huge page. */
static char *map(size_t mib)
{
	size_t len = mib * MIB;
	char *p =
		mmap(NULL, len + HUGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

	if (p == MAP_FAILED)
		exit(1);
	return (char *)(((uintptr_t)p + HUGE - 1) & ~(HUGE - 1));
}

/* Blocks of 1,000 bytes. */
NOINLINE static void small(size_t mib)
{
	size_t i;
	void *p;

	for (i = 0; i < mib * MIB / 1008; i++) {
		p = malloc(1000);
		memset(p, 1, 1000);
		keep(p);
	}
	BARRIER();
}

NOINLINE static void big(size_t mib)
{
	void *p = malloc(mib * MIB);

	memset(p, 1, mib * MIB);
	keep(p);
	BARRIER();
}

NOINLINE static void other(size_t mib)
{
	void *p = malloc(mib * MIB);

	memset(p, 1, mib * MIB);
	keep(p);
	BARRIER();
}

NOINLINE static void zeroed(size_t mib)
{
	char *p = calloc(mib, MIB);
	size_t i;

	for (i = 0; i < mib * MIB; i += 4096)
		p[i] = 1;
	keep(p);
	BARRIER();
}

/* Maps, touches and unmaps 32 MiB again and again. */
NOINLINE static void churn(size_t mib)
{
	size_t done;
	char *p;

	for (done = 0; done < mib; done += 32) {
		p = mmap(NULL, 32 * MIB, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1,
			 0);
		memset(p, 1, 32 * MIB);
		munmap(p, 32 * MIB);
	}
	BARRIER();
}

/* Frees the block that was kept last. */
NOINLINE static void drop(size_t mib)
{
	(void)mib;
	free(kept[--nr_kept]);
	BARRIER();
}

/* Huge pages, a quarter of which is given back. */
NOINLINE static void huge(size_t mib)
{
	char *p = map(mib);

	madvise(p, mib * MIB, MADV_HUGEPAGE);
	memset(p, 1, mib * MIB);
	madvise(p, mib / 4 * MIB, MADV_DONTNEED);
	keep(p);
	BARRIER();
}

/* Half of it is given back, the rest moves to another address. */
NOINLINE static void moved(size_t mib)
{
	char *p = map(mib);

	madvise(p, mib * MIB, MADV_NOHUGEPAGE);
	memset(p, 1, mib * MIB);
	madvise(p + mib / 2 * MIB, mib / 2 * MIB, MADV_DONTNEED);
	keep(mremap(p, mib * MIB, 4 * mib * MIB, MREMAP_MAYMOVE));
	BARRIER();
}

NOINLINE static void shared(size_t mib)
{
	char *p = mmap(NULL, mib * MIB, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	memset(p, 1, mib * MIB);
	keep(p);
	BARRIER();
}

/* Writes to the block that was kept last: in a child it makes copies. */
NOINLINE static void copies(size_t mib)
{
	char *p = kept[nr_kept - 1];
	size_t i;

	for (i = 0; i < mib * MIB; i += 4096)
		p[i] = 2;
	BARRIER();
}

/* Asks the kernel to swap out the block that was kept last. */
NOINLINE static void out(size_t mib)
{
	uintptr_t begin = ((uintptr_t)kept[nr_kept - 1] + 4095) & ~4095UL;

	madvise((void *)begin, mib * MIB - 4096, MADV_PAGEOUT);
	BARRIER();
}

/* Holds nothing, for that many milliseconds. */
NOINLINE static void nap(size_t ms)
{
	usleep((useconds_t)ms * 1000);
	BARRIER();
}

static const struct {
	const char *name;
	void (*run)(size_t mib);
} functions[] = {
	{ "small", small },   { "big", big },	    { "other", other }, { "zeroed", zeroed },
	{ "churn", churn },   { "drop", drop },	    { "huge", huge },	{ "moved", moved },
	{ "shared", shared }, { "copies", copies }, { "nap", nap },	{ "out", out },
};

/* The lines after `fork` are for the child; the parent sleeps until the child has ended. */
static void fork_off(void)
{
	pid_t pid = fork();

	if (pid) {
		signal(SIGCHLD, SIG_IGN);
		for (;;)
			pause();
	}
}

int main(int argc, char **argv)
{
	char name[32];
	size_t mib, i;
	long before;

	target_init(argc, argv);
	setvbuf(stdin, NULL, _IONBF, 0); /* a child reads on where its parent stopped */
	printf("%d ready 0\n", getpid());
	fflush(stdout);
	while (scanf("%31s %zu", name, &mib) == 2) {
		before = rss_anon();
		if (!strcmp(name, "fork"))
			fork_off();
		if (!strcmp(name, "exec"))
			execv(argv[0], argv);
		for (i = 0; i < sizeof(functions) / sizeof(functions[0]); i++)
			if (!strcmp(name, functions[i].name))
				functions[i].run(mib);
		printf("%d %s %ld\n", getpid(), name, rss_anon() - before);
		fflush(stdout);
	}
	return 0;
}
