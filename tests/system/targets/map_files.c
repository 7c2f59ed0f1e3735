/* SPDX-License-Identifier: Apache-2.0 */
/*
 * The program maps the files lib0, lib1 and so on of a folder executable: SECONDS FOLDER
 * COUNT [PAUSE_MS]. It prints the address of the first one. With a pause after each file it
 * then ends; without, it is a little busy. A byte on standard input makes it map memory:
 * mmap() takes its mmap_lock for writing.
 */
#define TARGET_MAIN
#include "target.h"

#include <fcntl.h>
#include <pthread.h>
#include <sys/mman.h>
#include <sys/stat.h>

static void *map_more(void *arg)
{
	char byte;

	if (read(0, &byte, 1) == 1)
		mmap(NULL, 4096, PROT_READ, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
	return arg;
}

static NOINLINE void busy_a_little(void)
{
	unsigned long i;

	for (i = 0; i < 1000000; i++)
		target_sink++;
	usleep(20000);
}

static void *map_file(const char *folder, int number)
{
	char path[4096];
	struct stat st;
	void *at;
	int fd;

	snprintf(path, sizeof(path), "%s/lib%d", folder, number);
	fd = open(path, O_RDONLY);
	if (fd < 0 || fstat(fd, &st))
		exit(1);
	at = mmap(NULL, (size_t)st.st_size, PROT_READ | PROT_EXEC, MAP_PRIVATE, fd, 0);
	close(fd);
	if (at == MAP_FAILED)
		exit(1);
	return at;
}

int main(int argc, char **argv)
{
	int i, count, pause_ms = argc > 4 ? atoi(argv[4]) : 0;
	pthread_t thread;
	void *first = NULL;

	target_init(argc, argv);
	if (argc < 4)
		return 2;
	count = atoi(argv[3]);
	for (i = 0; i < count; i++) {
		void *at = map_file(argv[2], i);

		if (!first)
			first = at;
		usleep((useconds_t)pause_ms * 1000);
	}
	printf("%lu\n", (unsigned long)first);
	fflush(stdout);
	if (pause_ms || pthread_create(&thread, NULL, map_more, NULL))
		return 0;
	for (;;)
		busy_a_little();
}
