// SPDX-License-Identifier: Apache-2.0
#include "watch/death.h"

#include <criterion/criterion.h>

#include <signal.h>
#include <stdio.h>

#include "base/buf.h"
#include "base/strtab.h"
#include "profile/profile.h"
#include "watch/folder_name.h"

TestSuite(death, .timeout = 60);

#define SECOND 1000000000ULL
#define NOW (1000 * SECOND)
#define CODE(code) ((code) << 8)
#define PARENT 5
#define STRANGER 9
#define RUNTIME 11
#define SELF 42

struct judged {
	const char *name;
	uint32_t status;
	uint32_t asked, asked_by, asked_flags; /* a signal before the end; 0: none */
	uint64_t asked_ago_ns;
	uint32_t fault, fault_by;
	uint64_t fault_ago_ns;
	uint32_t kill_by, kill_flags; /* SIGKILL; 0: none */
	const char *killer;
	bool helper, taken, ray;
	enum death_kind kind;
	uint32_t by; /* pid; 0: none */
};

static struct bpfprof_kill_event event_of(uint32_t number, uint32_t sender, uint32_t flags,
					  uint64_t ago_ns, const char *comm)
{
	struct bpfprof_kill_event event = { .pid = SELF,
					    .sender = sender,
					    .parent = PARENT,
					    .signal = number,
					    .flags = flags |
						     (sender == PARENT ? BPFPROF_KILL_ABOVE : 0),
					    .rec.ts_ns = NOW - ago_ns };

	snprintf(event.comm, sizeof(event.comm), "%s", comm ? comm : "some");
	return event;
}

