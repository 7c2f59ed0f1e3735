// SPDX-License-Identifier: Apache-2.0
#include "threads/dump.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/strtab.h"
#include "cmd/dump_tree.h"
#include "threads/thread_call.h"
#include "threads/wait_reason.h"
#include "threads/thread_dump.h"
#include "bpfprof.h"

TestSuite(dump, .timeout = 60);

static struct dump made;

static uint32_t id(const char *text)
{
	return strtab_add(made.strings, text);
}

static struct thread_frame *add_frame(struct thread_dump *thread, enum thread_frame_kind kind,
				      const char *name, const char *file, uint32_t line)
{
	struct thread_frame *frame;

	thread->frames = realloc(thread->frames, (thread->nr_frames + 1) * sizeof(*frame));
	frame = &thread->frames[thread->nr_frames++];
	*frame = (struct thread_frame){ .kind = kind,
					.name = id(name),
					.file = id(file),
					.short_file = id(strrchr(file, '/') ? strrchr(file, '/') + 1
									    : file),
					.line = line };
	return frame;
}

static struct thread_dump *add_thread(struct process_dump *process, uint32_t tid, const char *name)
{
	struct thread_dump *thread;

	process->threads =
		realloc(process->threads, (process->nr_threads + 1) * sizeof(*process->threads));
	thread = &process->threads[process->nr_threads++];
	*thread = (struct thread_dump){ .tid = tid,
					.kernel_tid = tid,
					.thread_id = 0x7f0000000000ULL + tid,
					.has_name = name != NULL,
					.name = name ? id(name) : 0,
					.is_python = true,
					.consistent = true,
					.syscall = -1,
					.state = 'S' };
	return thread;
}

/* A Python process of two threads, one of them with variables. */
static void make(void)
{
	struct process_dump *process;
	struct thread_dump *thread;
	struct thread_frame *frame;

	cr_assert_eq(dump_init(&made), 0);
	process = dump_add(&made);
	process->pid = 42;
	process->cmdline = id("python train.py");
	process->executable = id("/usr/bin/python3.11");
	process->python_version = id("3.11.7");
	thread = add_thread(process, 42, "MainThread");
	thread->active = thread->owns_gil = true;
	add_frame(thread, THREAD_FRAME_KERNEL, "futex_wait", "", 0);
	add_frame(thread, THREAD_FRAME_NATIVE, "take_gil", "/usr/lib/libpython3.11.so.1.0", 0);
	frame = add_frame(thread, THREAD_FRAME_PYTHON, "Trainer.fit", "/src/pkg/loop.py", 31);
	frame->has_variables = true;
	frame->first_variable = 0;
	frame->nr_variables = 2;
	thread->variables = calloc(2, sizeof(*thread->variables));
	thread->nr_variables = 2;
	thread->variables[0] = (struct thread_variable){
		.name = id("self"), .repr = id("<Trainer at 0x1>"), .va = 1, .argument = true
	};
	thread->variables[1] =
		(struct thread_variable){ .name = id("x"), .repr = id("\"\x1b[31m\n\"") };
	add_frame(thread, THREAD_FRAME_PYTHON, "<module>", "/src/train.py", 0);
	thread = add_thread(process, 43, "b\xc3\xb6se\x1b]0;x\x07");
	add_frame(thread, THREAD_FRAME_PYTHON, "wait", "/src/pkg/loop.py", 7);
}

static char *text_of(const struct dump_format *format,
		     void (*write)(struct buf *, const struct dump *, const struct dump_format *))
{
	struct buf out;

	buf_init(&out, 1 << 20);
	write(&out, &made, format);
	cr_assert_eq(buf_error(&out), 0);
	return buf_take(&out);
}

#define HEADER "Process 42: python train.py\nPython v3.11.7 (/usr/bin/python3.11)\n\n"
#define VARIABLES                                                                                  \
	"        Arguments:\n            self: <Trainer at 0x1>\n"                                 \
	"        Locals:\n            x: \"?[31m?\"\n"
#define SECOND "Thread 43 (idle): \"b\xc3\xb6se?]0;x?\"\n    wait (loop.py:7)\n"

