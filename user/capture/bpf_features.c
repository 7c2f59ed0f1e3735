// SPDX-License-Identifier: Apache-2.0
#include "capture/bpf_features.h"

#include <bpf/bpf.h>
#include <bpf/btf.h>
#include <bpf/libbpf.h>
#include <errno.h>
#include <string.h>
#include <unistd.h>

#include "base/cleanup.h"

#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))

static void add(struct bpf_features *features, const char *name, bool present)
{
	if (features->nr < BPF_FEATURES_MAX)
		features->items[features->nr++] = (struct bpf_feature){ name, present };
}

int bpf_syscall_probe(void)
{
	int fd = bpf_map_create(BPF_MAP_TYPE_ARRAY, "bpfprof_probe", 4, 8, 1, NULL);

	if (fd < 0)
		return -errno;
	close(fd);
	return 0;
}

void bpf_features_probe(struct bpf_features *ret)
{
	static const struct {
		const char *name;
		enum bpf_func_id id;
	} helpers[] = {
		{ "bpf_probe_read_user", BPF_FUNC_probe_read_user },
		{ "bpf_get_task_stack", BPF_FUNC_get_task_stack },
		{ "bpf_get_current_task_btf", BPF_FUNC_get_current_task_btf },
		{ "bpf_task_pt_regs", BPF_FUNC_task_pt_regs },
		{ "bpf_timer_start", BPF_FUNC_timer_start },
		{ "bpf_find_vma", BPF_FUNC_find_vma },
		{ "bpf_loop", BPF_FUNC_loop },
	};

	*ret = (struct bpf_features){ 0 };
	add(ret, "ring buffer", libbpf_probe_bpf_map_type(BPF_MAP_TYPE_RINGBUF, NULL) > 0);
	add(ret, "perf event programs",
	    libbpf_probe_bpf_prog_type(BPF_PROG_TYPE_PERF_EVENT, NULL) > 0);
	for (size_t i = 0; i < ARRAY_SIZE(helpers); i++)
		add(ret, helpers[i].name,
		    libbpf_probe_bpf_helper(BPF_PROG_TYPE_PERF_EVENT, helpers[i].id, NULL) > 0);
}

bool bpf_reads_refused(void)
{
	return libbpf_probe_bpf_helper(BPF_PROG_TYPE_PERF_EVENT, BPF_FUNC_probe_read_kernel,
				       NULL) == 0;
}

/* Loads "return 0". Returns a descriptor or -errno. */
static int program_load(enum bpf_prog_type type, const struct bpf_prog_load_opts *opts)
{
	const struct bpf_insn insns[] = {
		{ .code = BPF_ALU64 | BPF_MOV | BPF_K, .dst_reg = BPF_REG_0 },
		{ .code = BPF_JMP | BPF_EXIT },
	};
	int fd = bpf_prog_load(type, "bpfprof_probe", "GPL", insns, ARRAY_SIZE(insns), opts);

	return fd < 0 ? -errno : fd;
}

bool bpf_has_raw_tracepoint(const char *name)
{
	__cleanup(close_fd) int prog = program_load(BPF_PROG_TYPE_RAW_TRACEPOINT, NULL);
	__cleanup(close_fd) int link = prog >= 0 ? bpf_raw_tracepoint_open(name, prog) : -1;

	return link >= 0;
}

/* Loads it for one attachment point. Returns a descriptor or -errno. */
static int tracing_load(__u32 btf_id, enum bpf_attach_type type)
{
	LIBBPF_OPTS(bpf_prog_load_opts, opts, .expected_attach_type = type,
		    .attach_btf_id = btf_id);

	return program_load(BPF_PROG_TYPE_TRACING, &opts);
}

static bool tracepoint_loads(const struct btf *btf, const char *type_name)
{
	int id = btf__find_by_name_kind(btf, type_name, BTF_KIND_TYPEDEF);
	__cleanup(close_fd) int fd = id > 0 ? tracing_load((__u32)id, BPF_TRACE_RAW_TP) : -1;

	return fd >= 0;
}

/*
 * Checks that an iterator program loads, and that a link for one process can be made (since Linux
 * 6.1).
 */
static void probe_task_vma(struct bpf_features *features, const struct btf *btf)
{
	int id = btf__find_by_name_kind(btf, "bpf_iter_task_vma", BTF_KIND_FUNC);
	__cleanup(close_fd) int prog = id > 0 ? tracing_load((__u32)id, BPF_TRACE_ITER) : -1;
	__cleanup(close_fd) int link = -1;
	union bpf_iter_link_info info = { .task.pid = (__u32)getpid() };
	LIBBPF_OPTS(bpf_link_create_opts, opts, .iter_info = &info, .iter_info_len = sizeof(info));

	add(features, "task_vma iterator", prog >= 0);
	if (prog < 0)
		return;
	link = bpf_link_create(prog, 0, BPF_TRACE_ITER, &opts);
	add(features, "iterator of one process", link >= 0);
}

int bpf_features_probe_btf(struct bpf_features *features)
{
	static const char *const tracepoints[][2] = {
		{ "tp_btf/sched_switch", "btf_trace_sched_switch" },
		{ "tp_btf/sched_process_exec", "btf_trace_sched_process_exec" },
		{ "tp_btf/sched_process_fork", "btf_trace_sched_process_fork" },
		{ "tp_btf/sched_process_exit", "btf_trace_sched_process_exit" },
		{ "tp_btf/vm_unmapped_area", "btf_trace_vm_unmapped_area" },
	};
	struct btf *btf = btf__load_vmlinux_btf();
	int err = (int)libbpf_get_error(btf);

	if (err)
		return err;
	for (size_t i = 0; i < ARRAY_SIZE(tracepoints); i++)
		add(features, tracepoints[i][0], tracepoint_loads(btf, tracepoints[i][1]));
	probe_task_vma(features, btf);
	btf__free(btf);
	return 0;
}
