// SPDX-License-Identifier: GPL-2.0-only
/*
 * Sends titles of Ray workers as they change. Ray writes the title over the arguments and right
 * after that names the calling thread by it, so a change of the name shows a change of the title.
 *
 * Titles with the verdict unwanted are not sent, except one that ends a wanted title: the next one of
 * the main thread, and every one of a process whose other threads have wanted titles. Each process
 * has a rate limit; a title without verdict costs more. The next event of the process reports the
 * number of changes held back.
 */
#include "maps.bpf.h"

char LICENSE[] SEC("license") = "GPL";

#define SHORT_WORDS (BPFPROF_TITLE_SHORT / 8)
#define TITLE_WORDS (BPFPROF_TITLE_BYTES / 8)
#define EVENT_HEAD offsetof(struct bpfprof_title_event, title)
#define TOKENS_MAX 8192
#define TOKENS_PER_MS 20 /* ten thousand calls per second */
#define TOKENS_NEW_TITLE 256

/* Processes that have sent an event. Writer: BPF; user space sets done. */
HASH_MAP(titled, 16384, __u32, struct bpfprof_titled);

/* Room for one event. Key 0: a thread does not rename itself while it does so already. */
PERCPU_MAP(title_scratch, struct bpfprof_title_event);

/*
 * Key: a title padded with zeros; value: enum bpfprof_title_verdict. Writer: user space. The key is
 * no hash: with one, a program could make its title collide with another's and suppress it.
 */
HASH_MAP(title_verdicts, 4096, char[BPFPROF_TITLE_SHORT], __u32);

/* Titles that do not fit into those keys: few, and each look-up hashes the whole key. */
HASH_MAP(long_title_verdicts, 1024, char[BPFPROF_TITLE_BYTES], __u32);

/* Hash that decides the price of a title: was it sent before? */
static __always_inline __u64 title_hash(const __u64 *title, bool is_long)
{
	__u64 hash = cfg.hash_seed;
	__u32 i, nr = is_long ? TITLE_WORDS : SHORT_WORDS;

	for (i = 0; i < nr; i++) {
		hash = (hash ^ title[i]) * 0x9e3779b97f4a7c15ULL;
		hash ^= hash >> 29;
	}
	return hash;
}

/*
 * Reads the title of the current thread's process into e, padded with zeros. Returns its bytes,
 * with a NUL.
 */
static __always_inline long title_read(struct bpfprof_title_event *e, struct task_struct *task)
{
	/* For a plain load of a pointer, the verifier looks through all types of the kernel. */
	void *from = (void *)BPF_CORE_READ(task, mm, arg_start);
	long len;

	__builtin_memset(e->title, 0, BPFPROF_TITLE_SHORT);
	len = bpf_probe_read_user_str(e->title, BPFPROF_TITLE_SHORT, from);
	if (len != BPFPROF_TITLE_SHORT)
		return len;
	/* In two parts: LLVM has no memset of that length. */
	__builtin_memset(e->title, 0, BPFPROF_TITLE_SHORT);
	barrier();
	__builtin_memset(e->title + BPFPROF_TITLE_SHORT, 0, sizeof(e->title) - BPFPROF_TITLE_SHORT);
	return bpf_probe_read_user_str(e->title, sizeof(e->title), from);
}

/* The state of this process, new or reset as needed; NULL if there is no room. */
static __always_inline struct bpfprof_titled *titled_get(struct task_struct *task, __u64 now_ms)
{
	__u32 pid = task->tgid;
	struct bpfprof_titled *t = bpf_map_lookup_elem(&titled, &pid);
	struct bpfprof_titled fresh = { .start_ns =
						BPF_CORE_READ(task, group_leader, start_boottime),
					.refill_ms = now_ms,
					.tokens = TOKENS_MAX };

	if (t && t->start_ns == fresh.start_ns)
		return t;
	if (bpf_map_update_elem(&titled, &pid, &fresh, BPF_ANY))
		return NULL;
	return bpf_map_lookup_elem(&titled, &pid);
}

/* False: the process is over its rate. */
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

/*
 * Two or three titles by turns cost the price of a new one once, however late their verdict comes.
 */
static __always_inline __u32 title_price(struct bpfprof_titled *t, __u64 hash, __u32 verdict)
{
	if (verdict || t->sent[0] == hash || t->sent[1] == hash)
		return 1;
	t->sent[1] = t->sent[0];
	t->sent[0] = hash;
	return TOKENS_NEW_TITLE;
}

