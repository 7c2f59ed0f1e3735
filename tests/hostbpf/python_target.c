// SPDX-License-Identifier: Apache-2.0
#include "python_target.h"

#include <elf.h>
#include <errno.h>
#include <fcntl.h>
#include <glob.h>
#include <limits.h>
#include <poll.h>
#include <signal.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "elf/image.h"

#define STACK_PROGRAM "tests/hostbpf/python_stack.py"
#define MAX_TEXT (4U << 20)
#define MAX_THREADS 64
#define WAIT_MS 60000

static int memory_read(struct unwind_reader *reader, __u64 va, void *dst, __u32 len)
{
	struct python_target *target = (struct python_target *)reader;

	if (va > INT64_MAX)
		return -1;
	return pread(target->memory, dst, len, (off_t)va) == (ssize_t)len ? 0 : -1;
}

static void child_run(const char *program, const char *home, const char *script, const int in[2],
		      const int out[2])
{
	static const char *const theirs[] = { "PYTHONHOME", "PYTHONPATH", "PYTHONSTARTUP",
					      "PYTHONOPTIMIZE", "PYTHONWARNINGS" };

	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (dup2(in[0], 0) < 0 || dup2(out[1], 1) < 0)
		_exit(126);
	close(in[0]);
	close(in[1]);
	close(out[0]);
	close(out[1]);
	for (size_t i = 0; i < sizeof(theirs) / sizeof(*theirs); i++)
		unsetenv(theirs[i]);
	if (home)
		setenv("PYTHONHOME", home, 1);
	execl(program, program, "-B", script, (char *)NULL);
	_exit(127);
}

static int child_start(struct python_target *target, const char *program, const char *home,
		       const char *script, int *ret_out)
{
	int in[2], out[2];

	if (pipe2(in, O_CLOEXEC))
		return -errno;
	if (pipe2(out, O_CLOEXEC)) {
		close(in[0]);
		close(in[1]);
		return -EMFILE;
	}
	target->pid = fork();
	if (!target->pid)
		child_run(program, home, script, in, out);
	close(in[0]);
	close(out[1]);
	target->input = in[1];
	*ret_out = out[0];
	return target->pid > 0 ? 0 : -EAGAIN;
}

/* All that it says, up to the last line. */
static int text_read(struct python_target *target, int fd)
{
	struct pollfd wanted = { .fd = fd, .events = POLLIN };
	size_t len = 0;
	ssize_t n;

	target->text = malloc(MAX_TEXT);
	if (!target->text)
		return -ENOMEM;
	while (len < MAX_TEXT - 1 && poll(&wanted, 1, WAIT_MS) == 1) {
		n = read(fd, target->text + len, MAX_TEXT - 1 - len);
		if (n <= 0)
			break;
		len += (size_t)n;
		target->text[len] = '\0';
		if (len > 7 && !strcmp(target->text + len - 7, "\nready\n"))
			return 0;
	}
	return -ETIMEDOUT;
}

static int thread_parse(struct python_target *target, const char *line)
{
	struct python_reported_thread *thread = &target->threads[target->nr_threads];
	char *end;

	if (target->nr_threads == MAX_THREADS)
		return -E2BIG;
	thread->ident = strtoull(line, &end, 10);
	thread->interpreter = (uint32_t)strtoull(end, &end, 10);
	thread->nr_calls = (uint32_t)strtoull(end, &end, 10);
	target->nr_threads++;
	return *end ? -EPROTO : 0;
}

static int frame_parse(struct python_target *target, char *line)
{
	struct python_reported_thread *thread;
	struct python_reported_frame *frames;
	char *name, *tab;

	if (!target->nr_threads)
		return -EPROTO;
	thread = &target->threads[target->nr_threads - 1];
	frames = realloc(thread->frames, (thread->nr + 1) * sizeof(*frames));
	if (!frames)
		return -ENOMEM;
	thread->frames = frames;
	frames[thread->nr].line = (uint32_t)strtoull(line, &name, 10);
	tab = strchr(name, '\t');
	if (*name != ' ' || !tab)
		return -EPROTO;
	*tab = '\0';
	frames[thread->nr].name = name + 1;
	frames[thread->nr].file = tab + 1;
	thread->nr++;
	return 0;
}

static int text_parse(struct python_target *target)
{
	char *line = target->text, *end;
	int err = 0;

	target->threads = calloc(MAX_THREADS, sizeof(*target->threads));
	if (!target->threads)
		return -ENOMEM;
	while (!err && (end = strchr(line, '\n'))) {
		*end = '\0';
		if (!strncmp(line, "thread ", 7))
			err = thread_parse(target, line + 7);
		else if (!strncmp(line, "frame ", 6))
			err = frame_parse(target, line + 6);
		else if (strcmp(line, "ready"))
			err = -EPROTO;
		line = end + 1;
	}
	return err;
}

/* By how much addresses in memory are above those in the file; start is that of its first page. */
static uint64_t load_bias(const struct elf_image *img, uint64_t start)
{
	const struct elf_segment *segments;
	size_t nr, i;

	segments = elf_image_segments(img, &nr);
	for (i = 0; i < nr; i++)
		if (segments[i].type == PT_LOAD && segments[i].off < 4096)
			return start - (segments[i].va & ~4095ULL);
	return start;
}

/* Looks at a file whose first page lies at start. */
static int file_look(struct python_target *target, const char *path, uint64_t start)
{
	struct elf_image *img;
	int fd = open(path, O_RDONLY | O_CLOEXEC), err;

	if (fd < 0)
		return -ENODATA;
	err = elf_image_open_fd(&img, fd);
	if (err)
		return -ENODATA;
	err = python_image_probe(&target->image, img);
	if (!err)
		target->runtime = load_bias(img, start) + target->image.runtime_rva;
	elf_image_free(img);
	return err;
}

