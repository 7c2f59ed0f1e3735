// SPDX-License-Identifier: Apache-2.0
/*
 * A libnccl.so.2 that talks to nobody: ordinary compiled functions, the public names weak aliases
 * of pnccl ones, the communicator as NCCL 2.28.9 lays it out as far as others look into it, and
 * in the frame of each collective what it was given.
 */
#include "fake_nccl.h"

#include <dlfcn.h>
#include <errno.h>
#include <pthread.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "fake_cuda.h"

#define MAGIC 0x0280028002800280ULL
#define INVALID_ARGUMENT 4
#define MAX_PENDING 64

struct comm { /* ncclComm */
	uint64_t start_magic;
	char before[1066184 - 8];
	uint64_t hash;
	int rank, nr_ranks, device, nvml_device;
	uint64_t streams[64];
	char after[16000];
	uint64_t end_magic;
};

_Static_assert(offsetof(struct comm, hash) == 1066184, "as NCCL 2.28.9");
_Static_assert(offsetof(struct comm, rank) == 1066192, "as NCCL 2.28.9");

/* struct ncclInfo, src/include/info.h of 2.8 to 2.32, as far as all of these have it. */
struct info {
	int function;
	const char *name;
	const void *send;
	void *receive;
	size_t count;
	int type, operation, root;
	struct comm *comm;
	uint64_t stream;
	int chunk_steps, slice_steps;
};

_Static_assert(sizeof(struct info) == 80, "as NCCL");

/* Functions have one in their frame, and here room for another one. */
#define INFO(...) struct info info[2] = { { __VA_ARGS__, 4, 2 } }

struct pending {
	struct comm *comm;
	uint64_t stream;
};

#define API __attribute__((visibility("default")))
#ifdef HIDDEN /* as in a library that exports nothing of the NCCL that is linked into it */
#define NCCL_VISIBLE __attribute__((visibility("hidden")))
#else
#define NCCL_VISIBLE API
#endif

/* What the library gives to those who cannot look the functions up: fake_nccl_symbol(). */
struct entry {
	const char *name;
	void *function;
};

