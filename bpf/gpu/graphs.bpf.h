/* SPDX-License-Identifier: GPL-2.0-only */
#ifndef BPFPROF_BPF_GPU_GRAPHS_BPF_H
#define BPFPROF_BPF_GPU_GRAPHS_BPF_H

/*
 * Captured streams, the graphs made from them, and the content of graphs. Each captured node is
 * sent to user space. The content of a graph is the sum of the hashes of its nodes; it stands for
 * the graph and its instances in keys of launches. So a program that captures the same graph again,
 * for each layer or at each step, has one key and not thousands, and reused handles do not mix. A
 * process that forges hashes deceives only itself.
 */

#include "gpu/kernels.bpf.h"

/*
 * Graphs by handle; user space sets more on large machines. Writer: BPF; user space deletes those of
 * processes that have ended.
 */
HASH_MAP(gpu_graphs, 8192, struct bpfprof_gpu_graph_key, __u64);

/* The capture of a stream of p; NULL: the stream is not captured. */
static __noinline struct bpfprof_gpu_capture *capture_find(struct bpfprof_gpu_waits *p,
							   __u64 stream)
{
	__u32 i;

	for (i = 0; stream && i < BPFPROF_GPU_MAX_CAPTURES; i++)
		if (p->captures[i].stream == stream)
			return &p->captures[i];
	return NULL;
}

/* Begins to capture a stream into the graph of origin. -1: there is no room. */
__noinline int capture_begin(struct bpfprof_gpu_waits *p, __u64 stream, __u64 origin, __u32 number)
{
	struct bpfprof_gpu_capture *c;
	__u32 i;

	/* The legacy default stream cannot be captured. */
	if (!p || !stream || capture_find(p, stream))
		return 0;
	for (i = 0; i < BPFPROF_GPU_MAX_CAPTURES; i++) {
		c = &p->captures[i];
		if (__sync_val_compare_and_swap(&c->stream, 0, stream))
			continue;
		c->number = number;
		c->nr = c->lost = 0;
		c->nodes = 0;
		c->origin = origin;
		__sync_fetch_and_add(&p->capturing, 1);
		return 0;
	}
	gpu_count(GPU_COUNT_CAPTURES_FULL);
	return -1;
}

/* A stream joins the capture of another one. */
__noinline int capture_join(struct bpfprof_gpu_waits *p, __u64 stream, __u64 other)
{
	struct bpfprof_gpu_capture *c = p && p->capturing ? capture_find(p, other) : NULL, *own;

	if (!c)
		return 0;
	own = capture_find(p, stream);
	if (own ? own->origin != c->origin : capture_begin(p, stream, c->origin, c->number))
		__sync_fetch_and_add(&c->lost, 1);
	return 0;
}

/* BPF cannot follow a part of the captures: marks their content as incomplete. */
__noinline int capture_blur(struct bpfprof_gpu_waits *p)
{
	__u32 i;

	for (i = 0; p && p->capturing && i < BPFPROF_GPU_MAX_CAPTURES; i++)
		__sync_fetch_and_add(&p->captures[i].lost, 1);
	return 0;
}

static __always_inline void capture_add(struct bpfprof_gpu_capture *to,
					const struct bpfprof_gpu_capture *from)
{
	__sync_fetch_and_add(&to->nodes, from->nodes);
	__sync_fetch_and_add(&to->nr, from->nr);
	__sync_fetch_and_add(&to->lost, from->lost);
}

static __always_inline __u32 capture_number(struct bpfprof_gpu_waits *p)
{
	return (__sync_fetch_and_add(&p->numbers, 1) & 0x7fffffff) + 1;
}

/* Hash of two numbers; sums of it differ where the content differs. */
static __always_inline __u64 graph_hash(__u64 a, __u64 b)
{
	__u64 hash = (a ^ b << 48) * 0x9e3779b97f4a7c15ULL;

	hash = (hash ^ hash >> 32) * 0xd6e8feb86659fd93ULL;
	return hash ^ hash >> 32;
}

/* A stream that had joined a capture leaves it; the others go on. */
__noinline int capture_leave(struct bpfprof_gpu_waits *p, const struct bpfprof_gpu_capture *c)
{
	struct bpfprof_gpu_capture *rest = p && c ? capture_find(p, c->origin) : NULL;

	if (rest)
		capture_add(rest, c);
	return 0;
}