static const struct judged ends[] = {
	{ .name = "as planned", .kind = DEATH_NONE },
	{ .name = "exit code", .status = CODE(3), .kind = DEATH_EXIT },
	{ .name = "Ray ends a worker", .status = CODE(1), .ray = true, .kind = DEATH_NONE },
	{ .name = "a Ray worker's own code", .status = CODE(3), .ray = true, .kind = DEATH_EXIT },
	{ .name = "a Ray worker's fault", .status = SIGSEGV, .ray = true, .kind = DEATH_SIGNAL },
	{ .name = "a tool's exit code", .status = CODE(1), .helper = true, .kind = DEATH_NONE },
	{ .name = "fault", .status = SIGSEGV | 0x80, .kind = DEATH_SIGNAL },
	{ .name = "a tool's fault", .status = SIGSEGV, .helper = true, .kind = DEATH_SIGNAL },
	{ .name = "fault by another",
	  .status = SIGSEGV,
	  .fault = SIGSEGV,
	  .fault_by = STRANGER,
	  .kind = DEATH_KILLED,
	  .by = STRANGER },
	{ .name = "a fault of another long ago",
	  .status = SIGSEGV,
	  .fault = SIGSEGV,
	  .fault_by = STRANGER,
	  .fault_ago_ns = 121 * SECOND,
	  .kind = DEATH_SIGNAL },
	{ .name = "another fault than the sent one",
	  .status = SIGABRT,
	  .fault = SIGSEGV,
	  .fault_by = STRANGER,
	  .kind = DEATH_SIGNAL },
	{ .name = "terminate() of the parent",
	  .status = SIGTERM,
	  .asked = SIGTERM,
	  .asked_by = PARENT,
	  .kind = DEATH_NONE },
	{ .name = "a process above ends all below",
	  .status = SIGTERM,
	  .asked = SIGTERM,
	  .asked_by = STRANGER,
	  .asked_flags = BPFPROF_KILL_ABOVE,
	  .kind = DEATH_NONE },
	{ .name = "a process above kills all below",
	  .status = SIGKILL,
	  .kill_by = STRANGER,
	  .kill_flags = BPFPROF_KILL_ABOVE,
	  .kind = DEATH_NONE },
	{ .name = "a stranger's request",
	  .status = SIGTERM,
	  .asked = SIGTERM,
	  .asked_by = STRANGER,
	  .kind = DEATH_KILLED,
	  .by = STRANGER },
	{ .name = "end of a pod",
	  .status = SIGTERM,
	  .asked = SIGTERM,
	  .asked_by = RUNTIME,
	  .asked_flags = BPFPROF_KILL_OUTSIDE,
	  .kind = DEATH_NONE },
	{ .name = "Ctrl-C",
	  .status = SIGINT,
	  .asked = SIGINT,
	  .asked_by = STRANGER,
	  .asked_flags = BPFPROF_KILL_KERNEL,
	  .kind = DEATH_NONE },
	{ .name = "a handler's exit code",
	  .status = CODE(143),
	  .asked = SIGTERM,
	  .asked_by = PARENT,
	  .kind = DEATH_NONE },
	{ .name = "a handler's exit code, for a stranger",
	  .status = CODE(143),
	  .asked = SIGTERM,
	  .asked_by = STRANGER,
	  .kind = DEATH_KILLED,
	  .by = STRANGER },
	{ .name = "a request of long ago",
	  .status = CODE(1),
	  .asked = SIGTERM,
	  .asked_by = PARENT,
	  .asked_ago_ns = 121 * SECOND,
	  .kind = DEATH_EXIT },
	{ .name = "a fault during an end in order",
	  .status = SIGSEGV,
	  .asked = SIGTERM,
	  .asked_by = PARENT,
	  .kind = DEATH_SIGNAL },
	{ .name = "kill() of the parent",
	  .status = SIGKILL,
	  .kill_by = PARENT,
	  .kind = DEATH_NONE },
	{ .name = "the raylet takes a worker",
	  .status = SIGKILL,
	  .kill_by = PARENT,
	  .killer = "raylet",
	  .kind = DEATH_KILLED,
	  .taken = true,
	  .by = PARENT },
	{ .name = "the raylet ends",
	  .status = SIGKILL,
	  .kill_by = PARENT,
	  .killer = "raylet",
	  .kind = DEATH_NONE },
	{ .name = "the raylet ends a job",
	  .taken = true,
	  .status = SIGKILL,
	  .asked = SIGTERM,
	  .asked_by = PARENT,
	  .kill_by = PARENT,
	  .killer = "raylet",
	  .kind = DEATH_NONE },
	{ .name = "a stranger kills",
	  .status = SIGKILL,
	  .kill_by = STRANGER,
	  .kind = DEATH_KILLED,
	  .by = STRANGER },
	{ .name = "a pod is over its time",
	  .status = SIGKILL,
	  .asked = SIGTERM,
	  .asked_by = RUNTIME,
	  .asked_flags = BPFPROF_KILL_OUTSIDE,
	  .kill_by = RUNTIME,
	  .kill_flags = BPFPROF_KILL_OUTSIDE,
	  .kind = DEATH_NONE },
	{ .name = "a runtime kills at once",
	  .status = SIGKILL,
	  .kill_by = RUNTIME,
	  .kill_flags = BPFPROF_KILL_OUTSIDE,
	  .kind = DEATH_KILLED,
	  .by = RUNTIME },
	{ .name = "its container has ended",
	  .status = SIGKILL,
	  .kill_by = STRANGER,
	  .kill_flags = BPFPROF_KILL_KERNEL | BPFPROF_KILL_NAMESPACE,
	  .kind = DEATH_NONE },
	{ .name = "OOM killer",
	  .status = SIGKILL,
	  .kill_by = STRANGER,
	  .kill_flags = BPFPROF_KILL_KERNEL | BPFPROF_KILL_OOM,
	  .kind = DEATH_OOM,
	  .by = STRANGER },
	{ .name = "by itself", .status = SIGKILL, .kill_by = SELF, .kind = DEATH_SIGNAL },
	{ .name = "by the kernel",
	  .status = SIGKILL,
	  .kill_by = STRANGER,
	  .kill_flags = BPFPROF_KILL_KERNEL,
	  .kind = DEATH_SIGNAL },
	{ .name = "no sender is known", .status = SIGKILL, .kind = DEATH_SIGNAL },
};