/* The public name is weak and at the same place, as NCCL's macro NCCL_API makes it. */
#define NCCL_API(name, ...)                                                                        \
	NCCL_VISIBLE int p##name(__VA_ARGS__);                                                     \
	NCCL_VISIBLE __attribute__((weak, alias("p" #name))) int name(__VA_ARGS__);                \
	static const struct entry entry_##name                                                     \
		__attribute__((section("fake_nccl_entries"), used)) = { #name, p##name };          \
	NCCL_VISIBLE __attribute__((noinline)) int p##name(__VA_ARGS__)

extern const struct entry __start_fake_nccl_entries[], __stop_fake_nccl_entries[];

/* The kernels of the real one are in such a section of whatever it is linked into. */
__asm__(".section .nv_fatbin, \"a\"\n"
	"	.quad 0\n"
	"	.previous\n");

static int launches = 1;
static const char *hang_name;
static unsigned int hang_seconds, hanging, releases;
static pthread_mutex_t hang_lock = PTHREAD_MUTEX_INITIALIZER;
static pthread_cond_t hang_end = PTHREAD_COND_INITIALIZER;
static _Thread_local int spoiled;
static _Thread_local unsigned int depth, nr_pending;
static _Thread_local struct pending pending[MAX_PENDING];
static pthread_once_t once = PTHREAD_ONCE_INIT;
static int (*launch_kernel)(const struct cuda_launch_config *, uint64_t, void **, void **);
static int (*get_kernel)(uint64_t *, uint64_t, const char *);

API void *fake_nccl_symbol(const char *name)
{
	const struct entry *entry;

	for (entry = __start_fake_nccl_entries; entry < __stop_fake_nccl_entries; entry++)
		if (!strcmp(entry->name, name))
			return entry->function;
	return NULL;
}

API void fake_nccl_launch(int on)
{
	launches = on;
}

API void fake_nccl_hang(const char *name, unsigned int seconds)
{
	hang_seconds = seconds;
	__atomic_store_n(&hang_name, name, __ATOMIC_RELEASE);
}

API void fake_nccl_spoil(int how)
{
	spoiled = how;
}

API unsigned int fake_nccl_hanging(void)
{
	return __atomic_load_n(&hanging, __ATOMIC_ACQUIRE);
}

API void fake_nccl_release(void)
{
	pthread_mutex_lock(&hang_lock);
	releases++;
	pthread_cond_broadcast(&hang_end);
	pthread_mutex_unlock(&hang_lock);
}

static void find_driver(void)
{
	void *cuda = dlopen("libcuda.so.1", RTLD_NOW);

	if (!cuda)
		return;
	*(void **)&launch_kernel = dlsym(cuda, "cuLaunchKernelEx");
	*(void **)&get_kernel = dlsym(cuda, "cuLibraryGetKernel");
}

static void maybe_hang(const char *name)
{
	const char *wanted = __atomic_load_n(&hang_name, __ATOMIC_ACQUIRE);
	struct timespec until;
	unsigned int before;

	if (!wanted || (*wanted && strcmp(wanted, name)))
		return;
	clock_gettime(CLOCK_REALTIME, &until);
	until.tv_sec += hang_seconds;
	pthread_mutex_lock(&hang_lock);
	before = releases;
	__atomic_add_fetch(&hanging, 1, __ATOMIC_RELEASE);
	while (releases == before &&
	       pthread_cond_timedwait(&hang_end, &hang_lock, &until) != ETIMEDOUT)
		;
	__atomic_sub_fetch(&hanging, 1, __ATOMIC_RELEASE);
	pthread_mutex_unlock(&hang_lock);
}

static int launch(const char *kernel, uint64_t stream)
{
	struct cuda_launch_config config = { .grid = { 24, 1, 1 },
					     .block = { 544, 1, 1 },
					     .stream = stream };
	uint64_t handle;
	int err;

	if (!launches || !launch_kernel || !get_kernel)
		return 0;
	err = get_kernel(&handle, 0, kernel);
	return err ? err : launch_kernel(&config, handle, NULL, NULL);
}

/* Makes of what is right something that nobody may believe. */
static __attribute__((noipa)) void spoil(struct info info[2])
{
	static char writable[] = "AllReduce";

	switch (spoiled) {
	case FAKE_NCCL_OTHER_NAME:
		info->name = "Broadcast";
		break;
	case FAKE_NCCL_BAD_TYPE:
		info->type = 4711;
		break;
	case FAKE_NCCL_WILD_NAME:
		info->name = (const char *)0x7fffdeadbeef;
		break;
	case FAKE_NCCL_HEAP_NAME:
		info->name = strdup(info->name);
		break;
	case FAKE_NCCL_WRITABLE_NAME:
		info->name = writable;
		break;
	case FAKE_NCCL_TWO:
		info[1] = info[0];
		info[1].count++;
		break;
	case FAKE_NCCL_TWICE:
		info[1] = info[0];
		break;
	case FAKE_NCCL_NO_COMM:
		info->comm = (struct comm *)0x10000;
		break;
	}
}

/* What all operations do: check, hang if told to, launch now or at the end of the group. */
static __attribute__((noipa)) int enqueue(const char *name, const char *kernel, struct info *info)
{
	struct comm *comm = info->comm;

	if (!comm)
		return INVALID_ARGUMENT;
	spoil(info);
	maybe_hang(name);
	if (!depth)
		return launch(kernel, info->stream);
	for (unsigned int i = 0; i < nr_pending; i++) {
		if (pending[i].comm == comm && pending[i].stream == info->stream)
			return 0;
	}
	if (nr_pending < MAX_PENDING)
		pending[nr_pending++] = (struct pending){ comm, info->stream };
	return 0;
}

NCCL_API(ncclAllReduce, const void *send, void *receive, size_t count, int type, int op,
	 struct comm *comm, uint64_t stream)
{
	INFO(4, "AllReduce", send, receive, count, type, op, 0, comm, stream);

	return enqueue("ncclAllReduce", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", info);
}

NCCL_API(ncclReduceScatter, const void *send, void *receive, size_t count, int type, int op,
	 struct comm *comm, uint64_t stream)
{
	INFO(3, "ReduceScatter", send, receive, count, type, op, 0, comm, stream);

	return enqueue("ncclReduceScatter", "ncclDevKernel_ReduceScatter_Sum_f32_RING_LL", info);
}

NCCL_API(ncclAllGather, const void *send, void *receive, size_t count, int type, struct comm *comm,
	 uint64_t stream)
{
	INFO(2, "AllGather", send, receive, count, type, 0, 0, comm, stream);

	return enqueue("ncclAllGather", "ncclDevKernel_AllGather_RING_LL", info);
}

NCCL_API(ncclBroadcast, const void *send, void *receive, size_t count, int type, int root,
	 struct comm *comm, uint64_t stream)
{
	INFO(0, "Broadcast", send, receive, count, type, 0, root, comm, stream);

	return enqueue("ncclBroadcast", "ncclDevKernel_Broadcast_RING_LL", info);
}

/* By the exported name, as NCCL does: one hooked call inside another. */
NCCL_API(ncclBcast, void *buffer, size_t count, int type, int root, struct comm *comm,
	 uint64_t stream)
{
	return ncclBroadcast(buffer, buffer, count, type, root, comm, stream);
}

NCCL_API(ncclReduce, const void *send, void *receive, size_t count, int type, int op, int root,
	 struct comm *comm, uint64_t stream)
{
	INFO(1, "Reduce", send, receive, count, type, op, root, comm, stream);

	return enqueue("ncclReduce", "ncclDevKernel_Reduce_Sum_f32_RING_LL", info);
}

NCCL_API(ncclSend, const void *send, size_t count, int type, int peer, struct comm *comm,
	 uint64_t stream)
{
	INFO(6, "Send", NULL, (void *)send, count, type, 0, peer, comm, stream);

	return enqueue("ncclSend", "ncclDevKernel_SendRecv", info);
}

NCCL_API(ncclRecv, void *receive, size_t count, int type, int peer, struct comm *comm,
	 uint64_t stream)
{
	INFO(7, "Recv", NULL, receive, count, type, 0, peer, comm, stream);

	return enqueue("ncclRecv", "ncclDevKernel_SendRecv", info);
}

NCCL_API(ncclGroupStart, void)
{
	depth++;
	return 0;
}

NCCL_API(ncclGroupEnd, void)
{
	int err = 0;

	if (!depth)
		return INVALID_ARGUMENT;
	if (--depth)
		return 0;
	maybe_hang("ncclGroupEnd");
	for (unsigned int i = 0; i < nr_pending; i++)
		err |= launch("ncclDevKernel_SendRecv", pending[i].stream);
	nr_pending = 0;
	return err;
}

/* RCCL's, which is made of others: a group of its own. */
NCCL_API(ncclAllToAll, const void *send, void *receive, size_t count, int type, struct comm *comm,
	 uint64_t stream)
{
	int err, peer;

	if (!comm)
		return INVALID_ARGUMENT;
	err = ncclGroupStart();
	for (peer = 0; !err && peer < comm->nr_ranks; peer++) {
		err = ncclSend(send, count, type, peer, comm, stream);
		if (!err)
			err = ncclRecv(receive, count, type, peer, comm, stream);
	}
	return ncclGroupEnd() ?: err;
}

static int make(struct comm **ret, int nr_ranks, uint64_t hash, int rank)
{
	struct comm *comm;

	pthread_once(&once, find_driver);
	if (!ret || nr_ranks <= 0 || rank < 0 || rank >= nr_ranks)
		return INVALID_ARGUMENT;
	comm = calloc(1, sizeof(*comm));
	if (!comm)
		return 2;
	comm->start_magic = MAGIC;
	comm->end_magic = MAGIC;
	comm->hash = hash;
	comm->rank = rank;
	comm->nr_ranks = nr_ranks;
	comm->device = rank % 8;
	*ret = comm;
	return 0;
}

static uint64_t hash_of(const struct nccl_id *id)
{
	uint64_t hash = 0xcbf29ce484222325ULL;

	for (size_t i = 0; i < sizeof(id->bytes); i++)
		hash = (hash ^ (unsigned char)id->bytes[i]) * 0x100000001b3ULL;
	return hash;
}

/* Of what is made of another one, the same on all of its ranks. */
static uint64_t hash_from(const struct comm *comm, uint64_t what)
{
	return (comm->hash ^ what) * 0x100000001b3ULL;
}

NCCL_API(ncclCommInitRank, struct comm **ret, int nr_ranks, struct nccl_id id, int rank)
{
	maybe_hang("ncclCommInitRank");
	return make(ret, nr_ranks, hash_of(&id), rank);
}

NCCL_API(ncclCommInitRankConfig, struct comm **ret, int nr_ranks, struct nccl_id id, int rank,
	 void *config)
{
	(void)config;
	maybe_hang("ncclCommInitRankConfig");
	return make(ret, nr_ranks, hash_of(&id), rank);
}

NCCL_API(ncclCommInitRankScalable, struct comm **ret, int nr_ranks, int rank, int nr_ids,
	 struct nccl_id *ids, void *config)
{
	(void)config;
	maybe_hang("ncclCommInitRankScalable");
	if (nr_ids <= 0 || nr_ids > nr_ranks || !ids)
		return INVALID_ARGUMENT;
	return make(ret, nr_ranks, hash_of(&ids[0]), rank);
}

/* As if the ranks gave two colors by turns, and keys in their order. */
NCCL_API(ncclCommSplit, struct comm *comm, int color, int key, struct comm **ret, void *config)
{
	(void)key;
	(void)config;
	maybe_hang("ncclCommSplit");
	if (!comm || !ret)
		return INVALID_ARGUMENT;
	*ret = NULL;
	if (color == FAKE_NCCL_NO_COLOR)
		return 0;
	return make(ret, (comm->nr_ranks + 1 - comm->rank % 2) / 2,
		    hash_from(comm, (uint64_t)color), comm->rank / 2);
}

NCCL_API(ncclCommShrink, struct comm *comm, int *excluded, int nr_excluded, struct comm **ret,
	 void *config, int flags)
{
	int rank, i;

	(void)config;
	(void)flags;
	maybe_hang("ncclCommShrink");
	if (!comm || !excluded || nr_excluded <= 0)
		return INVALID_ARGUMENT;
	for (i = 0, rank = comm->rank; i < nr_excluded; i++)
		rank -= excluded[i] < comm->rank;
	return make(ret, comm->nr_ranks - nr_excluded, hash_from(comm, 0x5417), rank);
}

/* Who is in it has no id, or the root's, and -1 for its rank; who comes has no communicator. */
NCCL_API(ncclCommGrow, struct comm *comm, int nr_ranks, const struct nccl_id *id, int rank,
	 struct comm **ret, void *config)
{
	(void)config;
	maybe_hang("ncclCommGrow");
	if (comm ? rank != -1 : !id)
		return INVALID_ARGUMENT;
	return make(ret, nr_ranks, comm ? hash_from(comm, 0x6120) : hash_of(id),
		    comm ? comm->rank : rank);
}

/* In a group of its own, by the exported names, as NCCL does. */
NCCL_API(ncclCommInitAll, struct comm **ret, int nr, const int *devices)
{
	struct nccl_id id = { { 0 } };
	int err = 0;

	(void)devices;
	ncclGroupStart();
	for (int i = 0; i < nr; i++)
		err |= make(&ret[i], nr, hash_of(&id), i);
	return err | ncclGroupEnd();
}

NCCL_API(ncclCommDestroy, struct comm *comm)
{
	if (!comm)
		return INVALID_ARGUMENT;
	comm->start_magic = 0;
	free(comm);
	return 0;
}

NCCL_API(ncclCommRevoke, struct comm *comm, int flags)
{
	return comm && !flags ? 0 : INVALID_ARGUMENT;
}

NCCL_API(ncclCommSuspend, struct comm *comm, int flags)
{
	return comm && flags ? 0 : INVALID_ARGUMENT;
}

NCCL_API(ncclCommResume, struct comm *comm)
{
	return comm ? 0 : INVALID_ARGUMENT;
}

NCCL_API(ncclCommWindowRegister, struct comm *comm, void *buffer, size_t bytes, void **ret,
	 int flags)
{
	(void)bytes;
	(void)flags;
	if (!comm || !ret)
		return INVALID_ARGUMENT;
	*ret = buffer;
	return 0;
}

NCCL_API(ncclCommWindowDeregister, struct comm *comm, void *window)
{
	return comm && window ? 0 : INVALID_ARGUMENT;
}

NCCL_API(ncclPutSignal, const void *local, size_t count, int type, int peer, void *window,
	 size_t off, int signal, int context, unsigned int flags, struct comm *comm,
	 uint64_t stream)
{
	(void)local;
	(void)count;
	(void)type;
	(void)off;
	(void)signal;
	(void)context;
	(void)flags;
	(void)stream;
	return comm && window && peer >= 0 && peer < comm->nr_ranks ? 0 : INVALID_ARGUMENT;
}

NCCL_API(ncclSignal, int peer, int signal, int context, unsigned int flags, struct comm *comm,
	 uint64_t stream)
{
	(void)signal;
	(void)context;
	(void)flags;
	(void)stream;
	return comm && peer >= 0 && peer < comm->nr_ranks ? 0 : INVALID_ARGUMENT;
}

NCCL_API(ncclWaitSignal, int nr, const int (*signals)[4], struct comm *comm, uint64_t stream)
{
	(void)stream;
	return comm && nr > 0 && signals ? 0 : INVALID_ARGUMENT;
}

NCCL_API(ncclCommUserRank, const struct comm *comm, int *rank)
{
	if (!comm || !rank)
		return INVALID_ARGUMENT;
	*rank = comm->rank;
	return 0;
}

NCCL_API(ncclCommCount, const struct comm *comm, int *count)
{
	if (!comm || !count)
		return INVALID_ARGUMENT;
	*count = comm->nr_ranks;
	return 0;
}

NCCL_API(ncclCommCuDevice, const struct comm *comm, int *device)
{
	if (!comm || !device)
		return INVALID_ARGUMENT;
	*device = comm->device;
	return 0;
}

NCCL_API(ncclGetUniqueId, struct nccl_id *id)
{
	static unsigned int made;
	unsigned int number = __atomic_add_fetch(&made, 1, __ATOMIC_RELAXED);

	if (!id)
		return INVALID_ARGUMENT;
	memset(id, 0x5c, sizeof(*id));
	memcpy(id->bytes, &number, sizeof(number));
	return 0;
}