Test(dump, text)
{
	static const struct {
		struct dump_format format;
		const char *want;
	} cases[] = {
		{ { 0 },
		  HEADER
		  "Thread 42 (active+gil): \"MainThread\"\n    Trainer.fit (loop.py:31)\n" VARIABLES
		  "    <module> (train.py)\n" SECOND },
		{ { .native = true },
		  HEADER "Thread 42 (active+gil): \"MainThread\"\n"
			 "    take_gil (libpython3.11.so.1.0)\n"
			 "    Trainer.fit (loop.py:31)\n" VARIABLES
			 "    <module> (train.py)\n" SECOND },
		{ { .kernel = true, .full_filenames = true },
		  HEADER
		  "Thread 42 (active+gil): \"MainThread\"\n    futex_wait_[k]\n"
		  "    Trainer.fit (/src/pkg/loop.py:31)\n" VARIABLES
		  "    <module> (/src/train.py)\n"
		  "Thread 43 (idle): \"b\xc3\xb6se?]0;x?\"\n    wait (/src/pkg/loop.py:7)\n" },
	};
	size_t i;

	make();
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		char *text = text_of(&cases[i].format, dump_text);

		cr_expect_str_eq(text, cases[i].want, "case %zu:\n%s", i, text);
		free(text);
	}
	dump_fini(&made);
}

Test(dump, threads_that_python_does_not_know)
{
	const struct dump_format native = { .native = true }, plain = { 0 };
	struct thread_dump *thread;
	char *text;

	make();
	thread = add_thread(&made.processes[0], 44, "helper");
	thread->is_python = false;
	add_frame(thread, THREAD_FRAME_NATIVE, "poll", "/usr/lib/libc.so.6", 0);
	text = text_of(&plain, dump_text);
	cr_expect_null(strstr(text, "helper"));
	free(text);
	text = text_of(&native, dump_text);
	cr_expect(strstr(text, "Thread 44 (idle): \"helper\"\n    poll (libc.so.6)\n"));
	free(text);
	/*
	 * A process without Python is shown completely, and a thread without other frames has
	 * kernel frames.
	 */
	made.processes[0].python_version = 0;
	thread->frames[0].kind = THREAD_FRAME_KERNEL;
	text = text_of(&plain, dump_text);
	cr_expect(strstr(text, "    poll_[k]"));
	cr_expect(strstr(text, "    take_gil (libpython3.11.so.1.0)\n"));
	cr_expect_null(strstr(text, "futex_wait"));
	free(text);
	dump_fini(&made);
}

/* Only the header is shown, unless more is requested or frames are missing. */
Test(dump, thread_that_runs_no_python)
{
	const struct dump_format native = { .native = true }, plain = { 0 },
				 kernel = { .kernel = true };
	const char *const alone = "Thread 44 (idle): \"pool\"\n";
	const char *const more = "Thread 44 (idle): \"pool\"\n    futex_wait_[k]\n";
	struct thread_dump *thread;
	char *text;

	make();
	thread = add_thread(&made.processes[0], 44, "pool");
	add_frame(thread, THREAD_FRAME_KERNEL, "futex_wait", "", 0);
	text = text_of(&plain, dump_text);
	cr_expect_str_eq(strstr(text, "Thread 44"), alone);
	free(text);
	text = text_of(&native, dump_text);
	cr_expect_str_eq(strstr(text, "Thread 44"), more);
	free(text);
	text = text_of(&kernel, dump_text);
	cr_expect_str_eq(strstr(text, "Thread 44"), more);
	free(text);
	add_frame(thread, THREAD_FRAME_MARKER, "[truncated]", "", 0);
	text = text_of(&plain, dump_text);
	cr_expect(strstr(text, more));
	free(text);
	dump_fini(&made);
}

