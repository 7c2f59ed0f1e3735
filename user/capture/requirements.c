// SPDX-License-Identifier: Apache-2.0
#include "capture/requirements.h"

#include <bpf/libbpf.h>
#include <errno.h>
#include <fcntl.h>
#include <linux/capability.h>
#include <linux/perf_event.h>
#include <sched.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "base/buf.h"
#include "base/cleanup.h"
#include "base/file_read.h"
#include "base/log.h"
#include "base/vec.h"
#include "capture/bpf_features.h"
#include "capture/memory_limit.h"
#include "capture/root_check.h"
#include "capture/target.h"
#include "elf/arch.h"
#include "kernel/probes/uprobe_multi.h"
#include "kernel/probes/uprobe_perf.h"
#include "proc/node_root.h"

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))
#define BTF_PATH "/sys/kernel/btf/vmlinux"
#define INIT_PID_NS 0xEFFFFFFCU /* inode numbers of the initial namespaces, fixed since Linux 3.8 */
#define INIT_USER_NS 0xEFFFFFFDU
#define MIB (1ULL << 20)
#define GPU_KERNEL "Linux 6.6 or newer, or CAP_SYS_ADMIN; all but gpu and --gpu works without"
#define GPU_SECCOMP "Linux 6.14 or newer, or a later stable version of this one"
#define OPEN_FILES_WANTED 1024U

#define SETPRIV "setpriv --bounding-set -all,+bpf,+perfmon,+dac_read_search,+syslog --inh-caps -all"
#define AS_ROOT "sudo " SETPRIV " bpfprof ..."
#define IN_CONTAINER(name)                                                                         \
	"docker run --cap-add " name "; in Kubernetes securityContext: {runAsUser: 0, "            \
	"capabilities: {add: [" name "]}}"
#define FOUR_CAPABILITIES                                                                          \
	"docker run --cap-add BPF --cap-add PERFMON --cap-add DAC_READ_SEARCH --cap-add SYSLOG; "  \
	"in Kubernetes securityContext: {runAsUser: 0, capabilities: {add: [BPF, PERFMON, "        \
	"DAC_READ_SEARCH, SYSLOG]}}"
#define TIMER_REMEDY "none is needed, record samples by BPF timers instead; for perf events: "
#define LOCKDOWN_REMEDY "boot with lockdown=integrity or without lockdown="
#define NEW_KERNEL "boot Linux 6.1 or newer, built with CONFIG_DEBUG_INFO_BTF=y"

void requirements_add(struct requirements *reqs, const char *name, enum requirement_status status,
		      const char *remedy, const char *found, ...)
{
	struct requirement req = { .name = name, .status = status };
	bool room;
	va_list ap;
	int len;

	va_start(ap, found);
	len = vasprintf(&req.found, found, ap);
	va_end(ap);
	if (len < 0)
		req.found = NULL;
	if (remedy)
		req.remedy = strdup(remedy);
	room = vec_fit(reqs->items, reqs->nr + 1);
	if (!room || !req.found || (remedy && !req.remedy)) {
		free(req.found);
		free(req.remedy);
		reqs->error = -ENOMEM;
		return;
	}
	reqs->items[reqs->nr++] = req;
}

/* Reads the first line of a small file: 0 or -errno. */
static int line_read(const char *path, char *dst, size_t cap)
{
	ssize_t len = file_read_text(dst, cap, path);

	dst[strcspn(dst, "\n")] = 0;
	return len < 0 ? (int)len : 0;
}

static uint64_t capabilities_effective(void)
{
	struct __user_cap_header_struct header = { .version = _LINUX_CAPABILITY_VERSION_3 };
	struct __user_cap_data_struct data[2] = { 0 };

	if (syscall(SYS_capget, &header, data))
		return 0;
	return (uint64_t)data[1].effective << 32 | data[0].effective;
}

static bool has_capability(int capability)
{
	uint64_t set = capabilities_effective();

	/* CAP_SYS_ADMIN includes both of these newer capabilities. */
	if ((capability == CAP_BPF || capability == CAP_PERFMON) && set >> CAP_SYS_ADMIN & 1)
		return true;
	return set >> capability & 1;
}

static const char *capability_remedy(int capability)
{
	if (geteuid())
		return AS_ROOT;
	switch (capability) {
	case CAP_BPF:
		return IN_CONTAINER("BPF");
	case CAP_PERFMON:
		return IN_CONTAINER("PERFMON");
	case CAP_SYSLOG:
		return IN_CONTAINER("SYSLOG");
	default:
		return IN_CONTAINER("DAC_READ_SEARCH");
	}
}