static int runtime_find(struct python_target *target)
{
	char name[64], line[5000], *path, *at;
	uint64_t start, off;
	int err = -ENODATA;
	FILE *maps;

	snprintf(name, sizeof(name), "/proc/%d/maps", (int)target->pid);
	maps = fopen(name, "re");
	if (!maps)
		return -errno;
	while (err == -ENODATA && fgets(line, sizeof(line), maps)) {
		path = strchr(line, '/');
		at = strchr(line, ' '); /* START-END FLAGS OFFSET DEVICE INODE PATH */
		at = at ? strchr(at + 1, ' ') : NULL;
		if (!path || !at)
			continue;
		start = strtoull(line, NULL, 16);
		off = strtoull(at, NULL, 16);
		path[strcspn(path, "\n")] = '\0';
		if (!off)
			err = file_look(target, path, start);
	}
	fclose(maps);
	return err;
}

static bool is_asleep(const char *stat_path)
{
	FILE *stat = fopen(stat_path, "re");
	char text[512] = ""; /* a thread's name may have ends of lines in it */
	const char *state;

	if (!stat)
		return false;
	text[fread(text, 1, sizeof(text) - 1, stat)] = '\0';
	fclose(stat);
	state = strrchr(text, ')');
	return state && state[1] == ' ' && state[2] == 'S';
}

/*
 * A thread prints its last line just before it begins to wait, and its other threads may do so,
 * too.
 */
static int asleep_wait(const struct python_target *target)
{
	struct timespec pause = { .tv_nsec = 2000000 };
	char pattern[64];
	glob_t found;
	size_t i;

	snprintf(pattern, sizeof(pattern), "/proc/%d/task/*/stat", (int)target->pid);
	for (int tries = 0; tries < 5000; tries++) {
		nanosleep(&pause, NULL);
		if (glob(pattern, 0, NULL, &found))
			return -ESRCH;
		for (i = 0; i < found.gl_pathc && is_asleep(found.gl_pathv[i]); i++)
			;
		globfree(&found);
		if (i == found.gl_pathc)
			return 0;
	}
	return -ETIMEDOUT;
}

int python_target_run(struct python_target *target, const char *program, const char *home,
		      const char *script)
{
	char name[64];
	int out = -1, err;

	*target = (struct python_target){ .reader.read = memory_read, .memory = -1, .input = -1 };
	err = child_start(target, program, home, script, &out);
	if (!err)
		err = text_read(target, out);
	if (out >= 0)
		close(out);
	if (!err)
		err = runtime_find(target);
	if (!err)
		err = asleep_wait(target);
	if (err)
		return err;
	snprintf(name, sizeof(name), "/proc/%d/mem", (int)target->pid);
	target->memory = open(name, O_RDONLY | O_CLOEXEC);
	return target->memory < 0 ? -EACCES : 0;
}

int python_target_start(struct python_target *target, const char *program, const char *home)
{
	int err = python_target_run(target, program, home, STACK_PROGRAM);

	return err ? err : text_parse(target);
}

int python_target_spin(struct python_target *target)
{
	return write(target->input, "\n", 1) == 1 ? 0 : -errno;
}

void python_target_stop(struct python_target *target)
{
	if (target->pid > 0) {
		kill(target->pid, SIGKILL);
		waitpid(target->pid, NULL, 0);
	}
	if (target->memory >= 0)
		close(target->memory);
	if (target->input >= 0)
		close(target->input);
	for (size_t i = 0; i < target->nr_threads; i++)
		free(target->threads[i].frames);
	free(target->threads);
	free(target->text);
	python_image_fini(&target->image);
}

static void programs_add(struct python_installed *ret, size_t *nr, const char *pattern,
			 bool is_unpacked)
{
	char path[PATH_MAX];
	glob_t found = { 0 };
	size_t i, k;
	char *bin;

	if (!glob(pattern, 0, NULL, &found)) {
		for (i = 0; i < found.gl_pathc && *nr < PYTHON_MAX_INSTALLED; i++) {
			bin = strrchr(found.gl_pathv[i], '/');
			/* pythonX.Y, not its python-config */
			if (!is_unpacked && bin[strcspn(bin, "-")])
				continue;
			/* 3.7 and before */
			if (!is_unpacked && strtoul(bin + sizeof("/python3.") - 1, NULL, 10) < 8)
				continue;
			if (!realpath(found.gl_pathv[i], path) || strlen(path) >= 512)
				continue;
			for (k = 0; k < *nr && strcmp(ret[k].program, path); k++)
				;
			if (k < *nr)
				continue;
			memcpy(ret[k].program, path, strlen(path) + 1);
			bin = strstr(path, "/bin/");
			if (is_unpacked && bin)
				memcpy(ret[k].home, path, (size_t)(bin - path));
			++*nr;
		}
	}
	globfree(&found);
}

struct python_installed *python_installed_find(size_t *ret_nr)
{
	static struct python_installed pythons[PYTHON_MAX_INSTALLED];
	const char *root = getenv("PYENV_ROOT"), *home = getenv("HOME");
	char pattern[PATH_MAX];
	size_t nr = 0;

	if (root || home) {
		snprintf(pattern, sizeof(pattern), "%s%s/versions/3.*/bin/python3.*",
			 root ? root : home, root ? "" : "/.pyenv");
		programs_add(pythons, &nr, pattern, false);
	}
	programs_add(pythons, &nr, "/usr/bin/python3.*", false);
	programs_add(pythons, &nr, "/usr/local/bin/python3.*", false);
	programs_add(pythons, &nr, "build/pythons/3.*/usr/bin/python3.*-*", true);
	*ret_nr = nr;
	return pythons;
}
