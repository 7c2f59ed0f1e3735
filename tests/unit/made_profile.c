// SPDX-License-Identifier: Apache-2.0
#include "made_profile.h"

#include "base/strtab.h"
#include "formats/output.h"

#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

static void *grow(void *array, size_t nr, size_t size)
{
	/* Doubled at powers of two. */
	if (nr & (nr - 1))
		return array;
	array = realloc(array, (nr ? 2 * nr : 1) * size);
	if (!array)
		abort();
	return array;
}

#define APPEND(array, nr)                                                                          \
	((array) = grow(array, nr, sizeof(*(array))), memset(&(array)[nr], 0, sizeof(*(array))),   \
	 &(array)[(nr)++])

struct profile *made_new(void)
{
	struct profile *profile = calloc(1, sizeof(*profile));

	if (!profile || strtab_new(&profile->strings, 64U << 20))
		abort();
	profile->hz = 99;
	profile->time_ns = 1706702400ULL * 1000000000;
	profile->duration_ns = 10ULL * 1000000000;
	profile->host = strtab_add(profile->strings, "node-1");
	return profile;
}

void made_free(struct profile *profile)
{
	profile_fini(profile);
	free(profile);
}

uint32_t made_process(struct profile *profile, uint32_t pid, const char *comm, const char *cmdline)
{
	struct profile_process *process = APPEND(profile->processes, profile->nr_processes);

	process->pid = process->kernel_pid = pid;
	process->comm = process->title = strtab_add(profile->strings, comm);
	process->cmdline = strtab_add(profile->strings, cmdline);
	process->nr_threads = 1;
	return (uint32_t)profile->nr_processes - 1;
}

uint32_t made_container(struct profile *profile, const char *id, const char *namespace,
			const char *pod, const char *name, const char *ray_cluster)
{
	struct profile_container *container = APPEND(profile->containers, profile->nr_containers);

	container->id = strtab_add(profile->strings, id);
	container->namespace = strtab_add(profile->strings, namespace);
	container->pod = strtab_add(profile->strings, pod);
	container->name = strtab_add(profile->strings, name);
	container->image = strtab_add(profile->strings, *pod ? "registry/train:1" : "");
	if (ray_cluster) {
		container->ray_cluster = strtab_add(profile->strings, ray_cluster);
		container->ray_group = strtab_add(profile->strings, "gpu-group");
		container->ray_node_type = strtab_add(profile->strings, "worker");
	}
	return (uint32_t)profile->nr_containers;
}

uint32_t made_mapping(struct profile *profile, const char *path, const char *build_id,
		      uint64_t start, uint64_t limit)
{
	struct profile_mapping *mapping = APPEND(profile->mappings, profile->nr_mappings);

	mapping->path = strtab_add(profile->strings, path);
	mapping->build_id = strtab_add(profile->strings, build_id);
	mapping->start = start;
	mapping->limit = limit;
	mapping->has_functions = true;
	return (uint32_t)profile->nr_mappings;
}

static struct profile_location *add_location(struct profile *profile, uint8_t kind,
					     const char *name)
{
	struct profile_location *location = APPEND(profile->locations, profile->nr_locations);

	location->kind = kind;
	location->has_symbol = true;
	location->name = location->system_name = strtab_add(profile->strings, name);
	return location;
}

uint32_t made_python(struct profile *profile, const char *name, const char *file,
		     const char *short_file, uint32_t line, uint32_t start_line)
{
	struct profile_location *location = add_location(profile, LOCATION_PYTHON, name);

	location->file = strtab_add(profile->strings, file);
	location->short_file = strtab_add(profile->strings, short_file);
	location->line = line;
	location->start_line = start_line;
	return (uint32_t)profile->nr_locations - 1;
}

uint32_t made_native(struct profile *profile, const char *name, uint32_t mapping, uint64_t address)
{
	struct profile_location *location = add_location(profile, LOCATION_NATIVE, name);

	location->mapping = mapping;
	location->address = address;
	return (uint32_t)profile->nr_locations - 1;
}

uint32_t made_unknown(struct profile *profile, const char *name, uint32_t mapping, uint64_t address)
{
	uint32_t index = made_native(profile, name, mapping, address);

	profile->locations[index].has_symbol = false;
	return index;
}

uint32_t made_kernel(struct profile *profile, const char *name, uint64_t address)
{
	add_location(profile, LOCATION_KERNEL, name)->address = address;
	return (uint32_t)profile->nr_locations - 1;
}

