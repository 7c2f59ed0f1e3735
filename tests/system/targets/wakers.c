// SPDX-License-Identifier: Apache-2.0
/*
 * wakers FILE: threads that wait, and others that end their waits, by turns; each that waits notes when,
 * and who it was. FILE gets JSON once FILE.stop is there, FILE.ready is there as soon as all wait:
 * {"tids": {NAME: TID}, "waits": {NAME: [[begin, end, BY], ...]}}, in nanoseconds since 1970.
 * take waits for a pipe of which one and two write, sem for two, nap for the clock, and child, which is
 * another process, for one; 0 is the end.
 */
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define MAX_WAITS 100000
#define NR_WAITERS 4

enum { TAKE, SEM, NAP, CHILD };

struct waits {
	_Atomic long tid;
	_Atomic uint32_t nr;
	struct {
		int64_t begin, end;
		char by;
	} list[MAX_WAITS];
};

static const char *const names[NR_WAITERS] = { "take", "sem", "nap", "child" };
static struct waits *all; /* shared with the child */
static _Atomic long one_tid, two_tid;
static atomic_bool *stop;
static int taken[2], childs[2];
static sem_t sem;

static int64_t now(void)
{
	struct timespec t;

	clock_gettime(CLOCK_REALTIME, &t);
	return (int64_t)t.tv_sec * 1000000000 + t.tv_nsec;
}

static void doze(long ms)
{
	struct timespec t = { .tv_nsec = ms * 1000000 };

	while (clock_nanosleep(CLOCK_MONOTONIC, 0, &t, &t) == EINTR)
		;
}

static __attribute__((noinline)) char pipe_wait(int fd)
{
	char by = 0;

	if (read(fd, &by, 1) != 1)
		exit(1);
	return by;
}

static char wait_once(int which)
{
	switch (which) {
	case TAKE:
		return pipe_wait(taken[0]);
	case CHILD:
		return pipe_wait(childs[0]);
	case SEM:
		while (sem_wait(&sem))
			;
		return '2';
	default:
		doze(40);
		return 'i';
	}
}

static void *wait_all(void *arg)
{
	int which = (int)(intptr_t)arg;
	struct waits *waits = &all[which];
	uint32_t nr = 0;
	char by;

	prctl(PR_SET_NAME, names[which]);
	waits->tid = syscall(SYS_gettid);
	for (; nr < MAX_WAITS && !*stop; nr++) {
		waits->list[nr].begin = now();
		by = wait_once(which);
		waits->list[nr].end = now();
		waits->list[nr].by = by;
		waits->nr = nr + 1;
	}
	return NULL;
}

static __attribute__((noinline)) void wake_by_one(int fd)
{
	if (write(fd, "1", 1) != 1)
		exit(1);
	__asm__ volatile("" ::: "memory");
}

static __attribute__((noinline)) void wake_by_two(void)
{
	if (write(taken[1], "2", 1) != 1)
		exit(1);
	sem_post(&sem);
	__asm__ volatile("" ::: "memory");
}

static void *one(void *arg)
{
	(void)arg;
	prctl(PR_SET_NAME, "giver;one");
	one_tid = syscall(SYS_gettid);
	while (!*stop) {
		doze(37);
		wake_by_one(taken[1]);
		doze(20);
		wake_by_one(childs[1]);
	}
	return NULL;
}

static void *two(void *arg)
{
	(void)arg;
	prctl(PR_SET_NAME, "two\n\033[1m; x");
	two_tid = syscall(SYS_gettid);
	while (!*stop) {
		doze(83);
		wake_by_two();
	}
	return NULL;
}

static void tell(const char *path)
{
	char new_path[4096];
	uint32_t i, nr;
	FILE *file;
	int which;

	snprintf(new_path, sizeof(new_path), "%s.new", path);
	file = fopen(new_path, "w");
	if (!file)
		exit(1);
	fprintf(file, "{\"tids\": {\"one\": %ld, \"two\": %ld", one_tid, two_tid);
	for (which = 0; which < NR_WAITERS; which++)
		fprintf(file, ", \"%s\": %ld", names[which], all[which].tid);
	fprintf(file, "}, \"waits\": {");
	for (which = 0; which < NR_WAITERS; which++) {
		fprintf(file, "%s\"%s\": [", which ? ", " : "", names[which]);
		nr = all[which].nr;
		for (i = 0; i < nr; i++)
			fprintf(file, "%s[%lld, %lld, \"%c\"]", i ? ", " : "",
				(long long)all[which].list[i].begin,
				(long long)all[which].list[i].end, all[which].list[i].by);
		fprintf(file, "]");
	}
	fprintf(file, "}}\n");
	fclose(file);
	if (rename(new_path, path))
		exit(1);
}

static void *shared(size_t bytes)
{
	void *mem = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);

	if (mem == MAP_FAILED)
		exit(1);
	return mem;
}

int main(int argc, char **argv)
{
	char path[4096];
	pthread_t thread;
	intptr_t which;
	pid_t child;

	if (argc != 2)
		return 2;
	all = shared(NR_WAITERS * sizeof(*all));
	stop = shared(sizeof(*stop));
	if (pipe(taken) || pipe(childs) || sem_init(&sem, 0, 0))
		return 1;
	child = fork();
	if (!child) {
		prctl(PR_SET_PDEATHSIG, 9);
		wait_all((void *)(intptr_t)CHILD);
		_exit(0);
	}
	for (which = TAKE; which <= NAP; which++)
		pthread_create(&thread, NULL, wait_all, (void *)which);
	pthread_create(&thread, NULL, one, NULL);
	pthread_create(&thread, NULL, two, NULL);
	for (which = 0; which < NR_WAITERS; which++)
		while (all[which].nr < 2)
			doze(10);
	snprintf(path, sizeof(path), "%s.ready", argv[1]);
	close(open(path, O_CREAT | O_WRONLY, 0644));
	snprintf(path, sizeof(path), "%s.stop", argv[1]);
	while (access(path, F_OK))
		doze(50);
	*stop = true;
	if (write(childs[1], "0", 1) != 1)
		return 1;
	waitpid(child, NULL, 0);
	tell(argv[1]);
	return 0;
}