static bool namespace_is(const char *path, ino_t first)
{
	struct stat st;

	return stat(path, &st) || st.st_ino == first;
}

static unsigned long seccomp_mode(void)
{
	char status[8192];
	const char *field;

	file_read_text(status, sizeof(status), "/proc/self/status");
	field = strstr(status, "\nSeccomp:");
	return field ? strtoul(field + sizeof("\nSeccomp:") - 1, NULL, 10) : 0;
}

/* The remedy if bpf(2) is refused although the process has the capability. */
static const char *bpf_refused_remedy(void)
{
	if (!namespace_is("/proc/self/ns/user", INIT_USER_NS))
		return "run it outside of a user namespace (rootless container): sudo docker run, "
		       "not rootless; in Kubernetes hostUsers: true";
	if (seccomp_mode())
		return "docker run --security-opt seccomp=unconfined (Docker before 23.0 refuses "
		       "bpf); "
		       "in Kubernetes securityContext: {seccompProfile: {type: Unconfined}}";
	return "a security module refuses it: look at dmesg, and try "
	       "docker run --security-opt apparmor=unconfined";
}

/* Can the kernel hang when a profiler reads user memory? The fix is of June 2023. */
static bool kernel_may_hang(const struct utsname *name)
{
	const char *debian = strstr(name->version, "Debian ");
	const char *text = debian ? debian + sizeof("Debian ") - 1 : name->release;
	unsigned long v[3] = { 0 };
	char *end;

	for (size_t i = 0; i < 3; i++) {
		v[i] = strtoul(text, &end, 10);
		text = *end == '.' ? end + 1 : end;
	}
	if (v[0] == 5)
		return v[1] == 19;
	return v[0] == 6 &&
	       (v[1] == 0 || v[1] == 2 || (v[1] == 1 && v[2] < 36) || (v[1] == 3 && v[2] < 10));
}

static void probe_kernel(struct requirements *reqs)
{
	struct utsname name;

	if (uname(&name)) {
		requirements_add(reqs, "kernel", REQUIREMENT_WARN, NEW_KERNEL, "unknown");
		return;
	}
	if (strcmp(name.machine, ARCH_NAME))
		requirements_add(reqs, "kernel", REQUIREMENT_FAIL, "use an x86-64 machine",
				 "Linux %s on %s", name.release, name.machine);
	else if (kernel_may_hang(&name))
		requirements_add(
			reqs, "kernel", REQUIREMENT_WARN,
			"boot Linux 6.1.36, 6.3.10 or newer, unless your distribution has fixed "
			"copy_from_user_nofault() in this one",
			"Linux %s x86_64, which can hang when a BPF program reads user memory",
			name.release);
	else
		requirements_add(reqs, "kernel", REQUIREMENT_OK, NULL, "Linux %s x86_64",
				 name.release);
}

static void probe_btf(struct requirements *reqs)
{
	if (!access(BTF_PATH, R_OK))
		requirements_add(reqs, "btf", REQUIREMENT_OK, NULL, BTF_PATH);
	else
		requirements_add(reqs, "btf", REQUIREMENT_FAIL,
				 access("/sys/kernel", F_OK) ? "mount -t sysfs sysfs /sys"
							     : NEW_KERNEL,
				 "%s: %s", BTF_PATH, strerror(errno));
}

static void probe_capabilities(struct requirements *reqs)
{
	static const struct {
		const char *name, *label;
		int capability;
		enum requirement_status without;
		const char *lost;
	} wanted[] = {
		{ "cap_bpf", "CAP_BPF", CAP_BPF, REQUIREMENT_FAIL, "" },
		{ "cap_perfmon", "CAP_PERFMON", CAP_PERFMON, REQUIREMENT_FAIL, "" },
		{ "cap_dac_read_search", "CAP_DAC_READ_SEARCH", CAP_DAC_READ_SEARCH,
		  REQUIREMENT_WARN,
		  ": programs that bpfprof may not read have no names and tables" },
		{ "cap_syslog", "CAP_SYSLOG", CAP_SYSLOG, REQUIREMENT_WARN,
		  ": kernel functions may stay without names" },
	};

	for (size_t i = 0; i < ARRAY_SIZE(wanted); i++) {
		if (has_capability(wanted[i].capability))
			requirements_add(reqs, wanted[i].name, REQUIREMENT_OK, NULL, "effective");
		else
			requirements_add(reqs, wanted[i].name, wanted[i].without,
					 capability_remedy(wanted[i].capability), "%s is missing%s",
					 wanted[i].label, wanted[i].lost);
	}
}