/* Counts an event without room in the ring. */
static __always_inline void title_lose(struct bpfprof_titled *t, struct task_struct *task)
{
	count_add(BPFPROF_COUNT_TITLES_LOST, 1);
	t->lost++;
	if (task->pid == task->tgid)
		t->open |= BPFPROF_OPEN_MAIN;
}

/* Sends the event; counts it if that fails. */
static __always_inline void title_send(struct bpfprof_titled *t, struct task_struct *task,
				       struct bpfprof_title_event *e, __u64 len, __u32 verdict)
{
	__u64 avail = bpf_ringbuf_query(&ring, BPF_RB_AVAIL_DATA), size;
	struct bpf_dynptr dst;

	size = EVENT_HEAD + (len + 7) / 8 * 8;
	barrier_var(size); /* or the compiler compares another value than the one used */
	if (size > sizeof(*e))
		size = sizeof(*e);
	/* Half of the ring is for samples and for begins and ends of processes. */
	if (avail > cfg.ring_bytes / 2) {
		title_lose(t, task);
		return;
	}
	if (bpf_ringbuf_reserve_dynptr(&ring, size, 0, &dst)) {
		bpf_ringbuf_discard_dynptr(&dst, 0);
		title_lose(t, task);
		return;
	}
	/*
	 * Its time is taken after its place in the ring, so later events of all CPUs lie behind it.
	 */
	record_fill(&e->rec, BPFPROF_KIND_TITLE, size);
	task_id_read(&e->task, task);
	ns_context_fill(&e->ns_context, task);
	e->lost = t->lost;
	e->verdict = verdict;
	t->lost = 0;
	__builtin_memcpy(e->old_comm, task->comm, sizeof(e->old_comm));
	e->sp = regs_sp(task_regs(task));
	bpf_dynptr_write(&dst, 0, e, size, 0);
	bpf_ringbuf_submit_dynptr(&dst, !verdict || avail > cfg.ring_bytes / 8 ? BPF_RB_FORCE_WAKEUP
									       : BPF_RB_NO_WAKEUP);
}

/* task->comm is still the old name. */
SEC("?tp_btf/task_rename")
int BPF_PROG(title_changed, struct task_struct *task, const char *comm)
{
	__u32 pid = task->tgid, verdict = 0, key = 0, price, *judged;
	bool leader = task->pid == task->tgid, is_long;
	__u64 name = 0, hash, now_ms;
	struct bpfprof_title_event *e;
	struct bpfprof_titled *t;
	long len;

	if (bpf_probe_read_kernel_str(&name, sizeof(name), comm) < 0 ||
	    (name & RAY_NAME_MASK) != RAY_NAME)
		return 0;
	if (cfg.filter && !target_find(pid))
		return 0;
	/* Another process may rename a thread through /proc. */
	if (task != bpf_get_current_task_btf() || !BPF_CORE_READ(task, mm))
		return 0;
	e = bpf_map_lookup_elem(&title_scratch, &key);
	if (!e)
		return 0;
	len = title_read(e, task);
	if (len <= 0) {
		t = bpf_map_lookup_elem(&titled, &pid);
		if (t)
			t->lost++;
		count_add(BPFPROF_COUNT_TITLES_LOST, 1);
		return 0;
	}
	if ((*(__u64 *)e->title & RAY_NAME_MASK) != RAY_NAME)
		return 0;
	is_long = len > BPFPROF_TITLE_SHORT;
	hash = title_hash((const __u64 *)e->title, is_long);
	judged = is_long ? bpf_map_lookup_elem(&long_title_verdicts, e->title)
			 : bpf_map_lookup_elem(&title_verdicts, e->title);
	if (judged)
		verdict = *judged;
	if (verdict == BPFPROF_TITLE_UNWANTED) {
		t = bpf_map_lookup_elem(&titled, &pid);
		if (!t ||
		    !(t->open & (leader ? BPFPROF_OPEN_MAIN | BPFPROF_OPEN_ALL : BPFPROF_OPEN_ALL)))
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
	price = title_price(t, hash, verdict);
	if (!titled_pay(t, price, now_ms)) {
		count_add(BPFPROF_COUNT_TITLES_LIMITED, 1);
		t->lost++;
		t->open |= leader ? BPFPROF_OPEN_MAIN : BPFPROF_OPEN_ALL;
		return 0;
	}
	if (!leader)
		t->open |= BPFPROF_OPEN_ALL;
	else if (verdict == BPFPROF_TITLE_UNWANTED)
		t->open &= ~BPFPROF_OPEN_MAIN;
	else
		t->open |= BPFPROF_OPEN_MAIN;
	title_send(t, task, e, len, verdict);
	return 0;
}
