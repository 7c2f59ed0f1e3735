// SPDX-License-Identifier: Apache-2.0
#include "kernel/probes/uprobe_multi.h"

#include <bpf/bpf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <linux/bpf.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "base/cleanup.h"
#include "base/time.h"

#define TRACE_UPROBE_MULTI 48 /* enum bpf_attach_type */
#define TRACE_UPROBE_SESSION 57
#define UPROBE_MULTI_RETURN 1U
#define CANNOT_TRY 100
#define MEASURED_CALLS 200
#define MEASURES 5 /* the fastest one counts: others were interrupted */

/* The part of union bpf_attr that BPF_LINK_CREATE reads, as of Linux 6.6. */
struct link_create {
	uint32_t prog_fd, target_fd, attach_type, flags;
	uint64_t path, offsets, ref_ctr_offsets, cookies;
	uint32_t cnt, multi_flags, pid, pad;
};

void uprobe_multi_prepare(struct bpf_program *prog)
{
	bpf_program__set_expected_attach_type(prog, (enum bpf_attach_type)TRACE_UPROBE_MULTI);
}

void uprobe_multi_prepare_session(struct bpf_program *prog)
{
	bpf_program__set_expected_attach_type(prog, (enum bpf_attach_type)TRACE_UPROBE_SESSION);
}

int uprobe_multi_attach(const struct uprobe_multi *probes)
{
	struct link_create attr = {
		.prog_fd = (uint32_t)probes->prog_fd,
		.attach_type = probes->session ? TRACE_UPROBE_SESSION : TRACE_UPROBE_MULTI,
		.path = (uintptr_t)probes->path,
		.offsets = (uintptr_t)probes->offsets,
		.ref_ctr_offsets = (uintptr_t)probes->semaphores,
		.cookies = (uintptr_t)probes->cookies,
		.cnt = (uint32_t)probes->nr,
		.multi_flags = probes->returns ? UPROBE_MULTI_RETURN : 0,
		.pid = (uint32_t)probes->pid,
	};
	long fd = syscall(SYS_bpf, BPF_LINK_CREATE, &attr, sizeof(attr));

	return fd < 0 ? -errno : (int)fd;
}

/* The part of struct bpf_link_info that the kernel fills for such links, as of Linux 6.8. */
struct link_info {
	uint32_t type, id, prog_id, pad;
	uint64_t path, offsets, ref_ctr_offsets, cookies;
	uint32_t path_size, cnt, flags, pid;
};

bool uprobe_multi_is_orphan(int link_fd)
{
	struct link_info info = { 0 };
	uint32_t size = sizeof(info);

	bpf_obj_get_info_by_fd(link_fd, &info, &size);
	return !info.cnt || !info.pid;
}

static int instructions_load(const struct bpf_insn *insns, size_t nr, int attach_type)
{
	LIBBPF_OPTS(bpf_prog_load_opts, opts,
		    .expected_attach_type = (enum bpf_attach_type)attach_type);
	int fd = bpf_prog_load(BPF_PROG_TYPE_KPROBE, "bpfprof_probe", "GPL", insns, nr, &opts);

	return fd < 0 ? -errno : fd;
}

static int program_load(int attach_type)
{
	const struct bpf_insn insns[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0 },
		{ .code = BPF_JMP | BPF_EXIT },
	};

	return instructions_load(insns, sizeof(insns) / sizeof(insns[0]), attach_type);
}

/* A program that counts its runs in the first eight bytes of an array. */
static int counter_load(int array_fd)
{
	const struct bpf_insn insns[] = {
		{ .code = BPF_LD | BPF_DW | BPF_IMM,
		  .dst_reg = BPF_REG_1,
		  .src_reg = BPF_PSEUDO_MAP_VALUE,
		  .imm = array_fd },
		{ .code = 0 },
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0, .imm = 1 },
		{ .code = BPF_STX | BPF_DW | BPF_ATOMIC,
		  .dst_reg = BPF_REG_1,
		  .src_reg = BPF_REG_0,
		  .imm = BPF_ADD },
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0 },
		{ .code = BPF_JMP | BPF_EXIT },
	};

	return instructions_load(insns, sizeof(insns) / sizeof(insns[0]), TRACE_UPROBE_MULTI);
}