static int cpu_event_open(uint32_t type, uint64_t config)
{
	struct perf_event_attr attr = {
		.type = type,
		.size = sizeof(attr),
		.config = config,
		.sample_freq = 99,
		.freq = 1,
		.disabled = 1,
	};
	int cpu = sched_getcpu();
	long fd = syscall(SYS_perf_event_open, &attr, -1, cpu < 0 ? 0 : cpu, -1,
			  PERF_FLAG_FD_CLOEXEC);

	return fd < 0 ? -errno : (int)fd;
}

/*
 * The remedy if perf_event_open() is refused. A sysctl above 2 is the reason; a patch of Debian's
 * and Ubuntu's kernels adds these values.
 */
static const char *perf_remedy(const char *paranoid)
{
	if (!has_capability(CAP_PERFMON))
		return capability_remedy(CAP_PERFMON);
	if (seccomp_mode() && strtoul(paranoid, NULL, 10) <= 2)
		return TIMER_REMEDY "docker run --security-opt seccomp=unconfined";
	return TIMER_REMEDY "sysctl -w kernel.perf_event_paranoid=2";
}

static void probe_perf(struct requirements *reqs)
{
	__cleanup(close_fd) int clock = cpu_event_open(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_CPU_CLOCK);
	__cleanup(close_fd) int cycles =
		cpu_event_open(PERF_TYPE_HARDWARE, PERF_COUNT_HW_CPU_CYCLES);
	char paranoid[32];

	if (line_read("/proc/sys/kernel/perf_event_paranoid", paranoid, sizeof(paranoid)))
		snprintf(paranoid, sizeof(paranoid), "unknown");
	if (clock >= 0)
		requirements_add(reqs, "perf_events", REQUIREMENT_OK, NULL,
				 "allowed, perf_event_paranoid %s", paranoid);
	else
		requirements_add(reqs, "perf_events", REQUIREMENT_WARN, perf_remedy(paranoid),
				 "refused (%s), perf_event_paranoid %s", strerror(-clock),
				 paranoid);
	requirements_add(reqs, "cycle_counter", REQUIREMENT_OK, NULL,
			 cycles >= 0 ? "present"
				     : "none here: --event cycles cannot be used, cpu-clock can");
}

static void missing_list(const struct bpf_features *features, char *dst, size_t cap)
{
	size_t len = 0;

	dst[0] = 0;
	for (size_t i = 0; i < features->nr; i++) {
		if (!features->items[i].present && len < cap)
			len += (size_t)snprintf(dst + len, cap - len, "%s%s", len ? ", " : "",
						features->items[i].name);
	}
}

static void probe_bpf_features(struct requirements *reqs, bool with_btf)
{
	struct bpf_features features;
	struct utsname name = { .release = "" };
	char missing[512];

	uname(&name);
	bpf_features_probe(&features);
	if (with_btf)
		bpf_features_probe_btf(&features);
	missing_list(&features, missing, sizeof(missing));
	if (bpf_reads_refused())
		requirements_add(
			reqs, "bpf_features", REQUIREMENT_FAIL, LOCKDOWN_REMEDY,
			"the kernel keeps memory from BPF programs (lockdown: confidentiality)");
	else if (*missing)
		requirements_add(reqs, "bpf_features", REQUIREMENT_FAIL, NEW_KERNEL,
				 "Linux %s is too old, it lacks: %s", name.release, missing);
	else
		requirements_add(reqs, "bpf_features", REQUIREMENT_OK, NULL,
				 "all %zu that are needed", features.nr);
}