uint32_t made_marker(struct profile *profile, const char *name)
{
	add_location(profile, LOCATION_MARKER, name);
	return (uint32_t)profile->nr_locations - 1;
}

uint32_t made_call(struct profile *profile, const char *name)
{
	add_location(profile, LOCATION_CALL, name);
	return (uint32_t)profile->nr_locations - 1;
}

uint32_t made_stack(struct profile *profile, const uint32_t *locations, uint32_t nr)
{
	uint32_t stack = 0;

	if (profile_stacks_fit(profile, nr))
		abort();
	while (nr-- > 0)
		stack = profile_stack_put(profile, stack, locations[nr]);
	return stack;
}

struct profile_sample *made_sample(struct profile *profile, uint32_t process, uint32_t stack,
				   uint64_t count)
{
	struct profile_sample *sample = APPEND(profile->samples, profile->nr_samples);

	sample->process = process;
	sample->stack = stack;
	sample->count = count;
	sample->value_ns = count * 10000000;
	return sample;
}

void made_call_sample(struct profile *profile, const struct profile_call *call,
		      const uint64_t values[PROFILE_NR_CALL_VALUES])
{
	struct profile_sample *sample = &profile->samples[profile->nr_samples - 1];

	profile->call_values =
		realloc(profile->call_values, profile->nr_samples * sizeof(*profile->call_values));
	if (!profile->call_values)
		abort();
	memcpy(profile->call_values[profile->nr_samples - 1], values,
	       sizeof(profile->call_values[0]));
	*APPEND(profile->calls, profile->nr_calls) = *call;
	sample->call = (uint32_t)profile->nr_calls;
	sample->count = values[PROFILE_CALLS];
	sample->value_ns = values[PROFILE_BLOCKED_NS];
}

struct profile *made_calls(void)
{
	struct profile *profile = made_new();
	uint32_t ranked = made_process(profile, 42, "python3", "python3 train.py"),
		 plain = made_process(profile, 77, "infer", "infer");
	uint32_t lib = made_mapping(profile, "/lib/libtorch.so", "ab", 0x1000, 0x8000);
	uint32_t sgemm = made_call(profile, "void sgemm<128, 4>"),
		 launch = made_call(profile, "cuLaunchKernel"),
		 reduce = made_call(profile, "ncclAllReduce"),
		 free = made_call(profile, "cuMemFree");
	uint32_t fit = made_python(profile, "Trainer.fit", "/srv/app/loop.py", "loop.py", 31, 25),
		 native = made_native(profile, "at::mm", lib, 0x1234),
		 none = made_marker(profile, "[no stack]");
	struct strtab *strings = profile->strings;
	const struct profile_call sgemm_call = {
		.function = strtab_add(strings, "cuLaunchKernel"),
		.kernel = strtab_add(strings, "void sgemm<128, 4>"),
		.stream = strtab_add(strings, "0x0"),
	};
	const struct profile_call reduce_call = {
		.function = strtab_add(strings, "ncclAllReduce"),
		.stream = strtab_add(strings, "0x7f01"),
		.comm = strtab_add(strings, "0xc0"),
		.rank = strtab_add(strings, "3"),
		.op = strtab_add(strings, "sum"),
	};
	const struct profile_call free_call = { .function = strtab_add(strings, "cuMemFree") };

	profile->hz = 0;
	profile->processes[ranked].ranks.rank = strtab_add(strings, "5");
	made_add(profile, ranked, 0, sgemm, launch, native, fit);
	made_call_sample(profile, &sgemm_call, (uint64_t[PROFILE_NR_CALL_VALUES]){ 9, 0, 0, 0, 0 });
	made_add(profile, ranked, 0, reduce, fit);
	made_call_sample(profile, &reduce_call,
			 (uint64_t[PROFILE_NR_CALL_VALUES]){ 2, 1500, 4096, 0, 0 });
	made_add(profile, plain, 0, reduce, none);
	made_call_sample(profile, &reduce_call,
			 (uint64_t[PROFILE_NR_CALL_VALUES]){ 1, 0, 2048, 0, 0 });
	made_add(profile, plain, 0, free, native);
	made_call_sample(profile, &free_call,
			 (uint64_t[PROFILE_NR_CALL_VALUES]){ 0, 0, 0, 0, 512 });
	return profile;
}

