// SPDX-License-Identifier: GPL-2.0-only
/*
 * Titles of Ray workers, told as they change. Ray writes the title over the arguments and names
 * the calling thread by it right after that, so a change is seen where the name changes.
 *
 * Nothing is sent of titles that user space called uninteresting, except of the one that follows an
 * interesting one: it is what ends it. What one process can send is limited: a steady
 * allowance, of which a title that nobody has judged yet takes more. What that keeps back
 * the next event of the process says.
 */
#include "maps.bpf.h"

char LICENSE[] SEC("license") = "GPL";

#define RAY_NAME 0x3a3a796172ULL /* "ray::", as the first five bytes of a name lie in a word */
#define RAY_NAME_MASK 0xffffffffffULL
#define TITLE_WORDS (BPFPROF_TITLE_BYTES / 8)
#define TOKENS_MAX 8192
#define TOKENS_PER_MS 20 /* ten thousand calls per second */
#define TOKENS_NEW_TITLE 256

/* Of a process that has sent something. Writer: BPF; user space to end it. */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 16384);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, __u32);
	__type(value, struct bpfprof_titled);
} titled SEC(".maps");

/*
 * Key: a title as an event has it; value: enum bpfprof_title_verdict. Writer: user space. Not a hash of
 * the title: whoever can make two titles meet could silence another's.
 */
struct {
	__uint(type, BPF_MAP_TYPE_HASH);
	__uint(max_entries, 4096);
	__uint(map_flags, BPF_F_NO_PREALLOC);
	__type(key, char[BPFPROF_TITLE_BYTES]);
	__type(value, __u32);
} title_verdicts SEC(".maps");

/* Whether a title was sent before, as far as what it costs is concerned. */
static __always_inline __u64 title_hash(const __u64 title[TITLE_WORDS])
{
	__u64 hash = cfg.hash_seed;
	__u32 i;

#pragma unroll
	for (i = 0; i < TITLE_WORDS; i++) {
		hash = (hash ^ title[i]) * 0x9e3779b97f4a7c15ULL;
		hash ^= hash >> 29;
	}
	return hash;
}

/* Of this process: made or begun anew as needed, NULL if there is no room. */
static __always_inline struct bpfprof_titled *titled_get(struct task_struct *task, __u64 now_ms)
{
	__u32 pid = task->tgid;
	struct bpfprof_titled *t = bpf_map_lookup_elem(&titled, &pid);
	struct bpfprof_titled fresh = { .start_ns = task->group_leader->start_boottime,
					.refill_ms = now_ms,
					.tokens = TOKENS_MAX };

	if (t && t->start_ns == fresh.start_ns)
		return t;
	if (bpf_map_update_elem(&titled, &pid, &fresh, BPF_ANY))
		return NULL;
	return bpf_map_lookup_elem(&titled, &pid);
}

/* False: the process has sent too much. */
static __always_inline bool titled_pay(struct bpfprof_titled *t, __u32 price, __u64 now_ms)
{
	__u64 passed = now_ms - t->refill_ms, tokens = t->tokens;

	if (passed > TOKENS_MAX / TOKENS_PER_MS)
		passed = TOKENS_MAX / TOKENS_PER_MS;
	t->refill_ms = now_ms;
	tokens += passed * TOKENS_PER_MS;
	if (tokens > TOKENS_MAX)
		tokens = TOKENS_MAX;
	t->tokens = tokens < price ? tokens : tokens - price;
	return tokens >= price;
}

/* The same two or three titles in turns are new once, however long their verdict takes. */
static __always_inline __u32 title_price(struct bpfprof_titled *t, __u64 hash, __u32 verdict)
{
	if (verdict || t->sent[0] == hash || t->sent[1] == hash)
		return 1;
	t->sent[1] = t->sent[0];
	t->sent[0] = hash;
	return TOKENS_NEW_TITLE;
}

/* What is in the way has been counted. */
static __always_inline void title_send(struct bpfprof_titled *t, struct task_struct *task,
				       const __u64 title[TITLE_WORDS], __u32 verdict)
{
	__u64 avail = bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA);
	struct bpfprof_title_event *e = NULL;
	__u32 i;

	/* Half of it is for samples and life and death. */
	if (avail <= cfg.ring_bytes / 2)
		e = bpf_ringbuf_reserve(&ring, sizeof(*e), 0);
	if (!e) {
		count_add(BPFPROF_COUNT_TITLES_LOST, 1);
		t->lost++;
		if (task->pid == task->tgid)
			t->open = 1; /* the next one will do, whatever it is */
		return;
	}
	/*
	 * Its time is taken after its place in the ring: whatever happened later stands behind it,
	 * on other CPUs too.
	 */
	record_fill(&e->rec, BPFPROF_KIND_TITLE, sizeof(*e));
	task_id_fill(&e->task, task);
	place_fill(&e->place, task);
	e->lost = t->lost;
	e->verdict = verdict;
	t->lost = 0;
	__builtin_memcpy(e->old_comm, task->comm, sizeof(e->old_comm));
#pragma unroll
	for (i = 0; i < TITLE_WORDS; i++)
		((__u64 *)e->title)[i] = title[i];
	bpf_ringbuf_submit(e, !verdict || avail > cfg.ring_bytes / 8 ? BPF_RB_FORCE_WAKEUP
								     : BPF_RB_NO_WAKEUP);
}

/* task->comm is still the old one. */
SEC("?tp_btf/task_rename")
int BPF_PROG(title_changed, struct task_struct *task, const char *comm)
{
	__u64 name = 0, title[TITLE_WORDS] = {}, hash, now_ms;
	__u32 pid = task->tgid, verdict = 0, price, *judged;
	bool leader = task->pid == task->tgid;
	struct bpfprof_titled *t;

	if (bpf_probe_read_kernel_str(&name, sizeof(name), comm) < 0 ||
	    (name & RAY_NAME_MASK) != RAY_NAME)
		return 0;
	if (cfg.filter && !target_find(pid))
		return 0;
	/* Others may rename a thread through /proc. */
	if (task != bpf_get_current_task_btf() || !task->mm)
		return 0;
	if (bpf_probe_read_user_str(title, sizeof(title), (void *)task->mm->arg_start) <= 0) {
		t = bpf_map_lookup_elem(&titled, &pid);
		if (t && leader)
			t->lost++;
		count_add(BPFPROF_COUNT_TITLES_LOST, 1);
		return 0;
	}
	if ((title[0] & RAY_NAME_MASK) != RAY_NAME)
		return 0;
	hash = title_hash(title);
	judged = bpf_map_lookup_elem(&title_verdicts, title);
	if (judged)
		verdict = *judged;
	if (verdict == BPFPROF_TITLE_UNWANTED) {
		t = bpf_map_lookup_elem(&titled, &pid);
		if (!t || !t->open || !leader)
			return 0;
	}
	now_ms = bpf_ktime_get_ns() / 1000000;
	t = titled_get(task, now_ms);
	if (!t) {
		count_add(BPFPROF_COUNT_TITLES_LOST, 1);
		return 0;
	}
	if (t->done)
		return 0;
	price = leader ? title_price(t, hash, verdict) : TOKENS_NEW_TITLE;
	if (!titled_pay(t, price, now_ms)) {
		count_add(BPFPROF_COUNT_TITLES_LIMITED, 1);
		if (leader) {
			t->lost++;
			t->open = 1; /* the next one will do, whatever it is */
		}
		return 0;
	}
	if (leader)
		t->open = verdict != BPFPROF_TITLE_UNWANTED;
	title_send(t, task, title, verdict);
	return 0;
}