static void probe_gpu_calls(struct requirements *reqs)
{
	bool multi = uprobe_multi_probe();

	if (!multi && uprobe_perf_probe())
		requirements_add(
			reqs, "gpu_calls", REQUIREMENT_WARN, GPU_KERNEL,
			"bpfprof gpu cannot watch: the kernel lacks uprobe_multi links, and "
			"refuses perf's uprobes");
	else if (!multi)
		requirements_add(reqs, "gpu_calls", REQUIREMENT_OK, NULL,
				 "CUDA and NCCL calls can be watched, by perf's uprobes");
	else if (!uprobe_multi_returns_are_safe())
		requirements_add(reqs, "gpu_calls", REQUIREMENT_WARN, GPU_SECCOMP,
				 "bpfprof gpu does not watch: this kernel would end programs under "
				 "seccomp where their calls return");
	else
		requirements_add(reqs, "gpu_calls", REQUIREMENT_OK, NULL,
				 "CUDA and NCCL calls can be watched");
}

static void probe_bpf(struct requirements *reqs, bool with_btf)
{
	int err = bpf_syscall_probe();
	char jit[16];

	if (!has_capability(CAP_BPF) || !has_capability(CAP_PERFMON)) {
		requirements_add(reqs, "bpf", REQUIREMENT_FAIL, "as for cap_bpf and cap_perfmon",
				 "cannot be probed without CAP_BPF and CAP_PERFMON");
		return;
	}
	if (err) {
		requirements_add(reqs, "bpf", REQUIREMENT_FAIL,
				 err == -ENOSYS && !seccomp_mode() ? NEW_KERNEL
								   : bpf_refused_remedy(),
				 "the bpf system call is refused: %s", strerror(-err));
		return;
	}
	requirements_add(reqs, "bpf", REQUIREMENT_OK, NULL, "allowed");
	probe_bpf_features(reqs, with_btf);
	if (with_btf) /* this probe is too slow for the start of a recording */
		probe_gpu_calls(reqs);
	if (!line_read("/proc/sys/net/core/bpf_jit_enable", jit, sizeof(jit)) && *jit == '0')
		requirements_add(reqs, "bpf_jit", REQUIREMENT_WARN,
				 "sysctl -w net.core.bpf_jit_enable=1",
				 "off: samples cost several times as much");
}

/* 1: addresses are shown; 0: hidden; -errno. The first symbols may rightly be at 0. */
static int kallsyms_shown(void)
{
	__cleanup(close_file) FILE *file = fopen("/proc/kallsyms", "re");
	char line[512];

	if (!file)
		return -errno;
	for (int i = 0; i < 64 && fgets(line, sizeof(line), file); i++) {
		if (strtoull(line, NULL, 16))
			return 1;
	}
	return 0;
}

static void probe_kallsyms(struct requirements *reqs)
{
	int shown = kallsyms_shown();
	char kptr[32];

	if (line_read("/proc/sys/kernel/kptr_restrict", kptr, sizeof(kptr)))
		snprintf(kptr, sizeof(kptr), "unknown");
	if (shown > 0)
		requirements_add(reqs, "kernel_symbols", REQUIREMENT_OK, NULL,
				 "readable, kptr_restrict %s", kptr);
	else if (shown < 0)
		requirements_add(reqs, "kernel_symbols", REQUIREMENT_WARN,
				 "boot a kernel with CONFIG_KALLSYMS=y",
				 "/proc/kallsyms: %s; kernel functions stay without names",
				 strerror(-shown));
	else
		requirements_add(reqs, "kernel_symbols", REQUIREMENT_WARN,
				 *kptr == '2' ? "sysctl -w kernel.kptr_restrict=1"
					      : capability_remedy(CAP_SYSLOG),
				 "addresses are hidden (kptr_restrict %s): kernel functions stay "
				 "without names",
				 kptr);
}

static void probe_lockdown(struct requirements *reqs)
{
	char mode[128];

	if (line_read("/sys/kernel/security/lockdown", mode, sizeof(mode)))
		requirements_add(reqs, "lockdown", REQUIREMENT_OK, NULL,
				 "not shown here; bpf_features has probed it");
	else if (strstr(mode, "[confidentiality]"))
		requirements_add(reqs, "lockdown", REQUIREMENT_FAIL, LOCKDOWN_REMEDY, "%s", mode);
	else
		requirements_add(reqs, "lockdown", REQUIREMENT_OK, NULL, "%s", mode);
}

static void probe_seccomp(struct requirements *reqs)
{
	static const char *const modes[] = { "off", "strict", "a filter is set" };
	unsigned long mode = seccomp_mode();

	requirements_add(reqs, "seccomp", REQUIREMENT_OK, NULL, "%s%s",
			 mode <= 2 ? modes[mode] : "unknown",
			 mode ? "; the lines bpf and perf_events show its effect" : "");
}