/* A folder is no file: a kernel that says so knows such links. */
static bool links_exist(bool session)
{
	__cleanup(close_fd) int prog_fd =
		program_load(session ? TRACE_UPROBE_SESSION : TRACE_UPROBE_MULTI);
	const uint64_t nothing = 0;
	const struct uprobe_multi probes = { .prog_fd = prog_fd,
					     .path = "/",
					     .offsets = &nothing,
					     .cookies = &nothing,
					     .nr = 1,
					     .session = session };

	return prog_fd >= 0 && uprobe_multi_attach(&probes) == -EBADF;
}

bool uprobe_multi_probe(void)
{
	return links_exist(false);
}

bool uprobe_multi_has_sessions(void)
{
	return links_exist(true);
}

/* The function that the child calls, and its place in this program's file. */
static __attribute__((noinline)) void hooked_function(void)
{
	__asm__ volatile("" ::: "memory");
}

struct place {
	uintptr_t va;
	uint64_t off; /* result */
	bool found;
};

static int place_find(struct dl_phdr_info *info, size_t size, void *arg)
{
	struct place *place = arg;
	uintptr_t rva = place->va - info->dlpi_addr;
	size_t i;

	(void)size;
	for (i = 0; i < info->dlpi_phnum; i++) {
		const ElfW(Phdr) *segment = &info->dlpi_phdr[i];

		if (segment->p_type == PT_LOAD && rva - segment->p_vaddr < segment->p_filesz) {
			place->off = rva - segment->p_vaddr + segment->p_offset;
			place->found = true;
		}
	}
	return 1; /* the program itself comes first */
}

/* Only exit is allowed; any other system call ends the child. */
static void child_run(void)
{
	struct sock_filter filter[] = {
		BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
		BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, __NR_exit_group, 0, 1),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
		BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_KILL_PROCESS),
	};
	struct sock_fprog program = { .len = sizeof(filter) / sizeof(filter[0]), .filter = filter };

	prctl(PR_SET_DUMPABLE, 0); /* no core file */
	if (prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) ||
	    prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program))
		_exit(CANNOT_TRY);
	hooked_function();
	syscall(__NR_exit_group, 0);
}

int uprobe_multi_returns_are_safe(void)
{
	struct place place = { .va = (uintptr_t)hooked_function };
	const uint64_t cookie = 0;
	struct uprobe_multi probes = { .path = "/proc/self/exe",
				       .offsets = &place.off,
				       .cookies = &cookie,
				       .nr = 1,
				       .returns = true };
	__cleanup(close_fd) int prog_fd = program_load(TRACE_UPROBE_MULTI);
	__cleanup(close_fd) int link_fd = -1;
	int status;
	pid_t pid;

	dl_iterate_phdr(place_find, &place);
	if (prog_fd < 0 || !place.found)
		return prog_fd < 0 ? prog_fd : -ENOENT;
	probes.prog_fd = prog_fd;
	link_fd = uprobe_multi_attach(&probes);
	if (link_fd < 0)
		return link_fd;
	pid = fork();
	if (!pid)
		child_run();
	if (pid < 0 || waitpid(pid, &status, 0) != pid)
		return -EAGAIN;
	if (WIFEXITED(status) && WEXITSTATUS(status) == CANNOT_TRY)
		return -ENOTSUP;
	return WIFEXITED(status) && !WEXITSTATUS(status);
}

static void *thread_run(void *arg)
{
	hooked_function();
	return arg;
}