/*
 * Ends the capture of a stream and of all that joined it; the graph is made or given up.
 * even_joined: also if the stream itself had joined, because it was destroyed, or is not captured
 * any more. *ret is the sum of the ended captures; its number is 0 if there was none.
 */
static __noinline int capture_end(struct bpfprof_gpu_waits *p, __u64 stream, bool even_joined,
				  struct bpfprof_gpu_capture *ret)
{
	struct bpfprof_gpu_capture *c;
	__u64 captured;
	__u32 i;

	__builtin_memset(ret, 0, sizeof(*ret));
	for (i = 0; stream && p->capturing && i < BPFPROF_GPU_MAX_CAPTURES; i++) {
		c = &p->captures[i];
		captured = c->stream;
		if (!captured || (c->origin != stream && !(even_joined && captured == stream)))
			continue;
		if (c->origin == stream) {
			ret->number = c->number;
			capture_add(ret, c);
		} else {
			capture_leave(p, c);
		}
		c->origin = 0;
		/* Another thread may end it, too. */
		if (__sync_val_compare_and_swap(&c->stream, captured, 0) == captured)
			__sync_fetch_and_sub(&p->capturing, 1);
	}
	return 0;
}

static __noinline int graph_send(const struct bpfprof_gpu_thread *t, __u32 kind,
				 const struct bpfprof_gpu_capture *c, __u64 handle)
{
	struct bpfprof_gpu_graph_event *e = NULL;

	if (!cfg.gpu_waits) /* user space does not need nodes */
		return 0;
	if (ring_has_room())
		e = bpf_ringbuf_reserve(&ring, sizeof(*e), 0);
	if (!e) { /* user space counts nodes, too, and will miss this one */
		gpu_count(GPU_COUNT_NODES_LOST);
		return 0;
	}
	record_fill(&e->rec, BPFPROF_KIND_GPU_GRAPH, sizeof(*e));
	e->start_ns = t->start_ns;
	e->pid = t->pid;
	e->number = c->number;
	e->kind = kind;
	e->function = t->call.key.function;
	e->handle = handle;
	e->nodes = c->nr;
	e->lost = c->lost;
	bpf_ringbuf_submit(e, BPF_RB_NO_WAKEUP);
	return 0;
}

/*
 * Drops the capture of a stream that is not captured any more; the end of the capture was not seen.
 */
__noinline int capture_drop(const struct bpfprof_gpu_thread *t, struct bpfprof_gpu_waits *p,
			    __u64 stream)
{
	struct bpfprof_gpu_capture c;

	if (!t || !p)
		return 0;
	capture_end(p, stream, true, &c);
	if (c.number)
		graph_send(t, GPU_GRAPH_DROPPED, &c, 0);
	return 0;
}

/* The capture into which the thread's call goes; NULL: the call really runs. */
static __noinline struct bpfprof_gpu_capture *
capture_note(struct bpfprof_gpu_thread *t, struct bpfprof_gpu_waits *p, __u64 stream)
{
	struct bpfprof_gpu_capture *c = p && p->capturing ? capture_find(p, stream) : NULL;

	if (c) {
		t->call.flags |= BPFPROF_CALL_CAPTURED;
		t->call.key.flags |= BPFPROF_KEY_CAPTURED;
	}
	return c;
}

/*
 * Adds the call as a node. The name of the kernel is part of its hash, because handles are reused.
 */
static __noinline int capture_node(struct bpfprof_gpu_thread *t, struct bpfprof_gpu_capture *c)
{
	const struct bpfprof_gpu_key *key = &t->call.key;
	__u64 name = kernel_find(key->start_ns, key->pid, key->handle);

	__sync_fetch_and_add(&c->nr, 1);
	__sync_fetch_and_add(&c->nodes, graph_hash(key->handle ^ name, key->function));
	if (c->number)
		graph_send(t, GPU_GRAPH_NODE, c, key->handle);
	return 0;
}

/* The content of a graph or of its instance; 0: not known. */
static __noinline __u64 graph_find(const struct bpfprof_gpu_thread *t, __u64 handle)
{
	struct bpfprof_gpu_graph_key key;
	__u64 *content;

	kernel_key(&key, t->start_ns, t->pid, handle);
	content = bpf_map_lookup_elem(&gpu_graphs, &key);
	return content ? *content : 0;
}

