// SPDX-License-Identifier: Apache-2.0
/*
 * Allocates blocks of known sizes, holds them for known times and frees them; on its input's first line all
 * functions run. Then it says for each function `NAME SIZE ALLOCATED L1 ... L6`, in bytes: SIZE of a block, and the
 * bytes that were freed in less than 1 ms, 10 ms, 0.1 s, 1 s, 10 s, and later, by its own clock.
 */
#include <pthread.h>

#define TARGET_MAIN
#include "target.h"

#define NR_LIVES 6
#define MAX_BATCH 65536

struct batch {
	const char *name;
	size_t bytes, nr; /* of a block; blocks at a time */
	size_t allocated, lives[NR_LIVES];
	void *blocks[MAX_BATCH];
	uint64_t begin_ns[MAX_BATCH];
};

static struct batch brief_batch = { .name = "brief", .bytes = 2000, .nr = 100 };
static struct batch medium_batch = { .name = "medium", .bytes = 30000, .nr = 500 };
static struct batch lasting_batch = { .name = "lasting", .bytes = 200 << 10, .nr = 100 };
static struct batch passed_batch = { .name = "passed", .bytes = 2 << 20, .nr = 10 };
static struct batch kept_batch = { .name = "kept", .bytes = 100, .nr = MAX_BATCH };
static struct batch regrown_batch = { .name = "regrown", .bytes = 8000, .nr = 1 };

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return (uint64_t)now.tv_sec * 1000000000 + (uint64_t)now.tv_nsec;
}

static void begins(struct batch *batch, size_t i, void *block)
{
	if (!block)
		exit(1);
	*(volatile char *)block = 1;
	batch->blocks[i] = block;
	batch->begin_ns[i] = now_ns();
	batch->allocated += batch->bytes;
}

static void ends(struct batch *batch, size_t i)
{
	uint64_t limit_ns = 1000000, life_ns = now_ns() - batch->begin_ns[i];
	int life = 0;

	for (; life < NR_LIVES - 1 && life_ns >= limit_ns; limit_ns *= 10)
		life++;
	batch->lives[life] += batch->bytes;
}

static void *all_free(void *arg)
{
	struct batch *batch = arg;
	size_t i;

	for (i = 0; i < batch->nr; i++) {
		ends(batch, i);
		free(batch->blocks[i]);
	}
	return NULL;
}

NOINLINE static void brief(void)
{
	size_t i, k;

	for (k = 0; k < 100; k++) {
		for (i = 0; i < brief_batch.nr; i++)
			begins(&brief_batch, i, malloc(brief_batch.bytes));
		usleep(3000);
		all_free(&brief_batch);
	}
	BARRIER();
}

NOINLINE static void medium(void)
{
	size_t i;

	for (i = 0; i < medium_batch.nr; i++)
		begins(&medium_batch, i, malloc(medium_batch.bytes));
	usleep(300000);
	all_free(&medium_batch);
	BARRIER();
}

/* Freed by another thread. */
NOINLINE static void passed(void)
{
	pthread_t thread;
	size_t i;

	for (i = 0; i < passed_batch.nr; i++)
		begins(&passed_batch, i, malloc(passed_batch.bytes));
	usleep(30000);
	pthread_create(&thread, NULL, all_free, &passed_batch);
	pthread_join(thread, NULL);
	BARRIER();
}

NOINLINE static void kept(void)
{
	size_t i;

	for (i = 0; i < kept_batch.nr; i++)
		begins(&kept_batch, i, malloc(kept_batch.bytes));
	BARRIER();
}

/* A block whose life ends with each realloc, but for the last one. */
NOINLINE static void regrown(void)
{
	void *volatile block = NULL;
	size_t i;

	for (i = 0; i < 4000; i++) {
		if (block)
			ends(&regrown_batch, 0);
		block = realloc(block, i % 2 ? 8000 : 8100);
		begins(&regrown_batch, 0, block);
	}
	BARRIER();
}

NOINLINE static void lasting(void)
{
	size_t i;

	for (i = 0; i < lasting_batch.nr; i++)
		begins(&lasting_batch, i, malloc(lasting_batch.bytes));
	brief();
	medium();
	passed();
	kept();
	regrown();
	usleep(2000000);
	all_free(&lasting_batch);
	BARRIER();
}

int main(int argc, char **argv)
{
	struct batch *all[] = { &brief_batch,  &medium_batch, &lasting_batch,
				&passed_batch, &kept_batch,   &regrown_batch };
	char line[16];
	size_t i, k;

	target_init(argc, argv);
	setvbuf(stdout, NULL, _IOLBF, 0);
	printf("%d\n", getpid());
	if (!fgets(line, sizeof(line), stdin))
		return 1;
	lasting();
	for (i = 0; i < sizeof(all) / sizeof(all[0]); i++) {
		printf("%s %zu %zu", all[i]->name, all[i]->bytes, all[i]->allocated);
		for (k = 0; k < NR_LIVES; k++)
			printf(" %zu", all[i]->lives[k]);
		printf("\n");
	}
	while (fgets(line, sizeof(line), stdin))
		;
	return 0;
}