Test(dump, remarks)
{
	const struct dump_format waits = { .waits = true };
	char *text;

	make();
	made.processes[0].has_gil_holder = true;
	made.processes[0].gil_holder = 1;
	made.processes[0].threads[1].consistent = false;
	made.processes[0].threads[1].waits_for = id("data from a pipe");
	made.processes[0].threads[1].wait_channel = id("pipe_read");
	made.processes[0].threads[1].gpu_call = id("ncclAllReduce");
	text = text_of(&waits, dump_text);
	cr_expect(strstr(text, "\"b\xc3\xb6se?]0;x?\" [ran while it was read]\n"
			       "  in ncclAllReduce\n"
			       "  waits for data from a pipe (pipe_read)\n    wait (loop.py:7)\n"
			       "GIL held by Thread 43 \"b\xc3\xb6se?]0;x?\"\n"),
		  "%s", text);
	free(text);
	dump_fini(&made);
}

Test(dump, containers)
{
	const struct dump_format plain = { 0 }, named = { .containers = true };
	struct process_dump *process;
	char *text;

	make();
	process = &made.processes[0];
	process->container_id = id("4f2c");
	process->pod_pid = 7;
	text = text_of(&named, dump_text);
	cr_expect(strstr(text, "\nContainer 4f2c, pid 7 in it\n"), "%s", text);
	free(text);
	process->container = id("work\033er");
	process->pod = id("trainer-0");
	process->namespace = id("ml");
	process->ray_task = id("ray::Trainer.fit");
	text = text_of(&named, dump_text);
	cr_expect(strstr(text, ")\nPod ml/trainer-0, container work?er, pid 7 in it\n\nThread"),
		  "%s", text);
	free(text);
	/* py-spy's text has no such line. */
	text = text_of(&plain, dump_text);
	cr_expect_null(strstr(text, "trainer-0"));
	free(text);
	text = text_of(&plain, dump_json);
	cr_expect(strstr(text, "    \"container\": \"work\\u001ber\",\n"
			       "    \"container_id\": \"4f2c\",\n    \"pod\": \"trainer-0\",\n"
			       "    \"namespace\": \"ml\",\n    \"pod_pid\": 7,\n"
			       "    \"ray_task\": \"ray::Trainer.fit\",\n"),
		  "%s", text);
	free(text);
	dump_fini(&made);
}

Test(dump, json)
{
	const struct dump_format plain = { 0 };
	char *text;

	make();
	text = text_of(&plain, dump_json);
	cr_expect_eq(strncmp(text,
			     "[\n  {\n    \"pid\": 42,\n    \"thread_id\": 139637976727595,\n"
			     "    \"thread_name\": \"b\xc3\xb6se\\u001b]0;x\\u0007\",\n"
			     "    \"os_thread_id\": 43,\n    \"active\": false,\n"
			     "    \"owns_gil\": false,\n    \"frames\": [\n      {\n"
			     "        \"name\": \"wait\",\n"
			     "        \"filename\": \"/src/pkg/loop.py\",\n"
			     "        \"module\": null,\n        \"short_filename\": \"loop.py\",\n"
			     "        \"line\": 7,\n        \"locals\": null,\n"
			     "        \"is_entry\": false,\n        \"is_shim_entry\": false\n"
			     "      }\n    ],\n    \"process_info\": null,\n",
			     strlen("[\n  {\n    \"pid\": 42,\n    \"thread_id\": 13963797672")),
		     0, "%s", text);
	cr_expect(strstr(text, "\"thread_name\": \"b\xc3\xb6se\\u001b]0;x\\u0007\""));
	cr_expect(strstr(text, "\"repr\": \"\\\"\\u001b[31m\\u000a\\\"\""));
	cr_expect(strstr(text, "    \"consistent\": true,\n    \"running\": false,\n"
			       "    \"state\": \"S\",\n    \"wait_channel\": null,\n"
			       "    \"waits_for\": null,\n    \"gpu_call\": null,\n"
			       "    \"gpu_arguments\": null,\n    \"asleep_seconds\": null,\n"
			       "    \"container\": null,\n"
			       "    \"container_id\": null,\n    \"pod\": null,\n"
			       "    \"namespace\": null,\n    \"pod_pid\": null,\n"
			       "    \"ray_task\": null,\n    \"tasks\": null\n  }\n]\n"));
	cr_expect_null(strstr(text, "take_gil"));
	free(text);
	dump_drop(&made);
	text = text_of(&plain, dump_json);
	cr_expect_str_eq(text, "[]\n");
	free(text);
	dump_fini(&made);
}