struct profile *made_golden(void)
{
	struct profile *profile = made_new();
	uint32_t python = made_process(profile, 42, "python3", "python3 train.py --fast");
	uint32_t dd = made_process(profile, 77, "dd", "dd if=/dev/zero");
	uint32_t exe =
		made_mapping(profile, "/usr/bin/python3.11", "abcdef0123456789", 0x1000, 0x90000);
	uint32_t libc =
		made_mapping(profile, "/lib/libfoo.so.1", "00112233445566778899", 0x1000, 0x8000);
	uint32_t kernel = made_mapping(profile, "[kernel.kallsyms]", "", 0xffffffff81000000,
				       0xffffffff82000000);
	uint32_t main_frame =
		made_python(profile, "<module>", "/srv/app/train.py", "train.py", 90, 1);
	uint32_t fit = made_python(profile, "Trainer.fit", "/srv/app/trainer/loop.py",
				   "trainer/loop.py", 31, 25);
	uint32_t fit_later = made_python(profile, "Trainer.fit", "/srv/app/trainer/loop.py",
					 "trainer/loop.py", 33, 25);
	uint32_t start = made_native(profile, "Py_RunMain", exe, 0x2345);
	uint32_t add = made_native(profile, "at::native::add", libc, 0x1234);
	uint32_t unknown = made_unknown(profile, "libfoo.so.1+0x1f2e", libc, 0x1f2e);
	uint32_t write = made_kernel(profile, "ksys_write", 0xffffffff81234567);
	uint32_t lost = made_kernel(profile, "[kernel]", 0xffffffff81000010);
	uint32_t truncated = made_marker(profile, "[truncated]");

	profile->locations[write].mapping = profile->locations[lost].mapping = kernel;
	profile->locations[add].system_name =
		strtab_add(profile->strings, "_ZN2at6native3addERKNS_6TensorE");
	made_add(profile, python, 3, add, fit, main_frame, start);
	made_add(profile, python, 2, unknown, add, fit, main_frame, start);
	made_add(profile, python, 1, fit_later, main_frame, start);
	made_add(profile, python, 4, add, truncated);
	made_add(profile, dd, 5, write, lost);
	return profile;
}

char *made_text(int (*write_fn)(FILE *out, const struct profile *profile,
				const struct output_options *options),
		const struct profile *profile, const struct output_options *options,
		size_t *ret_len)
{
	static const struct output_options none;
	char *text = NULL;
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);

	if (!out || write_fn(out, profile, options ? options : &none) || fclose(out))
		abort();
	if (ret_len)
		*ret_len = len;
	return text;
}

static char *read_all(int fd, size_t *ret_len)
{
	char *text = NULL, chunk[4096];
	size_t len = 0;
	FILE *out = open_memstream(&text, &len);
	ssize_t ret;

	if (!out)
		abort();
	while ((ret = read(fd, chunk, sizeof(chunk))) > 0)
		fwrite(chunk, 1, (size_t)ret, out);
	if (fclose(out))
		abort();
	if (ret_len)
		*ret_len = len;
	return text;
}

char *made_read(const char *path, size_t *ret_len)
{
	int fd = open(path, O_RDONLY | O_CLOEXEC);
	char *text;

	if (fd < 0)
		return NULL;
	text = read_all(fd, ret_len);
	close(fd);
	return text;
}

char *made_run(const char *command, const void *input, size_t len, int *ret_status)
{
	int in = memfd_create("input", MFD_CLOEXEC), out[2], status;
	char *text;
	pid_t pid;

	if (in < 0 || write(in, input, len) != (ssize_t)len || lseek(in, 0, SEEK_SET) ||
	    pipe2(out, O_CLOEXEC))
		abort();
	pid = fork();
	if (pid < 0)
		abort();
	if (!pid) {
		dup2(in, STDIN_FILENO);
		dup2(out[1], STDOUT_FILENO);
		dup2(out[1], STDERR_FILENO);
		execl("/bin/sh", "sh", "-c", command, (char *)NULL);
		_exit(127);
	}
	close(in);
	close(out[1]);
	text = read_all(out[0], NULL);
	close(out[0]);
	if (waitpid(pid, &status, 0) != pid)
		abort();
	if (ret_status)
		*ret_status = WIFEXITED(status) ? WEXITSTATUS(status) : 128;
	return text;
}
