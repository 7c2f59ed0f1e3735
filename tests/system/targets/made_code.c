/* SPDX-License-Identifier: Apache-2.0 */
/*
 * made_code MEMORY [HOW]: writes a function with a frame pointer into memory of that kind, names it made_function in
 * /tmp/perf-PID.map as JIT compilers do, and runs it from run_made(). Says the pid that runs it.
 *
 * MEMORY: private, shared; memfd, tmpfs, deleted: a file of which one view is written and another runs.
 * HOW: nomap, no map is written; child, grandchild: a process forked from the one that wrote the map runs it;
 * orphan: a child, some time after its start, whose parent exits then. execs: a child that calls exec and makes code of
 * its own at the same address, with no map; later: the process itself calls exec for that after some time.
 */
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#define BYTES 65536
#define AT 0x240 /* where in it the function begins */
#define ADDRESS ((void *)0x250000000000) /* the same in each run */

static const unsigned char body[] = {
	0x55, 0x48, 0x89, 0xe5, /* push %rbp; mov %rsp, %rbp */
	0xb8, 0x00, 0x00, 0x10, 0x00, /* mov $1048576, %eax */
	0xff, 0xc8, 0x75, 0xfc, /* dec %eax; jnz dec */
	0x5d, 0xc3, /* pop %rbp; ret */
};

static int file_open(const char *memory)
{
	char path[64];
	int fd;

	if (!strcmp(memory, "memfd"))
		return memfd_create("doublemapper", MFD_CLOEXEC);
	snprintf(path, sizeof(path), "%s/made_code.%d", memory[0] == 't' ? "/dev/shm" : ".",
		 (int)getpid());
	fd = open(path, O_RDWR | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
	if (memory[0] == 'd')
		unlink(path);
	return fd;
}

static unsigned char *memory_make(const char *memory)
{
	int fd, all = PROT_READ | PROT_WRITE | PROT_EXEC;
	void *view, *code;

	if (!strcmp(memory, "private") || !strcmp(memory, "shared"))
		return mmap(ADDRESS, BYTES, all,
			    MAP_ANONYMOUS | MAP_FIXED_NOREPLACE |
				    (memory[0] == 'p' ? MAP_PRIVATE : MAP_SHARED),
			    -1, 0);
	fd = file_open(memory);
	if (fd < 0 || ftruncate(fd, BYTES))
		return MAP_FAILED;
	view = mmap(NULL, BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
	code = mmap(ADDRESS, BYTES, PROT_READ | PROT_EXEC, MAP_SHARED | MAP_FIXED_NOREPLACE, fd, 0);
	if (view == MAP_FAILED || code == MAP_FAILED)
		return MAP_FAILED;
	memcpy((char *)view + AT, body, sizeof(body));
	return code;
}

__attribute__((noinline)) void run_made(void (*code)(void))
{
	for (;;) {
		code();
		__asm__ volatile("");
	}
}

static void map_write(unsigned long va)
{
	char path[64];
	FILE *map;

	snprintf(path, sizeof(path), "/tmp/perf-%d.map", (int)getpid());
	map = fopen(path, "w");
	if (!map)
		exit(1);
	fprintf(map, "%lx %zx made_function\n", va, sizeof(body));
	fclose(map);
}

/* Goes on in a child; the parent waits for it, or goes. */
static void go_on_in_child(int stays)
{
	if (!fork()) {
		prctl(PR_SET_PDEATHSIG, stays ? SIGKILL : 0);
		return;
	}
	if (stays)
		wait(NULL);
	_exit(0);
}

int main(int argc, char **argv)
{
	const char *how = argc > 2 ? argv[2] : "";
	unsigned char *code = memory_make(argc > 1 ? argv[1] : "private");

	if (code == MAP_FAILED)
		return 1;
	if (strcmp(argv[1], "memfd") && strcmp(argv[1], "tmpfs") && strcmp(argv[1], "deleted"))
		memcpy(code + AT, body, sizeof(body));
	if (strcmp(how, "nomap"))
		map_write((unsigned long)code + AT);
	if (strstr(how, "child"))
		go_on_in_child(1);
	if (!strcmp(how, "execs")) {
		go_on_in_child(1);
		execl(argv[0], argv[0], argv[1], "nomap", NULL);
		return 1;
	}
	if (!strcmp(how, "grandchild"))
		go_on_in_child(1);
	printf("%d\n", (int)getpid());
	fflush(stdout);
	if (!strcmp(how, "later")) {
		sleep(5);
		execl(argv[0], argv[0], argv[1], "nomap", NULL);
		return 1;
	}
	if (!strcmp(how, "orphan")) {
		sleep(3);
		go_on_in_child(0);
	}
	run_made((void (*)(void))(void *)(code + AT));
}