/* Makes two calls, one of them in a thread, when the parent says so. */
static void caller_run(int go_fd)
{
	pthread_t thread;
	char go;

	prctl(PR_SET_DUMPABLE, 0);
	prctl(PR_SET_PDEATHSIG, SIGKILL);
	if (read(go_fd, &go, 1) != 1 || pthread_create(&thread, NULL, thread_run, NULL) ||
	    pthread_join(thread, NULL))
		_exit(CANNOT_TRY);
	hooked_function();
	_exit(0);
}

/* Makes a link in the child alone, then calls in the child and here. 0 or -errno. */
static int caller_hook(pid_t pid, int go_fd, int prog_fd, uint64_t off)
{
	const uint64_t cookie = 0;
	const struct uprobe_multi probes = { .prog_fd = prog_fd,
					     .path = "/proc/self/exe",
					     .offsets = &off,
					     .cookies = &cookie,
					     .nr = 1,
					     .pid = pid };
	__cleanup(close_fd) int link_fd = uprobe_multi_attach(&probes);
	int status;

	if (link_fd < 0 || write(go_fd, "", 1) != 1) {
		kill(pid, SIGKILL);
		waitpid(pid, &status, 0);
		return link_fd < 0 ? link_fd : -EIO;
	}
	hooked_function();
	if (waitpid(pid, &status, 0) != pid)
		return -EAGAIN;
	return WIFEXITED(status) && !WEXITSTATUS(status) ? 0 : -ENOTSUP;
}

int uprobe_multi_pids_work(void)
{
	struct place place = { .va = (uintptr_t)hooked_function };
	__cleanup(close_fd) int array_fd = bpf_map_create(
		BPF_MAP_TYPE_ARRAY, "bpfprof_probe", sizeof(uint32_t), sizeof(uint64_t), 1, NULL);
	__cleanup(close_fd) int prog_fd = array_fd < 0 ? -ENOMEM : counter_load(array_fd);
	__cleanup(close_fd) int wait_fd = -1;
	__cleanup(close_fd) int go_fd = -1;
	uint64_t calls = 0;
	uint32_t key = 0;
	int fds[2], err;
	pid_t pid;

	dl_iterate_phdr(place_find, &place);
	if (prog_fd < 0 || !place.found)
		return prog_fd < 0 ? prog_fd : -ENOENT;
	if (pipe2(fds, O_CLOEXEC))
		return -errno;
	wait_fd = fds[0];
	go_fd = fds[1];
	pid = fork();
	if (!pid)
		caller_run(wait_fd);
	if (pid < 0)
		return -EAGAIN;
	err = caller_hook(pid, go_fd, prog_fd, place.off);
	if (!err && bpf_map_lookup_elem(array_fd, &key, &calls))
		err = -errno;
	return err ?: calls == 2;
}

/* Its first instruction is one that the kernel emulates, as hook_place() looks for. */
static __attribute__((noinline)) void cheap_function(void)
{
	__asm__ volatile("nop" ::: "memory");
}

uint64_t uprobe_multi_call_ns(int prog_fd, uint64_t cookie, bool session)
{
	struct place place = { .va = (uintptr_t)cheap_function };
	const struct uprobe_multi probes = { .prog_fd = prog_fd,
					     .path = "/proc/self/exe",
					     .offsets = &place.off,
					     .cookies = &cookie,
					     .nr = 1,
					     .session = session,
					     .pid = getpid() };
	__cleanup(close_fd) int link_fd = -1;
	uint64_t best_ns = UINT64_MAX, begin_ns, ns;
	int i, k;

	dl_iterate_phdr(place_find, &place);
	link_fd = place.found ? uprobe_multi_attach(&probes) : -1;
	if (link_fd < 0)
		return 0;
	for (i = 0; i < MEASURES; i++) {
		begin_ns = time_thread_cpu_ns();
		for (k = 0; k < MEASURED_CALLS; k++)
			cheap_function();
		ns = time_thread_cpu_ns() - begin_ns;
		best_ns = ns < best_ns ? ns : best_ns;
	}
	return best_ns / MEASURED_CALLS;
}