/* Room that a process took is there for the next one. */
/* A loop in thread 43 with a task that waits, one that runs, and two that are summed. */
static void make_tasks(void)
{
	struct process_dump *process;
	struct task_dump *tasks;

	make();
	process = &made.processes[0];
	process->threads[1].runs_loop = true;
	tasks = process->tasks = calloc(3, sizeof(*tasks));
	process->nr_tasks = 3;
	for (size_t i = 0; i < 3; i++) {
		tasks[i].kernel_tid = 43;
		tasks[i].stack.consistent = true;
		tasks[i].wait.seconds = tasks[i].wait.file = -1;
	}
	tasks[0].name = id("a \x1b]0;x");
	tasks[0].running = true;
	tasks[0].stack.consistent = false;
	tasks[0].coroutine = id("fit");
	tasks[1].name = id("b");
	tasks[1].coroutine = id("Trainer.load");
	tasks[1].wait = (struct task_wait){
		.kind = "timer", .text = id("a timer of 2.5 s"), .seconds = 2.5, .file = -1
	};
	tasks[1].awaited_by = calloc(2, sizeof(*tasks[1].awaited_by));
	tasks[1].awaited_by[0] = tasks[0].name;
	tasks[1].awaited_by[1] = tasks[1].name;
	tasks[1].nr_awaited_by = 2;
	tasks[1].nr_more_awaiters = 1;
	add_frame(&tasks[1].stack, THREAD_FRAME_PYTHON, "sleep", "/lib/asyncio/tasks.py", 600);
	made.nr_task_frames = 1;
	tasks[2].nr_same = 2;
	tasks[2].coroutine = id("rest");
	tasks[2].wait.kind = "task";
	tasks[2].wait.text = id("a task");
}

Test(dump, tasks)
{
	const struct dump_format plain = { 0 };
	char *text;

	make_tasks();
	text = text_of(&plain, dump_text);
	cr_expect(strstr(text, SECOND "Task 'a ?]0;x' (running): \"fit\" [ran while it was read]\n"
				      "Task 'b' (suspended): \"Trainer.load\"\n"
				      "  waits for a timer of 2.5 s\n"
				      "  awaited by Task 'a ?]0;x', 'b' and 1 more\n"
				      "    sleep (tasks.py:600)\n"
				      "2 more tasks (suspended): \"rest\"\n"
				      "  waits for a task\n"),
		  "%s", text);
	free(text);
	text = text_of(&plain, dump_json);
	cr_expect(strstr(text, "        \"name\": \"b\",\n"
			       "        \"coroutine\": \"Trainer.load\",\n"
			       "        \"running\": false,\n        \"count\": 1,\n"
			       "        \"waits_for\": {\n          \"kind\": \"timer\",\n"
			       "          \"text\": \"a timer of 2.5 s\",\n"
			       "          \"task\": null,\n          \"seconds\": 2.500000,\n"
			       "          \"file\": null\n        },\n"
			       "        \"awaited_by\": [\n          \"a \\u001b]0;x\",\n"
			       "          \"b\"\n        ],\n        \"more_awaiters\": 1,\n"),
		  "%s", text);
	cr_expect(strstr(text, "        \"name\": null,\n        \"coroutine\": \"rest\",\n"
			       "        \"running\": false,\n        \"count\": 2,\n"));
	cr_expect(strstr(text, "    \"tasks\": null\n")); /* no loop runs in thread 42 */
	free(text);
	dump_drop(&made);
	cr_expect_eq(made.nr_frames, 0);
	cr_expect_eq(made.nr_task_frames, 0);
	dump_fini(&made);
}

Test(dump, dropped_frames_do_not_count)
{
	struct process_dump *process;
	struct dump dump = { 0 };

	cr_assert_eq(dump_init(&dump), 0);
	process = dump_add(&dump);
	cr_assert(process);
	process->threads = calloc(2, sizeof(*process->threads));
	cr_assert(process->threads);
	process->nr_threads = 2;
	process->threads[0].nr_frames = 3;
	process->threads[1].nr_frames = 4;
	process->threads[1].nr_variables = 5;
	dump.nr_frames = 1 + 3 + 4;
	dump.nr_variables = 5;
	dump_drop(&dump);
	cr_expect_eq(dump.nr_frames, 1);
	cr_expect_eq(dump.nr_variables, 0);
	dump_fini(&dump);
}