/* Counts the thread's launch by the content of the graph, not by its handle. */
static __always_inline void graph_name(struct bpfprof_gpu_thread *t)
{
	t->call.key.handle = graph_find(t, t->call.key.handle);
}

static __noinline int graph_forget(const struct bpfprof_gpu_thread *t, struct bpfprof_gpu_waits *p,
				   __u64 handle)
{
	struct bpfprof_gpu_graph_key key;

	kernel_key(&key, t->start_ns, t->pid, handle);
	if (!bpf_map_delete_elem(&gpu_graphs, &key) && p)
		__sync_fetch_and_sub(&p->graphs, 1);
	return 0;
}

/* Sets the content of a graph; 0: not known. */
static __noinline int graph_set(const struct bpfprof_gpu_thread *t, struct bpfprof_gpu_waits *p,
				__u64 handle, __u64 content)
{
	struct bpfprof_gpu_graph_key key;
	__u64 *before;

	if (!content || !p)
		return graph_forget(t, p, handle);
	kernel_key(&key, t->start_ns, t->pid, handle);
	before = bpf_map_lookup_elem(&gpu_graphs, &key);
	if (before)
		*before = content;
	else if (p->graphs >= BPFPROF_GPU_MAX_GRAPHS ||
		 bpf_map_update_elem(&gpu_graphs, &key, &content, BPF_NOEXIST))
		gpu_count(GPU_COUNT_GRAPHS_FULL);
	else
		__sync_fetch_and_add(&p->graphs, 1);
	return 0;
}

/* The graph gets other content: the old one is void until the call has returned, or failed. */
static __noinline int graph_take(struct bpfprof_gpu_thread *t, struct bpfprof_gpu_waits *p,
				 __u64 handle)
{
	t->call.key.handle = graph_find(t, handle);
	return graph_forget(t, p, handle);
}

/*
 * A capture ends; its graph is known at the return. Graphs of incomplete captures are equal if
 * their seen nodes are.
 */
__noinline int graph_end(struct bpfprof_gpu_thread *t, struct bpfprof_gpu_waits *p, __u64 stream)
{
	struct bpfprof_gpu_capture c;

	if (!t || !p)
		return 0;
	capture_end(p, stream, false, &c);
	t->call.key.handle = 0;
	if (!c.number)
		return 0;
	t->call.key.handle = graph_hash(c.nodes, c.lost ? 1 : 2) ?: 1;
	/* These three fields belong to no counted call. */
	t->call.key.dims[0] = c.number;
	t->call.key.dims[1] = c.nr;
	t->call.key.dims[2] = c.lost;
	return 0;
}

/* The call that ended the capture has returned. */
__noinline int graph_made(const struct bpfprof_gpu_thread *t, struct bpfprof_gpu_waits *p,
			  const struct bpfprof_gpu_open *open)
{
	struct bpfprof_gpu_capture c = { 0 };
	__u32 kind = GPU_GRAPH_MADE;
	__u64 graph = 0;

	if (!t || !open)
		return 0;
	c.number = open->key.dims[0];
	c.nr = open->key.dims[1];
	c.lost = open->key.dims[2];
	if (t->call.result || user_read(&graph, sizeof(graph), open->out) || !graph)
		kind = GPU_GRAPH_DROPPED;
	else /* without a number the capture was there before, or its begin was not seen */
		graph_set(t, p, graph, open->key.handle);
	if (c.number)
		graph_send(t, kind, &c, open->key.handle);
	return 0;
}

/* The copy has the content of the graph; after a failure it has its old content. */
__noinline int graph_copy(const struct bpfprof_gpu_thread *t, struct bpfprof_gpu_waits *p,
			  const struct bpfprof_gpu_function *f, const struct bpfprof_gpu_open *open)
{
	__u64 to;

	if (!t || !f || !open)
		return 0;
	to = open->out;
	if (f->out && (t->call.result || user_read(&to, sizeof(to), open->out)))
		return 0;
	return graph_set(t, p, to, t->call.result ? open->key.handle : graph_find(t, open->name));
}

#endif