static bool pids_differ(void)
{
	return !namespace_is("/proc/self/ns/pid", INIT_PID_NS);
}

static void probe_pid_namespace(struct requirements *reqs)
{
	char mounts[4096];
	__cleanup(close_file) FILE *file = fopen("/proc/self/mountinfo", "re");

	if (!pids_differ())
		requirements_add(reqs, "pid_namespace", REQUIREMENT_OK, NULL, "the node's");
	else
		requirements_add(
			reqs, "pid_namespace", REQUIREMENT_WARN,
			"docker run --pid=host; in Kubernetes hostPID: true",
			"a container's: stacks of processes outside of it may be incomplete");
	while (file && fgets(mounts, sizeof(mounts), file)) {
		if (strstr(mounts, " /proc ") && strstr(mounts, "hidepid=") &&
		    !strstr(mounts, "hidepid=0") && !strstr(mounts, "hidepid=off"))
			requirements_add(
				reqs, "proc", REQUIREMENT_WARN, "mount -o remount,hidepid=0 /proc",
				"mounted with hidepid: processes of other users cannot be seen");
	}
}

static void probe_memory(struct requirements *reqs)
{
	int cpus = libbpf_num_possible_cpus();
	unsigned long long budget = memory_budget(cpus),
			   limit = memory_limit("/proc/self/cgroup", "/sys/fs/cgroup");

	if (limit < budget) {
		char remedy[160];

		snprintf(remedy, sizeof(remedy),
			 "docker run --memory %llum; in Kubernetes resources: {limits: {memory: "
			 "%lluMi}}",
			 budget * 3 / 2 / MIB, budget * 3 / 2 / MIB);
		requirements_add(
			reqs, "memory", REQUIREMENT_WARN, remedy,
			"the cgroup allows %.1f MiB, up to %.1f MiB are used with %d possible CPUs",
			(double)limit / MIB, (double)budget / MIB, cpus);
		return;
	}
	requirements_add(reqs, "memory", REQUIREMENT_OK, NULL,
			 "at most %.1f MiB with %d possible CPUs, BPF maps included",
			 (double)budget / MIB, cpus);
}

static void probe_open_files(struct requirements *reqs)
{
	int cpus = libbpf_num_possible_cpus();
	rlim_t wanted = OPEN_FILES_WANTED + (cpus > 0 ? (rlim_t)cpus : 0);
	struct rlimit limit;
	char remedy[64];

	if (getrlimit(RLIMIT_NOFILE, &limit))
		return;
	if (limit.rlim_max >= wanted) {
		requirements_add(reqs, "open_files", REQUIREMENT_OK, NULL, "up to %llu",
				 (unsigned long long)limit.rlim_max);
		return;
	}
	snprintf(remedy, sizeof(remedy), "ulimit -Hn %llu; docker run --ulimit nofile=%llu",
		 (unsigned long long)wanted, (unsigned long long)wanted);
	requirements_add(reqs, "open_files", REQUIREMENT_WARN, remedy,
			 "only %llu: programs that have exited may stay without names",
			 (unsigned long long)limit.rlim_max);
}

static void probe_host_root(struct requirements *reqs, const char *host_root)
{
	char path[4096];

	if (!host_root && node_root_look("/proc") != NODE_ROOT_ELSEWHERE)
		return;
	if (!host_root) {
		requirements_add(reqs, "host_root", REQUIREMENT_WARN, ROOT_CHECK_REMEDY,
				 "not given, and bpfprof's root folder is not the node's: files of "
				 "other processes may not be found");
		return;
	}
	snprintf(path, sizeof(path), "%s/usr", host_root);
	if (!access(path, R_OK | X_OK))
		requirements_add(reqs, "host_root", REQUIREMENT_OK, NULL, "%s", host_root);
	else
		requirements_add(reqs, "host_root", REQUIREMENT_WARN, ROOT_CHECK_REMEDY,
				 "%s: %s; this does not look like a node's file system", path,
				 strerror(errno));
}

int requirements_probe(struct requirements *ret, const char *host_root)
{
	*ret = (struct requirements){ 0 };
	probe_kernel(ret);
	probe_btf(ret);
	probe_capabilities(ret);
	probe_bpf(ret, true);
	probe_perf(ret);
	probe_kallsyms(ret);
	probe_lockdown(ret);
	probe_seccomp(ret);
	probe_pid_namespace(ret);
	probe_memory(ret);
	probe_open_files(ret);
	probe_host_root(ret, host_root);
	return ret->error;
}