Test(dump, waits)
{
	static const struct {
		const char *kernel[4], *native, *channel, *words;
		int32_t syscall;
	} cases[] = {
		{ { "__schedule", "schedule", "futex_wait_queue", NULL },
		  "pthread_cond_timedwait",
		  "futex_wait_queue",
		  "a condition",
		  202 },
		{ { "futex_wait_queue", NULL }, "take_gil", "futex_wait_queue", "the GIL", 202 },
		{ { "futex_wait_queue", NULL },
		  NULL,
		  "futex_wait_queue",
		  "a lock or condition",
		  202 },
		{ { "schedule", "pipe_read", NULL },
		  NULL,
		  "pipe_read",
		  "data from a pipe (file 7)",
		  0 },
		{ { "schedule_timeout", "unknown_wait", NULL }, NULL, "unknown_wait", "", 0 },
		{ { "[kernel]", "[kernel]", NULL }, NULL, "", "", 0 },
	};
	struct process_dump *process;
	struct thread_dump *thread;
	size_t i, k;

	cr_assert_eq(dump_init(&made), 0);
	process = dump_add(&made);
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		thread = add_thread(process, (uint32_t)i, "t");
		thread->syscall = cases[i].syscall;
		thread->syscall_args[0] = 7;
		for (k = 0; cases[i].kernel[k]; k++)
			add_frame(thread, THREAD_FRAME_KERNEL, cases[i].kernel[k], "", 0);
		if (cases[i].native)
			add_frame(thread, THREAD_FRAME_NATIVE, cases[i].native, "", 0);
	}
	wait_reasons_find(&made);
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		thread = &made.processes[0].threads[i];
		cr_expect_str_eq(strtab_get(made.strings, thread->wait_channel), cases[i].channel);
		cr_expect_str_eq(strtab_get(made.strings, thread->waits_for), cases[i].words);
	}
	dump_fini(&made);
}

Test(dump, gpu_calls)
{
	static const struct {
		struct {
			const char *name, *file;
		} frames[4]; /* leaf first */
		const char *call;
	} cases[] = {
		{ { { "poll", "/lib/libc.so.6" },
		    { "enqueue", "/x/libnccl.so.2" },
		    { "pncclAllReduce", "/x/libnccl.so.2" },
		    { "work", "/x/train" } },
		  "ncclAllReduce" },
		{ { { "cuStreamSynchronize", "/x/libcuda.so.1" },
		    { "ncclGroupEnd", "/x/librccl.so.1" },
		    { "work", "/x/train" } },
		  "ncclGroupEnd" },
		{ { { "libcuda.so.1+0x77", "/x/libcuda.so.1" },
		    { "libcudart.so.12+0x5", "/x/libcudart.so.12" },
		    { "cudaStreamSynchronize", "/x/libcudart.so.12" },
		    { "work", "/x/train" } },
		  "cudaStreamSynchronize" },
		{ { { "libcuda.so.1+0x77", "/x/libcuda.so.1" }, { "work", "/x/train" } },
		  "a function of libcuda" },
		/* Threads of the driver's and of NCCL's own; who is called alike; wrong files. */
		{ { { "libcuda.so.1+0x77", "/x/libcuda.so.1" }, { "start_thread", "libc" } }, "" },
		{ { { "libcuda.so.1+0x77", "/x/libcuda.so.1" } }, "" },
		{ { { "ncclProxyService", "/x/libnccl.so.2" }, { "start_thread", "libc" } }, "" },
		{ { { "ncclAllReduce", "/x/libtorch.so" }, { "work", "/x/train" } }, "" },
		{ { { "cuInit", "/x/libcudadebugger.so.1" }, { "work", "/x/train" } }, "" },
		{ { { "", "" } }, "" },
	};
	struct process_dump *process;
	struct thread_dump *thread;
	size_t i, k;

	cr_assert_eq(dump_init(&made), 0);
	process = dump_add(&made);
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		thread = add_thread(process, (uint32_t)i, "t");
		for (k = 0; k < 4 && cases[i].frames[k].name; k++)
			add_frame(thread, THREAD_FRAME_NATIVE, cases[i].frames[k].name,
				  cases[i].frames[k].file, 0);
	}
	thread_calls_find(&made);
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++)
		cr_expect_str_eq(strtab_get(made.strings, made.processes[0].threads[i].gpu_call),
				 cases[i].call, "%zu", i);
	dump_fini(&made);
}