Test(death, judge)
{
	const struct bpfprof_kill_event *by;
	size_t i;

	for (i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
		const struct judged *c = &ends[i];
		struct death_facts facts = { .pid = SELF,
					     .status = c->status,
					     .ts_ns = NOW,
					     .helper = c->helper,
					     .taken = c->taken,
					     .ray = c->ray };

		if (c->asked)
			facts.asked = event_of(c->asked, c->asked_by, c->asked_flags,
					       c->asked_ago_ns ?: SECOND, NULL);
		if (c->fault)
			facts.fault =
				event_of(c->fault, c->fault_by, 0, c->fault_ago_ns ?: 1, NULL);
		if (c->kill_by)
			facts.kill = event_of(SIGKILL, c->kill_by, c->kill_flags, 1, c->killer);
		cr_expect_eq(death_judge(&facts, &by), c->kind, "%s", c->name);
		cr_expect_eq(by ? by->sender : 0, c->by, "%s", c->name);
	}
}

static void profile_make(struct profile *profile, struct death *death)
{
	*profile = (struct profile){ 0 };
	*death = (struct death){ .pid = 712, .wall_ns = 1764447000ULL * SECOND };
	cr_assert_eq(strtab_new(&profile->strings, 1 << 16), 0);
}

/* The sentence of each kind; a death without any stack still has one. */
Test(death, sentences)
{
	static const struct {
		enum death_kind kind;
		uint32_t status;
		uint64_t limit;
		const char *text;
	} cases[] = {
		{ DEATH_SIGNAL, SIGBUS, 0, "died of SIGBUS" },
		{ DEATH_SIGNAL, SIGKILL, 0, "was killed with SIGKILL" },
		{ DEATH_KILLED, SIGKILL, 0, "was killed with SIGKILL by raylet (pid 55)" },
		{ DEATH_KILLED, CODE(143), 0,
		  "exited with code 143 after SIGTERM by raylet (pid 55)" },
		{ DEATH_OOM, SIGKILL, 512 << 20,
		  "was killed by the kernel: cgroup limit 512 MiB, used 256 MiB" },
		{ DEATH_OOM, SIGKILL, 0,
		  "was killed by the kernel: the machine had no memory left" },
		{ DEATH_EXIT, CODE(3), 0, "exited with code 3" },
	};
	struct profile profile;
	struct death death;
	char whole[256];
	size_t i;

	profile_make(&profile, &death);
	snprintf(death.name, sizeof(death.name), "train;\n.py");
	death.by = event_of(SIGTERM, 55, 0, 0, "raylet");
	for (i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
		struct buf text = { .max = 4096 };

		death.kind = cases[i].kind;
		death.status = cases[i].status;
		death.by.cgroup_max_bytes = cases[i].limit;
		death.by.cgroup_used_bytes = cases[i].limit / 2;
		death_sentence(&text, &death, &profile);
		snprintf(whole, sizeof(whole), "train: .py (pid 712) %s", cases[i].text);
		cr_expect_str_eq(text.data, whole);
		buf_fini(&text);
	}
	profile_fini(&profile);
}

/* A name that the process chose becomes a name of a folder here, and of nothing elsewhere. */
Test(death, folder)
{
	struct buf name = { .max = 256 };
	struct profile profile;
	struct death death;

	profile_make(&profile, &death);
	snprintf(death.name, sizeof(death.name), "../a b/%s",
		 "0123456789012345678901234567890123456789");
	death_folder_name(&name, &death, &profile);
	cr_expect_str_eq(name.data,
			 "death-20251129T201000Z-.._a_b_012345678901234567890123456789012-712");
	cr_expect(folder_name_is(name.data));
	cr_expect_not(folder_name_is("death-20251129T201000Z-"));
	cr_expect_not(folder_name_is("death-20251129T201000Z-a/../b"));
	cr_expect_not(folder_name_is("death-2025112xT201000Z-abc"));
	cr_expect_not(folder_name_is("cpu-20251129T201000Z-60s.pb.gz"));
	buf_fini(&name);
	profile_fini(&profile);
}

Test(death, signal_names)
{
	char name[DEATH_SIGNAL_BYTES];

	cr_expect_str_eq(death_signal_name(name, SIGSEGV), "SIGSEGV");
	cr_expect_str_eq(death_signal_name(name, (uint32_t)SIGRTMIN + 3), "SIGRTMIN+3");
	cr_expect_str_eq(death_signal_name(name, 0), "SIG0");
	cr_expect_str_eq(death_signal_name(name, UINT32_MAX), "SIG127");
}