int requirements_probe_target(struct requirements *reqs, pid_t pid)
{
	struct target target;
	char remedy[64];
	int err = target_probe(pid, &target);

	if (err) {
		requirements_add(reqs, "target", REQUIREMENT_FAIL, "ps -e shows the process ids",
				 "%d: %s", pid, err == -ESRCH ? "no such process" : strerror(-err));
	} else if (target.leader != pid) {
		snprintf(remedy, sizeof(remedy), "bpfprof record -p %d", target.leader);
		requirements_add(reqs, "target", REQUIREMENT_FAIL, remedy,
				 "%d is a thread of process %d (%s)", pid, target.leader,
				 target.name);
	} else if (target.zombie) {
		requirements_add(reqs, "target", REQUIREMENT_FAIL, "ps -e shows the process ids",
				 "%d (%s) has exited and is a zombie", pid, target.name);
	} else if (target.kernel_thread) {
		requirements_add(reqs, "target", REQUIREMENT_OK, NULL,
				 "%d (%s), a kernel thread: it has kernel stacks only", pid,
				 target.name);
	} else if (target.bits == 32) {
		requirements_add(reqs, "target", REQUIREMENT_WARN,
				 "use a 64-bit build of the program",
				 "%d (%s), a 32-bit program: it is named and counted, its stacks "
				 "are not walked",
				 pid, target.name);
	} else {
		requirements_add(reqs, "target", REQUIREMENT_OK, NULL, "%d (%s)%s", pid,
				 target.name, target.bits ? ", a 64-bit program" : "");
	}
	return reqs->error;
}

void requirements_fini(struct requirements *reqs)
{
	for (size_t i = 0; i < reqs->nr; i++) {
		free(reqs->items[i].found);
		free(reqs->items[i].remedy);
	}
	free(reqs->items);
	*reqs = (struct requirements){ 0 };
}

static int missing_capabilities(struct buf *message)
{
	bool bpf = has_capability(CAP_BPF), perfmon = has_capability(CAP_PERFMON);

	if (bpf && perfmon)
		return 0;
	buf_add_str(message, perfmon ? "CAP_BPF is"
			     : bpf   ? "CAP_PERFMON is"
				     : "CAP_BPF and CAP_PERFMON are");
	buf_printf(message, " missing; remedy: %s", geteuid() ? AS_ROOT : FOUR_CAPABILITIES);
	return -EPERM;
}

static int first_failure(struct buf *message, bool with_btf)
{
	struct requirements reqs = { 0 };
	int err = missing_capabilities(message);

	if (err)
		return err;
	probe_kernel(&reqs);
	probe_btf(&reqs);
	probe_bpf(&reqs, with_btf);
	for (size_t i = 0; !err && i < reqs.nr; i++) {
		const struct requirement *req = &reqs.items[i];

		if (req->status != REQUIREMENT_FAIL)
			continue;
		err = strcmp(req->name, "bpf") ? -EOPNOTSUPP : -EPERM;
		buf_printf(message, "%s; remedy: %s", req->found, req->remedy);
	}
	if (reqs.error)
		err = reqs.error;
	requirements_fini(&reqs);
	return err;
}

int requirements_check(struct buf *message)
{
	return first_failure(message, false);
}

int requirements_explain(struct buf *message)
{
	return first_failure(message, true);
}

static enum libbpf_print_level libbpf_level = LIBBPF_WARN;

static int libbpf_print(enum libbpf_print_level level, const char *fmt, va_list ap)
	__attribute__((format(printf, 2, 0)));

static int libbpf_print(enum libbpf_print_level level, const char *fmt, va_list ap)
{
	__cleanup(free_mem) char *text = NULL;
	char *rest, *line;
	int len;

	if (log_get_level() < LOG_DEBUG || level > libbpf_level)
		return 0;
	/* The verifier's log comes as one message of many lines. */
	len = vasprintf(&text, fmt, ap);
	if (len < 0)
		text = NULL;
	rest = text;
	while ((line = strsep(&rest, "\n")))
		if (*line)
			log_debug("%s", line);
	return len;
}

void libbpf_log_init(void)
{
	libbpf_set_print(libbpf_print);
}

void libbpf_log_all(void)
{
	libbpf_level = LIBBPF_DEBUG;
}