static struct thread_collective collective(size_t frame, const char *name, uint64_t count)
{
	struct thread_collective made_up = { .frame = frame };

	strncpy(made_up.info.name, name, sizeof(made_up.info.name) - 1);
	made_up.info.type = 7;
	made_up.info.count = count;
	made_up.info.bytes = 4 * count;
	made_up.info.comm = 0x7f00;
	return made_up;
}

Test(dump, gpu_arguments)
{
	static const struct {
		const char *inner, *middle, *outer; /* names of frames */
		struct {
			size_t frame;
			const char *name;
			uint64_t count;
		} found[3];
		uint64_t count; /* of the chosen one, 0: none */
		bool ran;
	} cases[] = {
		{ "f", "ncclEnqueueCheck", "pncclAllReduce", { { 2, "AllReduce", 5 } }, 5, false },
		{ "f", "g", "ncclAllReduceConfig", { { 2, "AllReduce", 5 } }, 5, false },
		{ "f", "ncclBroadcast", "ncclBcast", { { 1, "Broadcast", 6 } }, 6, false },
		{ "f", "g", "ncclBcast", { { 2, "Broadcast", 6 } }, 6, false },
		/* In another frame of its; of another function. */
		{ "f", "g", "ncclAllReduce", { { 1, "AllReduce", 5 } }, 0, false },
		{ "f", "ncclAllReduce", "ncclGroupEnd", { { 1, "AllReduce", 5 } }, 0, false },
		{ "f", "g", "ncclAllReduce", { { 2, "AllGather", 5 } }, 0, false },
		{ "f", "g", "ncclAllReduce", { { 9, "AllReduce", 5 } }, 0, false },
		/* Two that differ, or do not. */
		{ "f",
		  "g",
		  "ncclSend",
		  { { 2, "Send", 5 }, { 2, "Recv", 7 }, { 2, "Send", 6 } },
		  0,
		  false },
		{ "f", "g", "ncclSend", { { 2, "Recv", 4 }, { 2, "Send", 5 } }, 5, false },
		/* Old values in the frame; a thread that ran during the read. */
		{ "f", "nvtxDomainRangePushEx", "ncclSend", { { 2, "Send", 5 } }, 0, false },
		{ "f", "g", "ncclSend", { { 2, "Send", 5 } }, 0, true },
	};
	const struct thread_collective *chosen;
	struct process_dump *process;
	struct thread_dump *thread;
	size_t i, k;

	cr_assert_eq(dump_init(&made), 0);
	process = dump_add(&made);
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		thread = add_thread(process, (uint32_t)i, "t");
		thread->consistent = !cases[i].ran;
		add_frame(thread, THREAD_FRAME_NATIVE, cases[i].inner, "/x/libnccl.so.2", 0);
		add_frame(thread, THREAD_FRAME_NATIVE, cases[i].middle, "/x/libnccl.so.2", 0);
		add_frame(thread, THREAD_FRAME_NATIVE, cases[i].outer, "/x/libnccl.so.2", 0);
		add_frame(thread, THREAD_FRAME_NATIVE, "work", "/x/train", 0);
		thread->collectives = calloc(3, sizeof(*thread->collectives));
		for (k = 0; k < 3 && cases[i].found[k].name; k++)
			thread->collectives[thread->nr_collectives++] =
				collective(cases[i].found[k].frame, cases[i].found[k].name,
					   cases[i].found[k].count);
	}
	thread_calls_find(&made);
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		chosen = made.processes[0].threads[i].gpu_arguments;
		cr_expect_eq(chosen ? chosen->info.count : 0, cases[i].count, "%zu", i);
	}
	dump_fini(&made);
}

/* The arguments of a thread in this call. */
static void show_arguments(const char *call, const struct thread_collective *arguments)
{
	make();
	made.processes[0].threads[1].gpu_call = id(call);
	made.processes[0].threads[1].gpu_arguments = arguments;
}

Test(dump, gpu_arguments_shown)
{
	const struct dump_format waits = { .waits = true }, plain = { 0 };
	struct thread_collective is = collective(0, "Reduce", 1030);
	char *text;

	is.info.op = 2;
	is.info.root = 7;
	is.info.stream = 0x51;
	show_arguments("ncclReduce", &is);
	text = text_of(&waits, dump_text);
	cr_expect(strstr(text, "  in ncclReduce (4.1 kB float32 max, root 7, communicator 0x7f00, "
			       "stream 0x51)\n"),
		  "%s", text);
	free(text);
	text = text_of(&plain, dump_text);
	cr_expect_null(strstr(text, "ncclReduce"));
	free(text);
	text = text_of(&plain, dump_json);
	cr_expect(strstr(text, "    \"gpu_arguments\": {\n      \"bytes\": 4120,\n"
			       "      \"count\": 1030,\n      \"datatype\": \"float32\",\n"
			       "      \"op\": \"max\",\n      \"root\": 7,\n"
			       "      \"comm\": \"0x7f00\",\n      \"hash\": null,\n"
			       "      \"rank\": null,\n      \"size\": null,\n"
			       "      \"stream\": \"0x51\"\n    },\n"),
		  "%s", text);
	free(text);
	dump_fini(&made);
	is.info.type = NCCL_INFO_TYPE_UNKNOWN;
	is.info.count = 0;
	is.comm_known = true;
	is.hash = 0xabc;
	is.rank = 3;
	is.size = 8;
	show_arguments("ncclAllGather", &is);
	text = text_of(&waits, dump_text);
	cr_expect(strstr(text, "  in ncclAllGather (4.1 kB, communicator 0x7f00: rank 3 of 8, "
			       "stream 0x51)\n"),
		  "%s", text);
	free(text);
	text = text_of(&plain, dump_json);
	cr_expect(strstr(text, "      \"bytes\": 4120,\n      \"count\": null,\n"
			       "      \"datatype\": null,\n      \"comm\": \"0x7f00\",\n"
			       "      \"hash\": \"0xabc\",\n      \"rank\": 3,\n"
			       "      \"size\": 8,\n"),
		  "%s", text);
	free(text);
	dump_fini(&made);
}

Test(dump, threads_read_again)
{
	struct process_dump *first, *again;
	struct thread_dump *thread;

	cr_assert_eq(dump_init(&made), 0);
	dump_add(&made);
	dump_add(&made);
	first = &made.processes[0];
	again = &made.processes[1];
	add_thread(first, 1, "one")->running = true;
	add_thread(first, 2, "two");
	add_thread(again, 2, "other");
	thread = add_thread(again, 1, "sleeps");
	add_frame(thread, THREAD_FRAME_NATIVE, "sleep", "", 0);
	process_dump_take(first, again);
	cr_expect(!first->threads[0].running && first->threads[0].nr_frames == 1);
	cr_expect_eq(first->threads[1].nr_frames, 0);
	cr_expect_str_eq(strtab_get(made.strings, first->threads[1].name), "two");
	dump_fini(&made);
}

Test(dump, tree)
{
	struct dump_target *targets;
	pid_t pids[] = { getpid(), getpid(), getppid() };
	size_t nr;

	cr_assert_eq(dump_tree(&targets, &nr, pids, 3, false), 0);
	cr_assert_eq(nr, 2);
	cr_expect(targets[0].pid == getpid() && !targets[0].parent);
	cr_expect(targets[1].pid == getppid() && !targets[1].parent);
	free(targets);
	pids[0] = getppid();
	cr_assert_eq(dump_tree(&targets, &nr, pids, 2, true), 0);
	cr_expect(nr >= 2 && targets[0].pid == getppid());
	for (size_t i = 1; i < nr; i++)
		if (targets[i].pid == getpid())
			cr_expect_eq(targets[i].parent, getppid());
	free(targets);
}
